// BLAKE2b (RFC 7693) without a key, on pairs of 32-bit words: browsers offer no BLAKE2b, and compute other digests only over HTTPS. Pure.

/** Eight words of 64 bits, each as its lower half and its upper half. */
const START = Uint32Array.of(
  0xf3bcc908, 0x6a09e667, 0x84caa73b, 0xbb67ae85, 0xfe94f82b, 0x3c6ef372, 0x5f1d36f1, 0xa54ff53a,
  0xade682d1, 0x510e527f, 0x2b3e6c1f, 0x9b05688c, 0xfb41bd6b, 0x1f83d9ab, 0x137e2179, 0x5be0cd19,
);
const ORDER = [
  "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8", "905724afe1bc683d",
  "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0",
].map((row) => [...row].map((digit) => parseInt(digit, 16)));
const MIXES = [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15], [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]] as const;
const BLOCK = 128;
const ROUNDS = 12;

/** v[a] += x, in 64 bits. */
function add(v: Uint32Array, a: number, low: number, high: number): void {
  const sum = v[2 * a]! + low;
  v[2 * a] = sum;
  v[2 * a + 1] = v[2 * a + 1]! + high + (sum > 0xffffffff ? 1 : 0);
}

/** v[a] = (v[a] ^ v[b]) rotated right by `by` bits, of 64. */
function turn(v: Uint32Array, a: number, b: number, by: number): void {
  let low = v[2 * a]! ^ v[2 * b]!;
  let high = v[2 * a + 1]! ^ v[2 * b + 1]!;
  if (by >= 32) [low, high] = [high, low];
  const rest = by % 32;
  v[2 * a] = rest ? (low >>> rest) | (high << (32 - rest)) : low;
  v[2 * a + 1] = rest ? (high >>> rest) | (low << (32 - rest)) : high;
}

const v = new Uint32Array(32);
const m = new Uint32Array(32);

function compress(state: Uint32Array, block: DataView, at: number, through: number, isLast: boolean): void {
  v.set(state);
  v.set(START, 16);
  v[24] = v[24]! ^ through;
  v[25] = v[25]! ^ Math.floor(through / 2 ** 32);
  if (isLast) {
    v[28] = ~v[28]!;
    v[29] = ~v[29]!;
  }
  for (let i = 0; i < 32; i++) m[i] = block.getUint32(at + 4 * i, true);
  for (let round = 0; round < ROUNDS; round++) {
    const order = ORDER[round % 10]!;
    MIXES.forEach(([a, b, c, d], i) => {
      const [x, y] = [order[2 * i]!, order[2 * i + 1]!];
      add(v, a, v[2 * b]!, v[2 * b + 1]!);
      add(v, a, m[2 * x]!, m[2 * x + 1]!);
      turn(v, d, a, 32);
      add(v, c, v[2 * d]!, v[2 * d + 1]!);
      turn(v, b, c, 24);
      add(v, a, v[2 * b]!, v[2 * b + 1]!);
      add(v, a, m[2 * y]!, m[2 * y + 1]!);
      turn(v, d, a, 16);
      add(v, c, v[2 * d]!, v[2 * d + 1]!);
      turn(v, b, c, 63);
    });
  }
  for (let i = 0; i < 16; i++) state[i] = state[i]! ^ v[i]! ^ v[i + 16]!;
}

/** The digest in hexadecimal; `size`: its bytes, 1 to 64. */
export function blake2b(bytes: Uint8Array, size: number): string {
  const state = START.slice();
  state[0] = state[0]! ^ 0x01010000 ^ size;
  const padded = new Uint8Array(Math.max(1, Math.ceil(bytes.length / BLOCK)) * BLOCK);
  padded.set(bytes);
  const view = new DataView(padded.buffer);
  for (let at = 0; at < padded.length; at += BLOCK) compress(state, view, at, Math.min(at + BLOCK, bytes.length), at + BLOCK === padded.length);
  return [...new Uint8Array(state.buffer, 0, size)].map((one) => one.toString(16).padStart(2, "0")).join("");
}
