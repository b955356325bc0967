import { Rejected, reject, require } from "./rejected.js";
import { firstCharacters, quote } from "./text.js";

const ENCODER = new TextEncoder();
const DECODER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Encode a text as UTF-8.
 * @param {string} text
 */
export function writeUtf8(text) {
  return ENCODER.encode(text);
}

/**
 * Decode UTF-8.
 * @param {Uint8Array} data
 */
export function readUtf8(data) {
  try {
    return DECODER.decode(data);
  } catch {
    throw new Rejected("not UTF-8");
  }
}

/**
 * Return whether two arrays hold the same bytes.
 * @param {Uint8Array} left
 * @param {Uint8Array} right
 */
export function equalBytes(left, right) {
  if (left.length !== right.length) return false;
  for (let at = 0; at < left.length; at++) if (left[at] !== right[at]) return false;
  return true;
}

/**
 * Return whether one array of bytes occurs in another.
 * @param {Uint8Array} data
 * @param {Uint8Array} part
 */
export function includesBytes(data, part) {
  for (let at = data.indexOf(part[0]); at >= 0; at = data.indexOf(part[0], at + 1)) {
    if (equalBytes(data.subarray(at, at + part.length), part)) return true;
  }
  return false;
}

/** @param {(Uint8Array | number[])[]} parts */
export function concatBytes(...parts) {
  const joined = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** @param {Uint8Array} data */
export function toHex(data) {
  let text = "";
  for (const byte of data) text += HEX[byte];
  return text;
}

const BASE64_VALUES = new Int8Array(128).fill(-1);
for (let value = 0; value < 64; value++) {
  const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  BASE64_VALUES[letters.charCodeAt(value)] = value;
}

/**
 * Decode standard base64; refuse missing padding and stray bits.
 * @param {string} text
 */
export function readBase64(text) {
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  require(text.length % 4 === 0, "not base64");
  const data = new Uint8Array((text.length / 4) * 3 - padding);
  let bits = 0;
  let count = 0;
  let at = 0;
  for (let i = 0; i < text.length - padding; i++) {
    const value = BASE64_VALUES[text.charCodeAt(i)] ?? -1;
    require(value >= 0, "not base64");
    bits = ((bits << 6) | value) & 0xfff;
    count += 6;
    if (count >= 8) {
      count -= 8;
      data[at++] = bits >> count;
    }
  }
  require((bits & ((1 << count) - 1)) === 0, "not canonical base64");
  return data;
}

/**
 * Decode a SHA-256 hash in the base64 form of notes and proofs.
 * @param {string} text
 */
export function readHash(text) {
  const raw = readBase64(text);
  if (raw.length !== 32) reject(`a hash has ${raw.length} bytes, not 32`);
  return raw;
}

/**
 * Parse a decimal number without sign or leading zeros.
 * @param {string} text
 */
export function readDecimal(text) {
  if (/^(?:0|[1-9][0-9]{0,18})$/.test(text)) {
    const number = BigInt(text);
    if (number < 1n << 63n) return number;
  }
  return reject(`${quote(firstCharacters(text, 20))} is not a decimal number below 2^63`);
}
