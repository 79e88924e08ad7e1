import { expect, test } from "vitest";
import { blake2b } from "./blake2b";
import { Chain, digestOf, type StoredRecord } from "./chain";

test("digests are those of BLAKE2b", () => {
  const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
  expect(blake2b(bytes("abc"), 64)).toBe(
    "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d17d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923",
  );
  expect(blake2b(bytes(""), 16)).toBe("cae66941d9efbd404e4d88758ea67670");
  expect(blake2b(bytes("x".repeat(300)), 16)).toBe("c2f093e41879e412280bfcc0ed6533e4");
});

function record(sequence: number, content: object): StoredRecord {
  const text = JSON.stringify(content);
  return { sequence: String(sequence), payload: btoa(text), digest: digestOf(new TextEncoder().encode(text)) };
}

test("records that name the last one of their writer are as they were written", () => {
  const chain = new Chain();
  const first = record(1, { by: "allocator", facts: [] });
  for (const one of [first, record(2, { by: "admission" }), record(3, { by: "allocator", prev: first.digest })]) chain.add(one);
  expect([chain.count, chain.complaints]).toEqual([3, []]);
});

test("a missing record, other bytes and another predecessor are found", () => {
  const chain = new Chain();
  const [first, other] = [record(1, { by: "allocator" }), record(3, { by: "admission" })];
  const wrong = "1".repeat(32);
  for (const one of [first, { ...other, digest: wrong }, record(4, { by: "allocator", prev: wrong })]) chain.add(one);
  expect(chain.complaints).toEqual([
    "record 3 follows record 1",
    `record 3: its digest is ${other.digest}, and the service names ${wrong}`,
    `record 4: allocator names ${wrong} as its last record, which is ${first.digest}`,
  ]);
});
