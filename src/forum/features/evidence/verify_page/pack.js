import { BundleContents, readProof } from "./bundle.js";
import { concatBytes, equalBytes, readBase64, readHash, readUtf8, toHex, writeUtf8 } from "./bytes.js";
import { checkCosignature, openCheckpoint, readCheckpoint, readCosignatures } from "./checkpoint.js";
import { CountedTimes, isSeenBefore, isSeenSince } from "./counted_times.js";
import { signatureHolds } from "./ed25519.js";
import { HASH, isCount, isLabel, readEntry } from "./entry.js";
import { CLAIMS, COMPLETE, FAILS, Findings, HOLDS, INDEPENDENT, INTACT, NOT_CHECKED, PACK_REFUTED_CLAIMS, describeFinding, exactNumber } from "./findings.js";
import { equalJson, readJson, readLooseJson, writeJson } from "./json.js";
import { LogKeys, checkRotationCount, continuedNotes, isRotationNamed, keysHaveSigned, readKeyRotation } from "./log_keys.js";
import { LOG_KEY, readKey, readNote, signaturesBy, uniqueKeys } from "./note.js";
import { PeriodCounter, formatMoment } from "./pack_counts.js";
import { PackLog, SEEN_NOTE } from "./pack_log.js";
// Made by build.py from the tables of verify.py.
import { KNOWN_LIMITS, KNOWN_MAPS, KNOWN_QUERIES, MAP_TITLES } from "./pack_tables.js";
import { Policy, isLocalWitness } from "./policy.js";
import { Rejected, reject, require, unlessRejected } from "./rejected.js";
import { MAX_CLOCK_SKEW_US } from "./run_checker.js";
import { sha256 } from "./sha256.js";
import { compareText, firstCharacters, quote } from "./text.js";
import { checkConsistency, checkInclusion, hashLeaf } from "./tree.js";
import { MAX_BODY_BYTES } from "./shared_bodies.js";
import { NOTHING_CHECKED, NO_KEY, NO_TRUST_FILE, describeForeign, describeWitnesses, judgeWitnessing, verifyBundle } from "./verifier.js";
import { addFirstLines, keysByClaim } from "./witness_records.js";
import { Archive } from "./zip.js";

/** The verification of an evidence pack: docs/spec/evidence.md. */

/** @typedef {import("./checkpoint.js").Cosignature} Cosignature */
/** @typedef {import("./entry.js").Entry} Entry */
/** @typedef {import("./findings.js").Judgement} Judgement */
/** @typedef {import("./json.js").JsonValue} JsonValue */
/** @typedef {import("./kinds.js").Kinds} Kinds */
/** @typedef {import("./note.js").Key} Key */
/** @typedef {import("./note.js").Note} Note */
/** @typedef {import("./verifier.js").Trust} Trust */
/** @typedef {import("./witness_records.js").FirstLines} FirstLines */
/** @typedef {Map<string, any>} PackMembers */

/** @typedef {{problem: string, row: string, detail: string}} PackFinding */

/**
 * The report about a pack, with the members of `verify.py --json`.
 * @typedef {{
 *   schema: string, ok: boolean, origin: string, size: number | bigint, root: string,
 *   since: string, until: string, intact: Judgement, complete: Judgement, independent: Judgement,
 *   figures: Judgement, attested: Judgement, findings: PackFinding[], found: number,
 *   not_checked: string[], witnessing: string, counted_by: string,
 * }} PackReport
 */

/**
 * What was found in a pack.  `computed` is the report that follows from the entries; null if none
 * does, or no key that the reader trusts has signed them.
 * @typedef {{
 *   report: PackReport, computed: PackMembers | null, comparedMaps: string[],
 *   seedWitnesses: {name: string, independent: boolean}[],
 * }} CheckedPack
 */

export const PACK_CLAIMS = [...CLAIMS, "figures", "attested"];

const MAX_NAMED = 10;
const MAX_PACK_FINDINGS = 100;
// How many queries the maps of a pack may have together: each is asked of each entry.
const MAX_QUERIES = 32;
const MAX_TERMS = 128;
// In a pack of release 0.2, the first version, the root of the tree draws the sample.  It holds a
// page, and claims of its maker; a pack of today says nothing about itself.
const OLD_PACK = "forum/evidence/1";
const PACK_VERSIONS = [OLD_PACK, "forum/evidence/2"];
const SEED_OF_MAKER =
  "whether the maker of the log influenced the draw of the sample: the seed is the root of the " +
  "tree, which he can choose; bring a seed of your own";
const SEED_OF_UNKNOWN_WITNESSES =
  "whether the maker of the log influenced the draw of the sample: the seed comes from witnesses " +
  "that you do not mark as independent";
const SEED_OF_OTHERS =
  "whether the maker of the log influenced the draw of the sample: by your trust file, other " +
  "cosignatures draw it; bring a seed of your own (--seed)";
const SEED_OF_WITNESSES =
  "whether the maker of the log chose among later trees and cosignatures: the log part has no " +
  "record of those that draw the sample; bring a seed of your own (--seed), which excludes that";
const SEED_OF_RECORD =
  "how often the maker of the log asked the witnesses before he recorded what they cosigned, and " +
  "whether he recorded all of it: bring a seed of your own (--seed), which excludes that";
const PAGE_OF_MAKER =
  "report.html was not checked: this program does not draw it. Read the page that forum verify " +
  "--page draws with your keys";
const COUNTED_BY_WITNESSES =
  "whether the maker left out a checkpoint that witnesses saw near an end of the period: that " +
  "moves an entry only between the times at which they saw the enclosed ones";
const COUNTED_BY_WRITERS =
  "when entries were written: at an end of the period, no witness decides which of them are in " +
  "it, but the time that the writer of each says";
const CLAIMS_OF_MAKER = "what the enclosed report.html and report.json say that their maker found (check)";
const NOT_EVIDENCE =
  "README.txt, policy, report.schema.json, sbom.cdx.json, verify.html and verify.py, whatever " +
  "they say: they are not evidence; take such files from a release, and the policy from people";
const PACK_FILES = [
  ...["manifest.json", "attestation.dsse.json", "report.json", "entries.csv"],
  ...["report.schema.json", "policy", "log/end.note", "log/edge", "log/consistency"],
  ...["log/entries.jsonl", "log/earlier.jsonl", "log/attestation-key.json"],
  ...["log/attestation-key.tlog-proof", "README.txt", "sbom.cdx.json", "verify.html", "verify.py"],
];
const OTHER_PACK_FILES =
  /^(?:log\/start\.note|log\/past\/[0-9]{16}\.(?:note|consistency)|maps\/[a-z0-9][a-z0-9-]{0,63}\.json|runs\/[^/]{1,400}\.zip)$/;
const ARGUMENT_NAMES = "since until sample seed incident maps";
const STATEMENT_TYPE = "application/vnd.in-toto+json";

/** The digest of each map of this release, by name and version. @type {Map<string, string>} */
const KNOWN_MAP_DIGESTS = new Map(
  KNOWN_MAPS.trim()
    .split("\n")
    .map((line) => {
      const cut = line.lastIndexOf(" ");
      return [line.slice(0, cut), line.slice(cut + 1)];
    }),
);

const KNOWN_MAP_NAMES = new Set([...KNOWN_MAP_DIGESTS.keys()].map((name) => name.split(" ")[0]));

/** Raised for a pack of another log than those whose keys the reader trusts. */
class ForeignPack extends Error {
  /**
   * @param {string} origin
   * @param {string} sentence
   */
  constructor(origin, sentence) {
    super(sentence);
    this.origin = origin;
  }
}

