import { isCount } from "./entry.js";
import { readJson } from "./json.js";
import { require, unlessRejected } from "./rejected.js";
import { compareText, quote } from "./text.js";

/** The run: strands, causes, bodies and times. */

/** @typedef {import("./bundle.js").BundleContents} BundleContents */
/** @typedef {import("./entry.js").Entry} Entry */
/** @typedef {import("./findings.js").Findings} Findings */

/**
 * The proven interval of a run, in seconds; null where it was not checked.
 * @typedef {{after: number | null, before: number | null}} Interval
 */

/** The clock error of a writer, in microseconds, up to which its times are accepted. */
export const MAX_CLOCK_SKEW_US = 300n * 1_000_000n;
export const MAX_TIME = BigInt(Number.MAX_SAFE_INTEGER);

/**
 * Parse the body `strands` of a run close: a list of [name, last n, last leaf hash].
 *
 * Returns `n/hash` by name.
 * @param {Uint8Array} data
 * @returns {Map<string, string>}
 */
function readEnds(data) {
  const ends = readJson(data);
  require(Array.isArray(ends) && ends.every(Array.isArray), "not a list of lists");
  const lines = /** @type {[string, number, string][]} */ (ends);
  for (const [name, n, head, ...rest] of lines) {
    const formed = typeof name === "string" && isCount(n) && typeof head === "string";
    require(formed && !rest.length, "a line that is not name, n and leaf hash");
  }
  const ordered = lines.every(([name], at) => !at || compareText(lines[at - 1][0], name) < 0);
  require(ordered, "not in the order of the names");
  return new Map(lines.map(([name, n, head]) => [name, `${n}/${head}`]));
}

/** A body in the facts of redact/2: the place of its entry among the parents, and its name. */
const PLACE = /^(0|[1-9][0-9]?)\/([a-z][a-z0-9._-]{0,31})$/;

/**
 * Yield the bodies that an entry redacts, as `id/name`, if it is a redaction in force.
 *
 * Elsewhere it has no effect: the writer of a run must not be able to explain away its gaps.
 * @param {Entry} entry
 */
function* redactedBodies(entry) {
  const place = `${entry.run}/${entry.strand}/${entry.kind}`;
  if (place === "log/main/redact/1" && entry.parents[0] === entry.facts.get("entry")) {
    yield `${entry.facts.get("entry")}/${entry.facts.get("body")}`;
  } else if (place === "log/retention/redact/2" || place === "log/retention/redact/3") {
    const runs = /** @type {string[] | undefined} */ (entry.facts.get("runs"));
    const count = Math.min(runs?.length ?? Infinity, entry.parents.length);
    for (const text of /** @type {string[]} */ (entry.facts.get("bodies"))) {
      const [, parent, name] = PLACE.exec(text) ?? [];
      if (name !== undefined && Number(parent) < count) {
        yield `${entry.parents[Number(parent)]}/${name}`;
      }
    }
  }
}

/** The holds in force at a place of the log; fed with its entries in their order. */
class HoldOrder {
  /** @type {Map<string, string[]>} */
  #holds = new Map();

  /**
   * Follow an entry, if it places or releases a hold.
   * @param {Entry} entry
   */
  add(entry) {
    if (`${entry.run}/${entry.strand}/${entry.kind}` !== "log/retention/hold/1") {
      return;
    }
    const hold = /** @type {string} */ (entry.facts.get("hold"));
    if (entry.facts.get("act") === "place") {
      this.#holds.set(hold, /** @type {string[]} */ (entry.facts.get("runs") ?? []));
    } else {
      this.#holds.delete(hold);
    }
  }

  /**
   * Return the name of a hold that keeps what a run has recorded, or undefined.
   * @param {string} run
   */
  findHold(run) {
    const keeping = [...this.#holds].filter(([, runs]) => !runs.length || runs.includes(run));
    return keeping.map(([name]) => name).sort(compareText)[0];
  }
}

/** A checker that receives entries in index order and follows those of the bundle's run. */
export class RunChecker {
  /**
   * @param {BundleContents} bundle
   * @param {Findings} findings
   */
  constructor(bundle, findings) {
    this.bundle = bundle;
    this.findings = findings;
    /** The ids of all entries so far. @type {Set<string>} */
    this.ids = new Set();
    /** The next position and the last id of each strand. @type {Map<string, {n: number, head: string}>} */
    this.strands = new Map();
    /** @type {Map<string, {name: string, index: bigint, entry: Entry}>} */
    this.absent = new Map();
    /** @type {Set<string>} */
    this.redacted = new Set();
    this.holds = new HoldOrder();
    /** The ids of the entries of the run that have bodies. @type {Set<string>} */
    this.own = new Set();
    /** The cosignature time of each signed tree, by size and root; 0 if it is unknown. @type {Map<string, bigint>} */
    this.signed = new Map();
    /** The cosignature times that agree with each other, by size. @type {Map<bigint, bigint>} */
    this.cosigned = new Map();
    /** The time of the tree that the run names as its past. */
    this.floor = 0n;
    /** The indexes of the first and of the last entry of the run. */
    this.first = -1n;
    this.last = -1n;
    this.openings = 0;
    this.open = false;
    this.closed = false;
    this.unlisted = false;
    this.bodies = { ok: 0, redacted: 0, missing: 0, mismatch: 0 };
  }

