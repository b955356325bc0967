import { BundleContents, bodyKey } from "./bundle.js";
import { equalBytes, toHex } from "./bytes.js";
import { checkCosignature, openCheckpoint, readCosignatures } from "./checkpoint.js";
import { readEntry } from "./entry.js";
import { COMPLETE, FAILS, Findings, HOLDS, INDEPENDENT, INTACT, NOT_CHECKED, exactNumber } from "./findings.js";
import { bundleKeys } from "./log_keys.js";
import { readNote, uniqueKeys } from "./note.js";
import { consistentTimes, isLocalWitness } from "./policy.js";
import { require, unlessRejected } from "./rejected.js";
import { ReportChecker, isToldByOthers } from "./report_checker.js";
import { MAX_CLOCK_SKEW_US, MAX_TIME, RunChecker } from "./run_checker.js";
import { compareText, quote } from "./text.js";
import { checkConsistency, checkInclusion, hashLeaf } from "./tree.js";
import { witnessRecords } from "./witness_records.js";

/** The verification of a bundle: docs/spec/bundle.md, Verification. */

/** @typedef {import("./checkpoint.js").Cosignature} Cosignature */
/** @typedef {import("./entry.js").Entry} Entry */
/** @typedef {import("./findings.js").Finding} Finding */
/** @typedef {import("./findings.js").Judgement} Judgement */
/** @typedef {import("./kinds.js").Kinds} Kinds */
/** @typedef {import("./run_checker.js").Interval} Interval */
/** @typedef {import("./note.js").Key} Key */
/** @typedef {import("./policy.js").Policy} Policy */
/** @typedef {import("./report_checker.js").Coverage} Coverage */
/** @typedef {import("./tree.js").Checkpoint} Checkpoint */

/**
 * The keys, policy and remembered checkpoints of the reader; none come from a bundle.
 * @typedef {{keys: Key[], policy: Policy | null, seen: Uint8Array[], maxBytes?: number}} Trust
 */

/**
 * @typedef {{
 *   witness: string, time: number | bigint, same_machine: boolean, independent: boolean,
 * }} Sighting
 */

/**
 * The report, with the members of `verify.py --json`.
 * @typedef {{
 *   schema: string, ok: boolean, origin: string, size: number | bigint, root: string,
 *   intact: Judgement, complete: Judgement, independent: Judgement, findings: Finding[],
 *   found: number, not_checked: string[], entries: number, runs: number, open_runs: string[],
 *   bodies: {ok: number, redacted: number, missing: number, mismatch: number}, pending: number,
 *   sightings: Sighting[], epochs: never[], notices: string[], coverage: Coverage,
 *   witnessing: string, interval: Interval | null,
 * }} Report
 */

const PROGRESS_STEP = 500;

const UNBOUNDED_BELOW =
  "when the run began: it is not bounded below, because no tree before it is cosigned as your " +
  "trust file asks; it may be newer than its times say";
const UNBOUNDED_ABOVE =
  "when the run was there: it is not bounded above, because no tree with all of it is cosigned " +
  "as your trust file asks";

export const NOTHING_CHECKED = notChecked("nothing was checked");
export const NO_KEY = notChecked("you named no key of the log: nothing was checked");
export const NO_TRUST_FILE = notChecked(
  "you named no trust file: whether witnesses have seen it was not checked",
);

/**
 * Return the results of a map by rising size.
 * @template T
 * @param {Map<bigint, T>} bySize
 */
function sortedSizes(bySize) {
  return [...bySize.keys()].sort((one, other) => (one < other ? -1 : one > other ? 1 : 0));
}

/** The state of one verification of a bundle. */
class BundleVerifier {
  /**
   * @param {BundleContents} bundle
   * @param {Trust} trust
   * @param {Kinds} kinds
   */
  constructor(bundle, trust, kinds) {
    this.bundle = bundle;
    this.kinds = kinds;
    this.findings = new Findings();
    this.trust = trust;
    this.policy = trust.policy;
    this.memories = trust.seen;
    const pinned = uniqueKeys([...trust.keys, ...(trust.policy?.logs ?? [])]);
    this.logKeys = bundleKeys(bundle, pinned, kinds);
    this.keys = uniqueKeys([...pinned, ...this.logKeys.accepted]);
    this.run = new RunChecker(bundle, this.findings);
    this.reports = new ReportChecker(this.findings);
    this.notices = [...this.logKeys.notices];
    /** The bodies that entries of the run commit to. @type {Set<string>} */
    this.committed = new Set();
    /** The number of entries of each unknown kind. @type {Map<string, number>} */
    this.unknownKinds = new Map();
    this.hasTurns = false;
    this.hasRequest = false;
    this.hasAccord = false;
    /** @type {string[]} */
    this.subjects = [];
    this.tree = this.keys.length ? this.#open(bundle.checkpoint) : null;
    this.seen = this.#verifyCosignatures(bundle.checkpoint);
  }