/**
 * Return an object as a map, as JSON is read here.
 * @param {Record<string, any>} members
 * @returns {PackMembers}
 */
function record(members) {
  return new Map(Object.entries(members));
}

/** The state of one verification of a pack. */
class PackVerifier {
  /**
   * @param {Uint8Array} data
   * @param {Trust} trust
   * @param {Kinds} kinds
   */
  constructor(data, trust, kinds) {
    this.archive = new Archive(data);
    this.trust = trust;
    /** How many bytes the bodies of the bundles to come may have: the limit is one for the file. */
    this.bytesLeft = trust.maxBytes ?? MAX_BODY_BYTES;
    this.kinds = kinds;
    this.policy = trust.policy;
    this.findings = new Findings(PACK_REFUTED_CLAIMS);
    /** @type {PackFinding[]} */
    this.listed = [];
    /** @type {string[]} */
    this.notChecked = [];
    /** @type {Cosignature[]} */
    this.seen = [];
    this.origin = this.#checkManifest();
    const foreign = describeForeign(trust, this.origin, "pack");
    if (foreign) throw new ForeignPack(this.origin, foreign);
    this.log = new PackLog(this.archive, this.origin);
    this.report = readLooseJson(this.archive.read("report.json"));
    this.given = this.#readArguments();
    this.entries = this.#readEntries();
    const pinned = uniqueKeys([...trust.keys, ...(trust.policy?.logs ?? [])]);
    const isProven = this.#checkTrees();
    const named = this.log.indexedEntries().filter((located) => isRotationNamed(located.data));
    checkRotationCount(named.length);
    const rotations = named.flatMap(({ index, data: entry }) => readKeyRotation(this.origin, index, entry, kinds) ?? []);
    const notes = continuedNotes(this.log.endNote, this.log.past, this.log.end);
    if (this.log.startNote) notes.push(this.log.startNote);
    notes.push(...this.log.seen.map(({ note }) => note));
    this.logKeys = new LogKeys(this.origin, pinned, isProven ? rotations : [], notes);
    this.keys = uniqueKeys([...pinned, ...this.logKeys.accepted]);
    this.areTreesSigned = false;
    /** @type {CountedTimes | null} */
    this.times = null;
    this.countedBy = "";
    /** @type {Policy | null} */
    this.enclosed = null;
    /** @type {string[]} */
    this.comparedMaps = [];
    /** @type {{name: string, independent: boolean}[]} */
    this.seedWitnesses = [];
  }

  /**
   * Check the log part, the figures, the bundles and the attestation.
   * @param {(done: number, total: number) => void} showProgress
   * @returns {CheckedPack}
   */
  verify(showProgress) {
    const claims = this.#judgeLog();
    const computed = this.#computeReport();
    const figures = this.#judgeFigures(computed, claims);
    if (computed) this.#checkBundles(computed, showProgress);
    const attested = this.#judgeAttestation(computed);
    this.#listNotChecked(computed);
    const judgements = [...Object.values(claims), figures, attested];
    const report = {
      schema: "forum.pack-report/1",
      ok: !this.listed.length && judgements.every(({ state }) => state === HOLDS),
      origin: this.origin,
      size: exactNumber(this.log.end.size),
      root: toHex(this.log.end.root),
      since: formatMoment(this.given.get("since")),
      until: formatMoment(this.given.get("until")),
      ...claims,
      figures,
      attested,
      findings: this.listed.slice(0, MAX_PACK_FINDINGS),
      found: this.listed.length,
      not_checked: this.notChecked,
      witnessing: judgeWitnessing(this.trust, claims.independent, this.seen),
      counted_by: this.countedBy,
    };
    const { comparedMaps, seedWitnesses } = this;
    return { report, computed, comparedMaps, seedWitnesses };
  }

