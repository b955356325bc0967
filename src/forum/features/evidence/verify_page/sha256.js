/**
 * SHA-256 of FIPS 180-4.
 *
 * WebCrypto is not used: it is slower for the many short messages of a tree, and it is absent on
 * pages that come from plain http addresses.
 */

/**
 * Return the first prime numbers, from whose roots SHA-2 takes its constants.
 * @param {number} count
 */
export function firstPrimes(count) {
  /** @type {number[]} */
  const primes = [];
  for (let number = 2; primes.length < count; number++) {
    if (primes.every((prime) => number % prime)) primes.push(number);
  }
  return primes;
}

/**
 * Return the first 64 bits behind the point of the square or cube root of a number.
 * @param {number} number
 * @param {2n | 3n} degree
 */
export function rootFraction(number, degree) {
  const scaled = BigInt(number) << (64n * degree);
  let low = 0n;
  let high = scaled;
  while (high - low > 1n) {
    const middle = (low + high) >> 1n;
    if (middle ** degree <= scaled) low = middle;
    else high = middle;
  }
  return BigInt.asUintN(64, low);
}

/** @param {bigint} bits */
function upperWord(bits) {
  return Number(BigInt.asIntN(32, bits >> 32n));
}

const ROUND_WORDS = Int32Array.from(firstPrimes(64), (p) => upperWord(rootFraction(p, 3n)));
const INITIAL_WORDS = Int32Array.from(firstPrimes(8), (p) => upperWord(rootFraction(p, 2n)));

// They are kept from call to call, because a tree has many hashes; no call leaves anything there.
const schedule = new Int32Array(64);
const state = new Int32Array(8);
const tail = new Uint8Array(128);

/**
 * Mix one block of 64 bytes into the state.
 * @param {Uint8Array} data
 * @param {number} at
 */
function mixBlock(data, at) {
  const w = schedule;
  for (let i = 0; i < 16; i++, at += 4) {
    w[i] = (data[at] << 24) | (data[at + 1] << 16) | (data[at + 2] << 8) | data[at + 3];
  }
  for (let i = 16; i < 64; i++) {
    const x = w[i - 15];
    const y = w[i - 2];
    const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
    const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
    w[i] = (w[i - 16] + w[i - 7] + s0 + s1) | 0;
  }
  // Not by destructuring, which makes an iterator for each block.
  let a = state[0];
  let b = state[1];
  let c = state[2];
  let d = state[3];
  let e = state[4];
  let f = state[5];
  let g = state[6];
  let h = state[7];
  for (let i = 0; i < 64; i++) {
    const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + ROUND_WORDS[i] + w[i]) | 0;
    const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + t1) | 0;
    d = c;
    c = b;
    b = a;
    a = (t1 + t2) | 0;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
  state[5] += f;
  state[6] += g;
  state[7] += h;
}

/**
 * Return the SHA-256 digest of some bytes.
 * @param {Uint8Array} data
 */
export function sha256(data) {
  state.set(INITIAL_WORDS);
  const rest = data.length % 64;
  const whole = data.length - rest;
  for (let at = 0; at < whole; at += 64) mixBlock(data, at);
  const end = rest < 56 ? 64 : 128;
  tail.fill(0);
  for (let i = 0; i < rest; i++) tail[i] = data[whole + i];
  tail[rest] = 0x80;
  // The length in bits, in eight bytes; numbers are exact far beyond any file.
  for (let i = 1, bits = data.length * 8; i <= 8; i++, bits = Math.floor(bits / 256)) {
    tail[end - i] = bits % 256;
  }
  for (let at = 0; at < end; at += 64) mixBlock(tail, at);
  const digest = new Uint8Array(32);
  for (let i = 0; i < 32; i++) digest[i] = state[i >> 2] >>> (24 - 8 * (i & 3));
  return digest;
}