  /**
   * Check one entry against all entries before it.
   * @param {bigint} index
   * @param {string} leaf
   * @param {Entry} entry
   */
  checkEntry(index, leaf, entry) {
    if (entry.log !== this.bundle.origin) {
      this.findings.add("foreign-entry", `it belongs to ${entry.log}`, index, entry);
    }
    if (entry.run === this.bundle.run) {
      if (this.last < 0n) this.first = index;
      this.last = index;
      this.#checkSuccessor(index, leaf, entry);
      this.#checkParents(index, entry);
      this.#checkBodies(index, leaf, entry);
      if (entry.bodies.size) {
        this.own.add(leaf);
      }
    }
    this.holds.add(entry);
    this.#checkRedaction(index, entry);
    for (const body of redactedBodies(entry)) {
      this.redacted.add(body);
    }
    this.ids.add(leaf);
  }

  /**
   * Report a redaction of the run that stands behind a hold, or under another run's name.
   * @param {bigint} index
   * @param {Entry} entry
   */
  #checkRedaction(index, entry) {
    const run = this.bundle.run;
    const named = /** @type {string[]} */ (
      entry.kind === "redact/3" ? (entry.facts.get("runs") ?? []) : []
    );
    for (const body of redactedBodies(entry)) {
      const [target, name] = [body.slice(0, 64), body.slice(65)];
      if (!this.own.has(target)) {
        continue;
      }
      const place = entry.parents.indexOf(target);
      if (named.length && named[place] !== run) {
        const detail = `its parent ${place} is an entry of run ${run}, not of ${named[place]}`;
        this.findings.add("parent-unknown", detail, index, entry);
        return;
      }
      const hold = this.holds.findHold(run);
      if (hold !== undefined) {
        const detail = `it erases body ${quote(name)} of run ${run}, which hold ${hold} keeps`;
        this.findings.add("hold-broken", detail, index, entry);
        return;
      }
    }
  }

  /** Report an empty run and missing bodies; call this after all entries. */
  finish() {
    if (!this.openings) {
      this.findings.add("run-unopened", `there is no entry of run ${this.bundle.run}`);
    }
    for (const [key, { name, index, entry }] of this.absent) {
      if (this.redacted.has(key)) {
        this.bodies.redacted++;
      } else {
        this.bodies.missing++;
        const detail = `body ${quote(name)} is missing, and no redaction explains it`;
        this.findings.add("body-missing", detail, index, entry);
      }
    }
  }

