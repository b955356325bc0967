// Whether a list of runs is that of the directory: the strand of the log that names every run.

import { readProof } from "verify-page/bundle.js";
import { equalBytes, readUtf8, toHex, writeUtf8 } from "verify-page/bytes.js";
import { readJson } from "verify-page/json.js";
import { readNote } from "verify-page/note.js";
import { Rejected } from "verify-page/rejected.js";
import { hashLeaf } from "verify-page/tree.js";
import { Refuted, Unanswered } from "./refuted";

/** Entries of the directory that are read at once. */
const PART_SIZE = 200;
/** More of them are not read for one list. */
const MAX_PARTS = 50;

/** A part of the directory, as the server sends it. */
export interface DirectoryPart {
  first: number;
  entries: string[];
  proof: string;
}

/** Read at most `limit` entries of the directory from a position on; negative from its end. */
export type ReadDirectory = (first: number, limit: number) => Promise<DirectoryPart>;

/** Runs that the directory names, the newest first, down to the oldest that was asked for. */
export interface NamedRuns {
  runs: string[];
  /** How many runs it names before these. */
  before: number;
  /** In a directory that is read to its begin: from which index on it names every run. */
  since: number;
  /** The index of its last entry, by the server; whoever reads this compares it with the tree. */
  index: number;
  lastLeaf: Uint8Array;
}

interface Names {
  n: number;
  prev: string;
  leaf: string;
  first: number;
  runs: string[];
  since: number;
}

/** What a page shows of the runs, in its order. */
export interface ShownRuns {
  runs: string[];
  /** Whether the server says that there are no older ones. */
  isEnd: boolean;
}

/** Read the directory from its end, until it names the oldest run of a list or begins. */
export async function readNamedRuns(
  origin: string,
  { runs, isEnd }: ShownRuns,
  read: ReadDirectory,
): Promise<NamedRuns> {
  const oldest = isEnd ? undefined : runs.at(-1);
  const last = await read(-PART_SIZE, PART_SIZE);
  let names = readPart(origin, last);
  const found = [...names];
  for (let parts = 1; names[0]?.n && !names.some((each) => each.runs.includes(oldest ?? "")); ) {
    if (++parts > MAX_PARTS) {
      throw new Unanswered("This list is too long to be compared with the directory here.");
    }
    const first = Math.max(0, names[0].n - PART_SIZE);
    names = readPart(origin, await read(first, names[0].n - first));
    if (names[0]?.n !== first) throw gap("the server sent other positions than were asked for");
    found.unshift(...names);
  }
  checkLinks(found);
  const [begin, end] = [found[0], found.at(-1)];
  if (!begin || !end) throw new Unanswered("The server sent no entry of the directory.");
  const text = last.entries.at(-1) ?? "";
  return {
    runs: found.flatMap((each) => each.runs).reverse(),
    before: begin.first,
    since: begin.since,
    index: readIndex(last.proof),
    lastLeaf: hashLeaf(writeUtf8(text)),
  };
}

function gap(why: string): Refuted {
  return new Refuted("directory", `The directory of the runs was altered: ${why}.`);
}

function readIndex(proof: string): number {
  try {
    return Number(readProof(writeUtf8(proof), readNote).at);
  } catch (error) {
    if (!(error instanceof Rejected)) throw error;
    throw gap(`its proof cannot be read (${error.message})`);
  }
}

function readPart(origin: string, part: DirectoryPart): Names[] {
  const { first, entries } = part ?? {};
  if (!Array.isArray(entries) || !entries.length || typeof first !== "number") {
    throw new Unanswered("The server sent something else than the directory of the runs.");
  }
  return entries.map((text) => readNames(origin, text));
}

function readNames(origin: string, text: string): Names {
  const data = writeUtf8(text);
  // What is in the tree was canonical when it was recorded; nothing else counts.
  const entry = readMembers(data);
  const facts = entry.get("facts");
  const place = ["log", "run", "strand", "kind"].map((name) => entry.get(name)).join(" ");
  const isOurs = place === `${origin} log runs runs.open/1` && facts instanceof Map;
  if (!isOurs) throw gap("an entry of it is of another strand or kind");
  const [n, first = 0, since = 0] = [entry.get("n"), facts.get("first"), facts.get("since")];
  const runs: unknown = facts.get("runs");
  const isFormed = [n, first, since].every(Number.isSafeInteger) && Array.isArray(runs);
  if (!isFormed) throw gap("an entry of it has another form");
  return { n, first, since, runs, prev: String(entry.get("prev")), leaf: toHex(hashLeaf(data)) };
}

