import { toHex } from "./bytes.js";
import { INDEPENDENT } from "./findings.js";
import { PACK_CLAIMS, describePackFinding } from "./pack.js";
import { MAX_DECISIONS, MAX_EVENTS, ask, dayOf, formatMoment } from "./pack_counts.js";
// Made by build.py from the tables of the page that Forum draws.
import { CHARTS, LIMITS_TITLE, QUESTIONS, SECTIONS, TILES } from "./page_tables.js";
import { uniqueKeys } from "./note.js";
import { sha256 } from "./sha256.js";
import { compareText, escapeHidden } from "./text.js";
import { SELF_WITNESSED, summarize } from "./view.js";

/**
 * The page of a pack, drawn from what was verified: that of forum.features.evidence.page, element by element.
 *
 * It is a tree of elements and texts; who shows it makes nodes of a document, so that no text
 * becomes markup.  Every verdict on it is that of this verifier, with the keys of the reader.
 */

/** @typedef {import("./pack.js").CheckedPack} CheckedPack */
/** @typedef {import("./verifier.js").Trust} Trust */
/** @typedef {Map<string, any>} Members */
/** @typedef {{tag: string, attributes: Record<string, string>, children: PageNode[]}} PageElement */
/** @typedef {PageElement | string} PageNode */
/** A part of each bar. @typedef {{name: string, color: string, values: Map<string, bigint>}} Layer */

/**
 * A page: `margin` is what stands in the margin of each printed page.
 * @typedef {{title: string, margin: string, children: PageNode[]}} PackPage
 */

const THIS_PROGRAM = "verify.html";
const DAY_US = 86_400_000_000;
const MAX_GROUPS_SHOWN = 6;
const MAX_BARS = 62;
const [WIDTH, HEIGHT, LEFT, TOP, BOTTOM] = [520, 190, 76, 12, 24];
const SOME_COLORS = ["c2", "c3", "c4", "c1", "c5", "c6"];

/**
 * Make an element; its class stands behind a dot.
 * @param {string} tag
 * @param {Record<string, any>} attributes
 * @param {(PageNode | number)[]} children
 * @returns {PageElement}
 */
function element(tag, attributes, ...children) {
  const [name, className] = tag.split(".");
  const texts = Object.entries({ ...(className ? { class: className } : {}), ...attributes });
  return {
    tag: name,
    attributes: Object.fromEntries(texts.map(([key, value]) => [key, String(value)])),
    children: children.map((child) => (isElement(child) ? child : String(child))),
  };
}

/**
 * @param {any} child
 * @returns {child is PageElement}
 */
function isElement(child) {
  return typeof child === "object" && child !== null && "tag" in child;
}

/**
 * Return a text of others as an element: what is in it moves nothing that is beside it.
 * @param {any} text
 */
function told(text) {
  return element("bdi", {}, text);
}

/**
 * Put something between others.
 * @param {PageNode[][]} lists
 * @param {PageNode} between
 */
function joinNodes(lists, between) {
  return lists.flatMap((nodes, at) => (at ? [between, ...nodes] : nodes));
}

/**
 * Return a copy in which no text has a hidden character, wherever on the page it will stand.
 * @param {any} value
 * @returns {any}
 */
function revealAll(value) {
  if (typeof value === "string") return escapeHidden(value);
  if (value instanceof Map) return new Map([...value].map(([name, item]) => [name, revealAll(item)]));
  return Array.isArray(value) ? value.map(revealAll) : value;
}

/**
 * Draw the page of a pack.
 *
 * Without a report it has no figure: none follows from the pack, or no key that the reader trusts
 * has signed what it would follow from.
 * @param {CheckedPack} checked
 * @param {Trust} trust
 * @param {Uint8Array} data
 * @returns {PackPage}
 */
export function drawPackPage(checked, trust, data) {
  const report = /** @type {Members | null} */ (revealAll(checked.computed));
  const verdict = summarize(checked.report, PACK_CLAIMS);
  const marks = [...(checked.report.ok ? [] : [verdict.summary]), ...(report ? describeUnreviewed(report) : [])];
  const span = report ? `${report.get("since").slice(0, 10)} to ${report.get("until").slice(0, 10)}` : "not verified";
  const origin = escapeHidden(checked.report.origin);
  return {
    title: `Evidence of ${origin}, ${span}`,
    margin: marks.join(" "),
    children: [
      element("h1", { "data-row": "title" }, "Evidence of ", told(origin)),
      ...(report ? introduce(report) : []),
      drawVerdict(checked, report, verdict, trust, toHex(sha256(data))),
      ...(report ? drawBody(report, checked) : []),
    ],
  };
}

