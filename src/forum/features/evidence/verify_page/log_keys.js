import { includesBytes, readBase64, writeUtf8 } from "./bytes.js";
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
 *
 * `facts` are those that both keys have signed; null in an entry of release 0.2.
 * @typedef {{
 *   at: bigint, oldKey: Key, newKey: Key, facts: Map<string, any> | null,
 * }} KeyRotation
 */

/**
 * The size of a checkpoint, and its note, whose signatures are verified when they decide.
 * @typedef {{size: bigint, note: import("./note.js").Note}} SignedTree
 */

const MAX_ROTATIONS = 64;
const ROTATION_MARK = writeUtf8('"key.rotate/');

/**
 * Return whether both keys have signed the statement of an entry.
 * @param {string} kind
 * @param {string} origin
 * @param {Map<string, any>} facts
 * @param {[Key, Key]} keys
 */
export function keysHaveSigned(kind, origin, facts, keys) {
  const [signer, key] = keys;
  const lines = [`forum/${kind}`, origin, facts.get("since"), signer.text, key.text];
  const message = writeUtf8(lines.map((line) => `${line}\n`).join(""));
  const check = () =>
    signatureHolds(signer.material, message, readBase64(facts.get("signed"))) &&
    signatureHolds(key.material, message, readBase64(facts.get("proof")));
  return unlessRejected(check, () => false);
}

/** @param {Uint8Array} data */
export function isRotationNamed(data) {
  return includesBytes(data, ROTATION_MARK);
}

/**
 * Refuse more hand-overs of a log than any log needs: each may cost signatures.
 * @param {number} count
 */
export function checkRotationCount(count) {
  require(count <= MAX_ROTATIONS, `more than ${MAX_ROTATIONS} hand-overs of the log`);
}

/**
 * Return the key rotation that an entry records, if it records one of this log.
 * @param {string} origin
 * @param {bigint} index
 * @param {Uint8Array} data
 * @param {Kinds} kinds
 * @returns {KeyRotation | null}
 */