  /**
   * Check the checkpoints, then each entry with its proof, then gaps; return the report.
   * @param {(done: number, total: number) => void} showProgress
   * @returns {Report}
   */
  verify(showProgress) {
    if (this.tree) {
      if (this.tree.origin !== this.bundle.origin) {
        this.findings.add("bundle-altered", "the checkpoint is of another log");
      }
      this.#checkPast(this.tree);
      this.#checkMemories(this.tree);
    }
    this.bundle.entries.forEach((index, done) => {
      if (done % PROGRESS_STEP === 0) showProgress(done, this.bundle.entries.length);
      this.#checkEntry(index);
    });
    if (this.policy && !this.policy.isSatisfiedBy(this.seen)) {
      this.findings.add("not-witnessed", "the witnesses of your trust file have not cosigned it");
    }
    this.run.finish();
    this.#checkStrays();
    this.reports.finish(this.bundle.run, this.run.closed);
    return this.#report();
  }

  /**
   * Return a checkpoint that a trusted key has signed, or add a finding and return null.
   *
   * For a checkpoint of the bundle itself, the key must have been valid at its size.
   * @param {Uint8Array} note
   * @param {boolean} isOwn
   * @returns {Checkpoint | null}
   */
  #open(note, isOwn = true) {
    const open = () => {
      const checkpoint = openCheckpoint(note, this.keys);
      if (isOwn) this.logKeys.checkSigner(note);
      return checkpoint;
    };
    return unlessRejected(open, (error) => {
      this.findings.add("signature-rejected", `checkpoint: ${error.message}`);
      return null;
    });
  }

  /**
   * Return the valid cosignatures of the policy's witnesses on a checkpoint.
   * @param {Uint8Array} note
   * @returns {Cosignature[]}
   */
  #verifyCosignatures(note) {
    const { policy } = this;
    if (!policy) return [];
    return unlessRejected(
      () => readCosignatures(note, [...policy.witnesses.values()]),
      (error) => {
        this.findings.add("signature-rejected", `cosignature: ${error.message}`);
        return [];
      },
    );
  }

  /**
   * Check that this tree continues the earlier ones, whose times bound those of the run.
   * @param {Checkpoint} newest
   */
  #checkPast(newest) {
    const checkpoints = [newest];
    const records = witnessRecords(this.bundle, newest, this.kinds, this.policy);
    /** @type {Map<bigint, bigint>} */
    const times = new Map();
    this.#takeTime(times, newest, this.seen);
    for (const past of this.bundle.past) {
      const checkpoint = this.#open(past.note);
      if (!checkpoint || !this.#continues(past.nodes, checkpoint, newest)) continue;
      checkpoints.push(checkpoint);
      const cosigned = this.#verifyCosignatures(past.note);
      const restored = this.#restoreCosignatures(records, checkpoint, readNote(past.note));
      this.#takeTime(times, checkpoint, [...cosigned, ...restored]);
    }
    this.#selectTimes(times);
    for (const { size, root } of checkpoints) {
      this.run.signed.set(`${size}/${toHex(root)}`, this.run.cosigned.get(size) ?? 0n);
    }
  }

  /**
   * Return the cosignatures that the log recorded and that are not below the note.
   * @param {import("./witness_records.js").WitnessRecords} records
   * @param {Checkpoint} checkpoint
   * @param {import("./note.js").Note} note
   */
  #restoreCosignatures(records, { size, root }, note) {
    const signatureKey = ({ name, keyId, blob }) => `${name} ${keyId} ${toHex(blob)}`;
    const named = new Set(note.signatures.map(({ name, keyId }) => `${name} ${keyId}`));
    const seen = new Set(note.signatures.map(signatureKey));
    const witnessed = new Set();
    /** @type {Cosignature[]} */
    const restored = [];
    for (const { key, signature, index, entry } of records.get(`${size}/${toHex(root)}`) ?? []) {
      if (witnessed.has(key) || seen.has(signatureKey(signature))) continue;
      const { name, keyId, blob } = signature;
      witnessed.add(key);
      const cosignature = unlessRejected(
        () => checkCosignature(note.text, blob, key),
        () => null,
      );
      if (!cosignature) {
        const detail = `the recorded cosignature of ${name} does not hold`;
        this.findings.add("signature-rejected", detail, index, entry);
        continue;
      }
      restored.push(cosignature);
      // A witness that was asked twice has two cosignatures, and the note one of them.
      if (named.has(`${name} ${keyId}`)) continue;
      const detail = `the checkpoint of size ${size} lacks the cosignature of ${name} that the log recorded`;
      this.findings.add("cosignature-missing", detail, index, entry);
    }
    return restored;
  }

  /**
   * Return whether the newest tree begins with an earlier one; add a finding if not.
   * @param {Uint8Array[]} nodes
   * @param {Checkpoint} earlier
   * @param {Checkpoint} newest
   */
  #continues(nodes, earlier, newest) {
    return unlessRejected(
      () => {
        checkConsistency(nodes, earlier, newest);
        return true;
      },
      (error) => {
        this.findings.add("history-replaced", `an earlier checkpoint: ${error.message}`);
        return false;
      },
    );
  }

  /**
   * Record the time at which the quorum had cosigned a tree, if it had.
   * @param {Map<bigint, bigint>} times
   * @param {Checkpoint} checkpoint
   * @param {Cosignature[]} cosignatures
   */
  #takeTime(times, { size }, cosignatures) {
    const time = (this.policy?.quorumTime(cosignatures) ?? 0n) * 1_000_000n;
    const other = times.get(size);
    if (time && (other === undefined || time < other)) times.set(size, time);
  }

  /**
   * Keep the times that agree with each other, and add a notice about others.
   * @param {Map<bigint, bigint>} times
   */
  #selectTimes(times) {
    const sizes = sortedSizes(times);
    // A witness may state a time beyond the largest that an entry can have.  It limits the time of
    // no entry, so it is ignored.
    const usable = sizes.map((size) => times.get(size) ?? 0n).map((t) => (t <= MAX_TIME ? t : 0n));
    consistentTimes(usable).forEach((time, at) => {
      if (time) this.run.cosigned.set(sizes[at], time);
    });
    const wrong = sizes.filter((size) => {
      const time = times.get(size) ?? 0n;
      const floor = this.run.timeBounds(size - 1n).floor - MAX_CLOCK_SKEW_US;
      const ceiling = this.run.timeBounds(size).ceiling + MAX_CLOCK_SKEW_US;
      return !this.run.cosigned.has(size) && (time < floor || time > ceiling);
    });
    if (!wrong.length) return;
    const listed = wrong.slice(0, 5).join(", ") + (wrong.length > 5 ? ", ..." : "");
    this.notices.push(
      `the times of ${wrong.length} checkpoints (of size ${listed}) contradict the others ` +
        "and were not used: the clock of a witness was wrong",
    );
  }

  /**
   * Compare with remembered checkpoints of the same size.
   *
   * For other sizes, a bundle has no consistency proof.
   * @param {Checkpoint} newest
   */
  #checkMemories(newest) {
    const opened = this.memories.map((note) => this.#open(note, false));
    const others = opened.filter(
      (old) =>
        old?.origin === newest.origin &&
        old.size === newest.size &&
        !equalBytes(old.root, newest.root),
    );
    for (const _ of new Set(others.map((old) => old && toHex(old.root)))) {
      const detail = `another tree of size ${newest.size} was seen before`;
      this.findings.add("history-replaced", detail);
    }
  }

  /** @param {bigint} index */
  #checkEntry(index) {
    const data = this.bundle.entry(index);
    const leaf = hashLeaf(data);
    const isProven = this.#checkProof(index, leaf);
    const entry = unlessRejected(
      () => readEntry(data, this.kinds),
      (error) => {
        this.findings.add("entry-malformed", error.message, index);
        return null;
      },
    );
    if (!entry) return;
    const checked = isProven ? entry : this.bundle.withoutSpans(index, entry);
    this.run.checkEntry(index, toHex(leaf), checked);
    if (!this.kinds.has(entry.kind)) {
      this.unknownKinds.set(entry.kind, (this.unknownKinds.get(entry.kind) ?? 0) + 1);
    }
    if (entry.run === this.bundle.run) this.#noteEntryOfRun(index, entry);
  }

  /**
   * Check the proof of an entry, and return whether it holds in a signed tree.
   * @param {bigint} index
   * @param {Uint8Array} leaf
   */
  #checkProof(index, leaf) {
    const { at, nodes, note } = this.bundle.proof(index);
    const check = () => {
      const isOwn = at === index && equalBytes(note, this.bundle.checkpoint);
      require(isOwn, "the proof is for another entry or checkpoint");
      if (this.tree) checkInclusion(nodes, leaf, index, this.tree);
      return Boolean(this.tree);
    };
    return unlessRejected(check, (error) => {
      this.findings.add("proof-rejected", error.message, index);
      return false;
    });
  }

  /**
   * @param {bigint} index
   * @param {Entry} entry
   */
  #noteEntryOfRun(index, entry) {
    for (const name of entry.bodies.keys()) this.committed.add(bodyKey(index, name));
    this.hasTurns ||= entry.strand.startsWith("turn/");
    this.hasRequest ||= entry.kind === "accepted/1";
    this.hasAccord ||= entry.kind === "accord/1";
    if (entry.kind === "about/1" && entry.strand === "main") this.subjects.push(String(entry.facts.get("run")));
    this.reports.checkEntry(index, entry);
  }

  /** Add a finding for each body that no entry of the run commits to. */
  #checkStrays() {
    for (const [key, { index, name }] of this.bundle.bodies) {
      if (this.committed.has(key)) continue;
      this.findings.add("bundle-altered", `no entry commits to body ${quote(name)}`, index);
    }
  }

  /** Return the results of the three claims, each with a reason. */
  #judgeClaims() {
    const { findings, keys, policy } = this;
    const proven = `${this.bundle.entries.length} entries, each proven in the signed tree`;
    const listed = this.run.closed && !this.run.unlisted;
    const unknown = "the run was open, or its list of strands redacted, when this was exported";
    return {
      intact: keys.length ? findings.judgeClaim(INTACT, proven) : NO_KEY,
      complete: keys.length
        ? findings.judgeClaim(COMPLETE, this.#closedReason(), listed ? "" : unknown)
        : NO_KEY,
      independent: policy ? findings.judgeClaim(INDEPENDENT, describeWitnesses(this.seen, this.policy)) : NO_TRUST_FILE,
    };
  }

  #closedReason() {
    // Only a reader of the whole log can detect a run that was recorded twice.
    const reason =
      "the run is closed, and no strand has a gap; " +
      "whether the log holds another version of this run was not checked";
    return isToldByOthers(this.reports.coverage())
      ? `${reason}; what was not recorded cannot be missing here, see coverage`
      : reason;
  }

  #listNotChecked() {
    const listed = [...this.unknownKinds]
      .sort(([one], [other]) => compareText(one, other))
      .map(([kind, n]) => `the facts of ${n} entries of kind ${kind}, unknown to this release`);
    const { run } = this.bundle;
    if (this.hasTurns) {
      listed.push(`the deliberation of run ${run}: \`forum verify\` plays it`);
      for (const other of this.subjects)
        listed.push(
          `the deliberation of run ${run}: whether what it is about is the answer of ` +
            `run ${other}, which is not there`,
        );
    } else if (this.hasRequest) {
      listed.push(`the calls of run ${run}: \`forum verify\` replays them`);
      if (this.hasAccord)
        listed.push(
          `the accords in run ${run}: \`forum verify\` compares them with the runs of the panels, ` +
            "if these are there",
        );
    }
    if (this.policy && this.run.openings) {
      const { after, before } = this.run.interval();
      if (after === null) listed.push(UNBOUNDED_BELOW);
      if (before === null) listed.push(UNBOUNDED_ABOVE);
    }
    return listed;
  }

  /** @returns {Report} */
  #report() {
    const { bundle, run, tree } = this;
    const claims = this.#judgeClaims();
    return {
      ...unreadableReport(this.findings),
      origin: bundle.origin,
      size: tree ? exactNumber(tree.size) : 0,
      root: tree ? toHex(tree.root) : "",
      ...claims,
      not_checked: this.#listNotChecked(),
      entries: bundle.entries.length,
      runs: run.openings,
      open_runs: run.open && bundle.run !== "log" ? [bundle.run] : [],
      bodies: run.bodies,
      sightings: this.seen.map(({ key, time }) => ({
        witness: key.name,
        time: exactNumber(time),
        same_machine: isLocalWitness(key.name),
        independent: Boolean(this.policy?.isIndependent(key, this.trust.keys)),
      })),
      notices: this.notices,
      coverage: this.reports.coverage(),
      witnessing: judgeWitnessing(this.trust, claims.independent, this.seen),
      interval: run.interval(),
    };
  }
}

