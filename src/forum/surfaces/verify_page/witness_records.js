import { includesBytes, writeUtf8 } from "./bytes.js";
import { readEntry } from "./entry.js";
import { isProven } from "./log_keys.js";
import { unlessRejected } from "./rejected.js";

/** The cosignatures that a log records: docs/spec/entry.md, Recorded cosignatures. */

/** @typedef {import("./bundle.js").BundleContents} BundleContents */
/** @typedef {import("./entry.js").Entry} Entry */
/** @typedef {import("./kinds.js").Kinds} Kinds */

/**
 * The recorded lines of each checkpoint, by size and root, with index and entry.
 * @typedef {Map<string, {line: string, index: bigint, entry: Entry}[]>} WitnessRecords
 */

/** How many recorded lines of one checkpoint are read: as many as a note may have. */
export const MAX_RECORDED_LINES = 64;
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
    const lines = [...(records.get(place) ?? []), ...recorded.map((line) => ({ line, index, entry }))];
    records.set(place, lines.slice(0, MAX_RECORDED_LINES));
  }
  return records;
}
