import { Archive } from "./zip.js";
import { concatBytes, equalBytes, readBase64, readDecimal, readHash, readUtf8, toHex, writeUtf8 } from "./bytes.js";
import { readCheckpoint } from "./checkpoint.js";
import { isLabel } from "./entry.js";
import { readJson } from "./json.js";
import { readNote } from "./note.js";
import { reject, require } from "./rejected.js";
import { sha256 } from "./sha256.js";
import { MAX_BODY_BYTES, SharedBodies } from "./shared_bodies.js";
import { quote } from "./text.js";

/** The bundle: docs/spec/bundle.md. */

/** @typedef {import("./entry.js").Commitment} Commitment */
/** @typedef {import("./entry.js").Entry} Entry */

/**
 * A C2SP tlog-proof file: an index, an inclusion proof, and the checkpoint that it leads to.
 * @typedef {{at: bigint, nodes: Uint8Array[], note: Uint8Array}} Proof
 */

/**
 * An earlier checkpoint, and the proof that the checkpoint of the bundle continues it.
 * @typedef {{note: Uint8Array, nodes: Uint8Array[]}} PastCheckpoint
 */

const MAX_PROOF_LINES = 64;
const MAX_PAST = 69;
/** The version of a bundle whose bodies share bytes. */
const SHARED_BUNDLE = "forum/bundle/3";

const ENTRY_FILE = /^entries\/([0-9]{16})\.json$/;
const BODY_FILE = /^(bodies|spans)\/([0-9]{16})\/([a-z][a-z0-9._-]{0,31})$/;
const PIECE_FILE = /^pieces\/[0-9]{16}$/;
const PAST_FILE = /^past\/([0-9]{16})\.note$/;
const EXTRA_FILE = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/**
 * Return version, origin and run; the manifest must list exactly the other files.
 * @param {Archive} archive
 */
function readManifest(archive) {
  const data = archive.read("manifest.json");
  const value = readJson(data);
  const members = value instanceof Map ? value : new Map();
  const origin = members.get("origin");
  const run = members.get("run");
  const named = typeof origin === "string" && typeof run === "string";
  require(named, "the manifest has no origin or no run");
  require(isLabel(origin) && isLabel(run), "the origin or the run in the manifest is no label");
  const files = [...archive.members]
    .filter(([name]) => name !== "manifest.json")
    .map(([name, { size, digest }]) => [name, size, digest]);
  // Version 3 is in an archive of either form.
  const v = members.get("v") === SHARED_BUNDLE ? SHARED_BUNDLE : `forum/bundle/${archive.wide ? 2 : 1}`;
  const expected = { v, origin, run, files };
  const listed = equalBytes(writeUtf8(JSON.stringify(expected)), data);
  require(listed, "the files are not those that the manifest lists");
  return { v, origin, run };
}

/**
 * Return where the first empty line begins, or -1.
 * @param {Uint8Array} data
 */
function findEmptyLine(data) {
  for (let at = data.indexOf(10); at >= 0; at = data.indexOf(10, at + 1)) {
    if (data[at + 1] === 10) return at;
  }
  return -1;
}

/**
 * Parse a proof file.  No signature covers the optional extra line, which is ignored.
 * @param {Uint8Array} data
 * @param {(note: Uint8Array) => void} checkNote
 * @returns {Proof}
 */
export function readProof(data, checkNote) {
  const cut = findEmptyLine(data);
  const head = cut < 0 ? data : data.subarray(0, cut);
  const note = cut < 0 ? new Uint8Array() : data.subarray(cut + 2);
  const [header, ...lines] = readUtf8(head).split("\n");
  require(header === "c2sp.org/tlog-proof@v1", "not a proof file");
  if (lines[0]?.startsWith("extra ")) readBase64(/** @type {string} */ (lines.shift()).slice(6));
  require(lines[0]?.startsWith("index "), "the proof file has no index");
  require(lines.length <= MAX_PROOF_LINES, "the proof file has more than 63 hashes");
  checkNote(note);
  return { at: readDecimal(lines[0].slice(6)), nodes: lines.slice(1).map(readHash), note };
}

