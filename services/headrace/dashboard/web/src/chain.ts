// The chain of digests in the ledger, checked on the bytes of its records. Pure.

import { blake2b } from "./blake2b";

export interface StoredRecord {
  sequence: string;
  subject?: string;
  store_time?: string;
  digest?: string;
  payload?: string;
}

export function bytesOf(stored: StoredRecord): Uint8Array {
  return Uint8Array.from(atob(stored.payload ?? ""), (one) => one.charCodeAt(0));
}

/** The digest by which a record is named: 128 bits of BLAKE2b. */
export function digestOf(bytes: Uint8Array): string {
  return blake2b(bytes, 16);
}

/** Records in their order: none is missing, and each names the last one of its writer. */
export class Chain {
  count = 0;
  readonly complaints: string[] = [];
  #sequence = 0;
  readonly #last = new Map<string, string>();

  add(stored: StoredRecord): void {
    const sequence = Number(stored.sequence);
    if (this.#sequence && sequence !== this.#sequence + 1) this.complaints.push(`record ${sequence} follows record ${this.#sequence}`);
    this.#sequence = sequence;
    this.count += 1;
    const bytes = bytesOf(stored);
    const own = digestOf(bytes);
    if (own !== stored.digest) this.complaints.push(`record ${sequence}: its digest is ${own}, and the service names ${stored.digest ?? "none"}`);
    let head: { by?: string; prev?: string };
    try {
      head = JSON.parse(new TextDecoder().decode(bytes)) as { by?: string; prev?: string };
    } catch {
      return; // a void record names no other
    }
    if (!head.by) return;
    const before = this.#last.get(head.by);
    if (head.prev && before && head.prev !== before) this.complaints.push(`record ${sequence}: ${head.by} names ${head.prev} as its last record, which is ${before}`);
    this.#last.set(head.by, own);
  }
}
