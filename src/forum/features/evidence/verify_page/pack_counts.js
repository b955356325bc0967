import { HASH } from "./entry.js";
import { exactNumber } from "./findings.js";
import { writeJson } from "./json.js";
// Made by build.py from the tables of verify.py.
import { EVENT_TABLE } from "./pack_tables.js";
import { reject, require } from "./rejected.js";
import { compareText } from "./text.js";

/** Counting a period: from entries to runs, gates and steps, and from those to figures. */

/** @typedef {import("./entry.js").Entry} Entry */
/** @typedef {import("./json.js").JsonValue} JsonValue */
/** @typedef {Map<string, any>} Members */
/** An item whose end was not read yet. @typedef {{index: bigint, ts: number, members: Members}} OpenItem */

// The figures whose runs are named, the most important first.
const NAMED_FIRST = ["tools.doubt", "gates.unattended", "gaps.steps", "stops.all", "runs.not-ok"];
const MAX_EXAMPLES = 3;
const MAX_GROUPS = 40;
const MAX_DAYS = 400;
const MAX_TIMELINE = 400;
export const MAX_DECISIONS = 50;
export const MAX_EVENTS = 50;
const WHOLE_STRANDS = ["access", "config", "incidents", "retention"];
const LASTING = ["config.seen/1", "config.seen/2", "hold/1", "retention/1"];
/** @type {Record<string, string[]>} */
const RELATED = {
  "accepted/1": ["parent_run", "fork_run"],
  "report.source/1": ["continues"],
  "delegate/1": ["run"],
};
const RUN_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const NO_END = "no end recorded";
const SECOND_US = 1_000_000;

/** For each kind of event: its section, and the phrases of its facts. @type {Map<string, string[]>} */
const EVENTS = new Map(
  EVENT_TABLE.replaceAll("\n    ", " ")
    .trim()
    .split("\n")
    .map((line) => {
      const cut = line.indexOf(" ");
      return [line.slice(0, cut), line.slice(cut + 1).split("; ")];
    }),
);

/**
 * Return a time in ISO 8601, in UTC.
 * @param {number} micros
 */
export function formatMoment(micros) {
  const date = new Date(Math.floor(micros / SECOND_US) * 1000);
  if (Number.isNaN(date.getTime())) throw new RangeError("a time that is none");
  const rest = micros % SECOND_US;
  return `${date.toISOString().slice(0, 19)}${rest ? `.${String(rest).padStart(6, "0")}` : ""}Z`;
}

/** @param {number} micros */
export function dayOf(micros) {
  return formatMoment(micros).slice(0, 10);
}

/**
 * Return a member as the text by which it is compared and grouped.
 * @param {any} value
 * @returns {string}
 */
function textOf(value) {
  if (Array.isArray(value)) return value.map(textOf).join(" ");
  if (value === undefined || value === null) return "";
  return value instanceof Map ? writeJson(value) : String(value);
}

/** @param {any} value */
function isInteger(value) {
  return Number.isInteger(value) || typeof value === "bigint";
}

/**
 * Return the member of a query, which must be one, or a default; without a default it must be there.
 * @param {Members} query
 * @param {string} name
 * @param {any} [fallback]
 */
export function ask(query, name, fallback) {
  if (!(query instanceof Map)) throw new TypeError("a query is no object");
  const value = query.has(name) ? query.get(name) : fallback;
  if (value === undefined) throw new TypeError(`a query has no ${name}`);
  return value;
}

/** The value of a member that does not follow from the log part. */
const UNKNOWN = { toString: () => "unknown" };

/** Computes one figure: counts the items of a query. */
class FigureCounter {
  /** @param {Members} query */
  constructor(query) {
    this.query = query;
    this.isUnknown = false;
    this.over = ask(query, "over", "entries");
    /** @type {string[]} */
    this.kinds = ask(query, "kinds", []);
    /** The first entry of each run that is counted. @type {Map<string, bigint>} */
    this.runs = new Map();
    /** @type {bigint[]} */
    this.examples = [];
    /** @type {bigint[]} */
    this.values = [];
    /** @type {Map<string, {key: string[], values: bigint[]}>} */
    this.groups = new Map();
  }

