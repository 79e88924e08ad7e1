import { expect, test } from "vitest";
import { about, stretches } from "./timeline";

test("parts of a period are drawn over the records that were written in them, and those without a record are left out", () => {
  const found = stretches(
    {
      since: "2026-11-27T10:00:00Z",
      until: "2026-11-27T10:00:03Z",
      before: "1",
      sequence: ["51", "51", "101"],
      pools: [{ pool: "hq", usable: [8000, 8000, 8000], used: [4000, 4000, 8000], borrowed: [0, 0, 2000], preemptions: [0, 0, 2] }],
      pending: [0, 0, 3000],
    },
    101,
  );
  expect(found.map(({ from, to, used, borrowed, pending, preemptions }) => [from, to, used, borrowed, pending, preemptions])).toEqual([
    [0, 0.5, 0.5, 0, 0, 0],
    [0.5, 1, 1, 0.25, 1, 2],
  ]);
  expect(about(found, 0.75)).toBe(Date.parse("2026-11-27T10:00:02.5Z"));
});
