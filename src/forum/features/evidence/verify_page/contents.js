import { BundleContents } from "./bundle.js";
import { readUtf8 } from "./bytes.js";
import { readEntry } from "./entry.js";
import { unlessRejected } from "./rejected.js";
import { escapeText, revealText } from "./text.js";
import { formatTime } from "./view.js";

/** What a bundle says, for people to read.  The report says what of it is proven. */

/** @typedef {import("./entry.js").Entry} Entry */
/** @typedef {import("./kinds.js").Kinds} Kinds */

/** @typedef {{index: string, title: string, time: string}} EntryLine */

/** @typedef {{title: string, pieces: {text: string, hidden: boolean}[]}} EntryPart */

const MAX_SHOWN = 20_000;

/** A reader of the entries and bodies of a bundle. */
export class BundleReader {
  /**
   * @param {Uint8Array} data
   * @param {Kinds} kinds
   * @param {number} [maxBytes]
   */
  constructor(data, kinds, maxBytes) {
    this.bundle = new BundleContents(data, maxBytes);
    this.kinds = kinds;
  }

  /**
   * Return one line for each entry.
   * @returns {EntryLine[]}
   */
  list() {
    return this.bundle.entries.map((index) => {
      const entry = this.#read(index);
      if (!entry) return { index: `${index}`, title: `${index}  malformed`, time: "" };
      const { run, strand, n, kind, step, actor, ts } = entry;
      const place = `${run === this.bundle.run ? "" : `${run}/`}${strand}/${n}`;
      const title = `${index}  ${place}  ${kind}  ${step}  by ${actor}`;
      return { index: `${index}`, title, time: formatTime(ts / 1000) };
    });
  }

  /**
   * Return the text of an entry and of its bodies.
   * @param {bigint} index
   * @returns {EntryPart[]}
   */
  show(index) {
    const parts = [{ title: "entry", pieces: revealText(showText(this.bundle.entry(index))) }];
    for (const [name, commitment] of this.#read(index)?.bodies ?? []) {
      const content = this.bundle.body(index, name);
      const matches = content && this.bundle.hasMatchingBody(index, name, commitment);
      const state = matches ? "matches" : "does not match";
      const there = content ? `${state} its commitment` : "not in the bundle";
      const title = `body ${name}, ${commitment.type}, ${commitment.size} bytes: ${there}`;
      parts.push({ title: escapeText(title), pieces: content ? revealText(showText(content)) : [] });
    }
    return parts;
  }

  /**
   * @param {bigint} index
   * @returns {Entry | null}
   */
  #read(index) {
    return unlessRejected(
      () => readEntry(this.bundle.entry(index), this.kinds),
      () => null,
    );
  }
}

/** @param {Uint8Array} data */
function showText(data) {
  const text = unlessRejected(
    () => readUtf8(data),
    () => `(${data.length} bytes that are not text)`,
  );
  const left = text.length - MAX_SHOWN;
  return left > 0 ? `${text.slice(0, MAX_SHOWN)}\n(${left} more characters: unpack the bundle)` : text;
}
