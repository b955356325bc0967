import { readUtf8 } from "./bytes.js";
import { Rejected, reject, require } from "./rejected.js";

/**
 * Bodies in spans: docs/spec/bundle.md.  Each list is checked before any body is put together, in
 * time that grows with the lists as they are written: what a list keeps is never written out.
 */

/**
 * The first `kept` spans of a base, and then those that the list adds: from `start` on among all
 * that are written.
 * @typedef {{
 *   key: string, base: SpanList | null, kept: number, start: number, length: number, depth: number,
 *   size: number,
 * }} SpanList
 */

/** @typedef {{size: number, base: [number, string] | null, kept: number, spans: number[][]}} SpanFile */

export const MAX_BODY_BYTES = 2 ** 31;
const BYTES_PER_SPAN = 512;
const MAX_LISTED_BYTES = 2 ** 24;
const MAX_LIST_BYTES = 2 ** 22;
const MAX_CHAIN = 64;
const MAX_SPANS = 2 ** 16;
const MAX_RECENT = 8;
const MAX_RECENT_BYTES = 2 ** 26;
const NO_SPANS = "a list of spans is not in canonical form";
const SPAN_BODY_NAME = /^[a-z][a-z0-9._-]{0,31}$/;

/** @param {unknown} value */
function isSpanNumber(value) {
  return Number.isSafeInteger(value) && /** @type {number} */ (value) >= 0;
}

/**
 * Parse a list of spans.
 * @param {Uint8Array} data
 * @returns {SpanFile}
 */
function readSpanFile(data) {
  try {
    const text = readUtf8(data);
    const value = JSON.parse(text);
    // A list may be long: to write it again is faster than to read it name by name.
    if (JSON.stringify(value) === text && isSpanFile(value)) return value;
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof Rejected)) throw error;
  }
  return reject(NO_SPANS);
}

/** @param {any} value */
function isSpanFile(value) {
  const named = value && !Array.isArray(value) && Object.keys(value).join() === "size,base,kept,spans";
  if (!named || !isSpanNumber(value.size) || !isSpanNumber(value.kept)) return false;
  const { base, spans } = value;
  const formed =
    base === null ||
    (Array.isArray(base) && base.length === 2 && isSpanNumber(base[0]) && SPAN_BODY_NAME.test(base[1]));
  if (!formed || !Array.isArray(spans)) return false;
  return spans.every((span) => Array.isArray(span) && span.length === 3 && span.every(isSpanNumber));
}

/** The bodies of a bundle that have a list, and the pieces that hold their bytes. */
export class SharedBodies {
  /** @param {Uint8Array[]} pieces */
  constructor(pieces) {
    this.pieces = pieces;
    require(pieces.every(({ length }) => length <= MAX_LISTED_BYTES), "a piece is too large");
    /** @type {Map<string, SpanList>} */
    this.lists = new Map();
    this.used = pieces.map(() => 0);
    this.begun = 0;
    // Of all spans that are written: the piece, and where each begins and ends there and in its body.
    /** @type {number[]} */
    this.numbers = [];
    /** @type {number[]} */
    this.offsets = [];
    /** @type {number[]} */
    this.lengths = [];
    /** @type {number[]} */
    this.ends = [];
    this.bytes = 0;
    this.spans = 0;
    /** @type {Map<string, Uint8Array>} */
    this.recent = new Map();
  }

  /**
   * Check the list of a body, which may build on one that was added before.
   * @param {string} key
   * @param {Uint8Array} data
   */
  add(key, data) {
    require(data.length <= MAX_LIST_BYTES, "a list of spans is too long");
    const { size, base: named, kept, spans } = readSpanFile(data);
    require(size > 0 && size <= MAX_LISTED_BYTES, "a body in spans is empty or too large");
    const base = (named && this.lists.get(named.join("/"))) ?? null;
    require(base || !named, "a list of spans refers to one that is not before it");
    const depth = base ? base.depth + 1 : 1;
    require(depth <= MAX_CHAIN, `a chain of more than ${MAX_CHAIN} lists of spans`);
    const fits = base ? kept >= 1 && kept <= base.length : kept === 0;
    require(fits, "a list of spans keeps other spans than its base has");
    const length = kept + spans.length;
    require(length <= MAX_SPANS, `a body has more than ${MAX_SPANS} spans`);
    const list = { key, base, kept, start: this.numbers.length, length, depth, size };
    this.#write(list, spans);
    this.lists.set(key, list);
    this.bytes += size;
    this.spans += length;
  }

