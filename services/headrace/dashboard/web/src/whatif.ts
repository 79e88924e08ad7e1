// What-if questions and their answers. Pure, but for the question itself.

import { post } from "./api";
import type { Fields } from "./documents";

export interface Numbers {
  starts?: number;
  waiting?: number;
  refused?: number;
  wait_mean?: string;
  wait_p95?: string;
  preemptions?: number;
  lost?: string;
  used?: string;
  cost?: string;
}

export interface Sides {
  before?: Numbers;
  after?: Numbers;
}

export interface Move {
  job: string;
  queue?: string;
  before?: string;
  after?: string;
  before_is?: string;
  after_is?: string;
}

export interface Report {
  sequence?: string;
  span?: string;
  total?: Sides;
  policies?: Record<string, Sides>;
  pools?: Record<string, { before?: { percent?: string }; after?: { percent?: string } }>;
  moved?: Move[];
  moved_in_all?: number;
  assumptions?: string[];
}

/** Periods that can be played. */
export const PERIODS = { next: "with the jobs of now, for 24 hours", day: "with the submits of the last 24 hours", week: "with the submits of the last 7 days" } as const;
export type Period = keyof typeof PERIODS;

const DAY = 86_400_000;

function span(period: Period): Fields {
  if (period === "next") return { span: "24h" };
  const now = Date.now();
  return { since: new Date(now - (period === "day" ? 1 : 7) * DAY).toISOString(), until: new Date(now - 1000).toISOString() };
}

/** What would happen in a period with changes; `parent`: the tenant whose jobs count, empty for all. `at`: the record from which on, 0: `period`. */
export function play(changes: Fields, period: Period, parent: string, signal: AbortSignal, at = 0): Promise<Report> {
  const when = at ? { since: String(at), span: "24h" } : span(period);
  return post<Report>("/v1/audit:whatif", { changes, ...when, ...(parent ? { parent: `tenants/${parent}` } : {}) }, signal);
}

/** Moved jobs by whether their first start is earlier or later with the changes; the largest differences first. */
export function sorted(moves: Move[]): { sooner: Move[]; later: Move[] } {
  const seconds = (text: string | undefined): number => (text ? Number(text) : Infinity);
  const gain = (one: Move): number => {
    const [before, after] = [seconds(one.before), seconds(one.after)];
    return before === after ? 0 : before - after;
  };
  const weight = (one: Move): number => Math.abs(gain(one));
  const order = (a: Move, b: Move): number => (weight(a) === weight(b) ? 0 : weight(b) - weight(a));
  return { sooner: moves.filter((one) => gain(one) > 0).sort(order), later: moves.filter((one) => gain(one) < 0).sort(order) };
}

/** A value as YAML in the block style; strings are quoted where they could be read as something else. */
export function yaml(value: unknown, indent = ""): string {
  const plain = (one: unknown): string => (typeof one === "string" && /^[A-Za-z][\w./-]*$/.test(one) && !/^(true|false|null|yes|no|on|off|y|n)$/i.test(one) ? one : JSON.stringify(one));
  const isLeaf = (one: unknown): boolean => typeof one !== "object" || one === null || Object.keys(one).length === 0;
  if (isLeaf(value)) return plain(value);
  const part = (head: string, one: unknown): string => (isLeaf(one) ? `${indent}${head} ${plain(one)}\n` : `${indent}${head}\n${yaml(one, indent + "  ")}`);
  if (Array.isArray(value)) return value.map((one: unknown) => (isLeaf(one) ? `${indent}- ${plain(one)}\n` : `${indent}- ${yaml(one, indent + "  ").trimStart()}`)).join("");
  return Object.entries(value as Fields).map(([key, one]) => part(`${key}:`, one)).join("");
}
