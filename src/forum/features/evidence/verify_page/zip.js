import { equalBytes, readUtf8, toHex, writeUtf8 } from "./bytes.js";
import { reject } from "./rejected.js";
import { sha256 } from "./sha256.js";
import { compareText, firstCharacters, quote } from "./text.js";

/** A zip archive in canonical form: files stored without compression, sorted, undated. */

/**
 * A file of an archive: offset, size, CRC-32 and SHA-256 of its content.
 * @typedef {{start: number, size: number, crc: number, digest: string}} ArchiveMember
 */

/** The limits of an archive without ZIP64 records. */
const MAX_FILES = 0xffff;
const MAX_BYTES = 0xffffffff;

const LOCAL_HEADER = 0x04034b50;
const DIRECTORY_HEADER = 0x02014b50;
const DIRECTORY_END = 0x06054b50;
const WIDE_DIRECTORY_END = 0x06064b50;
const WIDE_LOCATOR = 0x07064b50;

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? 0xedb88320 ^ (crc >>> 1) : crc >>> 1;
  return crc;
});

/** @param {Uint8Array} data */
function crc32(data) {
  let crc = ~0;
  for (let at = 0; at < data.length; at++) {
    crc = CRC_TABLE[(crc ^ data[at]) & 0xff] ^ (crc >>> 8);
  }
  return ~crc >>> 0;
}

/**
 * Pack numbers, least significant byte first.
 * @param {[number, number][]} fields  the width in bytes and the value of each
 */
function packFields(...fields) {
  const data = new Uint8Array(fields.reduce((length, [width]) => length + width, 0));
  let at = 0;
  for (const [width, value] of fields) {
    for (let i = 0, rest = value; i < width; i++, rest = Math.floor(rest / 256)) {
      data[at++] = rest % 256;
    }
  }
  return data;
}

/**
 * Return the fields that both headers of a file have in common.
 * @param {number} version
 * @param {Uint8Array} name
 * @param {ArchiveMember} member
 * @returns {[number, number][]}
 */
function commonFields(version, name, member) {
  const { crc, size } = member;
  const flags = 1 << 11;
  const date = 33;
  const method = 0;
  const time = 0;
  return [
    ...[version, flags, method, time, date].map((value) => /** @type {[number, number]} */ ([2, value])),
    ...[crc, size, size].map((value) => /** @type {[number, number]} */ ([4, value])),
    [2, name.length],
  ];
}

const NOT_A_ZIP = "not-a-zip: it does not begin as a zip file does, so it is no evidence bundle";
const TRUNCATED = "truncated: it ends before its directory does; copy or download it again";
const REZIPPED = "re-zipped: another program has packed its files again; ask for the file as Forum wrote it";
const NOT_A_BUNDLE = "not-a-bundle: it is a zip file, but none that forum ledger export or forum evidence wrote";
const ALTERED = "altered: its bytes are not those that were packed";
/** A name in the directory that every bundle (an entry, a proof) or every evidence pack has. */
const LISTED = /PK\x01\x02[^]{42}(?:[^\x00]{0,255}\/)?(?:(?:entries|proofs)\/[0-9]{16}\.|log\/end\.note)/;
const END_SIZE = 22;
const MAX_COMMENT = 0xffff;
const LISTED_BYTES = 1 << 20;

/**
 * Return the most likely reason why bytes are not a canonical archive.
 * @param {Uint8Array} data
 * @param {string} otherwise
 */
function explainFault(data, otherwise) {
  const head = toLatin1(data.subarray(0, 4));
  if (head !== "PK\x03\x04" && head !== "PK\x05\x06") return NOT_A_ZIP;
  const tail = toLatin1(data.subarray(Math.max(0, data.length - LISTED_BYTES)));
  const end = tail.lastIndexOf("PK\x05\x06");
  const rest = tail.length - end;
  if (end < 0 || rest < END_SIZE || rest > END_SIZE + MAX_COMMENT) return TRUNCATED;
  return LISTED.test(tail) ? otherwise : NOT_A_BUNDLE;
}

/**
 * Return whether a file was altered in place, when only its checksum differs, or packed again.
 * @param {string} name
 * @param {Uint8Array} ours
 * @param {Uint8Array} there
 */
function headerFault(name, ours, there) {
  const corrected = there.slice();
  corrected.set(ours.subarray(14, 18), 14);
  return equalBytes(corrected, ours) ? `${ALTERED} (${quote(firstCharacters(name, 80))})` : REZIPPED;
}

