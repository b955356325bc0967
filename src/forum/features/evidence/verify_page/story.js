import { BundleContents } from "./bundle.js";
import { readUtf8 } from "./bytes.js";
import { readEntry } from "./entry.js";
import { readLooseJson } from "./json.js";
import { unlessRejected } from "./rejected.js";
import { escapeText, firstCharacters, revealText } from "./text.js";
import { formatTime } from "./view.js";

/** What a bundle says of its run, in about ten lines.  The report says what of it is proven. */

/** @typedef {import("./entry.js").Entry} Entry */
/** @typedef {import("./kinds.js").Kinds} Kinds */
/** @typedef {{index: bigint, entry: Entry}} IndexedEntry */

/** @typedef {{name: string, text: string}} StoryLine */

const MAX_REQUEST = 300;
const MAX_ANSWER = 2000;
const MAX_TOLD_DECISIONS = 10;
const NANO_USD = 1e9;
/** The codes of calls that a cap refused. */
const CAP_REFUSALS = new Set(["budget", "stopped", "unpriced"]);

/** @type {Record<string, string>} */
const ENDS = {
  budget: "stopped: its budget was used up",
  deadline: "stopped: its time was over",
  cancelled: "cancelled by somebody",
  rejected: "rejected by a person",
};

/**
 * Return what is told of the run of a bundle; nothing if the bundle cannot be read.
 * @param {Uint8Array} data
 * @param {Kinds} kinds
 * @param {number} [maxBytes]
 * @returns {StoryLine[]}
 */
export function tellStory(data, kinds, maxBytes) {
  return unlessRejected(
    () => new RunStory(new BundleContents(data, maxBytes), kinds).lines(),
    () => [],
  );
}

class RunStory {
  /**
   * @param {BundleContents} bundle
   * @param {Kinds} kinds
   */
  constructor(bundle, kinds) {
    this.bundle = bundle;
    /** @type {IndexedEntry[]} */
    this.entries = bundle.entries.flatMap((index) => {
      const entry = unlessRejected(
        () => readEntry(bundle.entry(index), kinds),
        () => null,
      );
      return entry && entry.run === bundle.run ? [{ index, entry }] : [];
    });
  }

  /** @returns {StoryLine[]} */
  lines() {
    const asked = this.#find("accepted/1");
    const begun = asked ?? this.#find("report.source/1") ?? this.#find("run.open/1");
    /** @type {[string, string][]} */
    const lines = [
      ["Request", asked ? firstCharacters(this.#body(asked, "request"), MAX_REQUEST) : ""],
      ["Program", asked ? "" : this.#program(begun)],
      [asked ? "Asked by" : "Begun by", begun ? `${begun.entry.actor}, ${moment(begun)} by the clock of the log` : ""],
      ["Answer", firstCharacters(this.#body(this.#find("answer/1"), "answer"), MAX_ANSWER)],
      ["Ended", this.#end()],
      ["Cost", this.#cost()],
      ["Models", this.#models()],
      ...this.#decisions().map((text) => /** @type {[string, string]} */ (["Decided", text])),
      ["Run", this.bundle.run],
    ];
    return lines
      .filter(([, text]) => text)
      .map(([name, text]) => ({ name, text: revealText(text).map((part) => part.text).join("") }));
  }

  /** @param {string} kind */
  #find(kind) {
    return this.entries.find(({ entry }) => entry.kind === kind);
  }

  /** @param {string[]} kinds */
  #all(...kinds) {
    return this.entries.filter(({ entry }) => kinds.includes(entry.kind));
  }

  /**
   * Return a body as text; it is not shown if it is not the one that was recorded.
   * @param {IndexedEntry | undefined} found
   * @param {string} name
   */
  #body(found, name) {
    const commitment = found?.entry.bodies.get(name);
    if (!found || !commitment) return "";
    const content = this.bundle.body(found.index, name);
    if (!content) return "(erased, or not in the bundle)";
    if (!this.bundle.hasMatchingBody(found.index, name, commitment)) return "(altered)";
    return unlessRejected(
      () => readUtf8(content),
      () => "(not text)",
    );
  }

  /** @param {IndexedEntry | undefined} begun */
  #program(begun) {
    const root = this.entries.find(
      ({ entry }) => entry.kind === "report.begin/1" && entry.facts.get("op") === "step",
    );
    const words = unlessRejected(
      () => {
        const content = root && this.bundle.body(root.index, "input");
        const value = content ? readLooseJson(content) : null;
        return Array.isArray(value) ? value.filter((word) => typeof word === "string") : [];
      },
      () => [],
    );
    return words.length ? firstCharacters(words.join(" "), MAX_REQUEST) : (begun?.entry.actor ?? "");
  }

  #end() {
    const closed = this.#find("run.close/1");
    if (!closed) return "not yet, when this was exported";
    const overrun = this.#all("report.step/1").some(({ entry }) => entry.facts.get("code") === "overrun");
    const reason = this.#find("stop/1")?.entry.facts.get("reason");
    const outcome = closed.entry.facts.get("outcome");
    const word =
      reason && outcome !== "ok"
        ? overrun
          ? "stopped: a provider billed more than the bound of a call (overrun)"
          : (ENDS[reason] ?? `stopped: ${reason}`)
        : outcome;
    return `${word}, ${moment(closed)}`;
  }

  #cost() {
    const bills = this.#all("reply/1", "report.step/1").map(({ entry }) => entry.facts);
    const usd = bills.reduce((sum, facts) => sum + (facts.get("usd") ?? 0), 0);
    const refused = bills.filter(
      (facts) => facts.get("outcome") === "denied" && CAP_REFUSALS.has(facts.get("code")),
    );
    const calls = bills.filter((facts) => !facts.has("op") || facts.get("op") === "model").length - refused.length;
    const counted = `${calls} ${calls === 1 ? "call" : "calls"} of models`;
    const capped = refused.length ? `, ${refused.length} refused by a cap` : "";
    return `$${formatDollars(usd)}, ${counted}${capped}`;
  }

  #models() {
    /** @type {Map<string, number>} */
    const counts = new Map();
    for (const { entry } of this.#all("call/1", "report.begin/1")) {
      const model = entry.facts.get("model");
      if (model && model !== "run") counts.set(model, (counts.get(model) ?? 0) + 1);
    }
    return [...counts].map(([model, count]) => `${model} (${count})`).join(", ");
  }

  #decisions() {
    /** @type {Map<string, string>} */
    const subjects = new Map();
    /** @type {string[]} */
    const lines = [];
    for (const found of this.#all("gate.open/1", "gate.decision/1", "gate.decision/2")) {
      const { strand, facts, kind, actor } = found.entry;
      if (kind === "gate.open/1") subjects.set(strand, facts.get("subject"));
      else {
        const what = `${subjects.get(strand) ?? strand}: ${facts.get("answer")}`;
        lines.push(`${what} by ${actor} (${facts.get("by")}), ${moment(found)}`);
      }
    }
    const more = lines.length - MAX_TOLD_DECISIONS;
    return more > 0 ? [...lines.slice(0, MAX_TOLD_DECISIONS), `and ${more} more`] : lines;
  }
}

/** @param {IndexedEntry} found */
function moment({ entry }) {
  return escapeText(formatTime(entry.ts / 1000));
}

/** @param {number} nano */
function formatDollars(nano) {
  const text = (nano / NANO_USD).toFixed(9).replace(/0+$/, "");
  const [whole, part] = text.split(".");
  return `${whole}.${(part ?? "").padEnd(2, "0")}`;
}