/** @param {Members} report */
function introduce(report) {
  const incident = report.get("incident");
  const about = incident ? ["The incident of run ", told(incident.get("run")), ". "] : [];
  const since = formatSecond(report.get("since"));
  const counted = `From ${since} until ${formatSecond(report.get("until"))}. ${count(report.get("counted"))} entries in the period; `;
  const nodes = [element("p", { "data-row": "period" }, ...about, `${counted}the log part holds ${count(report.get("entries"))}.`)];
  if (report.has("counted_by")) {
    nodes.push(element("p", { "data-row": "counted_by" }, describeCounting(report.get("counted_by"))));
  }
  const outside = report.get("outside");
  if (outside?.get("entries")) {
    const noun = outside.get("entries") === 1 ? "entry was" : "entries were";
    const runs = outside.get("runs").map((/** @type {string} */ run) => [told(run)]);
    const more = outside.get("runs_of") - runs.length;
    const words =
      `${count(outside.get("entries"))} ${noun} first seen by witnesses in the period, and so counted ` +
      "in it, although the writer says another time. Look at the runs: ";
    const end = `${more ? ` and ${count(more)} more` : ""}.`;
    nodes.push(element("p.mark", { "data-row": "outside" }, words, ...joinNodes(runs, ", "), end));
  }
  nodes.push(
    element(
      "p.dim",
      {},
      "This page says what a log shows, what it does not show, and what stays yours. It does not say " +
        "whether a duty is met, and is no legal advice.",
    ),
  );
  const marks = describeUnreviewed(report);
  return [...nodes, ...marks.map((text) => element("p.mark", { "data-row": "mark" }, text))];
}

/** @param {string} countedBy */
function describeCounting(countedBy) {
  return countedBy === "witnessed"
    ? "Counted by: witnessed. At both ends of the period, checkpoints that witnesses saw decide " +
        "which entries are in it; between two of these, the time of the writer does."
    : "Counted by: writer. At an end of the period, no witness decides which entries are in it, " +
        "but the time that the writer of each says.";
}

/** @param {Members} report */
function describeUnreviewed(report) {
  const maps = report.get("maps").map((/** @type {Members} */ result) => result.get("map"));
  const unreviewed = maps.filter((/** @type {Members} */ map) => map.get("review").get("status") === "unreviewed");
  const names = unreviewed.map((/** @type {Members} */ map) => map.get("name")).join(", ");
  return names ? [`Not reviewed: nobody has compared these maps with the original texts: ${names}.`] : [];
}

/**
 * Return what this verifier found: what is wrong first.
 * @param {CheckedPack} checked
 * @param {Members | null} report
 * @param {{summary: string, tone: string}} verdict
 * @param {Trust} trust
 * @param {string} digest
 */
function drawVerdict({ report: found }, report, { summary, tone }, trust, digest) {
  const nodes = [element("h2", {}, summary)];
  const left = found.found - found.findings.length;
  const problems = found.findings.map((finding) => element("li", {}, told(escapeHidden(describePackFinding(finding)))));
  if (left > 0) problems.push(element("li", {}, `and ${count(left)} more`));
  if (problems.length) nodes.push(element("ul.found", {}, ...problems));
  if (!report) {
    nodes.push(element("p", {}, "No figure is shown: none follows from what your keys have signed."));
  } else if (!found.ok) {
    const words =
      "The figures below were computed from the entries in the file. Because of what is said here, " +
      "take none of them as proven.";
    nodes.push(element("p", {}, words));
  }
  const rows = listClaims(found).map(({ name, state, reason }) =>
    element(
      "tr",
      { "data-row": `check ${name}` },
      element("td.claim", {}, element("b", {}, name)),
      element("td.s", {}, state),
      element("td", {}, told(escapeHidden(reason))),
    ),
  );
  nodes.push(element("table", {}, element("tbody", {}, ...rows, ...(report ? [drawLogPart(report)] : []))));
  if (found.not_checked.length) {
    const items = found.not_checked.map((words) => element("li", {}, told(escapeHidden(words))));
    nodes.push(element("h3", {}, "Not checked"), element("ul", {}, ...items));
  }
  nodes.push(element("h3", {}, `Checked by ${THIS_PROGRAM}, with these keys`));
  const keys = listKeys(trust).map((key) => element("li", {}, element("code", {}, told(escapeHidden(key)))));
  nodes.push(keys.length ? element("ul", {}, ...keys) : element("p", {}, "None: you named no key. Choose your trust file."));
  nodes.push(
    element(
      "p.dim",
      {},
      "The file has the SHA-256 ",
      element("code", {}, digest),
      ". Anybody can write a page like this: if you got it from others, ask for the file, and verify that " +
        "with keys of your own.",
    ),
  );
  return element("section.verdict", { class: `verdict ${tone}`, id: "record-check" }, ...nodes);
}

