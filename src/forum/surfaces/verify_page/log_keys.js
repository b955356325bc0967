import { includesBytes, writeUtf8 } from "./bytes.js";
import { readCheckpoint } from "./checkpoint.js";
import { signatureHolds } from "./ed25519.js";
import { readEntry } from "./entry.js";
import { LOG_KEY, readKey, readNote, signaturesBy, uniqueKeys } from "./note.js";
import { require, unlessRejected } from "./rejected.js";
import { checkConsistency, checkInclusion, hashLeaf } from "./tree.js";

/** The keys of a log: docs/spec/entry.md, Keys of a log. */

/** @typedef {import("./bundle.js").BundleContents} BundleContents */
/** @typedef {import("./kinds.js").Kinds} Kinds */
/** @typedef {import("./note.js").Key} Key */
/** @typedef {import("./tree.js").Checkpoint} Checkpoint */

/**
 * A rotation from one log key to the next, recorded by the entry at this index.
 * @typedef {{at: bigint, oldKey: Key, newKey: Key}} KeyRotation
 */

/**
 * The size of a checkpoint, and the texts of the log keys whose signatures on it are valid.
 * @typedef {{size: bigint, signers: Set<string>}} SignedTree
 */

const ROTATION_MARK = writeUtf8('"key.rotate/1"');

/**
 * Return the key rotation that an entry records, if it records one of this log.
 * @param {string} origin
 * @param {bigint} index
 * @param {Uint8Array} data
 * @param {Kinds} kinds
 * @returns {KeyRotation | null}
 */
export function readKeyRotation(origin, index, data, kinds) {
  if (!includesBytes(data, ROTATION_MARK)) return null;
  const read = () => {
    const { kind, run, strand, log, facts } = readEntry(data, kinds);
    if (kind !== "key.rotate/1" || run !== "log" || strand !== "keys") return null;
    const oldKey = readKey(facts.get("old"));
    const newKey = readKey(facts.get("vkey"));
    const ours = [oldKey, newKey].every((key) => isLogKey(key, origin));
    require(ours && oldKey.text !== newKey.text && log === origin, "not a rotation of this log");
    return { at: index, oldKey, newKey };
  };
  // What is wrong with it is reported when the entry is checked.
  return unlessRejected(read, () => null);
}

/**
 * Return the rotations of a bundle that are proven to be in the tree.
 * @param {BundleContents} bundle
 * @param {Checkpoint} tree
 * @param {Kinds} kinds
 */
function readRotations(bundle, tree, kinds) {
  return bundle.entries.flatMap((index) => {
    const data = bundle.entry(index);
    const rotation = readKeyRotation(bundle.origin, index, data, kinds);
    if (!rotation) return [];
    const prove = () => {
      const proof = bundle.proof(index);
      require(proof.at === index, "the proof is for another entry");
      checkInclusion(proof.nodes, hashLeaf(data), index, tree);
      return [rotation];
    };
    return unlessRejected(prove, () => []);
  });
}

/**
 * @param {Key} key
 * @param {string} origin
 */
function isLogKey(key, origin) {
  return key.name === origin && key.algorithm === LOG_KEY;
}

/**
 * Return the size and the signers of a checkpoint, or null if it is malformed.
 * @param {Uint8Array} data
 * @param {Key[]} keys
 * @returns {SignedTree | null}
 */
function readSignedTree(data, keys) {
  const read = () => {
    const note = readNote(data);
    return { note, size: readCheckpoint(note.text).size };
  };
  const signed = unlessRejected(read, () => null);
  if (!signed) return null;
  const text = writeUtf8(signed.note.text);
  /** @type {Map<string, boolean>} */
  const results = new Map();
  for (const { key, blob } of signaturesBy(signed.note, keys)) {
    // Of several signatures by one key, the first counts.
    if (!results.has(key.text)) results.set(key.text, signatureHolds(key.material, text, blob));
  }
  const signers = [...results].filter(([, holds]) => holds).map(([keyText]) => keyText);
  return { size: signed.size, signers: new Set(signers) };
}