  /**
   * @param {string} problem
   * @param {string} row
   * @param {string} detail
   */
  #add(problem, row, detail) {
    this.listed.push({ problem, row, detail });
  }

  /** @param {PackMembers | null} computed */
  #listNotChecked(computed) {
    if (computed) {
      this.notChecked.push(this.#judgeSeed(computed.get("sample").get("seed_from")));
      this.countedBy = computed.get("counted_by") ?? "writer";
      this.notChecked.push(this.countedBy === "witnessed" ? COUNTED_BY_WITNESSES : COUNTED_BY_WRITERS);
      for (const figure of computed.get("figures")) {
        if (figure.get("value") !== null) continue;
        this.notChecked.push(`figure ${figure.get("id")}: entries that it follows from are not in the pack`);
      }
    }
    if (this.log.startNote) {
      this.notChecked.push(
        "whether other runs were open when the period began and recorded nothing in it",
        "whether entries from before the period are missing: only a pack from the " +
          "beginning of the log shows that none is",
      );
    }
    this.notChecked.push(
      ...(this.isOld ? [PAGE_OF_MAKER, CLAIMS_OF_MAKER] : []),
      "bodies, and the rules between entries, of runs that have no bundle here",
      `the enclosed ${NOT_EVIDENCE}`,
    );
  }

  /** Return the origin in the manifest, which must list exactly the other files. */
  #checkManifest() {
    const { members } = this.archive;
    require(PACK_FILES.every((name) => members.has(name)), "a file of the pack is missing");
    const data = this.archive.read("manifest.json");
    require(data.at(-1) === 0x0a, "the manifest does not end in a newline");
    const value = readJson(data.subarray(0, -1));
    const origin = value instanceof Map ? value.get("origin") : null;
    if (typeof origin !== "string") return reject("the manifest has no origin");
    require(isLabel(origin), "the origin in the manifest is no label");
    const files = [...members]
      .filter(([name]) => name !== "manifest.json" && name !== "attestation.dsse.json")
      .map(([name, { size, digest }]) => [name, size, digest]);
    this.version = String(value.get("v"));
    require(PACK_VERSIONS.includes(this.version), "the pack is of an unknown version");
    this.isOld = this.version === OLD_PACK;
    const fixed = this.isOld ? [...PACK_FILES, "report.html"] : PACK_FILES;
    require(fixed.every((name) => members.has(name)), "a file of the pack is missing");
    for (const name of members.keys()) {
      const isSeen = !this.isOld && SEEN_NOTE.test(name);
      const isKnown = fixed.includes(name) || OTHER_PACK_FILES.test(name) || isSeen;
      if (!isKnown) reject(`${quote(firstCharacters(name, 80))} is a file of no known kind`);
    }
    const expected = record({ v: this.version, origin, files });
    require(equalJson(value, expected), "the files are not those that the manifest lists");
    return origin;
  }

  /** @returns {PackMembers} */
  #readArguments() {
    const { report } = this;
    if (!(report instanceof Map) || report.get("v") !== this.version) return reject("no report");
    const given = report.get("arguments");
    const named = given instanceof Map && [...given.keys()].join(" ") === ARGUMENT_NAMES;
    if (!named) return reject("report.json: no arguments");
    const counts = ["since", "until", "sample"].every((name) => isCount(given.get(name)));
    const maps = given.get("maps");
    const texts = [given.get("seed"), given.get("incident"), ...(Array.isArray(maps) ? maps : [null])];
    const typed = counts && texts.every((text) => typeof text === "string");
    require(typed, "report.json: arguments of another type");
    const whole = Number(given.get("until")) % 1_000_000 === 0;
    require(whole, "report.json: until is not a whole second");
    return given;
  }

  /**
   * Return the entries, or add findings and return null if one is malformed.
   * @returns {{index: bigint, entry: Entry, data: Uint8Array}[] | null}
   */
  #readEntries() {
    /** @type {{index: bigint, entry: Entry, data: Uint8Array}[]} */
    const entries = [];
    let isWhole = true;
    let last = -1n;
    for (const { index, data } of this.log.indexedEntries()) {
      if (index <= last) {
        const detail = "log/earlier.jsonl is not in the order of the log";
        this.findings.add("proof-rejected", detail, index);
      }
      last = index;
      const entry = unlessRejected(
        () => readEntry(data, this.kinds),
        (error) => {
          this.findings.add("entry-malformed", error.message, index);
          return null;
        },
      );
      if (!entry) {
        isWhole = false;
        continue;
      }
      if (entry.log !== this.origin) {
        this.findings.add("foreign-entry", `it belongs to the log ${entry.log}`, index);
      }
      entries.push({ index, entry, data });
    }
    return isWhole ? entries : null;
  }

  /** Compare the entries with the roots of both trees, and return whether they agree. */
  #checkTrees() {
    const { log, findings } = this;
    const before = findings.count;
    const roots = unlessRejected(
      () => log.computeRoots(),
      (error) => {
        findings.add("root-mismatch", error.message);
        return null;
      },
    );
    if (!roots) return false;
    if (!equalBytes(roots.start, log.start.root)) {
      findings.add("root-mismatch", "log/edge does not lead to the root of log/start.note");
    }
    const count = log.end.size - log.start.size;
    if (BigInt(log.entries.length) !== count) {
      const detail = `log/entries.jsonl has ${log.entries.length} entries, and not ${count}`;
      findings.add("entry-missing", detail);
    }
    if (!equalBytes(roots.end, log.end.root)) {
      findings.add("root-mismatch", "log/entries.jsonl does not lead to the root of log/end.note");
    }
    for (const size of roots.others) {
      findings.add("root-mismatch", `the checkpoint of size ${size} in log/seen is not of this log part`);
    }
    this.#expect("proof-rejected", "log/consistency", null, () =>
      checkConsistency(log.nodes, log.start, log.end),
    );
    for (const { index, data, proof } of log.earlier) {
      this.#expect("proof-rejected", "log/earlier.jsonl", index, () => {
        require(index < log.start.size, "it is not an earlier entry");
        checkInclusion(proof.map(readHash), hashLeaf(data), index, log.end);
      });
    }
    for (const { note, nodes } of log.past) {
      this.#expect("history-replaced", "log/past", null, () =>
        checkConsistency(nodes, readCheckpoint(readNote(note).text), log.end),
      );
    }
    return findings.count === before;
  }

  /**
   * Add a finding if a check fails.
   * @param {string} problem
   * @param {string} what
   * @param {bigint | null} index
   * @param {() => void} check
   */
  #expect(problem, what, index, check) {
    unlessRejected(check, (error) => this.findings.add(problem, `${what}: ${error.message}`, index));
  }

  /**
   * Return whether a trusted key has signed a checkpoint of this log.
   * @param {Uint8Array} note
   */
  #isSigned(note) {
    const open = () => {
      const { origin } = openCheckpoint(note, this.keys);
      this.logKeys.checkSigner(note);
      require(origin === this.origin, "it is of another log");
      return true;
    };
    return unlessRejected(open, (error) => {
      this.findings.add("signature-rejected", `checkpoint: ${error.message}`);
      return false;
    });
  }

  /**
   * Return the cosignatures on a checkpoint; too few are a finding.
   * @param {Uint8Array} note
   * @param {string} name
   * @returns {Cosignature[]}
   */
  #cosignatures(note, name) {
    const { policy } = this;
    if (!policy) return [];
    const seen = unlessRejected(
      () => readCosignatures(note, [...policy.witnesses.values()]),
      (error) => {
        this.findings.add("signature-rejected", `cosignature: ${error.message}`);
        return [];
      },
    );
    if (!policy.isSatisfiedBy(seen)) {
      const detail = `${name}: the witnesses of your trust file have not cosigned it`;
      this.findings.add("not-witnessed", detail);
    }
    return seen;
  }

  /** Check signatures and times of the log part, and return the three claims about it. */
  #judgeLog() {
    const { log, findings, keys, policy } = this;
    const notes = [log.endNote, ...(log.startNote ? [log.startNote] : []), ...log.seen.map(({ note }) => note)];
    const signed = notes.map((note) => keys.length > 0 && this.#isSigned(note));
    this.areTreesSigned = signed.every(Boolean);
    this.seen = this.#cosignatures(log.endNote, "log/end.note");
    for (const note of this.trust.seen) this.#checkMemory(note);
    const isBounded = this.#checkTimes();
    for (const { problem, detail, index } of findings.listed) {
      const row = index === null ? "log part" : `log entry ${index}`;
      this.#add("log-part", row, `${problem}: ${detail}`);
    }
    const unbounded = "no witness that you trust says when the two trees were made";
    const unsigned = "no key that you trust has signed both trees";
    const unknown = !this.areTreesSigned ? unsigned : isBounded ? "" : unbounded;
    const whole = log.startNote
      ? "every entry between the two trees is here"
      : "every entry from the beginning of the log is here";
    const proven = `${log.entries.length} entries lead to the root that the log signed`;
    const cosigned = describeWitnesses(this.seen, policy);
    return {
      intact: keys.length ? findings.judgeClaim(INTACT, proven) : NO_KEY,
      complete: keys.length ? findings.judgeClaim(COMPLETE, whole, unknown) : NO_KEY,
      independent: policy ? findings.judgeClaim(INDEPENDENT, cosigned) : NO_TRUST_FILE,
    };
  }

  /** @param {Uint8Array} note */
  #checkMemory(note) {
    const { end } = this.log;
    const old = unlessRejected(
      () => openCheckpoint(note, this.keys),
      (error) => {
        this.findings.add("signature-rejected", `checkpoint: ${error.message}`);
        return null;
      },
    );
    if (old && old.origin === end.origin && old.size === end.size && !equalBytes(old.root, end.root)) {
      this.findings.add("history-replaced", `another tree of size ${old.size} was seen before`);
    }
  }

  /** Compare the times of the witnesses with the period; return whether they bound it. */
  #checkTimes() {
    const { policy, log, findings } = this;
    const seen = (policy?.quorumTime(this.seen) ?? 0n) * 1_000_000n;
    if (!policy || !seen) return false;
    const cut = (/** @type {string} */ what) =>
      findings.add("tail-cut", `witnesses saw ${what}: entries of the period may be missing`);
    if (seen < BigInt(this.given.get("until"))) cut("the last tree before the period ends");
    let first = 0n;
    if (log.startNote) {
      first = policy.quorumTime(this.#cosignatures(log.startNote, "log/start.note")) * 1_000_000n;
      const isLate = first && first + 1_000_000n > BigInt(this.given.get("since"));
      if (isLate) cut("the first tree after the period begins");
    }
    this.#checkEntryTimes(first, seen);
    return Boolean(first) || !log.startNote;
  }

  /**
   * Check that entries are dated between the times at which the two trees were seen.
   * @param {bigint} first
   * @param {bigint} last
   */
  #checkEntryTimes(first, last) {
    for (const { index, entry } of this.entries ?? []) {
      if (index < this.log.start.size) continue;
      const ts = BigInt(entry.ts);
      if (ts > last + MAX_CLOCK_SKEW_US) {
        const detail = "its time is later than the tree that holds it was seen";
        this.findings.add("time-impossible", detail, index);
      }
      if (ts < first - MAX_CLOCK_SKEW_US) {
        const detail = "its time is earlier than a tree without it was seen";
        this.findings.add("time-impossible", detail, index);
      }
    }
  }

  /**
   * Return the report that follows from the log part, or null if none does.
   * @returns {PackMembers | null}
   */
  #computeReport() {
    // Nothing is computed from trees that nobody whom the reader trusts has signed: a forger could
    // make that expensive.
    if (!this.entries || !this.areTreesSigned) return null;
    try {
      return this.#makeReport(this.entries);
    } catch (error) {
      if (error instanceof Rejected) this.#add("pack-altered", "log part", error.message);
      else if (error instanceof TypeError || error instanceof RangeError) {
        // A map that names no query, or a time that is none: no maker writes that.
        this.#add("pack-altered", "report.json", `cannot be computed: ${error.message}`);
      } else throw error;
      return null;
    }
  }

  /**
   * Return the seed of the sample, and where it comes from.
   * @param {string} root
   */
  #findSeed(root) {
    const given = this.given.get("seed");
    if (given) return { seed: given, from: "auditor" };
    if (this.isOld) return { seed: root, from: "checkpoint" };
    const policy = this.#enclosedPolicy();
    const times = /** @type {CountedTimes} */ (this.times);
    const drawn = this.#findWitnessSeed(policy, times);
    if (drawn) return { seed: drawn.seed, from: drawn.from };
    const behind = this.#findBehind(times);
    return { seed: behind ? toHex(behind.root) : root, from: "checkpoint" };
  }

  /**
   * Return the first checkpoint in log/seen that witnesses saw behind the period, if any is.
   *
   * Whether an earlier one decides is checked only where they saw the end behind it, too.
   * @param {CountedTimes} times
   */
  #findBehind(times) {
    const until = this.given.get("until");
    const isCovered = isSeenSince(times.end, until);
    return this.log.seen.find((_, at) => isCovered && isSeenSince(times.seen[at], until));
  }

  /**
   * Return the seed that follows from cosignatures by the witnesses of a policy, if any does.
   *
   * A witness on the machine of the log does not count: its owner can have as many cosignatures as
   * he likes.
   * @param {Policy} policy
   * @param {CountedTimes} times those of the policy
   */
  #findWitnessSeed(policy, times) {
    const { note, from } = this.#findSeedNote(policy, times);
    const named = signaturesBy(note, [...policy.witnesses.values()]);
    const seen = unlessRejected(
      () => named.map(({ key, blob }) => checkCosignature(note.text, blob, key)),
      () => [],
    );
    const keys = uniqueKeys(seen.map(({ key }) => key)).filter(({ name }) => !isLocalWitness(name));
    if (!keys.length || !policy.isSatisfiedBy(seen)) return null;
    keys.sort((one, other) => compareText(one.text, other.text));
    const lines = keys.map((key) => {
      const [{ blob }] = signaturesBy(note, [key]);
      return `${key.text} ${btoa(String.fromCharCode(...blob))}\n`;
    });
    return { seed: toHex(sha256(writeUtf8(`forum/sample/1\n${lines.join("")}`))), from, keys };
  }

  /** Return the enclosed policy, which nobody need believe; it is read once. */
  #enclosedPolicy() {
    this.enclosed ??= new Policy(this.archive.read("policy"));
    return this.enclosed;
  }

  /**
   * Return the checkpoint whose signatures give the seed, and where that comes from.
   * @param {Policy} policy
   * @param {CountedTimes} times those of the policy
   */
  #findSeedNote(policy, times) {
    const behind = this.#findBehind(times);
    const note = readNote(behind ? behind.note : this.log.endNote);
    /** @type {FirstLines} */
    const first = new Map();
    const witnesses = keysByClaim(policy);
    for (const { size, root, recorded } of behind ? this.#records() : []) {
      if (size !== behind?.size || root !== toHex(behind.root)) continue;
      const before = first.size;
      addFirstLines(first, recorded, witnesses);
      // What was recorded later does not count: nobody chooses by where a log part ends.
      if (first.size > before && namesQuorum(first, policy)) {
        return { note: noteOf(note.text, first), from: "recorded" };
      }
    }
    return { note, from: "witnesses" };
  }

  /** Return size and root of each checkpoint that the log part records, with the lines. */
  #records() {
    return (this.entries ?? []).flatMap(({ index, entry }) => {
      const place = `${entry.run}/${entry.strand}/${entry.kind}`;
      if (index < this.log.start.size || place !== "log/witnessed/witnessed/1") return [];
      const root = /** @type {string} */ (entry.facts.get("root"));
      const recorded = /** @type {string[]} */ (entry.facts.get("cosignatures") ?? []);
      return [{ size: BigInt(entry.facts.get("size")), root, recorded }];
    });
  }

  /**
   * Return what cannot be said about the seed of the sample.
   * @param {string} source
   */
  #judgeSeed(source) {
    if (source === "auditor") {
      return `who brought the seed ${quote(this.given.get("seed"))}: compare it with yours`;
    }
    if (source === "checkpoint") return SEED_OF_MAKER;
    const { policy, trust } = this;
    const times = /** @type {CountedTimes} */ (this.times);
    const drawn = this.#findWitnessSeed(this.#enclosedPolicy(), times);
    this.seedWitnesses = (drawn?.keys ?? []).map((key) => ({
      name: key.name,
      independent: Boolean(policy?.isIndependent(key, trust.keys)),
    }));
    // His own witness gives the maker as many cosignatures as he likes.
    if (!policy || !this.seedWitnesses.every(({ independent }) => independent)) return SEED_OF_UNKNOWN_WITNESSES;
    // The maker chooses the enclosed policy: one that leaves out a witness draws another sample.
    const theirs = this.#findWitnessSeed(policy, new CountedTimes(this.log, policy));
    if (!drawn || !theirs || drawn.seed !== theirs.seed) return SEED_OF_OTHERS;
    return theirs.from === "recorded" ? SEED_OF_RECORD : SEED_OF_WITNESSES;
  }

  #whyNotComputed() {
    return this.areTreesSigned
      ? "no report follows from the log part"
      : "no key that you trust has signed both trees, so that no figure was computed";
  }

  /**
   * Return the queries of the report, which must be those of a known release.
   * @param {PackMembers[]} figures
   * @returns {PackMembers[]}
   */
  #findQueries(figures) {
    const first = (/** @type {number} */ count) =>
      figures.slice(0, count).map((figure) => {
        if (!figure.has("query")) throw new TypeError("a figure has no query");
        return figure.get("query");
      });
    for (const [count, expected] of KNOWN_QUERIES) {
      const known = first(count);
      if (known.every(Boolean) && digestJson(known) === expected) return known;
    }
    this.#add("figure-changed", "figures", "the queries are not those of a known release");
    const unknown = first(KNOWN_QUERIES[0][0]);
    checkTerms(unknown);
    return unknown;
  }

  /** @param {{index: bigint, entry: Entry, data: Uint8Array}[]} entries */
  #makeReport(entries) {
    const { given, log } = this;
    const report = /** @type {PackMembers} */ (this.report);
    const maps = this.#readMaps();
    const extra = maps.flatMap(({ used }) => used.get("queries") ?? []);
    require(extra.length <= MAX_QUERIES, `${extra.length} queries in maps; the most is ${MAX_QUERIES}`);
    checkTerms(extra);
    const queries = [...this.#findQueries(report.get("figures")), ...extra];
    const ids = queries.map((query) => query.get("id"));
    const doubled = ids.find((id, at) => ids.indexOf(id) !== at);
    if (doubled !== undefined) reject(`two queries have the id ${doubled}`);
    if (digestJson(report.get("limits")) !== KNOWN_LIMITS) {
      this.#add("figure-changed", "limits", "the limits are not those of this release");
    }
    const [since, until, run] = ["since", "until", "incident"].map((name) => given.get(name));
    const counter = new PeriodCounter(since, until, run, queries, this.isOld);
    const enclosed = this.isOld ? null : this.#enclosedPolicy();
    const times = (this.times = new CountedTimes(log, enclosed));
    for (const { index, entry, data } of entries) {
      counter.add(index, entry, toHex(hashLeaf(data)), times.timeOf(index, entry.ts));
    }
    counter.finish();
    const figures = counter.figures.map((figure) => figure.result());
    const concerns = counter.concerns();
    const named = [...concerns].slice(0, MAX_NAMED).map(([run, reasons]) =>
      record({ run, reasons: [...reasons.keys()], entries: [...reasons.values()].map(exactNumber) }),
    );
    const incident = this.#describeIncident(counter);
    const root = toHex(log.end.root);
    const { seed, from } = this.#findSeed(root);
    const drawn = drawSample(counter.active, seed, given.get("sample"));
    return record({
      v: this.version,
      origin: this.origin,
      since: formatMoment(given.get("since")),
      until: formatMoment(given.get("until")),
      arguments: given,
      start: record({ size: exactNumber(log.start.size), root: log.startNote ? toHex(log.start.root) : "" }),
      end: record({ size: exactNumber(log.end.size), root }),
      // What the maker found is not checked here.
      ...(this.isOld ? { check: report.get("check") } : {}),
      entries: log.entries.length,
      counted: counter.counted,
      ...(this.isOld ? {} : { counted_by: times.decide(since, until), outside: counter.outside }),
      figures,
      decisions: counter.decisions,
      events: counter.events,
      named,
      named_of: concerns.size,
      sample: record({
        seed,
        seed_from: from,
        population: counter.active.size,
        runs: drawn,
      }),
      bundles: listBundles(drawn, named, incident),
      maps: maps.map(({ used, digest }) => applyMap(used, digest, figures)),
      limits: report.get("limits"),
      incident,
    });
  }

  /** @param {PeriodCounter} counter */
  #describeIncident(counter) {
    const run = this.given.get("incident");
    if (!run) return null;
    if (!counter.timeline.length) reject(`it has no entry of run ${run}`);
    const { timelineLength, timeline, related } = counter;
    return record({ run, entries: timelineLength, timeline, related });
  }

  /** Return the content and digest of each map, compared with those of this release. */
  #readMaps() {
    const maps = [];
    for (const [name, { digest }] of this.archive.members) {
      if (!name.startsWith("maps/")) continue;
      const used = readLooseJson(this.archive.read(name));
      if (!(used instanceof Map) || `maps/${used.get("name")}.json` !== name) return reject(`${name}: name`);
      const row = `map ${used.get("name")}`;
      const known = KNOWN_MAP_DIGESTS.get(`${used.get("name")} ${used.get("version")}`);
      if (!KNOWN_MAP_NAMES.has(used.get("name"))) {
        const namesake = findNamesake(used.get("title"));
        if (namesake) {
          this.#add("map-changed", row, `it has the title or a number of the source of map ${namesake}`);
        }
        this.notChecked.push(`the text of ${row}, unknown to this program`);
      } else if (known === undefined) {
        // Otherwise its maker could soften a text, and call that another version.
        this.#add("map-changed", row, "this program knows no such version of this map");
      } else if (known !== digest) {
        this.#add("map-changed", row, "it is not the map of this version");
      } else this.comparedMaps.push(used.get("name"));
      maps.push({ used: /** @type {PackMembers} */ (used), digest });
    }
    const names = maps.map(({ used }) => used.get("name"));
    if (!equalJson(names, this.given.get("maps"))) {
      this.#add("map-changed", "maps", `the pack holds ${names.join(", ")}`);
    }
    return maps;
  }

  /**
   * Compare report.json and entries.csv with what the entries give.
   * @param {PackMembers | null} computed
   * @param {{intact: Judgement, complete: Judgement}} claims
   * @returns {Judgement}
   */
  #judgeFigures(computed, { intact, complete }) {
    if (!computed) return { state: NOT_CHECKED, reason: this.#whyNotComputed() };
    this.#compareReport(computed);
    if (!this.isOld) {
      unlessRejected(
        () => this.#checkPeriod(/** @type {CountedTimes} */ (this.times), this.#enclosedPolicy()),
        (error) => this.#add("period-changed", "log/seen", error.message),
      );
    }
    this.#compareList();
    const changed = this.listed.find(({ problem }) => problem !== "log-part" && problem !== "bundle-rejected");
    if (changed) return { state: FAILS, reason: describePackFinding(changed) };
    if (intact.state !== HOLDS || complete.state === FAILS) {
      const reason = "they follow from the log part of this pack, which is not proven";
      return { state: NOT_CHECKED, reason };
    }
    // It is what people read, so that nothing else makes up for it.
    if (this.isOld) return { state: NOT_CHECKED, reason: PAGE_OF_MAKER };
    const doubt = this.#doubtPeriod();
    if (doubt) return { state: NOT_CHECKED, reason: doubt };
    const count = computed.get("figures").length;
    const reason = `${count} figures of report.json and the list of entries follow from the entries`;
    return { state: HOLDS, reason };
  }

  /**
   * Add a finding for each member of report.json that the entries do not give.
   * @param {PackMembers} computed
   */
  #compareReport(computed) {
    for (const { row, there, here } of differences("", this.report, computed)) {
      const isSample = row.startsWith("sample") || row.startsWith("bundles");
      const problem = isSample ? "sample-changed" : row.startsWith("maps") ? "map-changed" : "figure-changed";
      this.#add(problem, row, `report.json says ${there}; the entries give ${here}`);
    }
    const form = writeUtf8(`${writeJson(this.report, "\n")}\n`);
    if (!equalBytes(form, this.archive.read("report.json"))) {
      this.#add("figure-changed", "report.json", "it is not in its canonical form");
    }
  }

  /**
   * Refuse checkpoints that do not decide what is in the period, by these witnesses.
   * @param {CountedTimes} times
   * @param {Policy} policy
   */
  #checkPeriod({ start, seen, end }, policy) {
    const { log, given } = this;
    const [since, until] = [given.get("since"), given.get("until")];
    const inner = seen.filter((time) => !isSeenSince(time, until));
    const isBefore = start === null || isSeenBefore(start, since);
    require(isBefore, "witnesses did not see log/start.note before the period");
    require(seen.every(Boolean), "witnesses have not cosigned a checkpoint in log/seen");
    const isFirst = inner.every((time, at) => time === seen[at]);
    require(
      isFirst && inner.length <= 2 && seen.length <= inner.length + 1,
      "log/seen has others than the first and the last checkpoint of the period",
    );
    const isLater = !inner.length || isSeenSince(inner[0], since);
    require(isLater, "witnesses saw the first checkpoint in log/seen before the period");
    // Between these, witnesses saw no checkpoint: it would have been the one that decides.
    const sizes = [log.start.size, ...log.seen.map(({ size }) => size), log.end.size];
    const isCut = end && !isSeenSince(end, until);
    const isMissing = (/** @type {bigint} */ size) =>
      (isCut ? [0] : [0, inner.length]).some((at) => sizes[at] < size && size < sizes[at + 1]);
    /** @type {Map<string, {size: bigint, root: string, first: FirstLines}>} */
    const recorded = new Map();
    const witnesses = keysByClaim(policy);
    for (const { size, root, recorded: lines } of this.#records()) {
      const id = `${size}/${root}`;
      const first = recorded.get(id)?.first ?? new Map();
      addFirstLines(first, lines, witnesses);
      recorded.set(id, { size, root, first });
    }
    const sorted = [...recorded.values()].sort(
      (one, other) => Number(one.size - other.size) || compareText(one.root, other.root),
    );
    const notes = [log.endNote, ...(log.startNote ? [log.startNote] : []), ...log.seen.map(({ note }) => note)];
    const enclosed = new Map(notes.map(readNote).map((note) => [note.text, note]));
    for (const { size, root, first } of sorted) {
      if (!first.size || !HASH.test(root)) continue; // no witness has cosigned what is no checkpoint
      const hash = root.replace(/../g, (digits) => String.fromCharCode(parseInt(digits, 16)));
      const text = `${this.origin}\n${size}\n${btoa(hash)}\n`;
      const note = noteOf(text, first);
      const there = enclosed.get(text);
      if (there) checkMissing(policy, size, note, there);
      else if (isMissing(size) && namesQuorum(first, policy)) checkRecord(policy, size, note, first);
    }
  }

  /** Return why the witnesses of the reader do not show what is in the period, or nothing. */
  #doubtPeriod() {
    const { policy } = this;
    if (!policy) return "you named no trust file, so that nothing shows which entries are in the period";
    const theirs = new CountedTimes(this.log, policy);
    const problem = unlessRejected(
      () => this.#checkPeriod(theirs, policy) ?? "",
      (error) => error.message,
    );
    if (problem) return `by your trust file, other checkpoints decide what is in the period: ${problem}`;
    const isOther = /** @type {CountedTimes} */ (this.times).all.some((time, at) => {
      const apart = time - theirs.all[at];
      return time && (apart > MAX_CLOCK_SKEW_US || apart < -MAX_CLOCK_SKEW_US);
    });
    return isOther ? "the witnesses of your trust file saw the checkpoints at other times" : "";
  }

  /** Add a finding for the first line of entries.csv that the entries do not give. */
  #compareList() {
    const read = () => readUtf8(this.archive.read("entries.csv")).split("\r\n");
    const lines = unlessRejected(read, () => []);
    const expected = this.#listEntries();
    const longest = Math.max(lines.length, expected.length);
    for (let at = 0; at < longest; at++) {
      if (lines[at] === expected[at]) continue;
      this.#add("list-changed", `entries.csv line ${at + 1}`, "not what the entries say");
      return;
    }
  }

  /** Return the lines that entries.csv must have. */
  #listEntries() {
    const lines = ["index,id,time,run,strand,n,kind,actor,outcome"];
    for (const { index, entry, data } of this.entries ?? []) {
      const { ts, run, strand, n, kind, actor } = entry;
      const counted = /** @type {CountedTimes} */ (this.times).timeOf(index, ts);
      const isInPeriod = this.given.get("since") <= counted && counted < this.given.get("until");
      if (index < this.log.start.size || !isInPeriod) continue;
      const outcome = String(entry.facts.get("outcome") ?? "");
      const id = toHex(hashLeaf(data));
      const cells = [index, id, formatMoment(ts), run, strand, n, kind, actor, outcome];
      lines.push(cells.map((cell) => quoteCell(String(cell))).join(","));
    }
    return [...lines, ""];
  }

  /**
   * Check each bundle, and that it holds what the log part holds of its run.
   * @param {PackMembers} computed
   * @param {(done: number, total: number) => void} showProgress
   */
  #checkBundles(computed, showProgress) {
    /** @type {[string, string][]} */
    const expected = computed
      .get("bundles")
      .map((/** @type {PackMembers} */ bundle) => [bundle.get("file"), bundle.get("run")]);
    const files = new Set(expected.map(([file]) => file));
    const enclosed = [...this.archive.members.keys()].filter((name) => name.startsWith("runs/"));
    for (const file of enclosed) {
      if (!files.has(file)) this.#add("sample-changed", file, "this run was neither drawn nor named");
    }
    expected.forEach(([file, run], done) => {
      showProgress(done, expected.length);
      if (enclosed.includes(file)) this.#checkBundle(file, run);
      else this.#add("bundle-missing", file, `the bundle of run ${run} is missing`);
    });
  }

  /**
   * @param {string} file
   * @param {string} run
   */
  #checkBundle(file, run) {
    const data = this.archive.read(file);
    const maxBytes = this.bytesLeft;
    const checked = verifyBundle(data, { ...this.trust, maxBytes }, this.kinds);
    for (const finding of checked.findings.slice(0, 3)) {
      this.#add("bundle-rejected", file, describeFinding(finding));
    }
    this.notChecked.push(...checked.not_checked.map((missing) => `${file}: ${missing}`));
    // What cannot be read was reported above.
    const bundle = unlessRejected(
      () => new BundleContents(data, maxBytes),
      () => null,
    );
    if (!bundle) return;
    this.bytesLeft -= bundle.shared.bytes;
    const { start, end } = this.log;
    /** @type {Map<bigint, Uint8Array>} */
    const whole = new Map();
    for (const { index, entry, data: bytes } of this.entries ?? []) {
      if (index >= start.size && entry.run === run) whole.set(index, bytes);
    }
    const own = bundle.entries.filter((index) => {
      if (index < start.size || index >= end.size) return false;
      return whole.has(index) || this.#isOfRun(bundle.entry(index), run);
    });
    const isSame =
      own.length === whole.size &&
      own.every((index) => {
        const bytes = whole.get(index);
        return bytes !== undefined && equalBytes(bytes, bundle.entry(index));
      });
    if (bundle.run !== run || !isSame) {
      this.#add("bundle-rejected", file, "its entries are not those of the log part");
    }
  }

  /**
   * Return whether an entry of a bundle is one of its run, and not a redaction.
   * @param {Uint8Array} data
   * @param {string} run
   */
  #isOfRun(data, run) {
    return unlessRejected(
      () => readEntry(data, this.kinds).run === run,
      () => false,
    );
  }

  /**
   * Check the signature about the manifest, by a key that the log published.
   * @param {PackMembers | null} computed
   * @returns {Judgement}
   */
  #judgeAttestation(computed) {
    let published;
    try {
      published = this.#readAttestationKey();
      const statement = this.#openStatement(published.key);
      if (computed) this.#compareClaims(statement, computed.get("check") ?? new Map());
    } catch (error) {
      if (!(error instanceof Rejected || error instanceof TypeError)) throw error;
      const detail = error instanceof Rejected ? error.message : "malformed";
      this.#add("attestation-rejected", "attestation.dsse.json", detail);
      return { state: FAILS, reason: detail };
    }
    // What the statement claims could not be compared with anything.
    if (!computed) return { state: NOT_CHECKED, reason: this.#whyNotComputed() };
    if (!this.keys.length) return { state: NOT_CHECKED, reason: "no key of the log was given" };
    const { key, at, isSigned } = published;
    if (!isSigned) {
      // Release 0.2 wrote it; but any writer of the log can write the same.
      const reason = `no key of the log has signed entry ${at}, which publishes ${key.name}`;
      return { state: NOT_CHECKED, reason };
    }
    const reason = `signed by ${key.name}, a key that the log published as entry ${at}`;
    return { state: HOLDS, reason };
  }

  /**
   * Return the key that signs attestations, the index of the entry that publishes it, and whether a
   * key of the log has signed that.
   */
  #readAttestationKey() {
    const data = this.archive.read("log/attestation-key.json");
    const { kind, log, run, strand, facts } = readEntry(data, this.kinds);
    const isSigned = kind === "key.add/2";
    const isKey = isSigned || kind === "key.add/1";
    const isOurs = isKey && log === this.origin && run === "log" && strand === "evidence";
    require(isOurs, "the entry publishes no key for attestations");
    const key = readKey(facts.get("vkey"));
    const isNamed = key.name === `${this.origin}/evidence` && key.algorithm === LOG_KEY;
    require(isNamed, "not the key of attestations");
    const proof = readProof(this.archive.read("log/attestation-key.tlog-proof"), readNote);
    const tree = readCheckpoint(readNote(proof.note).text);
    require(tree.origin === this.origin, "the key is published by another log");
    if (this.keys.length) {
      openCheckpoint(proof.note, this.keys);
      this.logKeys.checkSigner(proof.note);
    }
    if (this.policy) {
      const seen = readCosignatures(proof.note, [...this.policy.witnesses.values()]);
      require(this.policy.isSatisfiedBy(seen), "no witness has cosigned the key");
    }
    checkInclusion(proof.nodes, hashLeaf(data), proof.at, tree);
    if (isSigned) this.#checkKeySignature(facts, key, proof.at);
    return { key, at: proof.at, isSigned };
  }

  /**
   * Check that a key of the log, in use then, signed the key of attestations.
   * @param {Map<string, any>} facts
   * @param {Key} key
   * @param {bigint} index
   */
  #checkKeySignature(facts, key, index) {
    const by = readKey(facts.get("by"));
    const isLater = index >= BigInt(facts.get("since"));
    const holds = isLater && keysHaveSigned("key.add/2", this.origin, facts, [by, key]);
    require(holds, "the signatures of the key of attestations do not hold");
    const isAllowed = !this.keys.length || this.logKeys.maySign(by.text, index + 1n);
    require(isAllowed, "the key that signed it was not the log's key then");
  }

  /**
   * Return the statement about this manifest, after checking that the key signed it.
   * @param {Key} key
   */
  #openStatement(key) {
    const envelope = readMap(this.archive.read("attestation.dsse.json"));
    const payload = readBase64(envelope.get("payload"));
    const signatures = envelope.get("signatures");
    const isSigned = signatures.length === 1 && envelope.get("payloadType") === STATEMENT_TYPE;
    require(isSigned, "it is no in-toto statement with one signature");
    const head = `DSSEv1 ${STATEMENT_TYPE.length} ${STATEMENT_TYPE} ${payload.length} `;
    const signature = readBase64(signatures[0].get("sig"));
    const message = concatBytes(writeUtf8(head), payload);
    if (!signatureHolds(key.material, message, signature)) reject(`${key.name}: invalid signature`);
    const statement = readMap(payload);
    const sha = this.archive.members.get("manifest.json")?.digest ?? "";
    const about = record({
      _type: "https://in-toto.io/Statement/v1",
      subject: [record({ name: "manifest.json", digest: record({ sha256: sha }) })],
      predicateType: "https://in-toto.io/attestation/svr/v0.1",
      predicate: statement.get("predicate"),
    });
    require(equalJson(statement, about), "the statement is not about the manifest of this pack");
    return statement;
  }

  /**
   * Check that a statement claims what the report says that its maker found.
   * @param {PackMembers} statement
   * @param {PackMembers} check
   */
  #compareClaims(statement, check) {
    const properties = [...check].map(([name, claim]) =>
      `FORUM_${name}_${claim.get("state")}`.toUpperCase().replaceAll(" ", "_"),
    );
    const expected = record({
      verifier: record({ id: this.origin }),
      timeCreated: formatMoment(this.given.get("until")),
      properties,
    });
    const isSame = equalJson(statement.get("predicate"), expected);
    require(isSame, "the statement claims something else than the report");
  }
}