  /**
   * Check that the entry is the next of its strand, in position, link and time.
   * @param {bigint} index
   * @param {string} leaf
   * @param {Entry} entry
   */
  #checkSuccessor(index, leaf, entry) {
    const { n, head } = this.strands.get(entry.strand) ?? this.#beginStrand(index, entry);
    if (entry.n < n) {
      const detail = `an earlier entry has position ${entry.n}`;
      this.findings.add("position-doubled", detail, index, entry);
    } else if (entry.n > n) {
      const detail = `positions ${n} to ${entry.n - 1} of the strand are missing`;
      this.findings.add("position-missing", detail, index, entry);
    } else if (entry.prev !== head) {
      this.findings.add("link-broken", "prev is not the id of the entry before it", index, entry);
    }
    this.strands.set(entry.strand, { n: Math.max(n, entry.n + 1), head: leaf });
    this.#checkTime(index, entry);
    if (entry.strand === "main" && entry.kind === "run.close/1") this.#checkClose(index, entry);
  }

  /**
   * Check that the time of the entry is between those of the cosigned trees around it.
   * @param {bigint} index
   * @param {Entry} entry
   */
  #checkTime(index, entry) {
    const bounds = this.timeBounds(index);
    const floor = bounds.floor > this.floor ? bounds.floor : this.floor;
    const time = BigInt(entry.ts);
    if (floor - MAX_CLOCK_SKEW_US <= time && time <= bounds.ceiling + MAX_CLOCK_SKEW_US) return;
    const late = time > bounds.ceiling ? "ahead" : "behind";
    const detail =
      `the times of witnesses contradict its time ${time / 1_000_000n}. ` +
      `The clock of the machine that wrote it was probably ${late}`;
    this.findings.add("time-impossible", detail, index, entry);
  }

  /**
   * Return when the run was written, as far as witnessed checkpoints prove it.
   * @returns {Interval}
   */
  interval() {
    if (this.last < 0n) return { after: null, before: null };
    // The root that the opening names cannot be known before its tree is there.
    let after = this.floor;
    let before = 0n;
    for (const [size, time] of this.cosigned) {
      if (size <= this.first && time > after) after = time;
      if (size > this.last && (!before || time < before)) before = time;
    }
    const [from, until] = [after, before].map((time) => Number(time / 1_000_000n) || null);
    return { after: from, before: until };
  }

  /**
   * Return the times after which and before which an entry got its index.
   * @param {bigint} index
   */
  timeBounds(index) {
    let floor = 0n;
    let ceiling = MAX_TIME - MAX_CLOCK_SKEW_US;
    for (const [size, time] of this.cosigned) {
      if (size <= index) {
        if (time > floor) floor = time;
      } else if (time < ceiling) {
        ceiling = time;
      }
    }
    return { floor, ceiling };
  }

  /**
   * Register the first entry of a strand, which may also be the first of the run.
   * @param {bigint} index
   * @param {Entry} entry
   */
  #beginStrand(index, entry) {
    if (this.closed) {
      this.findings.add("after-close", "the run was closed before this entry", index, entry);
    }
    if (!this.open) {
      this.open = true;
      this.openings++;
      this.#checkOpening(index, entry);
    }
    if (entry.strand !== "main" && !entry.parents.length) {
      const detail = "the first entry of a strand has no parent";
      this.findings.add("cause-missing", detail, index, entry);
    }
    return { n: 0, head: "" };
  }

  /**
   * Check that a run begins with run.open after a signed tree, and a log with log.open.
   * @param {bigint} index
   * @param {Entry} entry
   */
  #checkOpening(index, entry) {
    const size = entry.facts.get("after_size") ?? 0;
    const past = `${size}/${entry.facts.get("after_root") ?? ""}`;
    const time = this.signed.get(past);
    if (entry.kind !== (entry.run === "log" ? "log.open/1" : "run.open/1")) {
      const detail = "the first entry is not log.open or run.open";
      this.findings.add("run-unopened", detail, index, entry);
    } else if (size && time !== undefined) {
      this.floor = time;
    } else if (size && this.signed.size) {
      const detail = `it names a checkpoint of size ${size} that is not in the bundle`;
      this.findings.add("past-unknown", detail, index, entry);
    }
  }

  /**
   * Compare the list of strands in a run close with the strands that were seen.
   * @param {bigint} index
   * @param {Entry} entry
   */
  #checkClose(index, entry) {
    this.strands.delete("main");
    const seen = new Map([...this.strands].map(([name, { n, head }]) => [name, `${n - 1}/${head}`]));
    const listed = this.#readCloseList(index, entry) ?? seen;
    const names = [...new Set([...listed.keys(), ...seen.keys()])];
    const wrong = names.filter((name) => listed.get(name) !== seen.get(name)).sort(compareText);
    if (wrong.length || entry.facts.get("strands") !== seen.size) {
      const detail = `the close does not match the strands ${wrong.join(", ")}`;
      this.findings.add("strand-unclosed", detail, index, entry);
    }
    this.strands.clear();
    this.open = false;
    this.closed = true;
  }

  /**
   * Return the strands that a close lists; null if the list is missing or altered.
   *
   * The check of the body reports why it is missing.
   * @param {bigint} index
   * @param {Entry} entry
   */
  #readCloseList(index, entry) {
    const commitment = entry.bodies.get("strands");
    if (commitment && !this.bundle.hasMatchingBody(index, "strands", commitment)) {
      this.unlisted = true;
      return null;
    }
    const content = commitment && this.bundle.body(index, "strands");
    return unlessRejected(
      () => readEnds(content ?? new Uint8Array()),
      // A malformed list matches no strands.
      () => new Map([["", "0/"]]),
    );
  }

  /**
   * @param {bigint} index
   * @param {Entry} entry
   */
  #checkParents(index, entry) {
    for (const parent of entry.parents) {
      if (this.ids.has(parent)) continue;
      this.findings.add("parent-unknown", `no earlier entry has the id ${parent}`, index, entry);
    }
  }

  /**
   * @param {bigint} index
   * @param {string} leaf
   * @param {Entry} entry
   */
  #checkBodies(index, leaf, entry) {
    for (const [name, commitment] of entry.bodies) {
      if (!this.bundle.hasBody(index, name)) {
        this.absent.set(`${leaf}/${name}`, { name, index, entry });
      } else if (this.bundle.hasMatchingBody(index, name, commitment)) {
        this.bodies.ok++;
      } else {
        this.bodies.mismatch++;
        const detail = `body ${quote(name)} does not match its commitment`;
        this.findings.add("body-mismatch", detail, index, entry);
      }
    }
  }
}
