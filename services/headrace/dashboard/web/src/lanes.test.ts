import { expect, test } from "vitest";
import { lanesOf, ticks } from "./lanes";
import type { Job } from "./types";

const AT = Date.parse("2026-11-27T10:00:00Z");
const time = (seconds: number): string => new Date(AT + seconds * 1000).toISOString();
const JOB: Job = { name: "tenants/acme/jobs/a", user: "alice", queue: "dev/one", state: "pending", admit_time: time(0) };

test("a job that was preempted and waits again has a lane for its attempt and one for what it waits for", () => {
  const attempts = [{ attempt: 1, nodes: ["n1"], grant_time: time(5), start_time: time(6), end_time: time(60), cause: "preempted" }];
  const facts = [
    { record: "9", time: time(50), type: "stop.ordered.v1", text: "preempted" },
    { record: "10", time: time(51), type: "lease.rung.v1", text: "term" },
  ];
  expect(lanesOf({ ...JOB, attempts }, facts, AT + 90_000)).toEqual([
    {
      attempt: 1,
      title: "n1",
      outcome: "preempted",
      parts: [
        { kind: "waiting", from: AT, to: AT + 5000, text: "waiting" },
        { kind: "starting", from: AT + 5000, to: AT + 6000, text: "starting" },
        { kind: "running", from: AT + 6000, to: AT + 50_000, text: "running" },
        { kind: "stopping", from: AT + 50_000, to: AT + 60_000, text: "stopping" },
      ],
      dots: [
        { at: AT + 50_000, kind: "order", text: "preempted" },
        { at: AT + 51_000, kind: "rung", text: "term" },
      ],
    },
    { attempt: 2, title: "not granted yet", outcome: "", parts: [{ kind: "waiting", from: AT + 60_000, to: AT + 90_000, text: "waiting" }], dots: [] },
  ]);
});

test("an axis has at most nine ticks at round offsets", () => {
  expect(ticks(40_000)).toEqual([0, 5000, 10_000, 15_000, 20_000, 25_000, 30_000, 35_000, 40_000]);
  expect(ticks(1100)).toEqual([0, 500, 1000]);
});