/**
 * Parse JSON that must be an object.
 * @param {Uint8Array} data
 * @returns {PackMembers}
 */
function readMap(data) {
  const value = readLooseJson(data);
  if (!(value instanceof Map)) throw new TypeError("no object");
  return value;
}

/**
 * Return what tells of which source a title is: its letters and digits, and its numbers.
 * @param {string} title
 */
function titleMarks(title) {
  const words = title.toLowerCase().match(/[a-z0-9]+/g) ?? [];
  return [words.join(""), ...(title.match(/[0-9]{4}\/[0-9]+/g) ?? [])];
}

/**
 * Return the name of a map of this release that is of the same source, if there is one.
 * @param {unknown} title
 */
function findNamesake(title) {
  if (typeof title !== "string") return undefined;
  const marks = titleMarks(title);
  const line = MAP_TITLES.trim()
    .split("\n")
    .find((known) => titleMarks(known.slice(known.indexOf(" "))).some((mark) => marks.includes(mark)));
  return line?.split(" ")[0];
}

/**
 * Refuse queries that compare many terms with each item: kinds, members, and values of conditions.
 * @param {PackMembers[]} queries
 */
function checkTerms(queries) {
  const where = queries.flatMap((query) => query.get("where") ?? []);
  const lists = queries.flatMap((query) => [query.get("kinds") ?? [], query.get("by") ?? []]);
  lists.push(...where.map((condition) => condition.get("values")));
  const terms = lists.reduce((sum, { length }) => sum + length, where.length);
  require(terms <= MAX_TERMS, `the queries of maps have ${terms} terms; the most is ${MAX_TERMS}`);
}