/**
 * Return the claims as this verifier found them.
 * @param {CheckedPack["report"]} found
 */
function listClaims(found) {
  return PACK_CLAIMS.map((claim) => {
    const { state, reason } = found[/** @type {"intact"} */ (claim)];
    // The writer may run every witness that the reader does not mark.
    const isOwn = claim === INDEPENDENT && found.witnessing === SELF_WITNESSED;
    const name = isOwn ? "witnessed" : claim;
    return { name: name[0].toUpperCase() + name.slice(1), state: isOwn ? SELF_WITNESSED : state, reason };
  });
}

/**
 * Return the keys that a reader trusts, each in words.
 * @param {Trust} trust
 */
function listKeys({ keys, policy }) {
  const logs = uniqueKeys([...keys, ...(policy?.logs ?? [])]).map((key) => `log ${key.text}`);
  const witnesses = [...(policy?.witnesses.values() ?? [])].map(
    (key) => `witness ${key.text} (${describeMark(Boolean(policy?.isIndependent(key, keys)))})`,
  );
  return [...logs, ...witnesses];
}

/** @param {boolean} isIndependent */
function describeMark(isIndependent) {
  return isIndependent ? "another organization's, by your trust file" : "not marked as another organization's";
}

/** @param {Members} report */
function drawLogPart(report) {
  const [start, end] = [report.get("start"), report.get("end")];
  const [from, until] = [start.get("size"), end.get("size")];
  const trees = until ? `entries ${count(from)} to ${count(BigInt(until) - 1n)}` : "none";
  const between = `between the signed trees of size ${count(from)} and ${count(until)}; root of the second `;
  return element(
    "tr",
    { "data-row": "checkpoints" },
    element("td.claim", {}, element("b", {}, "Log part")),
    element("td.s", {}, trees),
    element("td", {}, between, element("code", {}, end.get("root"))),
  );
}

/**
 * Return the sections of a report.
 * @param {Members} report
 * @param {CheckedPack} checked
 */
function drawBody(report, checked) {
  /** @type {Members[]} */
  const listed = report.get("figures");
  /** @type {Map<string, Members>} */
  const figures = new Map(listed.map((figure) => [figure.get("id"), figure]));
  const states = listClaims(checked.report).slice(0, 3).map(({ name, state }) => `${name}: ${state}`);
  /** @type {Record<string, string>} */
  const titles = SECTIONS;
  const nodes = [
    drawTiles(figures),
    ...drawQuestions(report, figures, `${states.join(", ")}, with your keys`),
    element("h2", { id: "charts" }, "By day"),
    element("div.charts", {}, ...drawCharts(report, figures)),
    ...drawIncident(report),
    ...drawNamed(report),
  ];
  for (const [section, title] of Object.entries(titles)) {
    const own = listed.filter((f) => f.get("section") === section && !groupedBy(f).includes("day"));
    nodes.push(...drawFigures(section, title, own));
    if (section === "decisions") nodes.push(...drawDecisions(report));
    nodes.push(...drawEvents(report, section));
  }
  const others = listed.filter((figure) => !Object.hasOwn(titles, figure.get("section")));
  if (others.length) nodes.push(...drawFigures("added", "Figures that a map adds", others));
  for (const result of report.get("maps")) nodes.push(...drawMap(result, checked));
  nodes.push(...drawBundles(report, checked), element("h2", { id: "limits" }, LIMITS_TITLE));
  const limits = report.get("limits").map((/** @type {string} */ limit, /** @type {number} */ at) =>
    element("li", { "data-row": `limit ${at + 1}` }, limit),
  );
  return [...nodes, element("ul", {}, ...limits)];
}

