import { concatBytes, equalBytes } from "./bytes.js";
import { reject, require } from "./rejected.js";
import { sha512 } from "./sha512.js";

/**
 * Ed25519: RFC 8032 section 5.1, strict, verified without the cofactor (docs/spec/ed25519.md).
 *
 * The browsers' own accepts public keys of small order and in forms that are not canonical.
 * Nothing here is secret, so nothing needs to take the same time for all values.
 */

/** The prime of the field. */
const P = 2n ** 255n - 19n;
/** The order of the base point. */
const L = 2n ** 252n + 27742317777372353535851937790883648493n;

/**
 * X, Y, Z, T with x = X/Z, y = Y/Z, xy = T/Z.
 * @typedef {[bigint, bigint, bigint, bigint]} Point
 */

/** @type {Point} */
const ZERO_POINT = [0n, 1n, 1n, 0n];

/** @param {bigint} number */
function modP(number) {
  const rest = number % P;
  return rest < 0n ? rest + P : rest;
}

/**
 * @param {bigint} base
 * @param {bigint} exponent
 */
function powerModP(base, exponent) {
  let result = 1n;
  for (let square = modP(base); exponent; exponent >>= 1n, square = (square * square) % P) {
    if (exponent & 1n) result = (result * square) % P;
  }
  return result;
}

/** @param {bigint} number */
function invertModP(number) {
  return powerModP(number, P - 2n);
}

const D = modP(-121665n * invertModP(121666n));

/** @param {Uint8Array} data */
function readLittleEndian(data) {
  let number = 0n;
  for (let at = data.length - 1; at >= 0; at--) number = (number << 8n) | BigInt(data[at]);
  return number;
}

/** @param {bigint} number */
function writeLittleEndian(number) {
  return Uint8Array.from({ length: 32 }, (_, at) => Number((number >> BigInt(8 * at)) & 255n));
}

/**
 * Return the sum of two points, which may be equal.
 * @param {Point} p
 * @param {Point} q
 * @returns {Point}
 */
function addPoints(p, q) {
  const a = (p[1] - p[0]) * (q[1] - q[0]);
  const b = (p[1] + p[0]) * (q[1] + q[0]);
  const c = ((2n * p[3] * q[3]) % P) * D;
  const d = 2n * p[2] * q[2];
  const e = modP(b - a);
  const f = modP(d - c);
  const g = modP(d + c);
  const h = modP(b + a);
  return [(e * f) % P, (g * h) % P, (f * g) % P, (e * h) % P];
}

/**
 * Return the encoding of a point: y, with the lowest bit of x as bit 255.
 * @param {Point} point
 */
function encodePoint(point) {
  const inverse = invertModP(point[2]);
  const x = (point[0] * inverse) % P;
  const y = (point[1] * inverse) % P;
  return writeLittleEndian(y | ((x & 1n) << 255n));
}

/**
 * Decode a point; refuse any encoding that is not canonical.
 * @param {Uint8Array} data
 * @returns {Point}
 */
function decodePoint(data) {
  const number = readLittleEndian(data);
  const y = BigInt.asUintN(255, number);
  const sign = number >> 255n;
  const square = modP((y * y - 1n) * invertModP(D * y * y + 1n));
  let x = powerModP(square, (P + 3n) / 8n);
  if (modP(x * x - square)) x = (x * powerModP(2n, (P - 1n) / 4n)) % P;
  const onCurve = y < P && modP(x * x - square) === 0n;
  require(onCurve && (x || !sign), "not a point on the curve");
  if ((x & 1n) !== sign) x = P - x;
  return [x, y, 1n, (x * y) % P];
}

const BASE_POINT = decodePoint(writeLittleEndian((4n * invertModP(5n)) % P));

/**
 * Refuse bytes that are not a point, and points of small order.
 *
 * Under a key of small order, one signature can be valid for many messages.
 * @param {Uint8Array} key
 */
export function checkPublicKey(key) {
  if (key.length !== 32) reject(`a public key has ${key.length} bytes, not 32`);
  let multiple = decodePoint(key);
  for (let i = 0; i < 3; i++) multiple = addPoints(multiple, multiple);
  const small = equalBytes(encodePoint(multiple), encodePoint(ZERO_POINT));
  require(!small, "a public key of small order");
}

/**
 * Return whether R = sB - hA for a signature (R, s) by the key A, with h = H(R, A, message).
 * @param {Uint8Array} key
 * @param {Uint8Array} message
 * @param {Uint8Array} signature
 */
export function signatureHolds(key, message, signature) {
  const question = [key, message, signature].map((bytes) => bytes.join()).join(";");
  const known = SIGNATURE_ANSWERS.get(question);
  if (known !== undefined) return known;
  const answer = verifySignature(key, message, signature);
  SIGNATURE_ANSWERS.set(question, answer);
  return answer;
}

/** Each signature is verified once. @type {Map<string, boolean>} */
const SIGNATURE_ANSWERS = new Map();

/**
 * @param {Uint8Array} key
 * @param {Uint8Array} message
 * @param {Uint8Array} signature
 */
function verifySignature(key, message, signature) {
  const r = signature.subarray(0, 32);
  const s = readLittleEndian(signature.subarray(32));
  if (signature.length !== 64 || s >= L) return false;
  const h = readLittleEndian(sha512(concatBytes(r, key, message))) % L;
  const [x, y, z, t] = decodePoint(key);
  /** @type {Point} */
  const minusA = [P - x, y, z, P - t];
  const choices = [ZERO_POINT, BASE_POINT, minusA, addPoints(BASE_POINT, minusA)];
  let total = ZERO_POINT;
  // Both products in one pass: half the additions.
  for (let bit = 252n; bit >= 0n; bit--) {
    total = addPoints(total, total);
    const choice = Number((s >> bit) & 1n) + 2 * Number((h >> bit) & 1n);
    if (choice) total = addPoints(total, choices[choice]);
  }
  return equalBytes(encodePoint(total), r);
}