/** @param {JsonValue | undefined} value */
function digestJson(value) {
  if (value === undefined) throw new TypeError("a member is missing");
  return toHex(sha256(writeUtf8(writeJson(value))));
}

/**
 * Return the first runs by the SHA-256 of the seed and their name; sorted by name.
 * @param {Set<string>} runs
 * @param {string} seed
 * @param {number} count
 */
function drawSample(runs, seed, count) {
  const ranked = [...runs].map((run) => ({ run, rank: toHex(sha256(writeUtf8(`${seed}\n${run}`))) }));
  ranked.sort((one, other) => compareText(one.rank, other.rank));
  return ranked.slice(0, count).map(({ run }) => run).sort(compareText);
}

/**
 * Return the bundles that a pack must have, with the reasons.
 * @param {string[]} drawn
 * @param {PackMembers[]} named
 * @param {PackMembers | null} incident
 */
function listBundles(drawn, named, incident) {
  /** @type {Map<string, string[]>} */
  const why = new Map();
  const add = (/** @type {string} */ run, /** @type {string} */ reason) =>
    why.set(run, [...(why.get(run) ?? []), reason]);
  if (incident) {
    add(incident.get("run"), "incident");
    for (const run of incident.get("related")) add(run, "named by the incident's run");
  }
  for (const run of drawn) add(run, "sample");
  for (const item of named) add(item.get("run"), "named in the report");
  const runs = [...why.keys()].sort(compareText);
  return runs.map((run) => record({ run, file: nameBundle(run), why: why.get(run) }));
}