/**
 * Parse the hashes of a proof, one in each line.
 * @param {Uint8Array} data
 * @param {string} what
 */
function readHashLines(data, what) {
  const lines = readUtf8(data).split("\n");
  require(!lines.pop(), `the ${what} proof ends within a line`);
  return lines.map(readHash);
}

/**
 * Parse an earlier checkpoint, whose file is named by its size, and its consistency proof.
 * @param {bigint} size
 * @param {Uint8Array} note
 * @param {Uint8Array} proof
 * @returns {PastCheckpoint}
 */
export function readPast(size, note, proof) {
  const nodes = readHashLines(proof, "consistency");
  const sized = readCheckpoint(readNote(note).text).size === size;
  require(sized, "an earlier checkpoint has another size than its file name");
  return { note, nodes };
}

/**
 * Refuse more earlier checkpoints than any log needs: each may cost signatures.
 * @param {number} count
 */
export function checkPastCount(count) {
  require(count <= MAX_PAST, `${count} earlier checkpoints; at most ${MAX_PAST} are read`);
}

/** The contents of a well-formed bundle, not yet verified. */
export class BundleContents {
  /**
   * @param {Uint8Array} data
   * @param {number} maxBytes  how many bytes all bodies may have, if they share some
   */
  constructor(data, maxBytes = MAX_BODY_BYTES) {
    this.archive = new Archive(data);
    const { v, origin, run } = readManifest(this.archive);
    this.shares = v === SHARED_BUNDLE;
    this.origin = origin;
    this.run = run;
    this.checkpoint = this.archive.read("checkpoint");
    /** @type {bigint[]} */
    this.entries = [];
    /**
     * The index and name of each body, the digits of both, and its file, by `bodyKey`.
     * @type {Map<string, {index: bigint, name: string, place: string, file: string}>}
     */
    this.bodies = new Map();
    /** @type {Uint8Array[]} */
    this.pieces = [];
    /** @type {PastCheckpoint[]} */
    this.past = [];
    /** The last note of a proof that was found to be well-formed. */
    this.readableNote = new Uint8Array();
    this.#registerFiles();
    this.shared = new SharedBodies(this.pieces);
    if (this.shares) this.#checkLists(maxBytes);
  }

