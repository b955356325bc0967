import { readDecimal, readUtf8 } from "./bytes.js";
import { LOG_KEY, WITNESS_KEY, readKey } from "./note.js";
import { reject, require, unlessRejected } from "./rejected.js";
import { quote } from "./text.js";

/** The reader's trust file: C2SP tlog-policy, and our line `independent NAME`. */

// A pack encloses a trust file that anybody can have written.
const MAX_SIZE = 1 << 20;
const MAX_LINES = 1000;

/** @typedef {import("./note.js").Key} Key */
/** @typedef {import("./checkpoint.js").Cosignature} Cosignature */

/** The logs and witnesses that the reader trusts, and the quorum that must have cosigned. */
export class Policy {
  /** @param {Uint8Array} data */
  constructor(data) {
    /** @type {Key[]} */
    this.logs = [];
    /** @type {Map<string, Key>} */
    this.witnesses = new Map();
    /** @type {{name: string, least: number, members: string[]}[]} */
    this.groups = [];
    /** @type {string[]} */
    this.quorums = [];
    /** The witnesses that the reader marks as another organization's. @type {string[]} */
    this.independent = [];
    /** The names of the witnesses and groups. @type {Set<string>} */
    this.names = new Set();
    require(data.length <= MAX_SIZE, `the trust file is longer than ${MAX_SIZE} bytes`);
    require(!data.some(isControl), "the trust file contains a control character");
    require(data.at(-1) === 0x0a, "the trust file does not end in a newline");
    const used = readLines(data).filter((words) => words.length && !words[0].startsWith("#"));
    require(used.length <= MAX_LINES, `the trust file has more than ${MAX_LINES} lines`);
    for (const words of used) this.#readLine(words);
    const quorums = this.quorums.length;
    if (quorums !== 1) reject(`the trust file has ${quorums} quorum lines`);
    this.#checkNothingTwice();
    /** The names of the witnesses by their vkeys. */
    this.namesByKey = new Map([...this.witnesses].map(([name, key]) => [key.text, name]));
  }

  /** Refuse a key with two names and a member of two groups: it would count twice. */
  #checkNothingTwice() {
    for (const keys of [this.logs, [...this.witnesses.values()]]) {
      const distinct = new Set(keys.map((key) => key.material.join()));
      require(distinct.size === keys.length, "a key is listed twice");
    }
    const marks = this.independent;
    require(new Set(marks).size === marks.length, "a witness is marked twice");
    const logs = new Set(this.logs.map((key) => key.material.join()));
    for (const [name, key] of this.witnesses) {
      const isOwn = marks.includes(name) && logs.has(key.material.join());
      if (isOwn) reject(`${key.name} has the key of the log`);
    }
    const members = this.groups.flatMap((group) => group.members);
    require(new Set(members).size === members.length, "a group member is listed twice");
  }

  /** @param {string[]} words */
  #readLine(words) {
    const { names } = this;
    const [first, name] = words;
    const count = words.length;
    const free = name !== "none" && !names.has(name);
    if (first === "log" && (count === 2 || count === 3)) {
      this.logs.push(readKeyOfType(name, LOG_KEY));
    } else if (first === "witness" && (count === 3 || count === 4) && free) {
      this.witnesses.set(name, readKeyOfType(words[2], WITNESS_KEY));
      names.add(name);
    } else if (first === "group" && count > 3 && free) {
      this.#addGroup(name, words[2], words.slice(3));
      names.add(name);
    } else if (first === "quorum" && count === 2 && (name === "none" || names.has(name))) {
      this.quorums.push(name);
    } else if (first === "independent" && count === 2 && this.witnesses.has(name)) {
      // Whoever chose this name says that the witness is on the machine of its log.
      const witness = this.witnesses.get(name)?.name ?? "";
      if (isLocalWitness(witness)) reject(`${witness} is on the machine of its log`);
      this.independent.push(name);
    } else {
      reject(`invalid line, or a name that is taken or undefined: ${quote(words.join(" "))}`);
    }
  }

  /**
   * @param {string} name
   * @param {string} threshold
   * @param {string[]} members
   */
  #addGroup(name, threshold, members) {
    const least =
      threshold === "any" ? 1 : threshold === "all" ? members.length : Number(readDecimal(threshold));
    if (least < 1 || least > members.length) {
      reject(`invalid threshold ${threshold} of group ${name}`);
    }
    const defined = members.every((member) => this.names.has(member));
    if (!defined) reject(`a member of group ${name} is not defined above it`);
    this.groups.push({ name, least, members });
  }

  /**
   * Return whether these cosignatures reach the quorum; there must be at least one.
   * @param {Cosignature[]} cosignatures
   */
  isSatisfiedBy(cosignatures) {
    // By the keys that there are: a pack asks for thousands of records, of a policy of hundreds.
    const known = cosignatures.map(({ key }) => this.namesByKey.get(key.text) ?? "none");
    const names = new Set(["none", ...known]);
    for (const { name, least, members } of this.groups) {
      if (members.filter((member) => names.has(member)).length >= least) names.add(name);
    }
    return cosignatures.length > 0 && names.has(this.quorums[0]);
  }

  /**
   * Return whether the reader marks a witness as run by another organization.
   *
   * A mark does not say of which log, so it counts only if the file and the other keys that the
   * reader has named are of one.
   * @param {Key} key
   * @param {Key[]} named
   */
  isIndependent(key, named = []) {
    const logs = [...named, ...this.logs];
    if (new Set(logs.map((log) => log.name)).size > 1) return false;
    if (logs.some((log) => log.material.join() === key.material.join())) return false;
    return this.independent.some((name) => this.witnesses.get(name)?.text === key.text);
  }

  /**
   * Return the earliest time, in seconds, by which the quorum had cosigned; 0 if unknown.
   *
   * A cosignature with time 0 states no time: it counts for the quorum, but not here.
   * @param {Cosignature[]} cosignatures
   */
  quorumTime(cosignatures) {
    const timed = cosignatures.filter(({ time }) => time);
    timed.sort((one, other) => (one.time < other.time ? -1 : one.time > other.time ? 1 : 0));
    const last = timed.find((_, at) => this.isSatisfiedBy(timed.slice(0, at + 1)));
    return last ? last.time : 0n;
  }

  /** Return the smallest number of witnesses that can reach the quorum, and at least one. */
  minWitnesses() {
    const needed = new Map([...this.witnesses.keys()].map((name) => [name, 1]));
    for (const { name, least, members } of this.groups) {
      const counts = members.map((member) => needed.get(member) ?? 0).sort((a, b) => a - b);
      needed.set(name, counts.slice(0, least).reduce((sum, count) => sum + count, 0));
    }
    return needed.get(this.quorums[0]) ?? 1;
  }
}

