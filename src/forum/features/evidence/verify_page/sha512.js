import { firstPrimes, rootFraction } from "./sha256.js";

/** SHA-512 of FIPS 180-4.  It serves signatures alone, so it need not be fast. */

const ROUND_CONSTANTS = firstPrimes(80).map((prime) => rootFraction(prime, 3n));
const INITIAL_STATE = firstPrimes(8).map((prime) => rootFraction(prime, 2n));

/** @param {bigint} bits */
function wrap64(bits) {
  return BigInt.asUintN(64, bits);
}

/**
 * Return the exclusive or of three rotations of a word to the right.
 * @param {bigint} word
 * @param {bigint[]} counts
 */
function rotations(word, ...counts) {
  return wrap64(counts.reduce((all, n) => all ^ ((word >> n) | (word << (64n - n))), 0n));
}

/**
 * Append the end mark and the length, so that whole blocks of 128 bytes result.
 * @param {Uint8Array} data
 */
function padBlocks(data) {
  const padded = new DataView(new ArrayBuffer(Math.ceil((data.length + 17) / 128) * 128));
  new Uint8Array(padded.buffer).set(data);
  padded.setUint8(data.length, 0x80);
  padded.setBigUint64(padded.byteLength - 8, BigInt(data.length) * 8n);
  return padded;
}

/**
 * @param {DataView} blocks
 * @param {number} start
 */
function expandBlock(blocks, start) {
  const w = Array.from({ length: 16 }, (_, i) => blocks.getBigUint64(start + 8 * i));
  for (let i = 16; i < 80; i++) {
    const x = w[i - 15];
    const y = w[i - 2];
    const s0 = rotations(x, 1n, 8n) ^ (x >> 7n);
    const s1 = rotations(y, 19n, 61n) ^ (y >> 6n);
    w.push(wrap64(w[i - 16] + w[i - 7] + s0 + s1));
  }
  return w;
}

/**
 * Return the SHA-512 digest of some bytes.
 * @param {Uint8Array} data
 */
export function sha512(data) {
  const blocks = padBlocks(data);
  let sums = INITIAL_STATE;
  for (let start = 0; start < blocks.byteLength; start += 128) {
    const w = expandBlock(blocks, start);
    let [a, b, c, d, e, f, g, h] = sums;
    for (let i = 0; i < 80; i++) {
      const choice = (e & f) ^ (wrap64(~e) & g);
      const t1 = h + rotations(e, 14n, 18n, 41n) + choice + ROUND_CONSTANTS[i] + w[i];
      const t2 = rotations(a, 28n, 34n, 39n) + ((a & b) ^ (a & c) ^ (b & c));
      [a, b, c, d, e, f, g, h] = [wrap64(t1 + t2), a, b, c, wrap64(d + t1), e, f, g];
    }
    sums = [a, b, c, d, e, f, g, h].map((word, i) => wrap64(word + sums[i]));
  }
  const digest = new DataView(new ArrayBuffer(64));
  sums.forEach((word, i) => digest.setBigUint64(8 * i, word));
  return new Uint8Array(digest.buffer);
}
