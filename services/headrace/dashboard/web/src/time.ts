// Times and durations as people read them. Pure.

export function clock(text: string | undefined): string {
  return text ? new Date(text).toLocaleTimeString("en-GB") : "";
}

export function day(text: string | undefined): string {
  return text ? new Date(text).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" }) : "";
}

/** From when to when, as `27 Nov 2026, 14:00 – 16:00`; `end` 0: without an end. */
export function period(begin: number, end: number): string {
  const minutes = { dateStyle: "medium", timeStyle: "short" } as const;
  const [from, to] = [begin, end].map((one) => new Date(one));
  if (!from || !to || !end) return `from ${new Date(begin).toLocaleString("en-GB", minutes)}`;
  const isSameDay = from.toDateString() === to.toDateString();
  return `${from.toLocaleString("en-GB", minutes)} – ${isSameDay ? to.toLocaleTimeString("en-GB", { timeStyle: "short" }) : to.toLocaleString("en-GB", minutes)}`;
}

export function duration(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ${seconds % 60}s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}h ${Math.floor((seconds % 3600) / 60)}m`;
  return `${Math.floor(seconds / 86_400)}d ${Math.floor((seconds % 86_400) / 3600)}h`;
}

/** A short duration with what matters of it: `180 ms`, `1.25 s`, `2m 5s`. */
export function exactly(milliseconds: number): string {
  if (milliseconds >= 60_000) return duration(milliseconds);
  if (milliseconds >= 1000) return `${Number((milliseconds / 1000).toFixed(2))} s`;
  return milliseconds >= 10 || !milliseconds ? `${Math.round(milliseconds)} ms` : `${Number(milliseconds.toFixed(2))} ms`;
}
