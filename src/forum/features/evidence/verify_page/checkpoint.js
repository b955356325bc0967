import { equalBytes, readDecimal, readHash, writeUtf8 } from "./bytes.js";
import { signatureHolds } from "./ed25519.js";
import { LOG_KEY, readNote, signaturesBy } from "./note.js";
import { reject, require } from "./rejected.js";
import { EMPTY_ROOT } from "./tree.js";

/** Checkpoints: C2SP tlog-checkpoint and tlog-cosignature. */

/** @typedef {import("./note.js").Key} Key */
/** @typedef {import("./tree.js").Checkpoint} Checkpoint */

/**
 * A witness, and the time in seconds since 1970 at which it cosigned, by its own clock.
 * @typedef {{key: Key, time: bigint}} Cosignature
 */

/**
 * Parse the text of a checkpoint: origin, size and root; extension lines are refused.
 * @param {string} text
 * @returns {Checkpoint}
 */
export function readCheckpoint(text) {
  const lines = text.split("\n");
  require(lines.length === 4 && lines[0], "a checkpoint must have three lines");
  const checkpoint = { origin: lines[0], size: readDecimal(lines[1]), root: readHash(lines[2]) };
  const rooted = checkpoint.size || equalBytes(checkpoint.root, EMPTY_ROOT);
  require(rooted, "wrong root of the empty tree");
  return checkpoint;
}

/**
 * Return a checkpoint that a trusted key of its own log has signed.
 * @param {Uint8Array} data
 * @param {Key[]} keys
 */
export function openCheckpoint(data, keys) {
  const note = readNote(data);
  const text = writeUtf8(note.text);
  const signers = new Set();
  const logKeys = keys.filter((key) => key.algorithm === LOG_KEY);
  for (const { key, blob } of signaturesBy(note, logKeys)) {
    // An invalid one by a trusted key rejects the note, because the note was altered.
    if (!signatureHolds(key.material, text, blob)) reject(`${key.name}: invalid signature`);
    signers.add(key.name);
  }
  const checkpoint = readCheckpoint(note.text);
  require(signers.has(checkpoint.origin), "not signed by a trusted key of its log");
  return checkpoint;
}

/**
 * Return the first cosignature of each known witness; refuse the note if one is invalid.
 * @param {Uint8Array} data
 * @param {Key[]} witnesses
 * @returns {Cosignature[]}
 */
export function readCosignatures(data, witnesses) {
  const note = readNote(data);
  return signaturesBy(note, witnesses).map(({ key, blob }) =>
    checkCosignature(note.text, blob, key),
  );
}

/**
 * Verify a cosignature: eight bytes of time, and a signature over time and text.
 * @param {string} text
 * @param {Uint8Array} blob
 * @param {Key} key
 * @returns {Cosignature}
 */
export function checkCosignature(text, blob, key) {
  let time = 0n;
  for (const byte of blob.subarray(0, 8)) time = (time << 8n) | BigInt(byte);
  const message = writeUtf8(`cosignature/v1\ntime ${time}\n${text}`);
  const holds = time < 1n << 63n && signatureHolds(key.material, message, blob.subarray(8));
  if (!holds) reject(`${key.name}: invalid cosignature`);
  return { key, time };
}
