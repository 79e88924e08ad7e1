import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Reading, SHARE } from "./reading";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A question whose answer takes `takes` milliseconds: when each reading began and ended, and whether it was broken off. */
function asked(takes: number, every: number): { reading: Reading; seen: [number, number, boolean][] } {
  const seen: [number, number, boolean][] = [];
  const start = Date.now();
  const reading = new Reading(async (signal) => {
    const began = Date.now() - start;
    await new Promise((resolve) => setTimeout(resolve, takes));
    seen.push([began, Date.now() - start, signal.aborted]);
  }, every);
  return { reading, seen };
}

test("news that come faster than answers break none off", async () => {
  const { reading, seen } = asked(40, 1000);
  for (let news = 0; news < 21; news++) {
    reading.notice();
    await vi.advanceTimersByTimeAsync(100);
  }
  expect(seen).toEqual([
    [0, 40, false],
    [1000, 1040, false],
    [2000, 2040, false],
  ]);
});

test("an answer that takes long is asked for less often", async () => {
  const { reading, seen } = asked(500, 1000);
  for (let news = 0; news < 46; news++) {
    reading.notice();
    await vi.advanceTimersByTimeAsync(100);
  }
  expect(seen.map(([began]) => began)).toEqual([0, 500 * SHARE, 2 * 500 * SHARE]);
});

test("without news nothing is read, and news during a reading are read after it", async () => {
  const { reading, seen } = asked(40, 1000);
  reading.notice();
  await vi.advanceTimersByTimeAsync(5000);
  expect(seen).toEqual([[0, 40, false]]);
  reading.notice();
  await vi.advanceTimersByTimeAsync(20);
  reading.notice();
  await vi.advanceTimersByTimeAsync(5000);
  expect(seen.map(([began]) => began)).toEqual([0, 5000, 6000]);
});

test("what is not asked any longer is broken off, and not read again", async () => {
  const { reading, seen } = asked(40, 1000);
  reading.notice();
  await vi.advanceTimersByTimeAsync(20);
  reading.notice();
  reading.end();
  await vi.advanceTimersByTimeAsync(5000);
  expect(seen).toEqual([[0, 40, true]]);
});
