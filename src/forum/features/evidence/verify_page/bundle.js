import { Archive } from "./zip.js";
import { concatBytes, equalBytes, readBase64, readDecimal, readHash, readUtf8, toHex, writeUtf8 } from "./bytes.js";
import { readCheckpoint } from "./checkpoint.js";
import { isLabel } from "./entry.js";
import { readJson } from "./json.js";
import { readNote } from "./note.js";
import { reject, require } from "./rejected.js";
import { sha256 } from "./sha256.js";

/** The bundle: docs/spec/bundle.md. */

/** @typedef {import("./entry.js").Commitment} Commitment */

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

const ENTRY_FILE = /^entries\/([0-9]{16})\.json$/;
const BODY_FILE = /^bodies\/([0-9]{16})\/([a-z][a-z0-9._-]{0,31})$/;
const PAST_FILE = /^past\/([0-9]{16})\.note$/;
const EXTRA_FILE = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/**
 * Return the origin and the run in the manifest, which must list exactly the other files.
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
  const expected = { v: `forum/bundle/${archive.wide ? 2 : 1}`, origin, run, files };
  const listed = equalBytes(writeUtf8(JSON.stringify(expected)), data);
  require(listed, "the files are not those that the manifest lists");
  return { origin, run };
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
 * Parse an earlier checkpoint, whose file is named by its size, and its consistency proof.
 * @param {bigint} size
 * @param {Uint8Array} note
 * @param {Uint8Array} proof
 * @returns {PastCheckpoint}
 */
export function readPast(size, note, proof) {
  const lines = readUtf8(proof).split("\n");
  require(!lines.pop(), "the consistency proof ends within a line");
  const sized = readCheckpoint(readNote(note).text).size === size;
  require(sized, "an earlier checkpoint has another size than its file name");
  return { note, nodes: lines.map(readHash) };
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
  /** @param {Uint8Array} data */
  constructor(data) {
    this.archive = new Archive(data);
    const { origin, run } = readManifest(this.archive);
    this.origin = origin;
    this.run = run;
    this.checkpoint = this.archive.read("checkpoint");
    /** @type {bigint[]} */
    this.entries = [];
    /**
     * The index, name and digits of each body, by `bodyKey`.
     * @type {Map<string, {index: bigint, name: string, place: string}>}
     */
    this.bodies = new Map();
    /** @type {PastCheckpoint[]} */
    this.past = [];
    /** The last note of a proof that was found to be well-formed. */
    this.readableNote = new Uint8Array();
    this.#registerFiles();
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
      return [name, `proofs/${entry[1]}.tlog-proof`];
    }
    const body = BODY_FILE.exec(name);
    if (body) {
      const place = `${body[1]}/${body[2]}`;
      const index = BigInt(body[1]);
      this.bodies.set(bodyKey(index, body[2]), { index, name: body[2], place });
      return [name, `salts/${place}`];
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
    const body = this.bodies.get(bodyKey(index, name));
    return body && this.archive.read(`bodies/${body.place}`);
  }

  /**
   * Return whether a body that is there matches the commitment in its entry.
   * @param {bigint} index
   * @param {string} name
   * @param {Commitment} commitment
   */
  hasMatchingBody(index, name, commitment) {
    const content = this.body(index, name);
    const place = `${digits(index)}/${name}`;
    if (!content) return false;
    const salt = this.archive.read(`salts/${place}`);
    const length = new Uint8Array(8);
    new DataView(length.buffer).setBigUint64(0, BigInt(content.length));
    const sized = salt.length === 32 && content.length === commitment.size;
    const message = concatBytes(writeUtf8("forum/body/1\0"), salt, length, content);
    return sized && toHex(sha256(message)) === commitment.h;
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
