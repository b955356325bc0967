import { includesBytes, writeUtf8 } from "./bytes.js";
import { readEntry } from "./entry.js";
import { isProven } from "./log_keys.js";
import { readSignature } from "./note.js";
import { unlessRejected } from "./rejected.js";

/** The cosignatures that a log records: docs/spec/entry.md, Recorded cosignatures. */

/** @typedef {import("./bundle.js").BundleContents} BundleContents */
/** @typedef {import("./entry.js").Entry} Entry */
/** @typedef {import("./kinds.js").Kinds} Kinds */
/** @typedef {import("./note.js").Key} Key */
/** @typedef {import("./note.js").NoteSignature} NoteSignature */
/** @typedef {import("./policy.js").Policy} Policy */

/**
 * The recorded lines of each checkpoint, by size and root, with index and entry.
 * @typedef {Map<string, {line: string, index: bigint, entry: Entry}[]>} WitnessRecords
 */

/** How many of the first lines count: as many as a note may have. */
const MAX_FIRST_LINES = 64;
const RECORD_MARK = writeUtf8('"witnessed/1"');

/**
 * Return the lines of cosignatures that proven entries of a bundle record.
 * @param {BundleContents} bundle
 * @param {import("./tree.js").Checkpoint} tree
 * @param {Kinds} kinds
 * @returns {WitnessRecords}
 */
export function witnessRecords(bundle, tree, kinds) {
  /** @type {WitnessRecords} */
  const records = new Map();
  for (const index of bundle.entries) {
    const data = bundle.entry(index);
    if (!includesBytes(data, RECORD_MARK) || !isProven(bundle, index, tree)) continue;
    // What is wrong with it is reported when the entry is checked.
    const entry = unlessRejected(
      () => readEntry(data, kinds),
      () => null,
    );
    if (!entry || entry.log !== bundle.origin || entry.run !== "log") continue;
    if (entry.strand !== "witnessed" || entry.kind !== "witnessed/1") continue;
    const place = `${entry.facts.get("size")}/${entry.facts.get("root")}`;
    const recorded = /** @type {string[]} */ (entry.facts.get("cosignatures") ?? []);
    const lines = records.get(place) ?? [];
    lines.push(...recorded.map((line) => ({ line, index, entry })));
    records.set(place, lines);
  }
  return records;
}

/**
 * Return the keys of witnesses by the name and the id by which a signature names them.
 * @param {Policy} policy
 * @returns {Map<string, Key>}
 */
export function keysByClaim(policy) {
  return new Map([...policy.witnesses.values()].map((key) => [`${key.name} ${key.id}`, key]));
}

/**
 * The first recorded line of each witness, unverified, by the vkey.
 * @typedef {Map<string, {key: Key, signature: NoteSignature}>} FirstLines
 */

/**
 * Add the first line of each of these witnesses, of as many as a note may have.
 *
 * Whoever may write to the log can have other lines recorded, as many as he likes: they are left
 * aside before they count.
 * @param {FirstLines} first
 * @param {string[]} lines
 * @param {Map<string, Key>} witnesses
 */
export function addFirstLines(first, lines, witnesses) {
  for (const line of lines) {
    // No witness has cosigned what is no line.
    const signature = unlessRejected(
      () => readSignature(line),
      () => null,
    );
    const key = signature && witnesses.get(`${signature.name} ${signature.keyId}`);
    if (key && first.size < MAX_FIRST_LINES && !first.has(key.text)) first.set(key.text, { key, signature });
  }
}
