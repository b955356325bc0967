/** Problems, and the claim that each refutes: docs/spec/bundle.md, Findings. */

export const INTACT = "intact";
export const COMPLETE = "complete";
export const INDEPENDENT = "independent";
export const CLAIMS = [INTACT, COMPLETE, INDEPENDENT];

export const HOLDS = "holds";
export const FAILS = "fails";
export const NOT_CHECKED = "not checked";

/** @typedef {import("./entry.js").Entry} Entry */

/** @typedef {{state: string, reason: string}} Judgement */

/**
 * @typedef {{
 *   problem: string, claim: string, detail: string, index: number | bigint | null,
 *   entry: string | null,
 * }} Finding
 */

const MAX_LISTED = 1000;

/** @type {[string, string][]} */
const REFUTING = [
  [
    INTACT,
    "bundle-altered entry-malformed foreign-entry proof-rejected signature-rejected " +
      "link-broken parent-unknown body-mismatch report-invalid",
  ],
  [
    COMPLETE,
    "position-missing position-doubled cause-missing run-unopened after-close strand-unclosed " +
      "body-missing hold-broken",
  ],
  [INDEPENDENT, "history-replaced not-witnessed time-impossible past-unknown cosignature-missing"],
];

/** @type {Map<string, string>} */
export const REFUTED_CLAIMS = new Map(
  REFUTING.flatMap(([claim, problems]) =>
    problems.split(" ").map((problem) => /** @type {[string, string]} */ ([problem, claim])),
  ),
);

/**
 * Return a whole number as a plain number where that is exact.
 * @param {bigint} number
 */
export function exactNumber(number) {
  return number <= Number.MAX_SAFE_INTEGER ? Number(number) : number;
}

/** With the problems that only the log part of a pack can have. @type {Map<string, string>} */
export const PACK_REFUTED_CLAIMS = new Map([
  ...REFUTED_CLAIMS,
  ["root-mismatch", INTACT],
  ["entry-missing", COMPLETE],
  ["tail-cut", COMPLETE],
]);

/** A collector of findings; beyond a thousand, it only counts them. */
export class Findings {
  /** @param {Map<string, string>} refuted */
  constructor(refuted = REFUTED_CLAIMS) {
    this.refuted = refuted;
    /** @type {Finding[]} */
    this.listed = [];
    this.count = 0;
    /** @type {Map<string, string>} */
    this.first = new Map();
  }

  /**
   * Add a finding.
   * @param {string} problem
   * @param {string} detail
   * @param {bigint | null} index
   * @param {Entry | null} entry
   */
  add(problem, detail, index = null, entry = null) {
    const claim = this.refuted.get(problem) ?? "";
    const at = index === null ? null : exactNumber(index);
    const place = entry && `${entry.run}/${entry.strand}/${entry.n}`;
    const finding = { problem, claim, detail, index: at, entry: place };
    this.count++;
    if (!this.first.has(claim)) this.first.set(claim, describeFinding(finding));
    if (this.count <= MAX_LISTED) this.listed.push(finding);
  }

  /**
   * Return the result of a claim: it holds unless there is a finding or an unknown.
   * @param {string} claim
   * @param {string} reason
   * @param {string} unknown
   * @returns {Judgement}
   */
  judgeClaim(claim, reason, unknown = "") {
    const refutation = this.first.get(claim);
    if (refutation) return { state: FAILS, reason: refutation };
    return { state: unknown ? NOT_CHECKED : HOLDS, reason: unknown || reason };
  }
}

/**
 * Return a finding as one line of text.
 * @param {Finding} finding
 */
export function describeFinding(finding) {
  const index = finding.index === null ? [] : [`entry ${finding.index}`];
  const place = [...index, ...(finding.entry ? [finding.entry] : [])].join(", ");
  return `${finding.problem}${place && " at "}${place}: ${finding.detail}`;
}