/** @param {Uint8Array} data */
function toLatin1(data) {
  let text = "";
  for (let at = 0; at < data.length; at += 4096) text += String.fromCharCode(...data.subarray(at, at + 4096));
  return text;
}

/** The files of an archive, of which every byte was compared with the only one that it can be. */
export class Archive {
  /** @param {Uint8Array} data */
  constructor(data) {
    this.data = data;
    /** @type {Map<string, ArchiveMember>} */
    this.members = new Map();
    let at = this.#readMembers();
    /** Whether the archive needs ZIP64 records. */
    this.wide = this.#isWide();
    for (const piece of this.#directory(at)) {
      const there = data.subarray(at, at + piece.length);
      if (!equalBytes(there, piece)) reject(explainFault(data, ALTERED));
      at += piece.length;
    }
    if (at !== data.length) reject(explainFault(data, ALTERED));
  }

  /**
   * Return the content of a file.
   * @param {string} name
   */
  read(name) {
    const member = this.members.get(name) ?? reject(`${name} is missing`);
    return this.data.subarray(member.start, member.start + member.size);
  }

  /** Read every file, compare its header with the canonical one, and return the end offset. */
  #readMembers() {
    const { data, members } = this;
    const view = new DataView(data.buffer, data.byteOffset, data.length);
    let at = 0;
    /** @type {string | null} */
    let before = null;
    while (at + 30 <= data.length && view.getUint32(at, true) === LOCAL_HEADER) {
      const size = view.getUint32(at + 18, true);
      const start = at + 30 + view.getUint16(at + 26, true);
      const rawName = data.subarray(at + 30, start);
      const name = readUtf8(rawName);
      const sorted = before === null || compareText(before, name) < 0;
      const inside = start + size <= data.length;
      if (!inside) reject(explainFault(data, ALTERED));
      if (!sorted) reject(explainFault(data, REZIPPED));
      const content = data.subarray(start, start + size);
      const member = { start, size, crc: crc32(content), digest: toHex(sha256(content)) };
      const header = packFields([4, LOCAL_HEADER], ...commonFields(20, rawName, member), [2, 0]);
      const there = data.subarray(at, at + 30);
      if (!equalBytes(header, there)) reject(explainFault(data, headerFault(name, header, there)));
      members.set(name, member);
      at = start + size;
      before = name;
    }
    return at;
  }

  #isWide() {
    let length = 22;
    for (const [name, { size }] of this.members) length += 76 + 2 * writeUtf8(name).length + size;
    return this.members.size > MAX_FILES || length > MAX_BYTES;
  }

  /**
   * Yield the central directory and the end records that these files must have.
   * @param {number} start
   */
  *#directory(start) {
    let size = 0;
    for (const [text, member] of this.members) {
      const line = directoryLine(writeUtf8(text), member);
      size += line.length;
      yield line;
    }
    const count = this.members.size;
    if (this.wide) yield* wideEnd(count, size, start);
    const few = Math.min(count, 0xffff);
    yield packFields(
      ...[[4, DIRECTORY_END], [2, 0], [2, 0], [2, few], [2, few]],
      ...[[4, Math.min(size, MAX_BYTES)], [4, Math.min(start, MAX_BYTES)], [2, 0]],
    );
  }
}

/**
 * @param {Uint8Array} name
 * @param {ArchiveMember} member
 */
function directoryLine(name, member) {
  const offset = member.start - 30 - name.length;
  const isFar = offset >= MAX_BYTES;
  const version = isFar ? 45 : 20;
  const extra = isFar ? packFields([2, 1], [2, 8], [8, offset]) : new Uint8Array();
  const header = packFields(
    ...[[4, DIRECTORY_HEADER], [2, version]],
    ...commonFields(version, name, member),
    ...[[2, extra.length], [2, 0], [2, 0], [2, 0], [4, 0]],
    [4, Math.min(offset, MAX_BYTES)],
  );
  const line = new Uint8Array(header.length + name.length + extra.length);
  line.set(header);
  line.set(name, header.length);
  line.set(extra, header.length + name.length);
  return line;
}

/**
 * Yield the two records of ZIP64 before the end.
 * @param {number} count
 * @param {number} size
 * @param {number} start
 */
function* wideEnd(count, size, start) {
  yield packFields(
    ...[[4, WIDE_DIRECTORY_END], [8, 44], [2, 45], [2, 45], [4, 0], [4, 0]],
    ...[[8, count], [8, count], [8, size], [8, start]],
  );
  yield packFields([4, WIDE_LOCATOR], [4, 0], [8, start + size], [4, 1]);
}
