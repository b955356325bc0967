import { CLAIMS, FAILS, HOLDS, describeFinding } from "./findings.js";
import { describeCoverage } from "./report_checker.js";
import { escapeText } from "./text.js";

/** A report in the words of verify.py, ready to be shown. */

/** @typedef {import("./verifier.js").Report} Report */

/** @typedef {{name: string, state: string, tone: string, reason: string}} ClaimView */

/** @typedef {{title: string, items: string[]}} Section */

/** @typedef {{summary: string, contents: string, claims: ClaimView[], sections: Section[]}} ReportView */

/**
 * Return what the page shows of a report.  `contents` says what the bundle's texts are worth; it
 * is empty where they cannot be read.
 * @param {Report} report
 * @param {string[]} trusted
 * @returns {ReportView}
 */
export function viewReport(report, trusted) {
  const summary = report.ok
    ? "All three claims hold"
    : "Not all three claims hold: read the reasons";
  const contents =
    report.intact.state === HOLDS
      ? "What is proven. Times are those of the log's clock."
      : "What it says; none of this is proven.";
  return {
    summary,
    contents: report.origin && contents,
    claims: CLAIMS.map((claim) => viewClaim(claim, report)),
    sections: listSections(report, trusted).filter(({ items }) => items.length),
  };
}

/**
 * @param {string} claim
 * @param {Report} report
 * @returns {ClaimView}
 */
function viewClaim(claim, report) {
  const { state, reason } = report[/** @type {"intact"} */ (claim)];
  const tone = state === HOLDS ? "holds" : state === FAILS ? "fails" : "unknown";
  return { name: claim[0].toUpperCase() + claim.slice(1), state, tone, reason: escapeText(reason) };
}

/**
 * @param {Report} report
 * @param {string[]} trusted
 * @returns {Section[]}
 */
function listSections(report, trusted) {
  const { ok, redacted, missing, mismatch } = report.bodies;
  const left = report.found - report.findings.length;
  const found = [...report.findings.map(describeFinding), ...(left ? [`and ${left} more`] : [])];
  const log = [report.origin, `size ${report.size}`, `root ${report.root}`];
  const bodies = `${ok} ok, ${redacted} redacted, ${missing} missing, ${mismatch} mismatch`;
  const whenReadable = (/** @type {string[]} */ items) => (report.origin ? items : []);
  /** @type {[string, string[]][]} */
  const sections = [
    ["Found", found],
    ["Seen", report.sightings.map(describeSighting)],
    ["Coverage", whenReadable([describeCoverage(report.coverage)])],
    ["Not checked", report.not_checked],
    ["Notes", report.notices],
    ["Log", whenReadable(log)],
    ["Bodies", whenReadable([bodies])],
    ["You trust", trusted],
  ];
  return sections.map(([title, items]) => ({ title, items: items.map(escapeText) }));
}

/** @param {import("./verifier.js").Sighting} sighting */
function describeSighting({ witness, time, same_machine }) {
  const place = same_machine ? ", on the writer's own machine" : "";
  return `by ${witness} at ${time} (${formatTime(Number(time) * 1000)})${place}`;
}

/** @param {number} milliseconds */
export function formatTime(milliseconds) {
  const date = new Date(milliseconds);
  if (Number.isNaN(date.getTime())) return "no date";
  return `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}