  /**
   * Count an item, if the conditions of the query are met.
   * @param {bigint} index
   * @param {Members} members
   */
  add(index, members) {
    const { query } = this;
    let isUnknown = false;
    for (const condition of ask(query, "where", [])) {
      const told = members.get(condition.get("member"));
      const met = condition.get("values").includes(textOf(told));
      if (told === UNKNOWN) isUnknown = true;
      else if (met === (condition.get("negated") ?? false)) return;
    }
    this.isUnknown ||= isUnknown;
    const fallback = ask(query, "default", 0);
    const isCounted = ask(query, "measure", "count") === "count";
    const value = isCounted ? 1 : (members.get(ask(query, "of", "")) ?? fallback);
    const number = BigInt(isInteger(value) ? value : fallback);
    this.values.push(number);
    if (this.examples.length < MAX_EXAMPLES) this.examples.push(index);
    const run = members.get("run");
    if (ask(query, "concern", "") && !this.runs.has(run)) this.runs.set(run, index);
    const by = ask(query, "by", []);
    if (!by.length) return;
    const key = by.map((/** @type {string} */ name) => textOf(members.get(name)));
    const id = JSON.stringify(key);
    const group = this.groups.get(id) ?? { key, values: [] };
    group.values.push(number);
    this.groups.set(id, group);
  }

  /** Return the figure, as report.json has it. */
  result() {
    const { query } = this;
    return new Map(
      Object.entries({
        id: ask(query, "id"),
        title: ask(query, "title"),
        section: ask(query, "section"),
        unit: ask(query, "unit", "number"),
        value: this.isUnknown ? null : exactNumber(this.#measure(this.values)),
        items: this.isUnknown ? null : this.values.length,
        groups: (this.isUnknown ? [] : this.#sortedGroups()).map(
          ({ key, value }) => new Map(Object.entries({ key, value: exactNumber(value) })),
        ),
        examples: this.examples.map(exactNumber),
        query,
      }),
    );
  }

  /** @param {bigint[]} values */
  #measure(values) {
    const measure = ask(this.query, "measure", "count");
    const sorted = () => [...values].sort(compareNumbers);
    // The lower of the two in the middle: a figure is an integer that was recorded.
    if (measure === "median") return sorted()[(values.length - 1) >> 1] ?? 0n;
    if (measure === "max") return sorted().at(-1) ?? 0n;
    return values.reduce((sum, value) => sum + value, 0n);
  }

