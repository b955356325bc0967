import { checkPastCount, readPast } from "./bundle.js";
import { equalBytes, readBase64, readHash, readUtf8, writeUtf8 } from "./bytes.js";
import { readCheckpoint } from "./checkpoint.js";
import { isCount } from "./entry.js";
import { readJson } from "./json.js";
import { readNote } from "./note.js";
import { require } from "./rejected.js";
import { EMPTY_ROOT, hashLeaf, hashNode } from "./tree.js";

/** The log part of a pack: its entries by index, and the trees that they lead to. */

/** @typedef {import("./bundle.js").PastCheckpoint} PastCheckpoint */
/** @typedef {import("./tree.js").Checkpoint} Checkpoint */
/** @typedef {import("./zip.js").Archive} Archive */

/** A perfect tree: its height and its root. @typedef {{height: number, root: Uint8Array}} PerfectTree */

/** @typedef {{index: bigint, data: Uint8Array, proof: string[]}} EarlierEntry */

const PAST_NOTE = /^log\/past\/.*\.note$/;
export const SEEN_NOTE = /^log\/seen\/[0-9]{16}\.note$/;
const MAX_SEEN = 3;
const TILE_WIDTH = 256n;
const HASH_BYTES = 32;

/**
 * @param {Archive} archive
 * @param {string} name
 */
function readFileLines(archive, name) {
  const lines = readUtf8(archive.read(name)).split("\n");
  require(!lines.pop(), `${name} ends within a line`);
  return lines;
}

/**
 * @param {string} line
 * @returns {EarlierEntry}
 */
function readEarlier(line) {
  const value = readJson(writeUtf8(line));
  const members = value instanceof Map ? value : new Map();
  const index = members.get("index");
  const formed = [...members.keys()].join(" ") === "index entry proof" && isCount(index);
  const proof = members.get("proof");
  const texts = [members.get("entry"), ...(Array.isArray(proof) ? proof : [0])];
  const typed = formed && texts.every((text) => typeof text === "string");
  require(typed, "log/earlier.jsonl: not an earlier entry");
  return { index: BigInt(/** @type {number} */ (index)), data: writeUtf8(texts[0]), proof };
}

export class PackLog {
  /**
   * @param {Archive} archive
   * @param {string} origin
   */
  constructor(archive, origin) {
    this.endNote = archive.read("log/end.note");
    this.end = readCheckpoint(readNote(this.endNote).text);
    /** @type {Uint8Array | null} */
    this.startNote = archive.members.has("log/start.note") ? archive.read("log/start.note") : null;
    /** @type {Checkpoint} */
    this.start = this.startNote
      ? readCheckpoint(readNote(this.startNote).text)
      : { origin, size: 0n, root: EMPTY_ROOT };
    this.edge = readFileLines(archive, "log/edge").map(readBase64);
    this.nodes = readFileLines(archive, "log/consistency").map(readHash);
    this.entries = readFileLines(archive, "log/entries.jsonl").map((line) => writeUtf8(line));
    this.earlier = readFileLines(archive, "log/earlier.jsonl").map(readEarlier);
    const notes = [...archive.members.keys()].filter((name) => PAST_NOTE.test(name));
    checkPastCount(notes.length);
    /** @type {PastCheckpoint[]} */
    this.past = notes.map((name) => {
      const proof = archive.read(`${name.slice(0, 25)}.consistency`);
      return readPast(BigInt(name.slice(9, 25)), archive.read(name), proof);
    });
    const seen = [...archive.members.keys()].filter((name) => SEEN_NOTE.test(name)).sort();
    require(seen.length <= MAX_SEEN, `log/seen has ${seen.length} checkpoints`);
    /** The checkpoints between the two trees. @type {{size: bigint, root: Uint8Array, note: Uint8Array}[]} */
    this.seen = seen.map((name) => {
      const note = archive.read(name);
      const { size, root } = readCheckpoint(readNote(note).text);
      require(size === BigInt(name.slice(9, 25)), "log/seen: a checkpoint of another size");
      return { size, root, note };
    });
  }

  /**
   * Return all entries with their indexes, in the order of the log.
   * @returns {{index: bigint, data: Uint8Array}[]}
   */
  indexedEntries() {
    const between = this.entries.map((data, at) => ({ index: this.start.size + BigInt(at), data }));
    return [...this.earlier.map(({ index, data }) => ({ index, data })), ...between];
  }

  /**
   * Return the root that the edge leads to, and the one after the entries.
   *
   * Return as well the sizes in log/seen of which the entries lead to another root.
   *
   * A tree is a list of perfect trees of falling height; equal neighbours become one.
   */
  computeRoots() {
    /** @type {number[]} */
    const widths = [];
    for (let size = this.start.size; size; size /= TILE_WIDTH) {
      widths.push(Number(size % TILE_WIDTH) * HASH_BYTES);
    }
    // Tiles of another width could have the same root: a node is the hash of joined children.
    const formed = this.edge.map((tile) => tile.length).join() === widths.join();
    require(formed, "log/edge does not have the form of a tree of this size");
    /** @type {PerfectTree[]} */
    const trees = [];
    for (let level = this.edge.length - 1; level >= 0; level--) {
      const tile = this.edge[level];
      for (let at = 0; at < tile.length; at += HASH_BYTES) {
        addTree(trees, 8 * level, tile.slice(at, at + HASH_BYTES));
      }
    }
    const start = joinTrees(trees);
    const others = new Map(this.seen.map(({ size, root }) => [size, root]));
    this.entries.forEach((data, at) => {
      addTree(trees, 0, hashLeaf(data));
      const size = this.start.size + BigInt(at) + 1n;
      const root = others.get(size);
      if (root && equalBytes(root, joinTrees(trees))) others.delete(size);
    });
    return { start, end: joinTrees(trees), others: [...others.keys()] };
  }
}

/**
 * Append a perfect tree to a list of them.
 * @param {PerfectTree[]} trees
 * @param {number} height
 * @param {Uint8Array} root
 */
function addTree(trees, height, root) {
  let joined = { height, root };
  while (trees.at(-1)?.height === joined.height) {
    const left = /** @type {PerfectTree} */ (trees.pop());
    joined = { height: joined.height + 1, root: hashNode(left.root, joined.root) };
  }
  trees.push(joined);
}

/**
 * Return the root above a list of perfect trees.
 * @param {PerfectTree[]} trees
 */
function joinTrees(trees) {
  if (!trees.length) return EMPTY_ROOT;
  return trees
    .slice(0, -1)
    .reduceRight((root, left) => hashNode(left.root, root), trees[trees.length - 1].root);
}
