// What the story of a preemption says beside its facts: whether the numbers were in order, and its lanes. Pure.

import { amount, counted, short, type Model, type PolicyUse } from "./model";

export interface Attempt {
  attempt?: number;
  pool?: string;
  nodes?: string[];
  grant_time?: string;
  start_time?: string;
  end_time?: string;
  resume_from?: string;
  checkpoint?: string;
  checkpoint_time?: string;
}

export interface StoryJob {
  job?: string;
  display_name?: string;
  user?: string;
  queue?: string;
}

export interface Step {
  rank?: number;
  rung: string;
  time?: string;
  took?: string;
  result?: string;
}

export interface Victim {
  job?: StoryJob;
  attempt?: Attempt;
  expected_loss?: string;
  lost?: string;
  steps?: Step[];
  next?: Attempt;
}

export interface Preemption {
  name: string;
  preemptor?: StoryJob;
  pool?: string;
  cause?: string;
  rule?: string;
  order_time?: string;
  settle_time?: string;
  to_signal?: string;
  grace?: string;
  to_release?: string;
  lost?: string;
  unused?: string;
  places?: { rank?: number; node: string; devices?: string[] }[];
  victims?: Victim[];
  others?: number;
  started?: Attempt;
}

export const tenantOf = (job: StoryJob | undefined): string => job?.job?.split("/")[1] ?? "";
export const idOf = (job: StoryJob | undefined): string => job?.job?.split("/")[3] ?? "";
export const titleOf = (job: StoryJob | undefined): string => job?.display_name || (job?.job ? `…${idOf(job).slice(-6)}` : "a job of another tenant");

/** The policy of a job in a model; undefined if the caller does not see it. */
export function policyOf(model: Model, job: StoryJob | undefined): PolicyUse | undefined {
  return model.policies.find((one) => one.tenant === tenantOf(job) && one.policy === job?.queue?.split("/")[0]);
}

export interface Claim {
  holds: boolean;
  text: string;
}

/** Whether it was fair, in numbers of the moment before the order: `units` are GPUs that a job holds in it. */
export function fairness(story: Preemption, before: Model, held: (job: StoryJob | undefined) => number, asks: number): Claim[] {
  const found: Claim[] = [];
  const own = policyOf(before, story.preemptor);
  if (own && story.cause === "reclaim") {
    const after = own.used + asks;
    found.push({
      holds: after <= own.reservation + 1e-9,
      text: `${own.policy} held ${short(own.used)} of its reservation of ${short(own.reservation)} and asked for ${short(asks)}: ${after <= own.reservation + 1e-9 ? "inside its reservation" : "beyond its reservation"}.`,
    });
  }
  const taken = new Map<string, { policy: PolicyUse; gpus: number; jobs: number }>();
  for (const victim of story.victims ?? []) {
    const policy = policyOf(before, victim.job);
    if (!policy) continue;
    const one = taken.get(policy.key) ?? { policy, gpus: 0, jobs: 0 };
    one.gpus += held(victim.job);
    one.jobs += 1;
    taken.set(policy.key, one);
  }
  for (const { policy, gpus, jobs } of taken.values()) {
    if (policy === own) {
      found.push({ holds: true, text: `${counted(jobs, "job")} of the same policy had to yield, by priority.` });
      continue;
    }
    const holds = policy.borrowed > 0;
    found.push({
      holds,
      text: `${policy.policy} held ${short(policy.used)} and had ${short(policy.reservation)} reserved: ${short(policy.borrowed)} were borrowed, the ${short(gpus)} of ${counted(jobs, "job")} were taken back${policy.used - gpus + 1e-9 >= policy.reservation ? ", and it keeps its reservation" : ""}.`,
    });
  }
  return found;
}

/** Policies with jobs in the pool that nothing was taken from, and why: numbers of the moment before the order. */
export function untouched(story: Preemption, before: Model): { policy: PolicyUse; why: string }[] {
  const pool = before.pools.find((one) => one.name === story.pool);
  const touched = new Set([policyOf(before, story.preemptor)?.key, ...(story.victims ?? []).map((one) => policyOf(before, one.job)?.key)]);
  return before.policies
    .filter((one) => !touched.has(one.key) && pool?.parts.some((part) => part.key === one.key))
    .map((policy) => ({
      policy,
      why: policy.borrowed > 0 ? `borrowed ${short(policy.borrowed)}, and the chosen jobs lose less or are enough` : `uses ${short(policy.used)} of its reservation of ${short(policy.reservation)}: nothing of it may be taken`,
    }));
}

/** GPU-seconds as people read them. */
export function work(text: string | undefined): string {
  const seconds = amount(text);
  if (!seconds) return "nothing";
  return seconds < 3600 ? `${short(seconds)} GPU-s` : `${short(seconds / 3600)} GPU-h`;
}