  /** Return the groups: days in their order, others by falling value; the rest is joined. */
  #sortedGroups() {
    const by = ask(this.query, "by", []);
    const groups = [...this.groups.values()].map(({ key, values }) => ({
      key,
      values,
      value: this.#measure(values),
    }));
    if (by.includes("day")) {
      return groups
        .sort((one, other) => compareKeys(one.key, other.key))
        .slice(0, MAX_DAYS * MAX_GROUPS);
    }
    groups.sort(
      (one, other) => compareNumbers(other.value, one.value) || compareKeys(one.key, other.key),
    );
    if (groups.length <= MAX_GROUPS) return groups;
    const values = groups.slice(MAX_GROUPS).flatMap((group) => group.values);
    const key = by.map(() => "(others)");
    return [...groups.slice(0, MAX_GROUPS), { key, values, value: this.#measure(values) }];
  }
}

/**
 * @param {bigint} one
 * @param {bigint} other
 */
function compareNumbers(one, other) {
  return one < other ? -1 : one > other ? 1 : 0;
}

/**
 * @param {string[]} one
 * @param {string[]} other
 */
function compareKeys(one, other) {
  for (let at = 0; at < one.length; at++) {
    const order = compareText(one[at], other[at]);
    if (order) return order;
  }
  return 0;
}

const MAX_OUTSIDE_RUNS = 50;

/** Counts the entries of a log part, in the order of the log. */
export class PeriodCounter {
  /**
   * @param {number} since
   * @param {number} until
   * @param {string} incident
   * @param {Members[]} queries
   * @param {boolean} isOld
   */
  constructor(since, until, incident, queries, isOld) {
    this.isOld = isOld;
    /** The first entry of each run that is counted, and is dated outside of the period. @type {Map<string, bigint>} */
    this.outsideRuns = new Map();
    this.outsideEntries = 0;
    this.since = since;
    this.until = until;
    this.incident = incident;
    this.figures = queries.map((query) => new FigureCounter(query));
    /** @type {Map<string, {index: bigint, opened: number, closed: number, isOpened: boolean, members: Members}>} */
    this.runs = new Map();
    /** @type {Map<string, OpenItem>} */
    this.gates = new Map();
    /** @type {Map<string, OpenItem>} */
    this.steps = new Map();
    /** @type {Map<string, {index: bigint, members: Members}>} */
    this.grants = new Map();
    this.lengths = new Map(WHOLE_STRANDS.map((strand) => [strand, 0]));
    /** @type {Members | null} */
    this.configuration = null;
    /** The run of each entry, by its id. @type {Map<string, string>} */
    this.runOf = new Map();
    /** @type {Map<string, string[]>} */
    this.holds = new Map();
    /** @type {Map<string, {index: bigint, event: Members}[]>} */
    this.eventsOf = new Map();
    this.counted = 0;
    this.timelineLength = 0;
    /** The runs with an entry in the period. @type {Set<string>} */
    this.active = new Set();
    /** @type {Set<string>} */
    this.relatedRuns = new Set();
    /** @type {Members[]} */
    this.timeline = [];
    /** @type {Members[]} */
    this.decisions = [];
  }

  /** The runs that entries of the run of the incident name. */
  get related() {
    const others = [...this.relatedRuns].filter((run) => run && run !== this.incident);
    return others.sort(compareText);
  }

  /** The first events of each section, in the order of the log. */
  get events() {
    const listed = [...this.eventsOf.values()].flat();
    listed.sort((one, other) => compareNumbers(one.index, other.index));
    return listed.map(({ event }) => event);
  }

  /**
   * Count one entry, by the time `counted`.
   * @param {bigint} index
   * @param {Entry} written
   * @param {string} entryId
   * @param {number} counted
   */
  add(index, written, entryId, counted) {
    this.runOf.set(entryId, written.run);
    const includes = (/** @type {number} */ ts) => this.since <= ts && ts < this.until;
    if (includes(counted) && !includes(written.ts)) {
      this.outsideEntries++;
      if (!this.outsideRuns.has(written.run)) this.outsideRuns.set(written.run, index);
    }
    const entry = { ...written, ts: counted };
    if (entry.ts >= this.until) return;
    if (entry.run === "log") this.#addToLogRun(index, entry);
    else this.#addToRun(index, entry);
    if (entry.ts >= this.since) {
      this.counted++;
      this.#countEntry(index, entry);
    }
    if (entry.kind.startsWith("gate.")) this.#addToGate(index, entry);
    else this.#addToStep(index, entry);
    if (entry.run === this.incident) this.#addToTimeline(index, entry);
  }

  /** The entries that are counted in the period, and are dated outside of it. */
  get outside() {
    const listed = [...this.outsideRuns].slice(0, MAX_OUTSIDE_RUNS);
    const members = {
      entries: this.outsideEntries,
      runs: listed.map(([run]) => run),
      indexes: listed.map(([, index]) => exactNumber(index)),
      runs_of: this.outsideRuns.size,
    };
    return new Map(Object.entries(members));
  }