/** @param {Members} figure */
function groupedBy(figure) {
  return /** @type {string[]} */ (ask(figure.get("query"), "by", []));
}

/** @param {Map<string, Members>} figures */
function drawTiles(figures) {
  const tiles = TILES.map((/** @type {string[]} */ [id, words]) => {
    const text = describeValue(figureOf(figures, id));
    // A label begins with a plural.
    const label = text === "1" ? words.replace(/s(?= |$)/, "") : words;
    return element("div.tile", { "data-row": id }, element("b", {}, text), label);
  });
  return element("div.tiles", {}, ...tiles);
}

/**
 * @param {Map<string, Members>} figures
 * @param {string} id
 */
function figureOf(figures, id) {
  const figure = figures.get(id);
  if (!figure) throw new TypeError(`no figure ${id}`);
  return figure;
}

/**
 * Return the table of questions, each with its answer in short and a link to the rest.
 * @param {Members} report
 * @param {Map<string, Members>} figures
 * @param {string} whole  the answer to the question whether a run is missing
 */
function drawQuestions(report, figures, whole) {
  /** @type {Record<string, string>} */
  const others = { "record-check": whole, limits: `limits that are listed: ${report.get("limits").length}` };
  /** @type {Record<string, string>} */
  const titles = { ...SECTIONS, "record-check": "Is the record whole?", limits: LIMITS_TITLE };
  const rows = QUESTIONS.map((/** @type {any[]} */ [question, anchor, asked], /** @type {number} */ at) => {
    // A pack of an earlier release has not all of these figures.
    const parts = asked.flatMap((/** @type {string[]} */ [id, words]) => {
      const figure = figures.get(id);
      return figure ? [`${words}: ${describeValue(figure)}`] : [];
    });
    return element(
      "tr",
      { "data-row": `question ${at + 1}` },
      element("td", {}, `${at + 1}. ${question}`),
      element("td", {}, others[anchor] ?? parts.join(", ")),
      element("td", {}, element("a", { href: `#${anchor}` }, titles[anchor])),
    );
  });
  return [
    element("h2", { id: "questions" }, "Ten questions"),
    makeTable("questions", ["question", "in short", "where"], rows),
  ];
}

/**
 * @param {string} style
 * @param {string[]} names
 * @param {PageNode[]} rows
 */
function makeTable(style, names, rows) {
  const cells = names.map((name) => element("th", { scope: "col" }, name));
  const head = element("thead", {}, element("tr", {}, ...cells));
  return element(style ? `table.${style}` : "table", {}, head, element("tbody", {}, ...rows));
}

/**
 * Return the value of a figure; "none" for a time that nothing took.
 * @param {Members} figure
 */
function describeValue(figure) {
  const value = figure.get("value");
  if (value === null) return "cannot be computed";
  return figure.get("unit") === "seconds" && !figure.get("items") ? "none" : formatValue(value, figure.get("unit"));
}

/**
 * Return a figure for people.
 * @param {number | bigint} value
 * @param {string} unit
 */
function formatValue(value, unit) {
  if (unit === "seconds") return formatSeconds(value);
  if (unit !== "nano-usd") return count(value);
  // To a hundredth of a cent; report.json has the exact value.
  const rounded = (BigInt(value) + 50_000n) / 100_000n;
  return `$${count(rounded / 10_000n)}.${String(rounded % 10_000n).padStart(4, "0")}`;
}

/** @param {number | bigint} value */
function formatSeconds(value) {
  const seconds = BigInt(value);
  const [minutes, hours] = [seconds / 60n, seconds / 3600n];
  if (seconds < 60n) return `${seconds} s`;
  if (minutes < 60n) return `${minutes} min ${seconds % 60n} s`;
  return hours < 48n ? `${hours} h ${minutes % 60n} min` : `${hours / 24n} d ${hours % 24n} h`;
}

/**
 * Return a number with a comma between thousands.
 * @param {number | bigint} number
 */
function count(number) {
  return String(number).replace(/\B(?=(?:\d{3})+$)/g, ",");
}

/**
 * Return a time to the second; report.json has the exact one.
 * @param {string} text
 */
function formatSecond(text) {
  return `${text.slice(0, 10)} ${text.slice(11, 19)} UTC`;
}

