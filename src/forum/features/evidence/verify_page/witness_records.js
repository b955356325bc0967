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
 * Keys by what their lines have behind the dash: the name, and the first characters of the id.
 * @typedef {Map<string, Key>} KeysByClaim
 */

/** A recorded line that names a witness, unverified. @typedef {{key: Key, signature: NoteSignature}} WitnessLine */

/**
 * The recorded lines of witnesses of each checkpoint, by size and root, with index and entry.
 * @typedef {Map<string, (WitnessLine & {index: bigint, entry: Entry})[]>} WitnessRecords
 */

/** How many of the first lines count: as many as a note may have. */
const MAX_FIRST_LINES = 64;
const RECORD_MARK = writeUtf8('"witnessed/1"');

/**
 * Return the lines of witnesses that proven entries of a bundle record.
 * @param {BundleContents} bundle
 * @param {import("./tree.js").Checkpoint} tree
 * @param {Kinds} kinds
 * @param {Policy | null} policy
 * @returns {WitnessRecords}
 */
export function witnessRecords(bundle, tree, kinds, policy) {
  const witnesses = keysByClaim(policy);
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
    for (const line of linesOf(recorded, witnesses)) lines.push({ ...line, index, entry });
    records.set(place, lines);
  }
  return records;
}

/**
 * Return the keys of witnesses, to find the lines that name them.
 * @param {Policy | null} policy
 * @returns {KeysByClaim}
 */
export function keysByClaim(policy) {
  const encode = (/** @type {string} */ id) =>
    btoa(id.replace(/../g, (digits) => String.fromCharCode(parseInt(digits, 16))));
  const witnesses = [...(policy?.witnesses.values() ?? [])];
  return new Map(witnesses.map((key) => [`${key.name} ${encode(key.id).slice(0, 5)}`, key]));
}

/**
 * Yield the recorded lines that name one of these witnesses, unverified.
 *
 * Whoever may write to the log can have other lines recorded, as many as he likes: they are left
 * aside before they count.
 * @param {string[]} lines
 * @param {KeysByClaim} witnesses
 * @returns {Generator<WitnessLine>}
 */
function* linesOf(lines, witnesses) {
  for (const line of lines) {
    // Parsing is dear: a log can have a million lines of strangers.  A cosignature and its id have
    // 104 characters, of which five are compared.
    const key = witnesses.get(line.slice(2, -99));
    if (!key) continue;
    // No witness has cosigned what is no line.
    const signature = unlessRejected(
      () => readSignature(line),
      () => null,
    );
    if (signature?.name === key.name && signature.keyId === key.id) yield { key, signature };
  }
}

/**
 * The first recorded line of each witness, by the vkey.
 * @typedef {Map<string, WitnessLine>} FirstLines
 */

/**
 * Add the first line of each of these witnesses, of as many as a note may have.
 * @param {FirstLines} first
 * @param {string[]} lines
 * @param {KeysByClaim} witnesses
 */
export function addFirstLines(first, lines, witnesses) {
  for (const line of linesOf(lines, witnesses)) {
    const { text } = line.key;
    if (first.size < MAX_FIRST_LINES && !first.has(text)) first.set(text, line);
  }
}
