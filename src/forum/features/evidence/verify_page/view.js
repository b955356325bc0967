import { CLAIMS, COMPLETE, FAILS, HOLDS, INDEPENDENT, INTACT, describeFinding } from "./findings.js";
import { PACK_CLAIMS, describePackFinding } from "./pack.js";
import { describeCoverage } from "./report_checker.js";
import { escapeText } from "./text.js";

/** A report for people: what was checked, in words that need no command line. */

/** @typedef {import("./pack.js").PackReport} PackReport */
/** @typedef {import("./story.js").StoryLine} StoryLine */
/** @typedef {import("./verifier.js").Report} Report */

/** @typedef {{name: string, state: string, tone: string, meaning: string, reason: string}} ClaimView */

/** @typedef {{title: string, items: string[]}} Section */

/**
 * What the page shows.  `contents` says what the texts of a bundle are worth; it is empty where
 * they cannot be read.  `hasPage` says whether it is a pack, of which a page can be drawn.
 * @typedef {{
 *   summary: string, tone: string, storyTitle: string, story: StoryLine[], contents: string, hasPage: boolean,
 *   claims: ClaimView[], sections: Section[],
 * }} ReportView
 */

const EVERYTHING = "everything in it";
export const SELF_WITNESSED = "self-witnessed";
const ADD_WITNESS =
  "Whoever wrote the log may run every witness that your trust file does not mark. If you know that " +
  "another organization runs one, add a line to your trust file, which must name this log alone: independent NAME.";

/** What each word means where it holds, and where it fails. @type {Record<string, string[]>} */
const MEANINGS = {
  [INTACT]: ["What is here is what was recorded.", "What is here is not what was recorded."],
  [COMPLETE]: ["Nothing that was recorded is missing.", "Something that was recorded is missing."],
  [INDEPENDENT]: ["Another organization has seen it.", "The witnesses that you require have not seen it."],
  [SELF_WITNESSED]: ["Nobody but the writer is known to have seen it."],
  figures: [
    "The numbers of the report follow from the entries.",
    "The report is not the one that follows from the entries.",
  ],
  attested: ["The log has signed the list of files.", "The log has not signed this list of files."],
};
/** How a run can be known. @type {Record<string, string>} */
const WAYS_KNOWN = {
  driven: "Forum ran it, and recorded each step before it was made",
  relayed: "a program made its calls of models through Forum",
  wrapped: "a program recorded its own steps with Forum",
  reported: "a program told Forum afterwards",
};

/**
 * Return what the page shows of a bundle.
 * @param {Report} report
 * @param {string[]} trusted
 * @param {StoryLine[]} story
 * @returns {ReportView}
 */
export function viewReport(report, trusted, story) {
  const isProven = report.intact.state === HOLDS;
  const isForeign = isUnread(report);
  return {
    ...summarize(report, CLAIMS),
    storyTitle: isProven ? "What is proven" : "What the file says; none of this is proven",
    story: isForeign ? [] : story,
    contents: contentsNote(report, isProven),
    hasPage: false,
    claims: isForeign ? [] : CLAIMS.map((claim) => viewClaim(claim, report)),
    sections: toSections(isForeign ? [["You trust", trusted]] : listSections(report, trusted)),
  };
}

/**
 * Return what the page shows of an evidence pack.
 * @param {PackReport} report
 * @param {string[]} trusted
 * @returns {ReportView}
 */
export function viewPackReport(report, trusted) {
  const isForeign = isUnread(report);
  const period = report.since
    ? [
        { name: "Evidence", text: `of the log ${escapeText(report.origin)}` },
        { name: "Period", text: `from ${readable(report.since)} until ${readable(report.until)}` },
        ...(report.counted_by ? [{ name: "Counted by", text: report.counted_by }] : []),
        { name: "Checked", text: "every figure of report.json was computed again from the entries" },
      ]
    : [];
  const left = report.found - report.findings.length;
  const found = [...report.findings.map(describePackFinding), ...(left > 0 ? [`and ${left} more`] : [])];
  return {
    ...summarize(report, PACK_CLAIMS),
    storyTitle: "What this is",
    story: period,
    contents: "",
    hasPage: !isForeign,
    claims: isForeign ? [] : PACK_CLAIMS.map((claim) => viewClaim(claim, report)),
    sections: toSections([
      ["Problems found", isForeign ? [] : found],
      ["Not checked", report.not_checked],
      ["Log", isForeign ? [] : describeLog(report)],
      ["You trust", trusted],
    ]),
  };
}

/** @param {Report | PackReport} report */
function isUnread(report) {
  return report.not_checked[0] === EVERYTHING;
}

/**
 * @param {Report} report
 * @param {boolean} isProven
 */
function contentsNote(report, isProven) {
  if (!report.origin || isUnread(report)) return "";
  return isProven
    ? "These are the entries, as they were recorded. Times are those of the log's clock."
    : "What the file says; none of this is proven.";
}

/**
 * Return the headline and its color: green is only for what was checked and holds.
 * @param {Report | PackReport} report
 * @param {string[]} claims
 */