/** @param {Members} members */
function timeOf(members) {
  return formatSecond(formatMoment(members.get("ts")));
}

/**
 * Return the cells of a row, each a text of others.
 * @param {any[]} texts
 */
function tellCells(texts) {
  return texts.map((text) => element("td", {}, told(text)));
}

/** @param {Members} report */
function drawIncident(report) {
  const incident = report.get("incident");
  if (!incident) return [];
  const timeline = /** @type {Members[]} */ (incident.get("timeline"));
  const shown = ` has ${count(incident.get("entries"))} entries in the log part; ${count(timeline.length)} are listed.`;
  const nodes = [
    element("h2", { id: "incident" }, "The run of the incident"),
    element("p", {}, element("code", {}, told(incident.get("run"))), shown),
  ];
  const related = incident.get("related").map((/** @type {string} */ run) => [element("code", {}, told(run))]);
  if (related.length) {
    nodes.push(element("p", { "data-row": "related" }, "Runs that its entries name: ", ...joinNodes(related, ", ")));
  }
  const rows = timeline.map((entry) => {
    const texts = ["strand", "kind", "actor", "outcome"].map((name) => entry.get(name));
    const index = entry.get("index");
    const cells = [element("td.n", {}, index), ...tellCells([timeOf(entry), ...texts])];
    return element("tr", { "data-row": `incident entry ${index}` }, ...cells);
  });
  return [...nodes, makeTable("", ["entry", "time (UTC)", "strand", "kind", "by", "outcome"], rows)];
}

/** @param {Members} report */
function drawNamed(report) {
  const title = element("h2", { id: "named" }, "Runs to look at");
  const named = /** @type {Members[]} */ (report.get("named"));
  if (!named.length) {
    return [title, element("p", {}, "None: no stop, no failure, no effect in doubt and no gap in the period.")];
  }
  const shown = `The first ${named.length} of ${count(report.get("named_of"))}. Each has a bundle in `;
  const rows = named.map((run) =>
    element(
      "tr",
      { "data-row": `named run ${run.get("run")}` },
      element("td", {}, element("code", {}, told(run.get("run")))),
      element("td", {}, run.get("reasons").join(", ")),
      element("td", {}, run.get("entries").join(", ")),
    ),
  );
  return [
    title,
    element("p.dim", { "data-row": "named" }, shown, element("code", {}, "runs/"), "."),
    makeTable("", ["run", "why", "entries"], rows),
  ];
}

/** @param {Members} report */
function drawDecisions(report) {
  const decisions = /** @type {Members[]} */ (report.get("decisions"));
  if (!decisions.length) return [];
  const enclosed = new Set(report.get("bundles").map((/** @type {Members} */ bundle) => bundle.get("run")));
  const rows = decisions.map((decision) => {
    const [index, run] = [decision.get("index"), decision.get("run")];
    const shown = enclosed.has(run) ? "in the bundle of the run" : "no bundle here";
    const cells = tellCells([
      `${decision.get("answer")}: ${decision.get("subject")}`,
      run,
      `${decision.get("actor")} (${decision.get("authority")})`,
      timeOf(decision),
      formatSeconds(decision.get("seconds")),
      `${shown}; digest ${decision.get("digest").slice(0, 16)}`,
    ]);
    return element("tr", { "data-row": `decision ${index}` }, element("td.n", {}, index), ...cells);
  });
  return [
    makeTable("", ["entry", "decision", "run", "by", "time", "took", "what was shown"], rows),
    element("p.dim", {}, `At most the first ${MAX_DECISIONS} decisions are listed.`),
  ];
}

/**
 * Return the list of the events of a section.
 * @param {Members} report
 * @param {string} section
 */
function drawEvents(report, section) {
  const events = report.get("events").filter((/** @type {Members} */ event) => event.get("section") === section);
  if (!events.length) return [];
  const rows = events.map((/** @type {Members} */ event) => {
    const index = event.get("index");
    const kind = element("span.dim", {}, told(event.get("kind")));
    const what = element("td", {}, told(event.get("words")), " ", kind);
    const cells = [element("td.n", {}, index), ...tellCells([timeOf(event), event.get("actor")]), what];
    return element("tr", { "data-row": `event ${index}` }, ...cells);
  });
  const table = makeTable("events", ["entry", "time", "by", "what"], rows);
  const words = `Only the first ${MAX_EVENTS} are listed; entries.csv has all.`;
  return [table, ...(events.length === MAX_EVENTS ? [element("p.dim", {}, words)] : [])];
}