// biome-ignore lint/suspicious/noExplicitAny: members of JSON that another module parses
function readMembers(data: Uint8Array): Map<string, any> {
  try {
    const value = readJson(data);
    return value instanceof Map ? value : new Map();
  } catch (error) {
    if (!(error instanceof Rejected)) throw error;
    throw gap(`an entry of it cannot be read (${error.message})`);
  }
}

/** Check that entries follow each other: positions, links, and how many runs are named. */
function checkLinks(found: Names[]): void {
  found.forEach((each, at) => {
    const before = found[at - 1];
    if (!before) {
      if (!each.n && each.first) throw gap("it does not begin with its first run");
      return;
    }
    const follows =
      each.n === before.n + 1 &&
      each.prev === before.leaf &&
      each.first === before.first + before.runs.length;
    if (!follows) throw gap(`its position ${before.n + 1} is missing`);
  });
}

/** How a list and the directory agree. */
export interface ListedRuns {
  /** How many runs both have. */
  listed: number;
  /** The first and the last run that were compared, counted from 1 in the directory; 0 for none. */
  from: number;
  to: number;
  /** Runs between these that the list does not show. */
  hidden: string[];
  /** How many newer runs the directory names, which may have opened after the list was asked for. */
  newer: number;
  /** How many runs of the list the directory does not name yet. */
  unsigned: number;
  /** How many runs at the end of the list are from before the directory. */
  older: number;
}

/**
 * Compare a list with the names of the directory.
 *
 * `known` says how many runs the directory was seen to name before the list was asked for: those
 * must be in it, in this order. Later ones may have waited for their place when it was made.
 */
export function compareList(shown: ShownRuns, named: NamedRuns, known: number): ListedRuns {
  const total = named.before + named.runs.length;
  if (total < known) throw gap(`it named ${known} runs before, and names ${total} now`);
  const firstKnown = total - known;
  const places = new Map(named.runs.map((run, place) => [run, place]));
  const at = shown.runs.map((run) => places.get(run) ?? -1);
  checkOrder(shown.runs, at, firstKnown);
  const isOld = named.before === 0 && named.since > 0;
  const lastNamed = at.findLastIndex((place) => place >= 0);
  const older = isOld ? at.length - 1 - lastNamed : 0;
  const unsigned = at.filter((place) => place < 0).length - older;
  const listed = at.filter((place) => place >= 0);
  // From the newest run that the list shows or must show, to the oldest.
  const head = Math.min(firstKnown, named.runs.length, ...listed);
  const isEnd = shown.isEnd || older > 0;
  const end = isEnd ? named.runs.length : Math.max(head, ...listed.map((place) => place + 1));
  const covered = named.runs.slice(head, end);
  const present = new Set(shown.runs);
  return {
    listed: listed.length,
    from: covered.length && total - end + 1,
    to: covered.length && total - head,
    hidden: covered.filter((run) => !present.has(run)),
    newer: head,
    unsigned,
    older,
  };

  function checkOrder(runs: string[], at: number[], firstKnown: number): void {
    const isLate = at.findIndex((place) => place >= firstKnown);
    let before = -1;
    at.forEach((place, row) => {
      const run = runs[row] ?? "";
      if (runs.indexOf(run) !== row) throw misplaced(run, "is listed twice");
      const isLast = !at.slice(row).some((other) => other >= 0);
      const canBeOld = isLast && named.before === 0 && named.since > 0;
      if (place < 0 && isLate >= 0 && row > isLate && !canBeOld) {
        throw misplaced(run, "is not in the directory of the log, which names every run");
      }
      if (place < firstKnown) return;
      if (place < before) throw misplaced(run, "has another place in the directory of the log");
      before = place;
    });
  }
}

function misplaced(run: string, why: string): Refuted {
  return new Refuted("order", `Run ${run} of this list ${why}.`);
}

/** Whether the first entries of a run say why a list of runs leaves it out. */
export function isLeftOutByRule(entries: readonly Uint8Array[]): boolean {
  return entries.some((data) => {
    const { strand, n, kind, facts } = JSON.parse(readUtf8(data));
    if (strand !== "main") return false;
    return (kind === "accepted/1" && facts.parent_run) || (kind === "eval.open/1" && n === 1);
  });
}

/** Check that an entry has the leaf that the tree has at its index. */
export function checkLastEntry(named: NamedRuns, leaf: Uint8Array): void {
  if (!equalBytes(named.lastLeaf, leaf)) throw gap("its last entry is not in the signed log");
}