  /**
   * Refuse what no list uses, and more than the reader wants to have put together.
   * @param {number} inline
   * @param {number} maxBytes
   */
  finish(inline, maxBytes) {
    const whole = this.pieces.every(({ length }, number) => this.used[number] === length);
    require(whole, "a piece has bytes that no body uses");
    this.bytes += inline;
    const maxSpans = Math.floor(maxBytes / BYTES_PER_SPAN);
    requireFew(this.bytes, maxBytes, "bytes");
    requireFew(this.spans, maxSpans, "spans");
  }

  /**
   * @param {SpanList} list
   * @param {number[][]} spans
   */
  #write(list, spans) {
    let { done, piece: lastPiece, stop: lastStop } = this.#endOfKept(list);
    for (const [piece, offset, length] of spans) {
      // In this order no byte of a piece can be left out, and each list has one form.
      const known = piece <= this.begun && piece < this.pieces.length;
      require(known && offset <= this.used[piece], "a span out of order");
      const stop = offset + length;
      require(length > 0 && stop <= this.pieces[piece].length, "a span is empty or lies outside its piece");
      require(piece !== lastPiece || offset !== lastStop, "two spans that continue each other");
      if (stop > this.used[piece]) {
        if (piece === this.begun) this.begun++;
        this.used[piece] = stop;
      }
      lastPiece = piece;
      lastStop = stop;
      done += length;
      this.numbers.push(piece);
      this.offsets.push(offset);
      this.lengths.push(length);
      this.ends.push(done);
    }
    require(done === list.size, "the spans of a body have another length than the body");
  }

  /**
   * Return how many bytes a list keeps, and where in a piece they end.
   * @param {SpanList} list
   */
  #endOfKept({ base, kept }) {
    if (!base) return { done: 0, piece: -1, stop: 0 };
    let owner = base;
    while (owner.kept >= kept) owner = /** @type {SpanList} */ (owner.base);
    const at = owner.start + kept - owner.kept - 1;
    // What is kept lies at the same places in both bodies.
    return { done: this.ends[at], piece: this.numbers[at], stop: this.offsets[at] + this.lengths[at] };
  }

  /**
   * Return a body, put together from its spans.
   * @param {SpanList} list
   */
  read(list) {
    const known = this.recent.get(list.key);
    if (known) return known;
    const content = new Uint8Array(list.size);
    const base = list.base && this.recent.get(list.base.key);
    let done = 0;
    if (base) {
      // Mostly a body is the one before it, and something new.
      done = this.#endOfKept(list).done;
      content.set(base.subarray(0, done));
      this.#copy(list, list.length, content, done);
    } else {
      for (const [owner, length] of chainOf(list)) done = this.#copy(owner, length, content, done);
    }
    this.#remember(list.key, content);
    return content;
  }

  /**
   * Copy the spans that a list adds, up to a number of all of its spans.
   * @param {SpanList} list
   * @param {number} length
   * @param {Uint8Array} content
   * @param {number} done
   */
  #copy({ start, kept }, length, content, done) {
    for (let at = start; at < start + length - kept; at++) {
      const piece = this.pieces[this.numbers[at]];
      const offset = this.offsets[at];
      const size = this.lengths[at];
      // A call for each span would cost more than its few bytes.
      if (size > 64) content.set(piece.subarray(offset, offset + size), done);
      else for (let i = 0; i < size; i++) content[done + i] = piece[offset + i];
      done += size;
    }
    return done;
  }

  /**
   * Keep a body for the next ones.
   * @param {string} key
   * @param {Uint8Array} content
   */
  #remember(key, content) {
    const { recent } = this;
    recent.set(key, content);
    let bytes = 0;
    for (const { length } of recent.values()) bytes += length;
    for (const [oldest, { length }] of recent) {
      if (recent.size <= MAX_RECENT && bytes <= MAX_RECENT_BYTES) break;
      recent.delete(oldest);
      bytes -= length;
    }
  }
}

/**
 * Return the lists that hold the spans of a body, the first first, and how many of its spans each has.
 * @param {SpanList} list
 */
function chainOf(list) {
  /** @type {[SpanList, number][]} */
  const chain = [];
  let length = list.length;
  for (let owner = /** @type {SpanList | null} */ (list); owner && length; owner = owner.base) {
    if (length <= owner.kept) continue;
    chain.push([owner, length]);
    length = owner.kept;
  }
  return chain.reverse();
}

/**
 * @param {number} count
 * @param {number} most
 * @param {string} unit
 */
function requireFew(count, most, unit) {
  require(
    count <= most,
    `its bodies have ${count} ${unit} together, and at most ${most} are read; the limit can be raised (--max-bytes)`,
  );
}
