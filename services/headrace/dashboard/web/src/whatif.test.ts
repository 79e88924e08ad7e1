import { expect, test } from "vitest";
import { sorted, yaml } from "./whatif";

test("jobs that start sooner and those that start later are told apart, the largest difference first", () => {
  const moves = [
    { job: "a", before: "100", after: "50" },
    { job: "b", before: "", after: "10", before_is: "waiting" },
    { job: "c", before: "0", after: "", after_is: "waiting" },
    { job: "d", before: "5", after: "6" },
  ];
  const found = sorted(moves);
  expect(found.sooner.map((one) => one.job)).toEqual(["b", "a"]);
  expect(found.later.map((one) => one.job)).toEqual(["c", "d"]);
});

test("documents are written as YAML that reads back as the same", () => {
  const text = yaml({ policies: [{ name: "dev", reservation: { gpu: "4" }, profiles: ["half", "one"], borrow: false, limit: {} }] });
  expect(text).toBe(`policies:
  - name: dev
    reservation:
      gpu: "4"
    profiles:
      - half
      - one
    borrow: false
    limit: {}
`);
});