/**
 * @param {string} anchor
 * @param {string} title
 * @param {Members[]} figures
 */
function drawFigures(anchor, title, figures) {
  const rows = figures.map((figure) =>
    element(
      "tr",
      { "data-row": figure.get("id") },
      element(
        "td.w",
        {},
        told(figure.get("title")),
        element("br", {}),
        element("span.dim", {}, told(describeQuery(figure))),
      ),
      element("td.n", {}, describeValue(figure)),
      element("td", {}, ...joinNodes(describeGroups(figure), ", ")),
      element("td.dim", {}, figure.get("examples").join(", ")),
    ),
  );
  return [
    element("h2", { id: anchor }, title),
    makeTable("figures", ["figure", "value", "of which", "entries, e.g."], rows),
  ];
}

/**
 * Return a query in one line.
 * @param {Members} figure
 */
function describeQuery(figure) {
  const query = figure.get("query");
  const what = ask(query, "kinds", []).join(", ") || `all ${ask(query, "over", "entries")}`;
  const conditions = ask(query, "where", []).map((/** @type {Members} */ condition) => {
    const verb = condition.get("negated") ? "is not" : "is";
    return `${condition.get("member")} ${verb} ${condition.get("values").join(" or ")}`;
  });
  const of = ask(query, "of", "");
  const measure = of ? `${ask(query, "measure", "count")} of ${of}: ` : "";
  const where = conditions.length ? ` where ${conditions.join(" and ")}` : "";
  return `${figure.get("id")} = ${measure}${what}${where}`;
}

/**
 * @param {Members} figure
 * @returns {PageNode[][]}
 */
function describeGroups(figure) {
  const groups = /** @type {Members[]} */ (figure.get("groups"));
  const shown = groups.slice(0, MAX_GROUPS_SHOWN).map((group) => {
    const parts = group.get("key").map((/** @type {string} */ part) => [told(part || "none")]);
    const value = element("b", {}, formatValue(group.get("value"), figure.get("unit")));
    return [...joinNodes(parts, " / "), " ", value];
  });
  const more = groups.length - MAX_GROUPS_SHOWN;
  return more > 0 ? [...shown, [`and ${more} more in report.json`]] : shown;
}

/**
 * @param {Members} result
 * @param {CheckedPack} checked
 */
function drawMap(result, { comparedMaps }) {
  const map = /** @type {Members} */ (result.get("map"));
  const [name, review] = [map.get("name"), map.get("review")];
  const row = { "data-row": `map ${name}` };
  const nodes = [element("h2", { id: `map-${name}`, ...row }, told(map.get("title")))];
  const isTold = !comparedMaps.includes(name);
  if (isTold) {
    const words = "The maker of the pack wrote this text. Your program has no such text to compare it with.";
    nodes.push(element("p.mark", row, words));
  }
  if (review.get("by")) {
    const compared = `Compared with the original texts by ${review.get("by")}, ${review.get("on")}.`;
    const words = `Version ${map.get("version")}. ${isTold ? "Its maker says: " : ""}${compared}`;
    nodes.push(element("p.dim", row, told(words)));
  } else {
    const words = "Not reviewed: nobody has compared this map with the original texts.";
    nodes.push(element("p.mark", row, `Version ${map.get("version")}. ${words}`));
  }
  nodes.push(element("p", row, told(map.get("applies"))));
  const shown = /** @type {Members[]} */ (result.get("rows"));
  const rows = map.get("rows").map((/** @type {Members} */ duty, /** @type {number} */ at) =>
    element(
      "tr",
      { "data-row": `map ${name} ${duty.get("id")}` },
      element(
        "td.w",
        {},
        element("b", {}, told(duty.get("id"))),
        " ",
        told(duty.get("duty")),
        element("br", {}),
        element("span.dim", {}, told(`${duty.get("source")} (read: ${duty.get("read")})`)),
      ),
      element("td.w", {}, ...describeDuty(shown[at])),
      ...tellCells([duty.get("yours"), duty.get("not_covered") ?? ""]),
    ),
  );
  const table = makeTable("map", ["duty", "in this period", "stays yours", "not covered here"], rows);
  const notes = (map.get("not_shown") ?? []).map((/** @type {string} */ text, /** @type {number} */ at) =>
    element("p.dim", { "data-row": `map ${name} note ${at + 1}` }, told(text)),
  );
  return [...nodes, table, ...notes];
}

