import { readUtf8 } from "./bytes.js";
import { readJson } from "./json.js";
import { reject, require } from "./rejected.js";
import { compareText, quote } from "./text.js";

/** Entries: docs/spec/entry.md. */

/** @typedef {import("./json.js").JsonValue} JsonValue */
/** @typedef {import("./kinds.js").FactForm} FactForm */
/** @typedef {import("./kinds.js").Kinds} Kinds */

/**
 * The commitment of an entry to a body: hash, size and media type.
 * @typedef {{h: string, size: number, type: string}} Commitment
 */

/**
 * One recorded step.
 * @typedef {{
 *   log: string, run: string, strand: string, n: number, prev: string, step: string, ts: number,
 *   actor: string, kind: string, parents: string[], facts: Map<string, any>,
 *   bodies: Map<string, Commitment>,
 * }} Entry
 */

const MAX_ENTRY_SIZE = 4096;
const MAX_PARENTS = 16;
const MAX_NESTING = 16;

export const HASH = /^[0-9a-f]{64}$/;
// Visible ASCII without quote and backslash.
const LABEL = /^[!#-[\]-~]{1,128}$/;
const MEDIA_TYPE = /^[!#-[\]-~]{1,64}$/;
const BODY_NAME = /^[a-z][a-z0-9._-]{0,31}$/;
const KIND = /^[a-z][a-z.]*\/[1-9][0-9]*$/;

// In the order of the bytes.
const MEMBERS = "v log run strand n prev step ts actor kind parents facts bodies";

/**
 * Return whether a value is a string that matches a pattern.
 * @param {RegExp} pattern
 * @param {unknown} value
 */
function matches(pattern, value) {
  return typeof value === "string" && pattern.test(value);
}

/**
 * Return whether a value is a non-negative integer that a double holds exactly.
 * @param {unknown} value
 */
export function isCount(value) {
  return Number.isSafeInteger(value) && /** @type {number} */ (value) >= 0;
}

/**
 * Return whether a value consists of strings, exact integers, arrays and objects only.
 * @param {JsonValue} value
 * @param {number} nesting
 * @returns {boolean}
 */
function isPlain(value, nesting) {
  if (value instanceof Map || Array.isArray(value)) {
    if (nesting > MAX_NESTING) return false;
    for (const item of value.values()) if (!isPlain(item, nesting + 1)) return false;
    return true;
  }
  return typeof value === "string" || Number.isSafeInteger(value);
}

/**
 * Return whether a fact, or an item of it, has its type.
 * @param {unknown} value
 * @param {FactForm["item"]} item
 */
function hasType(value, item) {
  if (item === "count" || item === "limit") return isCount(value);
  return typeof value === "string" && (item === "text" || item.includes(value));
}

/**
 * Return whether a fact has its type and is not equal to its default, which is omitted.
 * @param {unknown} value
 * @param {FactForm} form
 */
function isFact(value, form) {
  if (form.isArray) {
    // The default of an array is always the empty one.
    const given = Array.isArray(value) && !(form.isOptional && !value.length);
    return given && value.every((one) => hasType(one, form.item));
  }
  // Releases up to 0.2 wrote a limit also where it had its default.
  const isOmitted = form.isOptional && form.item !== "limit";
  return hasType(value, form.item) && !(isOmitted && value === form.fallback);
}

/**
 * Parse an entry in canonical form.
 * @param {Uint8Array} data
 * @param {Kinds} kinds
 * @returns {Entry}
 */
export function readEntry(data, kinds) {
  if (data.length > MAX_ENTRY_SIZE) {
    reject(`an entry of ${data.length} bytes; the maximum is ${MAX_ENTRY_SIZE}`);
  }
  const value = readJson(data);
  // In canonical JSON, the only escapes besides those of \ and " are of control characters.
  const bare = readUtf8(data).replaceAll("\\\\", "").replaceAll('\\"', "");
  require(!/[\\\x7f-\x9f]/.test(bare), "a string contains a control character");
  const formed = value instanceof Map && [...value.keys()].join(" ") === MEMBERS;
  require(formed, "the members are not those of an entry in their order");
  const entry = Object.fromEntries(/** @type {Map<string, JsonValue>} */ (value));
  checkMembers(entry);
  checkBodies(entry, kinds);
  checkFacts(entry, kinds);
  return { .../** @type {any} */ (entry), bodies: readCommitments(entry.bodies) };
}

/**
 * Return whether a text is a label, such as the name of a log or of a run.
 * @param {string} text
 */
export function isLabel(text) {
  return matches(LABEL, text);
}

/**
 * Check the labels, numbers and links of an entry.
 * @param {Record<string, any>} entry
 */
function checkMembers(entry) {
  require(entry.v === "forum/entry/1", "unsupported entry format");
  for (const label of [entry.log, entry.run, entry.strand, entry.step, entry.actor]) {
    require(isLabel(label), "a label is empty, too long, or not plain ASCII");
  }
  require(matches(KIND, entry.kind), "malformed kind");
  require(isCount(entry.n) && isCount(entry.ts), "n and ts must be integers below 2^53");
  const linked = entry.n ? matches(HASH, entry.prev) : entry.prev === "";
  require(linked, "prev must be a leaf hash, or empty at n = 0");
  const { parents } = entry;
  const listed = Array.isArray(parents) && parents.every((parent) => matches(HASH, parent));
  require(listed, "parents must be leaf hashes");
  const few = new Set(parents).size === parents.length && parents.length <= MAX_PARENTS;
  require(few, "too many parents, or a parent is listed twice");
}

/**
 * Check the commitments of an entry to its bodies.
 * @param {Record<string, any>} entry
 * @param {Kinds} kinds
 */
function checkBodies(entry, kinds) {
  const bodies = entry.bodies;
  const names = bodies instanceof Map ? [...bodies.keys()] : [];
  const ordered = names.every((name, at) => !at || compareText(names[at - 1], name) < 0);
  require(bodies instanceof Map && ordered, "bodies must be in the order of their names");
  for (const [name, body] of bodies) {
    const formed = body instanceof Map && [...body.keys()].join(" ") === "h size type";
    if (!formed || !BODY_NAME.test(name)) reject(`body ${quote(name)}: invalid name or members`);
    const sized = matches(HASH, body.get("h")) && isCount(body.get("size"));
    if (!sized || !matches(MEDIA_TYPE, body.get("type"))) {
      reject(`body ${quote(name)}: invalid hash, size or type`);
    }
  }
  const allowed = kinds.get(entry.kind)?.bodies;
  if (allowed && !names.every((name) => allowed.has(name))) {
    reject(`${entry.kind} has no body ${names.join(", ")}`);
  }
}

/**
 * Check the facts against their kind; those of an unknown kind by the general rules only.
 * @param {Record<string, any>} entry
 * @param {Kinds} kinds
 */
function checkFacts(entry, kinds) {
  const facts = entry.facts;
  const plain = facts instanceof Map && isPlain(facts, 1);
  require(plain, "facts must be an object of strings, integers, arrays and objects");
  const kind = kinds.get(entry.kind);
  if (!kind) return;
  const present = [...kind.facts.keys()].filter((name) => facts.has(name));
  const ordered = facts.size === present.length && [...facts.keys()].join() === present.join();
  require(ordered, "a fact that the kind does not have, or facts out of order");
  for (const [name, form] of kind.facts) {
    const fits = facts.has(name) ? isFact(facts.get(name), form) : form.isOptional;
    if (!fits) reject(`the fact ${name} is missing, invalid, or equal to its default`);
  }
}

/**
 * @param {any} bodies
 * @returns {Map<string, Commitment>}
 */
function readCommitments(bodies) {
  return new Map([...bodies].map(([name, body]) => [name, Object.fromEntries(body)]));
}