  /** Count what is open at the end. */
  finish() {
    for (const { index, ts, members } of this.steps.values()) {
      if (ts >= this.since) this.#emit("steps", index, join(members, { outcome: NO_END }));
    }
    for (const { index, members } of this.gates.values()) {
      this.#emit("gates", index, join(members, { answer: "undecided" }));
    }
    for (const { index, members } of this.grants.values()) this.#countKey(index, members);
    for (const [run, { index, opened, closed, isOpened, members }] of this.runs) {
      if (!isOpened) reject(`the first entry of run ${run} is missing`);
      if (closed && closed < this.since) continue;
      const began = opened >= this.since ? "in the period" : "before it";
      this.#emit("runs", index, join(members, { run, began, day: dayOf(opened) }));
    }
  }

  /**
   * Return, for each run that somebody should look at, the reasons with an entry each.
   * @returns {Map<string, Map<string, bigint>>}
   */
  concerns() {
    const named = new Map();
    const byId = new Map(this.figures.map((figure) => [figure.query.get("id"), figure]));
    for (const id of NAMED_FIRST) {
      const figure = byId.get(id);
      if (!figure) throw new TypeError(`no figure ${id}`);
      const places = [...figure.runs].sort(([, one], [, other]) => compareNumbers(one, other));
      for (const [run, index] of places) {
        if (run === "log") continue;
        if (!named.has(run)) named.set(run, new Map());
        named.get(run).set(figure.query.get("concern"), index);
      }
    }
    return named;
  }

  /**
   * @param {string} over
   * @param {bigint} index
   * @param {Members} members
   */
  #emit(over, index, members) {
    for (const figure of this.figures) if (figure.over === over) figure.add(index, members);
  }

  /**
   * @param {bigint} index
   * @param {Entry} entry
   */
  #countEntry(index, entry) {
    const own = join(this.#common(entry), { kind: entry.kind, actor: entry.actor });
    if (entry.kind.startsWith("redact/")) own.set("held", this.#judgeHold(entry));
    if (entry.kind === "stop/1") {
      const reason = textOf(entry.facts.get("reason"));
      const isOverrun = reason === "budget" && ["gateway", "recorder"].includes(entry.actor);
      own.set("cause", isOverrun ? "overrun" : reason);
    }
    const members = new Map([...entry.facts, ...own]);
    for (const figure of this.figures) {
      const isAsked = !figure.kinds.length || figure.kinds.includes(entry.kind);
      if (figure.over === "entries" && isAsked) figure.add(index, members);
    }
  }

  /**
   * @param {Entry} entry
   * @returns {Members}
   */
  #common(entry) {
    const opened_by = this.runs.get(entry.run)?.members.get("actor") ?? entry.actor;
    return new Map(Object.entries({ run: entry.run, day: dayOf(entry.ts), opened_by }));
  }

