import { concatBytes, readBase64, readUtf8, toHex, writeUtf8 } from "./bytes.js";
import { checkPublicKey } from "./ed25519.js";
import { reject, require } from "./rejected.js";
import { sha256 } from "./sha256.js";
import { quote } from "./text.js";

/** Keys and signed notes: C2SP signed-note. */

/** Signature types: Ed25519 over the text of a note, and Ed25519 timestamped cosignature. */
export const LOG_KEY = 0x01;
export const WITNESS_KEY = 0x04;

const MAX_NOTE_SIZE = 1 << 20;
const MAX_SIGNATURES = 64;

/**
 * A public key with its name and the type of signature that it is trusted for.
 *
 * The id has four bytes, by which a key is looked up.  They can be forged, so they prove nothing.
 * `text` is the vkey, of which each key has one only.
 * @typedef {{name: string, algorithm: number, material: Uint8Array, id: string, text: string}} Key
 */

/** @typedef {{name: string, keyId: string, blob: Uint8Array}} NoteSignature */

/**
 * A text, and its signatures.
 * @typedef {{text: string, signatures: NoteSignature[]}} Note
 */

/**
 * Refuse characters that a line of a note cannot hold.
 * @param {string} text
 */
function checkLine(text) {
  require(!/[\x00-\x1f]|\p{Cs}/u.test(text), "contains a control character");
}

// What Python calls white space; the expression \s of JavaScript has other members.
const WHITE_SPACE = /[\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;

/**
 * Refuse a name that is not valid for a key.
 * @param {string} name
 */
function checkName(name) {
  checkLine(name);
  if (!name || name.includes("+") || WHITE_SPACE.test(name)) {
    reject(`${quote(name)} is not a valid key name`);
  }
}

/**
 * Parse a vkey: name+id+key.
 * @param {string} text
 * @returns {Key}
 */
export function readKey(text) {
  const [name, keyId, ...rest] = text.split("+");
  if (!rest.length) reject(`${quote(text)} does not have the form name+id+key`);
  const material = readBase64(rest.join("+"));
  checkName(name);
  const algorithm = material[0];
  if (algorithm !== LOG_KEY && algorithm !== WITNESS_KEY) {
    reject(`${name}: unsupported signature type`);
  }
  checkPublicKey(material.subarray(1));
  const id = toHex(sha256(concatBytes(writeUtf8(`${name}\n`), material)).subarray(0, 4));
  if (id !== keyId) reject(`${name}: the id of this key is ${id}`);
  return { name, algorithm, material: material.subarray(1), id, text };
}

/**
 * Parse a note without verifying its signatures.
 * @param {Uint8Array} data
 * @returns {Note}
 */
export function readNote(data) {
  require(data.length <= MAX_NOTE_SIZE, "a note is longer than 1 MiB");
  const all = readUtf8(data);
  const cut = all.lastIndexOf("\n\n");
  const lines = all.slice(cut + 2).split("\n");
  const rest = lines.pop();
  require(
    cut >= 0 && !rest && lines.length >= 1 && lines.length <= MAX_SIGNATURES,
    "a note needs 1 to 64 signatures below an empty line",
  );
  const text = all.slice(0, cut);
  checkLine(text.replaceAll("\n", ""));
  return { text: `${text}\n`, signatures: lines.map(readSignature) };
}

/**
 * Parse a signature line: dash, name, base64 of key id and signature.
 * @param {string} line
 * @returns {NoteSignature}
 */
export function readSignature(line) {
  const words = line.split(" ");
  const [dash, name, encoded] = words.length === 3 ? words : ["", "", ""];
  const raw = readBase64(encoded);
  require(dash === "\u2014" && raw.length > 4, "malformed signature line");
  checkName(name);
  return { name, keyId: toHex(raw.subarray(0, 4)), blob: raw.subarray(4) };
}

/**
 * Return the first signature that names each of these keys; it is not verified here.
 *
 * Whoever has a key can make as many valid signatures of one text as fit into a note.
 * @param {Note} note
 * @param {Key[]} keys
 * @returns {{key: Key, blob: Uint8Array}[]}
 */
export function signaturesBy(note, keys) {
  /** @type {Map<string, {key: Key, blob: Uint8Array}>} */
  const first = new Map();
  for (const { name, keyId, blob } of note.signatures) {
    for (const key of keys) {
      const isNew = key.name === name && key.id === keyId && !first.has(key.text);
      if (isNew) first.set(key.text, { key, blob });
    }
  }
  return [...first.values()];
}

/**
 * Return keys without those that are listed before.
 * @param {Key[]} keys
 */
export function uniqueKeys(keys) {
  return [...new Map(keys.map((key) => [key.text, key])).values()];
}
