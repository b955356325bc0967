import { exactNumber } from "./findings.js";

/** Reported runs: docs/spec/report.md. */

/** @typedef {import("./entry.js").Entry} Entry */
/** @typedef {import("./findings.js").Findings} Findings */
/** @typedef {{why: string, gaps: number, steps: number | bigint}} GapCount */
/** @typedef {{driven: number, relayed: number, wrapped: number, reported: number, gaps: GapCount[]}} Coverage */

/** The cap that stands for none. */
const NO_LIMIT = Number.MAX_SAFE_INTEGER;
const UNITS = ["usd", "tokens", "calls"];
const UNIT_WORDS = ["nano-dollars", "tokens", "calls"];

export const PROVENANCES = /** @type {const} */ (["driven", "relayed", "wrapped", "reported"]);

/** A checker of a run that Forum does not drive: its source, spans, cap and gaps. */
export class ReportChecker {
  /** @param {Findings} findings */
  constructor(findings) {
    this.findings = findings;
    /** `driven` for a request, and what each source says. @type {string[]} */
    this.words = [];
    this.opened = 0;
    /** @type {Map<string, {gaps: number, steps: bigint}>} */
    this.gaps = new Map();
    /** The facts of the beginnings of spans without an end, by strand. @type {Map<string, Map<string, any>>} */
    this.begun = new Map();
    /** @type {number[]} */
    this.cap = [];
    // Sums of counts can be larger than a number holds exactly.
    this.used = [0n, 0n, 0n];
    this.overrun = [0n, 0n, 0n];
  }

  /**
   * Check one entry of the run, and count what it says about coverage.
   * @param {bigint} index
   * @param {Entry} entry
   */
  checkEntry(index, entry) {
    const isMain = entry.strand === "main";
    let fault = "";
    if (entry.kind === "run.open/1" && isMain) this.opened++;
    else if (entry.kind === "accepted/1" && isMain) this.words.push("driven");
    else if (entry.kind === "report.source/1") fault = this.#checkSource(entry);
    else if (entry.kind === "report.gap/1") this.#countGap(entry);
    else if (entry.kind === "report.begin/1" || entry.kind === "report.step/1") {
      fault = this.#checkSpan(entry);
    }
    if (fault) this.findings.add("report-invalid", fault, index, entry);
  }

  /** @param {Entry} entry */
  #countGap(entry) {
    const why = entry.facts.get("why");
    const { gaps, steps } = this.gaps.get(why) ?? { gaps: 0, steps: 0n };
    this.gaps.set(why, { gaps: gaps + 1, steps: steps + BigInt(entry.facts.get("steps")) });
  }

  /** @param {Entry} entry */
  #checkSource(entry) {
    if (entry.strand === "main") {
      const cap = UNITS.map((unit) => entry.facts.get(unit) ?? NO_LIMIT);
      this.cap = cap.some((limit) => limit !== NO_LIMIT) ? cap : [];
    }
    if (entry.strand !== "main" || entry.n !== 1) {
      return "the source of a run does not follow its opening";
    }
    this.words.push(entry.facts.get("told"));
    return "";
  }

  /**
   * Check that a span has at most one beginning and one end, and that they agree.
   * @param {Entry} entry
   */
  #checkSpan(entry) {
    const { facts, strand, n } = entry;
    const span = facts.get("span");
    const isBegin = entry.kind === "report.begin/1";
    const begun = isBegin ? undefined : this.begun.get(strand);
    if (isBegin) {
      this.#addReservation(facts);
      this.begun.set(strand, facts);
    } else {
      this.begun.delete(strand);
      if (n) this.#settle(facts, begun);
    }
    if (strand !== `span/${span}`) {
      return `it names the span ${span}, which is not that of its strand`;
    }
    if (isBegin) return n ? "the beginning of a span is not its first entry" : "";
    return describeEndFault(facts, begun, n);
  }

  /** @param {Map<string, any>} facts */
  #addReservation(facts) {
    this.used = this.used.map((used, at) => used + BigInt(facts.get(UNITS[at]) ?? 0));
  }

  /**
   * Replace a reservation by what the step cost.
   * @param {Map<string, any>} facts
   * @param {Map<string, any> | undefined} begun
   */
  #settle(facts, begun) {
    const count = (/** @type {Map<string, any> | undefined} */ from, /** @type {string} */ name) =>
      BigInt(from?.get(name) ?? 0);
    const tokens = count(facts, "input_tokens") + count(facts, "output_tokens");
    // A call that was not made is given back; all others were counted when they began.
    const notMade = facts.get("outcome") === "cancelled" && facts.get("code") === "not-made";
    const calls = notMade ? -count(begun, "calls") : 0n;
    const more = [count(facts, "usd") - count(begun, "usd"), tokens - count(begun, "tokens"), calls];
    this.used = this.used.map((used, at) => used + more[at]);
    if (begun) this.overrun = this.overrun.map((over, at) => over + (more[at] > 0n ? more[at] : 0n));
  }

  /**
   * Compare what a closed run has spent with its cap.
   *
   * While a run is open, a settlement may be missing in the bundle.
   * @param {string} run
   * @param {boolean} closed
   */
  finish(run, closed) {
    const over = this.cap.findIndex((cap, at) => this.used[at] > BigInt(cap) + this.overrun[at]);
    if (!closed || over < 0) return;
    const used = `${this.used[over]} ${UNIT_WORDS[over]}`;
    const detail = `run ${run} has used ${used}, and may use ${this.cap[over]}`;
    this.findings.add("report-invalid", detail);
  }

  /**
   * Return how the run is known, and which steps are known to be missing.
   * @returns {Coverage}
   */
  coverage() {
    const [driven, relayed, wrapped, reported] = PROVENANCES.map(
      (word) => this.words.filter((told) => told === word).length,
    );
    // A run without a request and without a source is reported: nobody says how it came about.
    const untold = Math.max(0, this.opened - this.words.length);
    const gaps = [...this.gaps]
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([why, { gaps, steps }]) => ({ why, gaps, steps: exactNumber(steps) }));
    return { driven, relayed, wrapped, reported: reported + untold, gaps };
  }
}

/**
 * Return what is wrong with the end of a span, or the empty string.
 * @param {Map<string, any>} facts
 * @param {Map<string, any> | undefined} begun
 * @param {number} n
 */
function describeEndFault(facts, begun, n) {
  if (n > 1) return "a span has more than one beginning and one end";
  if (n && !begun) return "a span has two ends";
  if (begun && ["op", "name"].some((name) => begun.get(name) !== facts.get(name))) {
    const [what, other] = [facts, begun].map((from) => `${from.get("op")} ${from.get("name")}`);
    return `it ends ${what}, and ${other} was begun`;
  }
  return "";
}

/**
 * Return whether a run is known from others than Forum, which may not have told everything.
 * @param {Coverage} coverage
 */
export function isToldByOthers(coverage) {
  return PROVENANCES.slice(1).some((word) => coverage[word]);
}

/**
 * Return how runs are known as text.  It is no claim: what was not told cannot be checked.
 * @param {Coverage} coverage
 */
export function describeCoverage(coverage) {
  const counts = PROVENANCES.filter((word) => coverage[word]).map((w) => `${coverage[w]} ${w}`);
  const parts = [`runs: ${counts.join(", ") || "none"}`];
  if (coverage.gaps.length) {
    const listed = coverage.gaps.map((gap) => `${gap.why} ${gap.steps || "?"}`).join(", ");
    parts.push(`steps known to be missing: ${listed}`);
  }
  if (isToldByOthers(coverage)) parts.push("what was not told to Forum is not in the log");
  return parts.join("; ");
}