  /**
   * @param {bigint} index
   * @param {Entry} entry
   */
  #addToRun(index, entry) {
    if (!this.runs.has(entry.run)) {
      const members = { actor: entry.actor, provenance: "other", outcome: "open" };
      const state = { index, opened: entry.ts, closed: 0, isOpened: false, isCountedElsewhere: false };
      this.runs.set(entry.run, { ...state, members: new Map(Object.entries(members)) });
    }
    const state = /** @type {any} */ (this.runs.get(entry.run));
    if (entry.ts >= this.since) this.active.add(entry.run);
    if (entry.kind === "run.open/1") state.isOpened = true;
    else if (entry.kind === "accepted/1") state.members.set("provenance", "driven");
    else if (entry.kind === "report.source/1") {
      state.members.set("provenance", textOf(entry.facts.get("told")));
      state.isCountedElsewhere = !this.isOld && isCountedElsewhere(entry.facts);
    } else if (entry.kind === "run.close/1") {
      state.members.set("outcome", textOf(entry.facts.get("outcome")));
      state.closed = entry.ts;
    }
  }

  /**
   * @param {bigint} index
   * @param {Entry} entry
   */
  #addToLogRun(index, entry) {
    const length = this.lengths.get(entry.strand);
    if (length !== undefined) {
      // The positions of a strand have no gap, so that an entry which is left out is noticed.
      require(entry.n === length, `an entry of log/${entry.strand} is missing`);
      this.lengths.set(entry.strand, entry.n + 1);
    }
    if (entry.strand === "access") this.#addToAccess(index, entry);
    if (entry.kind === "hold/1") {
      const hold = entry.facts.get("hold");
      if (entry.facts.get("act") === "place") this.holds.set(hold, entry.facts.get("runs") ?? []);
      else this.holds.delete(hold);
    }
    if (EVENTS.has(entry.kind)) this.#addEvent(index, entry);
  }

  /**
   * Return whether a redaction names an entry of a run that a hold keeps.
   * @param {Entry} entry
   */
  #judgeHold(entry) {
    /** @type {string[]} */
    let targets = [entry.facts.get("entry")];
    if (entry.kind !== "redact/1") {
      const bodies = /** @type {string[]} */ (entry.facts.get("bodies"));
      const places = new Set(bodies.map((body) => body.split("/")[0]));
      targets = entry.parents.filter((_, number) => places.has(String(number)));
    }
    const named = entry.facts.get("runs");
    const runs = new Set([...targets.map((target) => this.runOf.get(target)), ...(Array.isArray(named) ? named : [])]);
    const holds = [...this.holds.values()];
    if (holds.some((held) => !held.length || held.some((run) => runs.has(run)))) return "yes";
    const isKnown = !holds.length || targets.every((target) => this.runOf.has(target));
    // Release 0.2 called a target that it did not have one of no run.
    return isKnown || this.isOld ? "no" : UNKNOWN;
  }

  /**
   * @param {bigint} index
   * @param {Entry} entry
   */
  #addEvent(index, entry) {
    const section = (EVENTS.get(entry.kind) ?? [])[0];
    let facts = entry.facts;
    if (entry.kind === "config.seen/1") {
      facts = join(facts, { changed: describeChanges(facts, this.configuration) });
      this.configuration = entry.facts;
    }
    const events = this.eventsOf.get(section) ?? [];
    this.eventsOf.set(section, events);
    const isListed = entry.ts >= this.since || LASTING.includes(entry.kind);
    if (!isListed || events.length >= MAX_EVENTS) return;
    const { ts, kind, actor } = entry;
    const words = describeEvent(kind, facts);
    const event = { index: exactNumber(index), ts, section, kind, actor, words };
    events.push({ index, event: new Map(Object.entries(event)) });
  }

  /**
   * @param {bigint} index
   * @param {Entry} entry
   */
  #addToAccess(index, entry) {
    const { facts, actor } = entry;
    const key = textOf(facts.get("key"));
    if (entry.kind.startsWith("access.grant/")) {
      const members = {
        run: "log",
        actor,
        revoked: 0,
        name: facts.get("name"),
        scopes: facts.get("scopes") ?? [],
        expires: facts.get("expires") ?? 0,
      };
      this.grants.set(key, { index, members: new Map(Object.entries(members)) });
    } else {
      this.grants.get(key)?.members.set("revoked", entry.ts);
    }
  }

  /**
   * Count an API key, if it was valid in the period.
   * @param {bigint} index
   * @param {Members} members
   */
  #countKey(index, members) {
    /** @type {[string, number][]} */
    const ends = [
      ["revoked", members.get("revoked")],
      ["expired", members.get("expires")],
    ];
    if (ends.some(([, end]) => 0 < end && end <= this.since)) return;
    const state = ends.find(([, end]) => 0 < end && end < this.until)?.[0] ?? "valid";
    this.#emit("keys", index, join(members, { state }));
  }

  /**
   * @param {bigint} index
   * @param {Entry} entry
   */
  #addToGate(index, entry) {
    const { run, strand, ts, facts, actor } = entry;
    const place = placeOf(entry);
    if (entry.kind === "gate.open/1") {
      const members = join(this.#common(entry), { subject: facts.get("subject") });
      this.gates.set(place, { index, ts, members });
    }
    if (!entry.kind.startsWith("gate.decision/")) return;
    const begun = this.gates.get(place);
    this.gates.delete(place);
    if (!begun || ts < this.since) return;
    const seconds = Math.floor(Math.max(0, ts - begun.ts) / SECOND_US);
    const [answer, authority] = [facts.get("answer"), facts.get("by")];
    this.#emit("gates", index, join(begun.members, { answer, authority, actor, seconds }));
    if (this.decisions.length >= MAX_DECISIONS) return;
    const subject = begun.members.get("subject");
    const digest = facts.get("digest");
    const decision = { index: exactNumber(index), ts, run, subject, answer, actor, authority, seconds, digest };
    this.decisions.push(new Map(Object.entries(decision)));
  }

  /**
   * @param {bigint} index
   * @param {Entry} entry
   */
  #addToStep(index, entry) {
    const { ts, facts, kind } = entry;
    const place = placeOf(entry);
    const isCounted = ts >= this.since;
    if (["call/1", "intent/1", "report.begin/1"].includes(kind)) {
      const before = this.#takeStep(place);
      // No end of the step before will come any more.
      if (before && before.ts >= this.since) {
        this.#emit("steps", before.index, join(before.members, { outcome: NO_END }));
      }
      const members = this.#countOnce(entry, join(this.#common(entry), describeBegin(entry)));
      this.steps.set(place, { index, ts, members });
    } else if (kind === "reply/1" || kind === "outcome/1") {
      const begun = this.#takeStep(place);
      if (!begun || !isCounted) return;
      /** @type {Record<string, any>} */
      const ended = { day: dayOf(ts), outcome: facts.get("outcome") };
      if (kind === "reply/1") {
        ended.usd = facts.get("usd") ?? 0;
        ended.tokens = facts.get("tokens") ?? 0;
        ended.model = facts.get("model") || begun.members.get("model");
      }
      this.#emit("steps", index, join(begun.members, ended));
    } else if (kind === "report.step/1") {
      this.#takeStep(place);
      if (!isCounted) return;
      const names = ["op", "name", "agent", "model", "provider", "outcome"];
      const members = Object.fromEntries(names.map((name) => [name, facts.get(name) ?? ""]));
      const tokens = (facts.get("input_tokens") ?? 0) + (facts.get("output_tokens") ?? 0);
      const spent = { usd: facts.get("usd") ?? 0, tokens };
      const described = join(this.#common(entry), { ...members, ...spent });
      this.#emit("steps", index, this.#countOnce(entry, described));
    }
  }

  /**
   * Return the members of a step, without a cost if a gateway records it as well.
   * @param {Entry} entry
   * @param {Members} members
   * @returns {Members}
   */
  #countOnce(entry, members) {
    const state = /** @type {any} */ (this.runs.get(entry.run));
    if (!state?.isCountedElsewhere) return members;
    const op = members.get("op");
    return join(members, { op: op === "model" ? "run" : op, usd: 0, tokens: 0 });
  }

  /** @param {string} place */
  #takeStep(place) {
    const begun = this.steps.get(place);
    this.steps.delete(place);
    return begun;
  }

  /**
   * @param {bigint} index
   * @param {Entry} entry
   */
  #addToTimeline(index, entry) {
    const { facts, ts, strand, kind, actor } = entry;
    for (const name of RELATED[kind] ?? []) this.relatedRuns.add(textOf(facts.get(name)));
    this.timelineLength++;
    if (this.timeline.length >= MAX_TIMELINE) return;
    const told = ["outcome", "answer", "reason"].find((name) => facts.has(name));
    const outcome = told ? textOf(facts.get(told)) : "";
    const line = { index: exactNumber(index), ts, strand, kind, actor, outcome };
    this.timeline.push(new Map(Object.entries(line)));
  }
}