export function readKeyRotation(origin, index, data, kinds) {
  if (!isRotationNamed(data)) return null;
  const read = () => {
    const { kind, run, strand, log, facts } = readEntry(data, kinds);
    const isRotation = kind === "key.rotate/1" || kind === "key.rotate/2";
    if (!isRotation || run !== "log" || strand !== "keys") return null;
    const oldKey = readKey(facts.get("old"));
    const newKey = readKey(facts.get("vkey"));
    const ours = [oldKey, newKey].every((key) => isLogKey(key, origin));
    require(ours && oldKey.text !== newKey.text && log === origin, "not a rotation of this log");
    require(index >= BigInt(facts.get("since") ?? 0), "not a rotation at this index");
    return { at: index, oldKey, newKey, facts: kind === "key.rotate/2" ? facts : null };
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
  const named = bundle.entries.filter((index) => isRotationNamed(bundle.entry(index)));
  checkRotationCount(named.length);
  return named.flatMap((index) => {
    if (!isProven(bundle, index, tree)) return [];
    return readKeyRotation(bundle.origin, index, bundle.entry(index), kinds) ?? [];
  });
}

/**
 * Return whether an entry of a bundle is in the tree, which is checked before it costs more.
 * @param {BundleContents} bundle
 * @param {bigint} index
 * @param {Checkpoint} tree
 */
export function isProven(bundle, index, tree) {
  const prove = () => {
    const proof = bundle.proof(index);
    checkInclusion(proof.nodes, hashLeaf(bundle.entry(index)), index, tree);
    return proof.at === index;
  };
  return unlessRejected(prove, () => false);
}

/**
 * @param {Key} key
 * @param {string} origin
 */
function isLogKey(key, origin) {
  return key.name === origin && key.algorithm === LOG_KEY;
}

/**
 * Return a checkpoint with its signatures, or null if it is malformed.
 * @param {Uint8Array} data
 * @returns {SignedTree | null}
 */
function readSignedTree(data) {
  const read = () => {
    const note = readNote(data);
    return { note, size: readCheckpoint(note.text).size };
  };
  return unlessRejected(read, () => null);
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
    this.origin = origin;
    this.pinned = pinned.filter((key) => isLogKey(key, origin));
    this.accepted = [...this.pinned];
    /** The smallest tree that a key may sign. @type {Map<string, bigint>} */
    this.since = new Map();
    /** The largest tree that a key may sign. @type {Map<string, bigint>} */
    this.until = new Map();
    /** The indexes of the rotations that were followed. @type {Set<bigint>} */
    this.followed = new Set();
    /** The keys that have handed the log over. @type {Set<string>} */
    this.retired = new Set();
    const known = this.pinned.length ? rotations : [];
    if (known.length) this.#acceptRotations(known, notes);
    /** One sentence for each hand-over, followed or not. */
    this.notices = known.map((rotation) => this.#describe(rotation));
  }

  /**
   * @param {KeyRotation[]} rotations
   * @param {Uint8Array[]} notes
   */
  #acceptRotations(rotations, notes) {
    const known = notes.flatMap((note) => readSignedTree(note) ?? []);
    for (const rotation of rotations) {
      if (this.#isAccepted(rotation.oldKey) && this.#isSigned(rotation)) {
        this.#acceptRotation(rotation, rotation.oldKey, known);
      }
    }
    for (const rotation of [...rotations].reverse()) {
      const leads = () => (rotation.facts ? this.#isSigned(rotation) : this.#leadsBack(rotation));
      if (this.#isAccepted(rotation.newKey) && leads()) {
        this.#acceptRotation(rotation, rotation.newKey, known);
      }
    }
  }

  /** @param {Key} key */
  #isAccepted({ text }) {
    return this.accepted.some((key) => key.text === text);
  }

  /** @param {KeyRotation} rotation */
  #isSigned({ at, oldKey, newKey, facts }) {
    if (!facts) return false;
    const keys = /** @type {[Key, Key]} */ ([oldKey, newKey]);
    return this.followed.has(at) || keysHaveSigned("key.rotate/2", this.origin, facts, keys);
  }

  /**
   * Return whether an unsigned rotation may lead from an accepted key to an earlier one.
   *
   * Of two keys that the reader pins, the first is the newer: a writer must not turn them round.
   * @param {KeyRotation} rotation
   */
  #leadsBack({ oldKey, newKey }) {
    const [old, newer] = [oldKey, newKey].map(({ text }) =>
      this.pinned.findIndex((key) => key.text === text),
    );
    return old < 0 || (newer >= 0 && newer < old);
  }

  /**
   * Accept both keys of a rotation if a tree that the accepted one signed contains it.
   *
   * The old key is valid only up to the first tree that the new key has signed.
   * @param {KeyRotation} rotation
   * @param {Key} signer
   * @param {SignedTree[]} trees
   */
  #acceptRotation({ at, oldKey, newKey, facts }, signer, trees) {
    if (!trees.some((tree) => tree.size > at && this.#hasSigned(signer, tree))) return;
    this.followed.add(at);
    this.retired.add(oldKey.text);
    this.accepted = uniqueKeys([...this.accepted, oldKey, newKey]);
    if (facts) this.since.set(newKey.text, at + 1n);
    const sizes = trees
      .filter((tree) => tree.size > at && this.#hasSigned(newKey, tree))
      .map(({ size }) => size);
    const until = this.until.get(oldKey.text);
    if (until !== undefined) sizes.push(until);
    // A reader who pins the new key knows that it is in use: then the old one ends in any case.
    const isPinned = this.pinned.some((key) => key.text === newKey.text);
    if (!sizes.length && isPinned) sizes.push(at);
    if (sizes.length) {
      const least = sizes.reduce((one, other) => (one < other ? one : other));
      this.until.set(oldKey.text, least);
    }
  }

  /**
   * Return whether a key may sign a tree of this size.
   * @param {string} key
   * @param {bigint} size
   */
  maySign(key, size) {
    const since = this.since.get(key) ?? 0n;
    const until = this.until.get(key) ?? size;
    return this.accepted.some(({ text }) => text === key) && since <= size && size <= until;
  }

  /**
   * @param {Key} key
   * @param {SignedTree} tree
   */
  #hasSigned(key, { size, note }) {
    if (!this.maySign(key.text, size)) return false;
    const [first] = signaturesBy(note, [key]);
    return first !== undefined && signatureHolds(key.material, writeUtf8(note.text), first.blob);
  }

  /** @param {KeyRotation} rotation */
  #describe({ at, oldKey, newKey, facts }) {
    const text = `entry ${at} hands the log over from key ${oldKey.id} to key ${newKey.id}`;
    const isFollowed = this.followed.has(at);
    if (facts) {
      const refused =
        "it was not followed, because a signature does not hold, or nothing leads to it";
      return `${text}: ${isFollowed ? "both have signed that" : refused}`;
    }
    const back = "it was read back from the key that you pin";
    const refused = "it was not followed; ask the owner for the newest key, and pin that one";
    const unsigned = `${text} without their signatures, as release 0.2 wrote it`;
    return `${unsigned}: ${isFollowed ? back : refused}`;
  }

  /**
   * Refuse a checkpoint that is not signed by a key that was valid at its size.
   * @param {Uint8Array} note
   */
  checkSigner(note) {
    const several = this.pinned.filter(({ text }) => !this.retired.has(text)).length > 1;
    require(
      !several,
      "you pin several keys of this log, and no hand-over between them is here; pin the newest one " +
        "only; if this was exported before the hand-over, ask for a new export",
    );
    if (!this.followed.size) return;
    const tree = readSignedTree(note);
    const allowed = tree && this.accepted.some((key) => this.#hasSigned(key, tree));
    require(allowed, "signed by a key that was not valid at this size");
  }
}