/** @param {Members} shown */
function describeDuty(shown) {
  const figures = shown.get("figures").map((/** @type {Members} */ figure) => {
    const items = figure.get("items");
    return [told(figure.get("id")), " ", element("b", {}, items === null ? "cannot be computed" : count(items))];
  });
  const examples = shown.get("examples").length ? `entries ${shown.get("examples").join(", ")}` : "";
  const lines = [[shown.get("state")], joinNodes(figures, ", "), [element("span.dim", {}, examples)]];
  return joinNodes(lines.filter((line) => line.length), element("br", {}));
}

/**
 * Return where the order of the runs comes from, and what a reader should know about it.
 * @param {string} source
 * @param {CheckedPack["seedWitnesses"]} witnesses
 * @returns {[PageNode[], string]}
 */
function describeSeed(source, witnesses) {
  const follows = "Their order follows from the seed, which";
  const names = joinNodes(witnesses.map(({ name, independent }) => [told(escapeHidden(`${name} (${describeMark(independent)})`))]), ", ");
  switch (source) {
    case "auditor":
      return [[`${follows} an auditor brought`], " Compare it with the one that you brought."];
    case "recorded":
      return [
        [
          `${follows} comes from the cosignatures by `,
          ...names,
          " that the log recorded of the first tree behind the period",
        ],
        " The maker of the log could not choose among later trees.  He could ask for other " +
          "cosignatures before he recorded these: a seed of your own excludes that.",
      ];
    case "witnesses":
      return [
        [`${follows} comes from the cosignatures of a tree behind the period by `, ...names],
        " The log part has no record of them, so the maker of the log could choose among later " +
          "trees and cosignatures: bring a seed of your own.",
      ];
    default:
      return [
        [`${follows} is the root of the tree`],
        " The maker of the log can influence this draw: bring a seed of your own.",
      ];
  }
}

/**
 * @param {Members} report
 * @param {CheckedPack} checked
 */
function drawBundles(report, { seedWitnesses }) {
  const sample = report.get("sample");
  const [brought, caution] = describeSeed(sample.get("seed_from"), seedWitnesses);
  const drawn = `${sample.get("runs").length} of ${count(sample.get("population"))} runs with an entry in the period were drawn. `;
  const seed = element("code", {}, told(sample.get("seed")));
  const nodes = [
    element("h2", { id: "sample" }, "Bundles in this pack"),
    element("p", { "data-row": "sample" }, drawn, ...brought, ": ", seed, `.${caution}`),
  ];
  const bundles = /** @type {Members[]} */ (report.get("bundles"));
  if (!bundles.length) return nodes;
  const rows = bundles.map((bundle) => {
    const run = element("td", {}, element("code", {}, told(bundle.get("run"))));
    const why = element("td", {}, bundle.get("why").join(", "));
    return element("tr", { "data-row": `bundle ${bundle.get("run")}` }, run, ...tellCells([bundle.get("file")]), why);
  });
  return [...nodes, makeTable("", ["run", "file", "why"], rows)];
}

/**
 * @param {Members} report
 * @param {Map<string, Members>} figures
 */
function drawCharts(report, figures) {
  const given = report.get("arguments");
  const [since, last] = [given.get("since"), Math.max(given.get("since"), given.get("until") - 1)];
  const first = since - (since % DAY_US);
  const days = Array.from({ length: Math.floor((last - first) / DAY_US) + 1 }, (_, at) => dayOf(first + at * DAY_US));
  return CHARTS.map((/** @type {any[]} */ [id, title, colors]) => {
    const figure = figureOf(figures, id);
    const layers = listLayers(figure, colors);
    const legend = groupedBy(figure).length > 1 ? drawLegend(layers) : [];
    const heading = element("figcaption", {}, element("h3", {}, title));
    return element("figure", { "data-row": id }, heading, ...legend, drawBars(title, days, layers, figure.get("unit")));
  });
}

/**
 * @param {Members} figure
 * @param {Record<string, string>} colors
 * @returns {Layer[]}
 */