/**
 * Return the name of the bundle of a run in a pack.
 * @param {string} run
 */
function nameBundle(run) {
  const safe = [...run].map((character) =>
    /^[\p{L}\p{N}._-]$/u.test(character)
      ? character
      : `%${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(2, "0")}`,
  );
  return `runs/${safe.join("")}.zip`;
}

/**
 * Return a map with what the period shows for each of its rows.
 * @param {PackMembers} used
 * @param {string} digest
 * @param {PackMembers[]} figures
 */
function applyMap(used, digest, figures) {
  const byId = new Map(figures.map((figure) => [figure.get("id"), figure]));
  const rows = used.get("rows").map((/** @type {PackMembers} */ row) => {
    const named = row.get("figures").map((/** @type {string} */ id) => {
      const figure = byId.get(id);
      if (!figure) throw new TypeError(`no figure ${id}`);
      return figure;
    });
    const isFound = named.some((/** @type {PackMembers} */ figure) => figure.get("items"));
    const isUnknown = named.some((/** @type {PackMembers} */ figure) => figure.get("items") === null);
    let state = named.length ? "no entries in this period" : "not from a ledger";
    if (isUnknown) state = "cannot be computed from this pack";
    if (isFound) state = "entries found";
    const short = named.map((/** @type {PackMembers} */ figure) =>
      new Map(["id", "value", "items"].map((name) => [name, figure.get(name)])),
    );
    /** @type {number[]} */
    const indexes = named.flatMap((/** @type {PackMembers} */ figure) => figure.get("examples").slice(0, 2));
    const examples = [...new Set(indexes)].sort((one, other) => one - other).slice(0, 6);
    return record({ id: row.get("id"), state, figures: short, examples });
  });
  return record({ map: used, digest, rows });
}

