import { expect, it } from "vitest";
import { changedPolicy } from "./documents";

const policy = {
  name: "tenants/acme/policies/dev",
  group: "dev",
  profiles: [{ name: "one", borrow: true }],
  reservation: { gpu: "4", cpu: "8" },
  limit: { gpu: "9" },
  etag: "7",
  sequence: "12",
};

it("a changed policy keeps everything but the amounts of GPUs", () => {
  expect(changedPolicy(policy, "2.5", "10")).toEqual({
    name: "dev",
    tenant: "acme",
    group: "dev",
    profiles: [{ name: "one", borrow: true }],
    reservation: { gpu: "2.5", cpu: "8" },
    limit: { gpu: "10" },
  });
});

it("an empty limit takes the limit away", () => {
  expect(changedPolicy(policy, "4", " ")["limit"]).toEqual({});
});

it("amounts of governed models are changed by themselves; an empty one is taken away", () => {
  const governed = { ...policy, reservation: { gpu: "4", "gpu:H100-80GB": "2", "gpu:A100": "1" }, limit: { gpu: "9", "gpu:H100-80GB": "3" } };
  const found = changedPolicy(governed, "4", "9", { "gpu:H100-80GB": { reservation: "", limit: "5" } });
  expect([found["reservation"], found["limit"]]).toEqual([{ "gpu:A100": "1", gpu: "4" }, { gpu: "9", "gpu:H100-80GB": "5" }]);
  expect(changedPolicy(governed, "4", "9")["reservation"]).toEqual(governed.reservation);
});
