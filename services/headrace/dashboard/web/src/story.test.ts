import { expect, test } from "vitest";
import type { Model, PolicyUse } from "./model";
import { fairness, untouched, work, type Preemption } from "./story";

const policy = (name: string, used: number, reservation: number): PolicyUse => ({
  key: `acme/${name}`, tenant: "acme", policy: name, colour: "", striped: false, used, reservation, limit: null, borrowed: Math.max(0, used - reservation), pending: 0, running: 0, models: [], queues: [],
});
const BEFORE = {
  policies: [policy("dev", 1, 4), policy("research", 7, 4), policy("speech", 2, 2)],
  pools: [{ name: "hq", parts: ["dev", "research", "speech"].map((name) => ({ key: `acme/${name}` })) }],
} as unknown as Model;
const STORY: Preemption = {
  name: "preemptions/27.0", cause: "reclaim", pool: "hq",
  preemptor: { job: "tenants/acme/jobs/a", queue: "dev/one" },
  victims: [{ job: { job: "tenants/acme/jobs/b", queue: "research/one" } }, { job: { job: "tenants/acme/jobs/c", queue: "research/one" } }],
};

test("a preemption inside a reservation, of borrowed GPUs, was fair by the numbers of the moment before", () => {
  expect(fairness(STORY, BEFORE, () => 1, 2)).toEqual([
    { holds: true, text: "dev held 1 of its reservation of 4 and asked for 2: inside its reservation." },
    { holds: true, text: "research held 7 and had 4 reserved: 3 were borrowed, the 2 of 2 jobs were taken back, and it keeps its reservation." },
  ]);
  expect(untouched(STORY, BEFORE).map(({ policy: one, why }) => [one.policy, why])).toEqual([["speech", "uses 2 of its reservation of 2: nothing of it may be taken"]]);
});

test("a preemption beyond a reservation, of a policy that borrows nothing, is shown as such", () => {
  const claims = fairness({ ...STORY, victims: [{ job: { job: "tenants/acme/jobs/d", queue: "speech/one" } }] }, BEFORE, () => 1, 4);
  expect(claims.map((one) => one.holds)).toEqual([false, false]);
});

test("work is given in seconds, and from an hour on in hours", () => {
  expect(["0", "9", "7200"].map(work)).toEqual(["nothing", "9 GPU-s", "2 GPU-h"]);
});