function listLayers(figure, colors) {
  /** @type {Map<string, Map<string, bigint>>} */
  const values = new Map();
  for (const group of figure.get("groups")) {
    const [day, name = ""] = group.get("key");
    values.set(name, (values.get(name) ?? new Map()).set(day, BigInt(group.get("value"))));
  }
  const order = Object.keys(colors);
  const rank = (/** @type {string} */ name) =>
    Object.hasOwn(colors, name) ? order.indexOf(name) : order.length;
  const names = [...values.keys()].sort((one, other) => rank(one) - rank(other) || compareText(one, other));
  return names.map((name, at) => {
    const fallback = name ? SOME_COLORS[at % SOME_COLORS.length] : "c1";
    return { name, color: Object.hasOwn(colors, name) ? colors[name] : fallback, values: values.get(name) ?? new Map() };
  });
}

/** @param {Layer[]} layers */
function drawLegend(layers) {
  const shown = layers.filter(({ values }) => [...values.values()].some(Boolean));
  const keys = shown.map(({ name, color }) => element("span.key", {}, element(`i.${color}`, {}), name));
  return keys.length ? [element("p.legend", {}, ...keys)] : [];
}

/**
 * Return a chart of stacked bars.  Where there are too many days, each bar stands for several: with
 * their sum, or with the longest time, because their median does not follow from those of each.
 * @param {string} title
 * @param {string[]} days
 * @param {Layer[]} layers
 * @param {string} unit
 */
function drawBars(title, days, layers, unit) {
  const width = Math.ceil(days.length / MAX_BARS);
  const bars = Array.from({ length: Math.ceil(days.length / width) }, (_, at) => days.slice(at * width, (at + 1) * width));
  const combine = (/** @type {bigint} */ one, /** @type {bigint} */ other) =>
    unit !== "seconds" ? one + other : one > other ? one : other;
  const columns = bars.map((bar) =>
    layers.map(({ values }) => bar.map((day) => values.get(day) ?? 0n).reduce(combine, 0n)),
  );
  const top = columns
    .map((column) => column.reduce((sum, value) => sum + value, 0n))
    .reduce((most, sum) => (sum > most ? sum : most), 0n);
  const [plotWidth, plotHeight] = [WIDTH - LEFT - 8, HEIGHT - TOP - BOTTOM];
  const [right, base, middle] = [WIDTH - 8, TOP + plotHeight, LEFT + plotWidth / 2];
  const write = (/** @type {number} */ x, /** @type {number} */ y, /** @type {string} */ anchor, /** @type {string} */ text) =>
    element("text", { x: x.toFixed(1), y, "text-anchor": anchor }, text);
  const line = (/** @type {string} */ style, /** @type {number} */ y) =>
    element(`line.${style}`, { x1: LEFT, x2: right, y1: y, y2: y });
  const parts = [line("axis", base), write(LEFT - 6, base, "end", "0")];
  if (top) parts.push(line("grid", TOP), write(LEFT - 6, TOP + 8, "end", formatValue(top, unit)));
  else parts.push(write(middle, TOP + plotHeight / 2, "middle", "none in this period"));
  const slot = plotWidth / bars.length;
  const bar = Math.min(slot - Math.min(4, slot * 0.2), 36);
  columns.forEach((column, at) => {
    let y = base;
    const span = width === 1 ? bars[at][0] : `${bars[at][0]} to ${bars[at].at(-1)}`;
    column.forEach((value, layer) => {
      if (!value) return;
      const height = (plotHeight * Number(value)) / Number(top);
      y -= height;
      const x = LEFT + at * slot + (slot - bar) / 2;
      const [left, over, wide, high] = [x, y, bar, height].map((number) => number.toFixed(1));
      const tip = element("title", {}, `${span}: ${layers[layer].name} ${formatValue(value, unit)}`);
      parts.push(element(`rect.${layers[layer].color}`, { x: left, y: over, width: wide, height: high }, tip));
    });
  });
  if (days.length === 1) parts.push(write(middle, HEIGHT - 6, "middle", days[0]));
  else {
    parts.push(write(LEFT, HEIGHT - 6, "start", days[0]));
    parts.push(write(right, HEIGHT - 6, "end", days[days.length - 1]));
  }
  if (width > 1) parts.push(write(middle, HEIGHT - 6, "middle", `${width} days a bar`));
  return element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title }, ...parts);
}