/**
 * Return whether the name of a witness says that it is on the writer's own machine.
 * @param {string} witness
 */
export function isLocalWitness(witness) {
  return witness.toLowerCase().startsWith("forum.local/witness/");
}

/** @param {number} byte */
function isControl(byte) {
  return byte < 0x09 || (byte > 0x0a && byte < 0x20) || byte === 0x7f;
}

/**
 * Return the words of each line.  Only words that are used must be UTF-8, not those of comments.
 * @param {Uint8Array} data
 */
function readLines(data) {
  /** @type {string[][]} */
  const lines = [[]];
  for (let start = 0; start < data.length; start++) {
    let end = start;
    while (data[end] > 0x20) end++;
    if (end > start) lines[lines.length - 1].push(decodeWord(data.subarray(start, end)));
    if (data[end] === 0x0a) lines.push([]);
    start = end;
  }
  return lines;
}

/**
 * Decode a word; bytes that are not UTF-8 become lone surrogates, which no key may have.
 * @param {Uint8Array} word
 */
function decodeWord(word) {
  return unlessRejected(
    () => readUtf8(word),
    () => String.fromCharCode(...[...word].map((byte) => (byte < 0x80 ? byte : 0xdc00 + byte))),
  );
}

/**
 * @param {string} text
 * @param {number} algorithm
 */
function readKeyOfType(text, algorithm) {
  const key = readKey(text);
  if (key.algorithm !== algorithm) reject(`${key.name}: wrong signature type for this line`);
  return key;
}

/**
 * Return the times of checkpoints in the order of their sizes, inconsistent ones set to 0.
 *
 * A larger tree is cosigned later.  The largest set of times that agrees with this order is kept;
 * of several such sets, the one with the latest checkpoints.  Times that are 0 are ignored.
 * @param {bigint[]} times
 */
export function consistentTimes(times) {
  // For each length of a chain, the index of the checkpoint with the smallest time that ends one.
  /** @type {number[]} */
  const ends = [];
  /** @type {Map<number, number>} */
  const before = new Map();
  times.forEach((time, at) => {
    if (!time) return;
    let length = ends.length;
    while (length && times[ends[length - 1]] > time) length--;
    before.set(at, length ? ends[length - 1] : -1);
    ends[length] = at;
  });
  const selected = times.map(() => 0n);
  for (let at = ends.at(-1) ?? -1; at >= 0; at = before.get(at) ?? -1) selected[at] = times[at];
  return selected;
}