/** @param {Entry} entry */
function placeOf({ run, strand }) {
  return JSON.stringify([run, strand]);
}

/**
 * @param {Members} members
 * @param {Record<string, any>} more
 * @returns {Members}
 */
function join(members, more) {
  return new Map([...members, ...Object.entries(more)]);
}

/**
 * Return whether a program under `forum run` reports: the gateway records what it costs.
 * @param {Map<string, any>} facts
 */
function isCountedElsewhere(facts) {
  if (facts.get("told") === "relayed") return false;
  return facts.get("by") === "forum-run" || RUN_ID.test(facts.get("trace") ?? "");
}

/**
 * Return what the beginning of a step says; one without an end counts what it reserved.
 * @param {Entry} entry
 * @returns {Record<string, any>}
 */
function describeBegin({ kind, facts }) {
  if (kind === "intent/1") return { op: "tool", name: facts.get("tool"), usd: 0, tokens: 0 };
  const [agent, model, provider] = ["agent", "model", "provider"].map((name) => facts.get(name) ?? "");
  const spent = { usd: facts.get("usd") ?? 0, tokens: facts.get("tokens") ?? 0 };
  if (kind === "report.begin/1") {
    return { agent, model, provider, ...spent, op: facts.get("op") ?? "", name: facts.get("name") ?? "" };
  }
  const isInner = facts.get("agent") === "run" && facts.get("model") === "run";
  return { agent, model, provider, ...spent, op: isInner ? "run" : "model", name: facts.get("agent") };
}