export function summarize(report, claims) {
  const states = claims.map((claim) => judgementOf(report, claim).state);
  if (isUnread(report)) {
    // A file that could not be read has no origin; otherwise it is of another log.
    const remedy = report.origin ? " You need the trust file of that log." : "";
    const reason = report.intact.reason.replace("bundle-altered: ", "");
    return { summary: `Nothing was checked. ${escapeText(reason)}${remedy}`, tone: "fails" };
  }
  if (report.found || states.includes(FAILS)) {
    const problems = report.found === 1 ? "1 problem was" : `${report.found} problems were`;
    return { summary: `Not verified: ${problems} found.`, tone: "fails" };
  }
  if (!states.includes(HOLDS)) {
    return { summary: "Nothing was checked: choose your trust file.", tone: "unknown" };
  }
  if (!report.ok) {
    return { summary: "Not everything could be checked. Read the reasons.", tone: "unknown" };
  }
  return report.witnessing === SELF_WITNESSED
    ? { summary: "Intact and complete. Only the writer's own witnesses have seen it.", tone: "warn" }
    : { summary: "Intact and complete, and another organization has seen it.", tone: "holds" };
}

/**
 * @param {Report | PackReport} report
 * @param {string} claim
 * @returns {import("./findings.js").Judgement}
 */
function judgementOf(report, claim) {
  return report[/** @type {"intact"} */ (claim)];
}

/**
 * @param {string} claim
 * @param {Report | PackReport} report
 * @returns {ClaimView}
 */
function viewClaim(claim, report) {
  const { state, reason } = judgementOf(report, claim);
  const isOwn = claim === INDEPENDENT && report.witnessing === SELF_WITNESSED;
  const word = isOwn ? SELF_WITNESSED : claim;
  return {
    name: word[0].toUpperCase() + word.slice(1),
    state: isOwn ? "by the writer" : state,
    tone: isOwn ? "warn" : state === HOLDS ? "holds" : state === FAILS ? "fails" : "unknown",
    meaning: isOwn || state === HOLDS ? MEANINGS[word][0] : state === FAILS ? MEANINGS[word][1] : "Not checked.",
    reason: escapeText(isOwn ? `${reason}. ${ADD_WITNESS}` : reason),
  };
}

/**
 * @param {[string, string[]][]} sections
 * @returns {Section[]}
 */
function toSections(sections) {
  return sections
    .filter(([, items]) => items.length)
    .map(([title, items]) => ({ title, items: items.map(escapeText) }));
}

/**
 * @param {Report} report
 * @param {string[]} trusted
 * @returns {[string, string[]][]}
 */
function listSections(report, trusted) {
  const { ok, redacted, missing, mismatch } = report.bodies;
  const left = report.found - report.findings.length;
  const found = [...report.findings.map(describeFinding), ...(left ? [`and ${left} more`] : [])];
  const bodies = `${ok} as recorded, ${redacted} erased, ${missing} missing, ${mismatch} altered`;
  const whenReadable = (/** @type {string[]} */ items) => (report.origin ? items : []);
  return [
    ["Problems found", found],
    ["Witnesses", report.sightings.map(describeSighting)],
    ["Written", describeInterval(report.interval)],
    ["How it is known", whenReadable(describeKnown(report.coverage))],
    ["Not checked", report.not_checked],
    ["Notes", report.notices],
    ["Log", whenReadable(describeLog(report))],
    ["Texts", whenReadable([bodies])],
    ["You trust", trusted],
  ];
}

/** @param {import("./report_checker.js").Coverage} coverage */
function describeKnown(coverage) {
  const words = Object.keys(WAYS_KNOWN).filter((word) => coverage[/** @type {"driven"} */ (word)]);
  return [...words.map((word) => `${word}: ${WAYS_KNOWN[word]}`), describeCoverage(coverage)];
}

/**
 * Return a time of a report as people write it.
 * @param {string} moment
 */
function readable(moment) {
  return moment.replace("T", " ").replace("Z", " UTC");
}

/** @param {Report | PackReport} report */
function describeLog({ origin, size, root }) {
  return [origin, ...(root ? [`${size} entries when it was signed`, `root ${root}`] : [])];
}

/** @param {import("./run_checker.js").Interval | null} interval */
function describeInterval(interval) {
  if (!interval?.after || !interval.before) return [];
  const [after, before] = [interval.after, interval.before].map((time) => formatTime(time * 1000));
  return [`between ${after} and ${before}, witnessed`];
}

/** @param {import("./verifier.js").Sighting} sighting */
function describeSighting({ witness, time, same_machine, independent }) {
  const place = same_machine ? ", on the writer's own machine" : "";
  const mark = independent ? ", another organization's by your trust file" : "";
  return `${witness} cosigned it on ${formatTime(Number(time) * 1000)}${place}${mark}`;
}

/** @param {number} milliseconds */
export function formatTime(milliseconds) {
  const date = new Date(milliseconds);
  if (Number.isNaN(date.getTime())) return "no date";
  return `${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}