/**
 * Return a cell of entries.csv; a text that a spreadsheet takes for a formula is marked.
 * @param {string} value
 */
function quoteCell(value) {
  const text = /^[=+\-@\t]/.test(value) ? `'${value}` : value;
  return /[,"\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const ABSENT = "(absent)";

/**
 * Yield each place where two JSON values differ, with both values; rows go by their ids.
 * @param {string} row
 * @param {any} there
 * @param {any} here
 * @returns {Generator<{row: string, there: string, here: string}>}
 */
function* differences(row, there, here) {
  if (there instanceof Map && here instanceof Map) {
    for (const name of new Set([...here.keys(), ...there.keys()])) {
      const [a, b] = [there, here].map((value) => (value.has(name) ? value.get(name) : ABSENT));
      yield* differences(`${row} ${name}`.trim(), a, b);
    }
  } else if (Array.isArray(there) && Array.isArray(here)) {
    for (let at = 0; at < Math.max(there.length, here.length); at++) {
      const [a, b] = [there, here].map((value) => (at < value.length ? value[at] : ABSENT));
      yield* differences(`${row} ${nameItem(b, a, at + 1)}`, a, b);
    }
  } else if (there !== here) {
    yield { row, there: shorten(there), here: shorten(here) };
  }
}

/**
 * Return the id of a row, or its number where it has none.
 * @param {any} here
 * @param {any} there
 * @param {number} number
 */
function nameItem(here, there, number) {
  for (const item of [here, there]) {
    if (!(item instanceof Map)) continue;
    for (const member of ["id", "run", "name", "index"]) {
      if (item.has(member)) return shorten(item.get(member));
    }
    if (Array.isArray(item.get("key"))) return item.get("key").map(String).join(" / ");
    if (item.get("map") instanceof Map) return shorten(item.get("map").get("name") ?? number);
  }
  return String(number);
}

/**
 * Return a value as a text of limited length.
 * @param {any} value
 */
function shorten(value) {
  const text = typeof value === "string" ? value : writeJson(value);
  const short = firstCharacters(text, 80);
  return short === text ? text : `${short}...`;
}

/** @param {PackFinding} finding */
export function describePackFinding({ problem, row, detail }) {
  return `${problem} at ${row}: ${detail}`;
}

/**
 * Return whether a file is an evidence pack, and not the bundle of one run.
 * @param {Uint8Array} data
 */
export function isPack(data) {
  return unlessRejected(
    () => new Archive(data).members.has("log/end.note"),
    () => false,
  );
}

/**
 * Return the report on a pack of which nothing was checked.
 * @param {string} origin
 * @param {string} why
 * @param {Judgement} others
 * @param {PackFinding} finding
 * @returns {PackReport}
 */
function unreadPackReport(origin, why, others, finding) {
  return {
    schema: "forum.pack-report/1",
    ok: false,
    origin,
    size: 0,
    root: "",
    since: "",
    until: "",
    intact: { state: FAILS, reason: why },
    complete: others,
    independent: others,
    figures: others,
    attested: others,
    findings: [finding],
    found: 1,
    not_checked: ["everything in it"],
    witnessing: "none",
    counted_by: "",
  };
}

/**
 * @param {PackReport} report
 * @returns {CheckedPack}
 */
function checkedNothing(report) {
  return { report, computed: null, comparedMaps: [], seedWitnesses: [] };
}

/**
 * Verify one pack; malformed content is a finding, not an error.
 * @param {Uint8Array} data
 * @param {Trust} trust
 * @param {Kinds} kinds
 * @param {(done: number, total: number) => void} showProgress
 * @returns {CheckedPack}
 */
export function verifyPack(data, trust, kinds, showProgress = () => {}) {
  try {
    return new PackVerifier(data, trust, kinds).verify(showProgress);
  } catch (error) {
    if (error instanceof ForeignPack) {
      const finding = { problem: "log-part", row: "log part", detail: error.message };
      return checkedNothing(unreadPackReport(error.origin, error.message, NOTHING_CHECKED, finding));
    }
    if (!(error instanceof Rejected)) throw error;
    const finding = { problem: "pack-altered", row: "pack", detail: error.message };
    const unread = { state: NOT_CHECKED, reason: "the pack could not be read" };
    return checkedNothing(unreadPackReport("", describePackFinding(finding), unread, finding));
  }
}

/**
 * Return a note with recorded lines.
 * @param {string} text
 * @param {FirstLines} first
 * @returns {Note}
 */
function noteOf(text, first) {
  return { text, signatures: [...first.values()].map(({ signature }) => signature) };
}

/**
 * Return whether recorded lines, unverified, name a quorum of witnesses.
 * @param {FirstLines} first
 * @param {Policy} policy
 */
function namesQuorum(first, policy) {
  return policy.isSatisfiedBy([...first.values()].map(({ key }) => ({ key, time: 0n })));
}

/**
 * Return the recorded cosignatures by these keys; refuse one that does not hold.
 * @param {Note} note
 * @param {bigint} size
 * @param {Key[]} keys
 */
function checkRecordLines(note, size, keys) {
  return unlessRejected(
    () => signaturesBy(note, keys).map(({ key, blob }) => checkCosignature(note.text, blob, key)),
    () => reject(`the log recorded a cosignature of a checkpoint of size ${size} that does not hold`),
  );
}

/**
 * Refuse an enclosed checkpoint without a cosignature that the log recorded.
 * @param {Policy} policy
 * @param {bigint} size
 * @param {Note} recorded
 * @param {Note} enclosed
 */
function checkMissing(policy, size, recorded, enclosed) {
  for (const key of policy.witnesses.values()) {
    // A witness that was asked twice has two cosignatures, and the note one of them.
    if (signaturesBy(enclosed, [key]).length) continue;
    const isLacking = checkRecordLines(recorded, size, [key]).length;
    require(!isLacking, `the checkpoint of size ${size} lacks a cosignature that the log recorded`);
  }
}

/**
 * Refuse a pack without a checkpoint of which the log recorded that witnesses saw it.
 *
 * Signatures are checked only if they are of a quorum: an honest pack has no such record, and any
 * other is refused with the first one.
 * @param {Policy} policy
 * @param {bigint} size
 * @param {Note} note
 * @param {FirstLines} first the lines of the note
 */
function checkRecord(policy, size, note, first) {
  const named = [...first.values()].map(({ key }) => key);
  const isMissing = policy.quorumTime(checkRecordLines(note, size, named));
  if (isMissing) reject(`the log recorded that witnesses saw a checkpoint of size ${size}: it is missing`);
}