  /**
   * Check every list before any body is put together.
   * @param {number} maxBytes
   */
  #checkLists(maxBytes) {
    let inline = 0;
    const sorted = [...this.bodies].sort(([, left], [, right]) => (left.place < right.place ? -1 : 1));
    this.bodies = new Map(sorted);
    for (const [key, { file }] of sorted) {
      const data = this.archive.read(file);
      if (file.startsWith("spans/")) this.shared.add(key, data);
      else inline += data.length;
    }
    this.shared.finish(inline, maxBytes);
    readNote(this.checkpoint);
  }

  #registerFiles() {
    const { members } = this.archive;
    const names = new Set(["checkpoint", "manifest.json"]);
    checkPastCount([...members.keys()].filter((name) => PAST_FILE.test(name)).length);
    for (const name of members.keys()) {
      for (const needed of this.#register(name)) {
        if (!members.has(needed)) reject(`${needed} is missing`);
        names.add(needed);
      }
    }
    for (const name of members.keys()) {
      // Other files are enclosed for convenience and are not evidence.
      require(names.has(name) || EXTRA_FILE.test(name), "a file with an unknown name");
    }
  }

  /**
   * Register an entry, a body or an earlier checkpoint, and return the names of its files.
   * @param {string} name
   */
  #register(name) {
    const entry = ENTRY_FILE.exec(name);
    if (entry) {
      this.entries.push(BigInt(entry[1]));
      return [name, `proofs/${entry[1]}.${this.shares ? "inclusion" : "tlog-proof"}`];
    }
    const body = BODY_FILE.exec(name);
    if (body && (this.shares || body[1] === "bodies")) {
      const place = `${body[2]}/${body[3]}`;
      const index = BigInt(body[2]);
      const key = bodyKey(index, body[3]);
      if (this.bodies.has(key)) reject(`body ${quote(body[3])} of entry ${index} is there twice`);
      this.bodies.set(key, { index, name: body[3], place, file: name });
      return [name, `salts/${place}`];
    }
    if (this.shares && PIECE_FILE.test(name)) {
      // They are numbered without a gap.
      const expected = `pieces/${String(this.pieces.length).padStart(16, "0")}`;
      this.pieces.push(this.archive.read(name));
      return [name, expected];
    }
    const past = PAST_FILE.exec(name);
    if (past) {
      const proof = `past/${past[1]}.consistency`;
      const files = /** @type {const} */ ([this.archive.read(name), this.archive.read(proof)]);
      this.past.push(readPast(BigInt(past[1]), ...files));
      return [name, proof];
    }
    return [];
  }

  /**
   * Return the bytes of an entry.
   * @param {bigint} index
   */
  entry(index) {
    return this.archive.read(`entries/${digits(index)}.json`);
  }

  /**
   * Return the proof of an entry.
   * @param {bigint} index
   */
  proof(index) {
    if (this.shares) {
      const nodes = readHashLines(this.archive.read(`proofs/${digits(index)}.inclusion`), "inclusion");
      require(nodes.length < MAX_PROOF_LINES, "the proof file has more than 63 hashes");
      return { at: index, nodes, note: this.checkpoint };
    }
    return readProof(this.archive.read(`proofs/${digits(index)}.tlog-proof`), (note) => {
      // Nearly every proof encloses the same note: it is parsed once.
      if (equalBytes(note, this.readableNote)) return;
      readNote(note);
      this.readableNote = note;
    });
  }

  /**
   * Return the content of a body, or undefined if the bundle does not have it.
   * @param {bigint} index
   * @param {string} name
   */
  body(index, name) {
    const key = bodyKey(index, name);
    const list = this.shared.lists.get(key);
    if (list) return this.shared.read(list);
    const body = this.bodies.get(key);
    return body && this.archive.read(body.file);
  }

  /**
   * Return an entry without its bodies in spans, which are then not put together.
   *
   * A short list describes a long body: whoever made up the entry must not have it hashed.
   * @param {bigint} index
   * @param {Entry} entry
   * @returns {Entry}
   */
  withoutSpans(index, entry) {
    const bodies = [...entry.bodies].filter(([name]) => !this.shared.lists.has(bodyKey(index, name)));
    return { ...entry, bodies: new Map(bodies) };
  }

  /**
   * Return whether the bundle has a body.
   * @param {bigint} index
   * @param {string} name
   */
  hasBody(index, name) {
    return this.bodies.has(bodyKey(index, name));
  }

  /**
   * Return whether a body that is there matches the commitment in its entry.
   * @param {bigint} index
   * @param {string} name
   * @param {Commitment} commitment
   */
  hasMatchingBody(index, name, commitment) {
    const body = this.bodies.get(bodyKey(index, name));
    if (!body) return false;
    const list = this.shared.lists.get(bodyKey(index, name));
    const salt = this.archive.read(`salts/${body.place}`);
    const size = list ? list.size : this.archive.read(body.file).length;
    if (salt.length !== 32 || size !== commitment.size) return false;
    const length = new Uint8Array(8);
    new DataView(length.buffer).setBigUint64(0, BigInt(size));
    const content = /** @type {Uint8Array} */ (this.body(index, name));
    const message = concatBytes(writeUtf8("forum/body/1\0"), salt, length, content);
    return toHex(sha256(message)) === commitment.h;
  }
}

/** @param {bigint} index */
function digits(index) {
  return String(index).padStart(16, "0");
}

/**
 * Return the key by which the body of an entry is found.
 * @param {bigint} index
 * @param {string} name
 */
export function bodyKey(index, name) {
  return `${index}/${name}`;
}
