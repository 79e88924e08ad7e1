// The life of a job as lanes on one time axis: one for each attempt. Pure.

import type { Fact, Job } from "./types";

export type Kind = "waiting" | "starting" | "running" | "stopping";

export interface Part {
  kind: Kind;
  from: number;
  to: number;
  text: string;
}

export interface Dot {
  at: number;
  kind: "order" | "rung" | "checkpoint" | "failed";
  text: string;
}

export interface Lane {
  attempt: number;
  title: string;
  outcome: string;
  parts: Part[];
  dots: Dot[];
}

const ENDED = new Set(["succeeded", "failed", "cancelled", "rejected"]);

/** Lanes of a job; `now`: milliseconds, up to which what goes on is drawn. */
export function lanesOf(job: Job, facts: Fact[], now: number): Lane[] {
  if (!job.admit_time) return [];
  const lanes: Lane[] = [];
  const end = ENDED.has(job.state) ? Date.parse(job.end_time ?? "") || now : now;
  let from = Date.parse(job.admit_time);
  for (const attempt of job.attempts ?? []) {
    const granted = Date.parse(attempt.grant_time ?? "") || from;
    const started = Date.parse(attempt.start_time ?? "");
    const ended = Date.parse(attempt.end_time ?? "") || end;
    const own = facts.filter((fact) => {
      const time = Date.parse(fact.time ?? "");
      return time >= granted && time <= ended + 1;
    });
    const order = own.find((fact) => fact.type?.startsWith("stop.ordered"));
    const stopped = order ? Date.parse(order.time ?? "") : ended;
    const parts: Part[] = [];
    if (granted > from) parts.push({ kind: "waiting", from, to: granted, text: "waiting" });
    const ran = started || ended;
    parts.push({ kind: "starting", from: granted, to: Math.min(ran, stopped), text: "starting" });
    if (started) parts.push({ kind: "running", from: started, to: stopped, text: "running" });
    if (order) parts.push({ kind: "stopping", from: stopped, to: ended, text: "stopping" });
    lanes.push({
      attempt: attempt.attempt,
      title: (attempt.nodes ?? []).join(", ") || attempt.pool || "",
      outcome: attempt.cause ?? (attempt.end_time ? (attempt.exit_code === undefined ? "" : `exit ${attempt.exit_code}`) : ""),
      parts,
      dots: own.flatMap((fact): Dot[] => {
        const at = Date.parse(fact.time ?? "");
        if (fact.type?.startsWith("stop.ordered")) return [{ at, kind: "order", text: fact.text ?? "" }];
        if (fact.type?.startsWith("lease.rung")) return [{ at, kind: "rung", text: fact.text ?? "" }];
        if (/checkpoint/.test(fact.type ?? "")) return [{ at, kind: "checkpoint", text: fact.text ?? "" }];
        return [];
      }),
    });
    from = ended;
  }
  if (job.state === "pending" || job.state === "submitted") {
    lanes.push({ attempt: lanes.length + 1, title: "not granted yet", outcome: "", parts: [{ kind: "waiting", from, to: Math.max(now, from), text: "waiting" }], dots: [] });
  }
  return lanes;
}

const STEPS = [0.001, 0.01, 0.1, 0.5, 1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 604_800].map((one) => one * 1000);

/** Offsets of at most eight ticks on an axis of so many milliseconds. */
export function ticks(span: number): number[] {
  const step = STEPS.find((one) => span / one <= 8) ?? span / 8;
  return Array.from({ length: Math.floor(span / step) + 1 }, (_, i) => i * step);
}

export { ENDED };