/**
 * Return the checkpoint and the earlier ones that it continues, whoever signed them.
 * @param {Uint8Array} newest
 * @param {import("./bundle.js").PastCheckpoint[]} earlier
 * @param {Checkpoint} tree
 */
export function continuedNotes(newest, earlier, tree) {
  const continued = earlier.filter((past) =>
    unlessRejected(
      () => {
        checkConsistency(past.nodes, readCheckpoint(readNote(past.note).text), tree);
        return true;
      },
      () => false,
    ),
  );
  return [newest, ...continued.map((past) => past.note)];
}

/**
 * Return the keys of the log that follow from the rotations in a bundle.
 * @param {BundleContents} bundle
 * @param {Key[]} pinned
 * @param {Kinds} kinds
 */
export function bundleKeys(bundle, pinned, kinds) {
  const tree = unlessRejected(
    () => readCheckpoint(readNote(bundle.checkpoint).text),
    () => null,
  );
  if (!tree) return new LogKeys(bundle.origin, pinned, [], []);
  const notes = continuedNotes(bundle.checkpoint, bundle.past, tree);
  return new LogKeys(bundle.origin, pinned, readRotations(bundle, tree, kinds), notes);
}

/** The keys of the log that follow from the reader's keys by key rotations. */
export class LogKeys {
  /**
   * @param {string} origin
   * @param {Key[]} pinned
   * @param {KeyRotation[]} rotations
   * @param {Uint8Array[]} notes  the checkpoints of one history
   */
  constructor(origin, pinned, rotations, notes) {
    this.accepted = pinned.filter((key) => isLogKey(key, origin));
    /** The smallest tree that a key may sign. @type {Map<string, bigint>} */
    this.since = new Map();
    /** The largest tree that a key may sign. @type {Map<string, bigint>} */
    this.until = new Map();
    if (rotations.length && this.accepted.length) this.#acceptRotations(rotations, notes);
  }

  /**
   * @param {KeyRotation[]} rotations
   * @param {Uint8Array[]} notes
   */
  #acceptRotations(rotations, notes) {
    const rotated = rotations.flatMap(({ oldKey, newKey }) => [oldKey, newKey]);
    const keys = uniqueKeys([...this.accepted, ...rotated]);
    const trees = notes
      .map((note) => readSignedTree(note, keys))
      .filter((signed) => signed !== null && signed.signers.size > 0);
    const known = /** @type {SignedTree[]} */ (trees);
    for (const rotation of rotations) this.#acceptRotation(rotation, rotation.oldKey, known);
    for (const rotation of [...rotations].reverse()) {
      this.#acceptRotation(rotation, rotation.newKey, known);
    }
  }

  /**
   * Accept both keys of a rotation if one of them is, and a tree that it signed contains it.
   *
   * The old key is valid only up to the first tree that the new key has signed.
   * @param {KeyRotation} rotation
   * @param {Key} signer
   * @param {SignedTree[]} trees
   */
  #acceptRotation({ at, oldKey, newKey }, signer, trees) {
    if (!this.accepted.some((key) => key.text === signer.text)) return;
    if (!trees.some((tree) => tree.size > at && this.#maySign(signer.text, tree))) return;
    this.accepted = uniqueKeys([...this.accepted, oldKey, newKey]);
    this.since.set(newKey.text, at + 1n);
    for (const { size, signers } of trees) {
      const until = this.until.get(oldKey.text) ?? size;
      if (signers.has(newKey.text) && size > at && size <= until) {
        this.until.set(oldKey.text, size);
      }
    }
  }

  /**
   * @param {string} key
   * @param {SignedTree} tree
   */
  #maySign(key, { size, signers }) {
    const since = this.since.get(key) ?? 0n;
    const until = this.until.get(key) ?? size;
    return signers.has(key) && since <= size && size <= until;
  }

  /**
   * Refuse a checkpoint that is not signed by a key that was valid at its size.
   * @param {Uint8Array} note
   */
  checkSigner(note) {
    if (!this.since.size) return;
    const tree = readSignedTree(note, this.accepted);
    const allowed = tree && [...tree.signers].some((key) => this.#maySign(key, tree));
    require(allowed, "signed by a key that was not valid at this size");
  }
}