/**
 * @param {string} reason
 * @returns {Judgement}
 */
export function notChecked(reason) {
  return { state: NOT_CHECKED, reason };
}

/**
 * Return the report of a bundle that is malformed.
 * @param {Findings} findings
 * @returns {Report}
 */
function unreadableReport(findings) {
  const unknown = notChecked("the bundle could not be read");
  return {
    schema: "forum.report/1",
    ok: false,
    origin: "",
    size: 0,
    root: "",
    intact: findings.judgeClaim(INTACT, ""),
    complete: unknown,
    independent: unknown,
    findings: findings.listed,
    found: findings.count,
    not_checked: ["everything in it"],
    entries: 0,
    runs: 0,
    open_runs: [],
    bodies: { ok: 0, redacted: 0, missing: 0, mismatch: 0 },
    pending: 0,
    sightings: [],
    epochs: [],
    notices: [],
    coverage: { driven: 0, relayed: 0, wrapped: 0, reported: 0, gaps: [] },
    witnessing: "none",
    interval: null,
  };
}

/**
 * Return one sentence if all trusted keys are of other logs than this one, or nothing.
 * @param {Trust} trust
 * @param {string} origin
 * @param {string} what
 */
export function describeForeign({ keys, policy }, origin, what) {
  const all = [...keys, ...(policy?.logs ?? [])].map((key) => key.name);
  const names = [...new Set(all)].sort(compareText);
  if (!names.length || names.includes(origin)) return "";
  let ends = [...names, origin].map(shortenOrigin);
  if (new Set(ends).size < ends.length) ends = [...names, origin];
  const yours = policy ? "trust file is for" : "key is of";
  const logs = names.length === 1 ? "log" : "logs";
  return `Your ${yours} the ${logs} ${ends.slice(0, -1).join(" and ")}; this ${what} is of ${ends.at(-1)}.`;
}

