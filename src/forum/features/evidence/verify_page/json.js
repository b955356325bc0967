import { readUtf8 } from "./bytes.js";
import { reject, require } from "./rejected.js";
import { firstCharacters } from "./text.js";

/**
 * @typedef {string | number | bigint | boolean | null | JsonValue[] | Map<string, JsonValue>} JsonValue
 */

const MAX_JSON_DEPTH = 900;
const SPACE = /[ \t\n\r]*/y;
const STRING = /"(?:[^"\\\x00-\x1f]|\\[^\x00-\x1f])*"/y;
const NUMBER = /(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?/y;
const CONSTANT = /NaN|-?Infinity|true|false|null/y;

/**
 * A reader of JSON that notices whether the text is in canonical form: no white space, no
 * unnecessary escapes, integers only, no name twice.
 *
 * `JSON.parse` cannot be used: it loses names that occur twice, and the order of names that look
 * like numbers.
 */
class JsonReader {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.canonical = true;
  }

  /** @returns {JsonValue} */
  readDocument() {
    const value = this.readValue(0);
    require(this.at === this.text.length, "not JSON");
    return value;
  }

  /**
   * Read a value with the white space around it.
   * @param {number} depth
   * @returns {JsonValue}
   */
  readValue(depth) {
    require(depth < MAX_JSON_DEPTH, "not JSON");
    this.skipSpace();
    const first = this.text[this.at];
    const value =
      first === '"'
        ? this.readString()
        : first === "["
          ? this.readArray(depth)
          : first === "{"
            ? this.readObject(depth)
            : this.readScalar();
    this.skipSpace();
    return value;
  }

  /**
   * Return what an expression matches here, and go behind it.
   * @param {RegExp} expression
   */
  match(expression) {
    expression.lastIndex = this.at;
    const found = expression.exec(this.text);
    if (found) this.at = expression.lastIndex;
    return found;
  }

  skipSpace() {
    const code = this.text.charCodeAt(this.at);
    if (code <= 32 && this.match(SPACE)?.[0]) this.canonical = false;
  }

  /** @param {string} character */
  take(character) {
    if (this.text[this.at] !== character) return false;
    this.at++;
    return true;
  }

  readString() {
    const token = this.match(STRING)?.[0] ?? reject("not JSON");
    if (!token.includes("\\")) return token.slice(1, -1);
    /** @type {string} */
    let value;
    try {
      value = JSON.parse(token);
    } catch {
      return reject("not JSON");
    }
    // JSON.stringify escapes lone surrogates, for which there is no canonical form.
    if (JSON.stringify(value) !== token || /\\u[dD]/.test(token)) this.canonical = false;
    return value;
  }

  /** @param {number} depth */
  readArray(depth) {
    /** @type {JsonValue[]} */
    const items = [];
    this.at++;
    this.skipSpace();
    if (this.take("]")) return items;
    do items.push(this.readValue(depth + 1));
    while (this.take(","));
    require(this.take("]"), "not JSON");
    return items;
  }

  /** @param {number} depth */
  readObject(depth) {
    /** @type {Map<string, JsonValue>} */
    const members = new Map();
    this.at++;
    this.skipSpace();
    if (this.take("}")) return members;
    do {
      this.skipSpace();
      const name = this.readString();
      this.skipSpace();
      require(this.take(":"), "not JSON");
      if (members.has(name)) this.canonical = false;
      members.set(name, this.readValue(depth + 1));
    } while (this.take(","));
    require(this.take("}"), "not JSON");
    return members;
  }

  readScalar() {
    const number = this.match(NUMBER);
    if (number) {
      if (number[2] || number[3]) rejectFloat(number[0]);
      if (number[1] === "-0") this.canonical = false;
      const value = Number(number[1]);
      // A larger integer is kept as it is: sums of amounts may be large.
      return Number.isSafeInteger(value) ? value : BigInt(number[1]);
    }
    const constant = this.match(CONSTANT)?.[0] ?? reject("not JSON");
    if (/[NI]/.test(constant)) rejectFloat(constant);
    return constant === "null" ? null : constant === "true";
  }
}

/**
 * Refuse numbers that are not integers, such as 1.5, 1e3 and NaN.
 * @param {string} text
 */
function rejectFloat(text) {
  reject(`${firstCharacters(text, 20)} is not an integer`);
}

/**
 * Parse JSON in canonical form; an object becomes a map, which keeps the order of its members.
 * @param {Uint8Array} data
 */
export function readJson(data) {
  const reader = new JsonReader(readUtf8(data));
  const value = reader.readDocument();
  require(reader.canonical, "JSON that is not in canonical form");
  return value;
}

/**
 * Parse JSON whose form is compared elsewhere; of members with one name, the last counts.
 * @param {Uint8Array} data
 */
export function readLooseJson(data) {
  return new JsonReader(readUtf8(data)).readDocument();
}

/**
 * Return JSON in canonical form, or as Python writes it with an indent of one space.
 * @param {JsonValue} value
 * @param {string | null} margin  the line break and indent of this value; null for none
 * @returns {string}
 */
export function writeJson(value, margin = null) {
  const isMap = value instanceof Map;
  if (!isMap && !Array.isArray(value)) {
    return typeof value === "bigint" ? String(value) : JSON.stringify(value);
  }
  const inner = margin === null ? null : `${margin} `;
  const colon = margin === null ? ":" : ": ";
  const items = isMap
    ? [...value].map(([name, item]) => JSON.stringify(name) + colon + writeJson(item, inner))
    : value.map((item) => writeJson(item, inner));
  const [open, close] = isMap ? "{}" : "[]";
  if (!items.length) return open + close;
  return margin === null
    ? open + items.join(",") + close
    : open + inner + items.join(`,${inner}`) + margin + close;
}

/**
 * Return whether two values are the same, in whatever order their members are.
 * @param {JsonValue | undefined} left
 * @param {JsonValue | undefined} right
 * @returns {boolean}
 */
export function equalJson(left, right) {
  if (left instanceof Map && right instanceof Map) {
    return left.size === right.size && [...left].every(([name, item]) => right.has(name) && equalJson(item, right.get(name)));
  }
  if (Array.isArray(left) && Array.isArray(right)) {
    return left.length === right.length && left.every((item, at) => equalJson(item, right[at]));
  }
  return left === right;
}
