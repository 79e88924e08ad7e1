// Use and events over the records of the ledger, for the bar on which a moment is chosen. Pure.

export interface Timeline {
  since?: string;
  until?: string;
  before?: string;
  sequence?: string[];
  pools?: { pool: string; usable?: number[]; used?: number[]; borrowed?: number[]; preemptions?: number[]; growth?: number[] }[];
  pending?: number[];
  changes?: number[];
}

/** A stretch of records, from one position to another as fractions of the bar. */
export interface Stretch {
  from: number;
  to: number;
  /** Parts of what is usable; `pending`: of what the largest demand of the period was. */
  used: number;
  borrowed: number;
  pending: number;
  preemptions: number;
  changes: number;
  growth: number;
  /** When it began and ended, in milliseconds. */
  since: number;
  until: number;
}

/** Stretches in which something happened; `tip`: the last record of the bar. */
export function stretches(timeline: Timeline, tip: number): Stretch[] {
  const records = (timeline.sequence ?? []).map(Number);
  const since = Date.parse(timeline.since ?? "");
  const width = (Date.parse(timeline.until ?? "") - since) / Math.max(1, records.length);
  const sum = (column: "usable" | "used" | "borrowed" | "preemptions" | "growth", i: number): number => (timeline.pools ?? []).reduce((total, pool) => total + (pool[column]?.[i] ?? 0), 0);
  const most = Math.max(1, ...(timeline.pending ?? []));
  const found: Stretch[] = [];
  let last = Number(timeline.before ?? 0);
  records.forEach((record, i) => {
    if (record > last) {
      const usable = Math.max(1, sum("usable", i));
      found.push({
        from: Math.max(0, last - 1) / Math.max(1, tip - 1),
        to: Math.min(1, (record - 1) / Math.max(1, tip - 1)),
        used: Math.min(1, sum("used", i) / usable),
        borrowed: Math.min(1, sum("borrowed", i) / usable),
        pending: (timeline.pending?.[i] ?? 0) / most,
        preemptions: sum("preemptions", i),
        changes: timeline.changes?.[i] ?? 0,
        growth: sum("growth", i),
        since: since + i * width,
        until: since + (i + 1) * width,
      });
    }
    last = Math.max(last, record);
  });
  return found;
}

/** About when a record was written: the middle of its stretch; 0 if unknown. */
export function about(found: Stretch[], part: number): number {
  const one = found.find((each) => part >= each.from && part <= each.to);
  return one ? (one.since + one.until) / 2 : 0;
}