/** @param {string} origin */
function shortenOrigin(origin) {
  const characters = [...origin];
  return characters.length <= 20 ? origin : `…${characters.slice(-8).join("")}`;
}

/**
 * Return who has cosigned, and how much that is worth.
 * @param {Cosignature[]} seen
 * @param {Policy | null} policy
 */
export function describeWitnesses(seen, policy) {
  const names = [...new Set(seen.map(({ key }) => key.name))].sort(compareText);
  let reason = `cosigned by ${names.join(", ")}`;
  if (names.length && names.every(isLocalWitness)) {
    reason += ", a witness on the writer's own machine: as strong as that machine's owner";
  }
  return policy?.minWitnesses() === 1 ? `${reason}; one witness decides the time` : reason;
}

/**
 * Return who has seen it: only the reader's own mark makes a witness independent.
 * @param {Trust} trust
 * @param {Judgement} claim
 * @param {Cosignature[]} seen
 */
export function judgeWitnessing({ keys, policy }, claim, seen) {
  if (claim.state !== HOLDS || !policy) return "none";
  return seen.some(({ key }) => policy.isIndependent(key, keys)) ? "independent" : "self-witnessed";
}

/**
 * Return the report on a bundle of another log than those whose keys the reader trusts.
 * @param {string} origin
 * @param {string} sentence
 * @returns {Report}
 */
function foreignReport(origin, sentence) {
  const findings = new Findings();
  findings.add("signature-rejected", sentence);
  return {
    ...unreadableReport(findings),
    origin,
    intact: { state: FAILS, reason: sentence },
    complete: NOTHING_CHECKED,
    independent: NOTHING_CHECKED,
  };
}

/**
 * Verify one bundle and return the report; malformed content is a finding, not an error.
 * @param {Uint8Array} data
 * @param {Trust} trust
 * @param {Kinds} kinds
 * @param {(done: number, total: number) => void} showProgress
 * @returns {Report}
 */
export function verifyBundle(data, trust, kinds, showProgress = () => {}) {
  const report = unlessRejected(
    () => {
      const bundle = new BundleContents(data, trust.maxBytes);
      const foreign = describeForeign(trust, bundle.origin, "bundle");
      if (foreign) return foreignReport(bundle.origin, foreign);
      return new BundleVerifier(bundle, trust, kinds).verify(showProgress);
    },
    (error) => {
      const findings = new Findings();
      findings.add("bundle-altered", error.message);
      return unreadableReport(findings);
    },
  );
  const judgements = [report.intact, report.complete, report.independent];
  return { ...report, ok: judgements.every(({ state }) => state === HOLDS) };
}