/**
 * Return the facts of an event in words, without those that it leaves out.
 * @param {string} kind
 * @param {Members} facts
 */
function describeEvent(kind, facts) {
  const phrases = (EVENTS.get(kind) ?? []).slice(1).filter((form) =>
    [...form.matchAll(/\{(\w+)\}/g)].every(([, name]) => {
      const value = facts.get(name);
      const isEmpty = value === undefined || value === null || value === "" || value === 0;
      const isGiven = !isEmpty && !(Array.isArray(value) && !value.length);
      return isGiven || name === "since" || name === "seconds";
    }),
  );
  return phrases
    .map((form) => form.replace(/\{(\w+)\}/g, (_, name) => describeFact(name, facts.get(name) ?? 0)))
    .join(", ");
}

/**
 * Return a fact in words.
 * @param {string} name
 * @param {any} value
 */
function describeFact(name, value) {
  if (Array.isArray(value)) {
    const more = value.length > 3 ? [`and ${value.length - 3} more`] : [];
    return [...value.slice(0, 3).map(String), ...more].join(" ");
  }
  if ((name === "expires" || name === "known") && isInteger(value)) {
    return `${formatMoment(value).slice(0, 19).replace("T", " ")} UTC`;
  }
  if (name === "seconds" && isInteger(value)) {
    const hours = Math.floor(value / 3600);
    return value ? `${hours} ${hours === 1 ? "hour" : "hours"}` : "ever";
  }
  if (name === "subject" && value === "*") return "all runs";
  const text = textOf(value);
  return HASH.test(text) ? text.slice(0, 16) : text;
}

/**
 * Return which parts of a configuration differ from the one before.
 * @param {Members} facts
 * @param {Members | null} before
 */
function describeChanges(facts, before) {
  if (!before) return "the first on record";
  const names = [...new Set([...facts.keys(), ...before.keys()])].sort(compareText);
  const changed = names.filter((name) => textOf(facts.get(name)) !== textOf(before.get(name)));
  return changed.length ? `changed: ${changed.join(" ")}` : "not changed";
}
