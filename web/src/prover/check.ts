// Whether the entries on a page are those of the log that the pinned keys sign, and whether that
// log continues what this browser remembers.

import { equalBytes, readUtf8, toHex, writeUtf8 } from "verify-page/bytes.js";
import {
  type Cosignature,
  openCheckpoint,
  readCheckpoint,
  readCosignatures,
} from "verify-page/checkpoint.js";
import { type Key, readNote } from "verify-page/note.js";
import { isLocalWitness, Policy } from "verify-page/policy.js";
import { Rejected } from "verify-page/rejected.js";
import { type Checkpoint, hashLeaf } from "verify-page/tree.js";
import type { Item } from "../model/entries";
import { type HandOver, type Progress, ReadLog } from "./log";
import { Refuted, Unanswered } from "./refuted";
import {
  checkLastEntry,
  compareList,
  isLeftOutByRule,
  type ListedRuns,
  type ReadDirectory,
  readNamedRuns,
  type ShownRuns,
} from "./runList";
import { type ReadFile, readEntryBundle, TILE_WIDTH, TileTree } from "./tiles";

/** Above this many entries only hashes are read: those of the entries shown, and of the root. */
export const MAX_READ_ENTRIES = 200_000;

/** How many items may wait for their tiles at the same time. */
const ITEMS_AT_ONCE = 6;

/** A tree that this browser has proven: its size, its root in hexadecimal digits, and when. */
export interface SeenTree {
  size: number;
  root: string;
  at: number;
}

interface LogQuestion {
  /** The name of the log whose policy this is. */
  origin: string;
  /** The text of the pinned policy. */
  policy: string;
  /** What this browser has seen of the log before. */
  seen: SeenTree | null;
}

export interface Question extends LogQuestion {
  /** The run that all items must belong to; null for entries of the whole log. */
  run: string | null;
  items: Item[];
}

/** Whether a list of runs leaves one out. */
export interface ListQuestion extends LogQuestion {
  list: ShownRuns;
  /** How many runs the directory was proven to name before the list was asked for. */
  known: number;
}

export interface WitnessSighting {
  name: string;
  id: string;
  /** Seconds since 1970 by the clock of the witness; 0 if it states none. */
  time: number;
  /** Whether it is on the machine of the log's own writer. */
  isLocal: boolean;
  /** Whether the reader's trust file marks it as another organization's. */
  isIndependent: boolean;
}

export interface TreeProof {
  size: number;
  root: string;
  /** Whether all entries of the log were read; otherwise hashes alone. */
  isWhole: boolean;
  cosignatures: WitnessSighting[];
  /** How many witnesses the policy names. */
  witnesses: number;
  hasQuorum: boolean;
}

export interface Proof extends TreeProof {
  /** The indexes of the items that are in the signed tree, byte for byte. */
  proven: number[];
  /** How many newer entries of the run the tree has; null without a run, or if only hashes were read. */
  newer: number | null;
}

export interface ListProof extends TreeProof, ListedRuns {
  /** How many runs the directory names. */
  total: number;
  /** The index of its last entry: runs that open behind it were not compared. */
  index: number;
}

/** The tree of a checkpoint that a pinned key signed and that continues what was seen. */
interface OpenedTree {
  tree: ReadLog | TileTree;
  proof: TreeProof;
}

/** How many runs that a list does not show are looked up, and how many entries of each. */
const MAX_HIDDEN = 1000;
const FIRST_ENTRIES = 4;

/** Proves logs, and remembers what it has read of the last one. */
export class Prover {
  #log: ReadLog | null = null;

  constructor(
    private readonly read: ReadFile,
    private readonly maxReadEntries = MAX_READ_ENTRIES,
    private readonly readDirectory: ReadDirectory = noDirectory,
    /** Return the indexes of the first entries of a run, by the server. */
    private readonly readIndexes: (run: string, limit: number) => Promise<number[]> = noDirectory,
  ) {}

  /** Check everything in a question. Throws `Refuted`, or `Unanswered`. */
  async prove(question: Question, progress: Progress = () => {}): Promise<Proof> {
    const { tree, proof } = await this.#openTree(question, progress);
    const signed = question.items.filter(({ index }) => !(index >= proof.size));
    await this.#checkItems(signed, question.run, tree, proof.size);
    return {
      ...proof,
      proven: signed.map(({ index }) => index),
      newer: tree instanceof ReadLog ? countNewer(tree, question) : null,
    };
  }

  /** Check that a list shows the runs that the log names. Throws `Refuted`, or `Unanswered`. */
  async proveList(question: ListQuestion, progress: Progress = () => {}): Promise<ListProof> {
    const { origin, list, known } = question;
    const before = await this.#openTree(question, progress);
    // The directory is asked for after the tree, so it names all that the tree has opened.
    const named = await readNamedRuns(origin, list, this.readDirectory);
    const isBehind = named.index >= before.proof.size;
    const { tree, proof } = isBehind ? await this.#openTree(question, progress) : before;
    if (!(named.index < proof.size)) {
      throw new Unanswered("The server shows an older tree than the directory is proven by.");
    }
    checkLastEntry(named, await tree.leaf(named.index));
    if (tree instanceof ReadLog) checkNoLaterRun(tree, named.index, before.proof.size);
    const listed = compareList(list, named, known);
    await this.#checkHidden(listed.hidden, tree, proof.size);
    const total = named.before + named.runs.length;
    return { ...proof, ...listed, total, index: named.index };
  }

  /** Check that a list leaves out no run but those that lists of runs never show. */
  async #checkHidden(hidden: string[], tree: ReadLog | TileTree, size: number): Promise<void> {
    if (hidden.length > MAX_HIDDEN) {
      throw new Unanswered(
        `The list does not show ${hidden.length} runs, too many to look up here.`,
      );
    }
    const bundles = new Map<number, Promise<Uint8Array[]>>();
    const readEntry = async (index: number): Promise<Uint8Array> => {
      const tile = Math.floor(index / TILE_WIDTH);
      const bundle = bundles.get(tile) ?? readEntryBundle(this.read, tile, size);
      bundles.set(tile, bundle);
      const data = (await bundle)[index % TILE_WIDTH];
      if (!data || !equalBytes(hashLeaf(data), await tree.leaf(index))) {
        throw new Refuted("tile", `The tile with entry ${index} is not that of the signed tree.`);
      }
      return data;
    };
    for (const run of hidden) {
      const indexes =
        tree instanceof ReadLog
          ? tree.indexesOf(run).slice(0, FIRST_ENTRIES)
          : await this.readIndexes(run, FIRST_ENTRIES);
      const entries = await Promise.all(indexes.filter((at) => at < size).map(readEntry));
      const own = entries.filter((data) => JSON.parse(readUtf8(data)).run === run);
      if (!isLeftOutByRule(own)) {
        const message = `Run ${run} is in the directory of the signed log and not in this list.`;
        throw new Refuted("omitted", message);
      }
    }
  }

  async #openTree(question: LogQuestion, progress: Progress): Promise<OpenedTree> {
    const policy = readPolicy(question.policy);
    const note = await this.read("checkpoint");
    const pinned = pinnedKey(policy, question.origin);
    const { checkpoint, cosignatures } = readUnsigned(note, policy, question.origin);
    const failure = findFailure(note, pinned);
    const isWhole = checkpoint.size <= this.maxReadEntries;
    // Only the log itself tells of another key of it, and it has to be read for that.
    if (failure && !isWhole) throw failure;
    if (!failure) checkNotBefore(question.seen, checkpoint);
    const tree = await this.#readTree(checkpoint, question, progress).catch((error: unknown) => {
      throw error instanceof Refuted && failure ? failure : error;
    });
    if (tree instanceof ReadLog) checkSigner(note, pinned, failure, tree.handOvers);
    checkNotBefore(question.seen, checkpoint);
    await checkContinues(question.seen, tree);
    const proof = {
      size: Number(checkpoint.size),
      root: toHex(checkpoint.root),
      isWhole,
      cosignatures: cosignatures.map((cosignature) => viewCosignature(cosignature, policy)),
      witnesses: policy.witnesses.size,
      hasQuorum: policy.isSatisfiedBy(cosignatures),
    };
    return { tree, proof };
  }

  async #readTree(
    checkpoint: Checkpoint,
    { seen }: LogQuestion,
    progress: Progress,
  ): Promise<ReadLog | TileTree> {
    return checkpoint.size <= this.maxReadEntries
      ? this.#readLog(checkpoint, seen?.size ?? 0, progress)
      : TileTree.open(this.read, checkpoint);
  }

  async #readLog(checkpoint: Checkpoint, seen: number, progress: Progress): Promise<ReadLog> {
    const known = this.#log;
    const goesOn = known?.origin === checkpoint.origin && known.size <= checkpoint.size;
    const log = goesOn ? known : new ReadLog(checkpoint.origin);
    // Entries that did not lead to a signed root are not built upon.
    this.#log = null;
    await log.readUpTo(checkpoint, seen, this.read, progress);
    this.#log = log;
    return log;
  }

  async #checkItems(
    items: Item[],
    run: string | null,
    tree: ReadLog | TileTree,
    size: number,
  ): Promise<void> {
    for (let at = 0; at < items.length; at += ITEMS_AT_ONCE) {
      const some = items.slice(at, at + ITEMS_AT_ONCE);
      await Promise.all(some.map((item) => this.#checkItem(item, run, tree, size)));
    }
  }

  async #checkItem(
    item: Item,
    run: string | null,
    tree: ReadLog | TileTree,
    size: number,
  ): Promise<void> {
    if (!Number.isSafeInteger(item.index) || item.index < 0) {
      throw new Refuted("entry", "An entry on this page has no place in the log.");
    }
    if (run !== null && item.entry.run !== run) {
      throw new Refuted("entry", `Entry ${item.index} on this page belongs to another run.`);
    }
    const leaf = await tree.leaf(item.index);
    if (item.id !== toHex(leaf) || !(await this.#isInTree(item, leaf, size))) {
      const message = `Entry ${item.index} on this page is not the one in the signed log.`;
      throw new Refuted("entry", message);
    }
  }

  /** Return whether an entry on the page has the bytes of a leaf. */
  async #isInTree({ index, entry }: Item, leaf: Uint8Array, size: number): Promise<boolean> {
    // The bytes are canonical JSON, which the browser writes as well, unless a name looks like a
    // number: such names come first in an object of JavaScript. The bytes themselves decide then.
    const shown = JSON.stringify(entry);
    if (equalBytes(hashLeaf(writeUtf8(shown)), leaf)) return true;
    const bundle = await readEntryBundle(this.read, Math.floor(index / TILE_WIDTH), size);
    const bytes = bundle[index % TILE_WIDTH];
    if (!bytes || !equalBytes(hashLeaf(bytes), leaf)) {
      throw new Refuted("tile", `The tile with entry ${index} is not that of the signed tree.`);
    }
    return JSON.stringify(JSON.parse(readUtf8(bytes))) === shown;
  }
}

/**
 * Check with what this browser has kept of the log; where its tiles contradict the checkpoint, say
 * what the log contradicts if it is read `again`, whole and anew.
 *
 * Kept tiles and a checkpoint of another history do not fit together either.
 */
export async function explainTiles<T>(
  first: () => Promise<T>,
  again: () => Promise<T>,
): Promise<T> {
  try {
    return await first();
  } catch (error) {
    if (!(error instanceof Refuted && error.kind === "tile")) throw error;
    const other = await again().catch((failure: unknown) => failure);
    throw other instanceof Refuted ? other : error;
  }
}

async function noDirectory(): Promise<never> {
  throw new Unanswered("The directory of the runs cannot be read here.");
}

/** Check that a signed tree opens no run behind the last entry of the directory. */
function checkNoLaterRun(log: ReadLog, index: number, size: number): void {
  const later = log.openedBetween(index, size);
  if (!later.length) return;
  const message = `The signed log has opened run ${later[0]}, and the server keeps back where it is named.`;
  throw new Refuted("directory", message);
}

/** Parse a policy; the last line of what is pasted often has no newline. */
export function readPolicy(text: string): Policy {
  try {
    return new Policy(writeUtf8(text.endsWith("\n") ? text : `${text}\n`));
  } catch (error) {
    if (error instanceof Rejected)
      throw new Unanswered(`The trust file cannot be read: ${error.message}`);
    throw error;
  }
}

/** The keys of a policy as the reader compares them. */
export interface PolicyKeys {
  logs: { name: string; id: string }[];
  witnesses: { name: string; id: string; isLocal: boolean }[];
}

export function listKeys(text: string): PolicyKeys {
  const policy = readPolicy(text);
  return {
    logs: policy.logs.map(({ name, id }: Key) => ({ name, id })),
    witnesses: [...policy.witnesses.values()].map(({ name, id }: Key) => ({
      name,
      id,
      isLocal: isLocalWitness(name),
    })),
  };
}

/** Return the key of a log in a policy. Throws `Unanswered` if it names several. */
function pinnedKey(policy: Policy, origin: string): Key | null {
  const keys = policy.logs.filter(({ name }: Key) => name === origin);
  if (keys.length > 1) {
    throw new Unanswered(
      "Your trust file names several keys of this log. Keep the newest one only: forum ledger policy prints it.",
    );
  }
  return keys[0] ?? null;
}

/** Check that the newest key of the log, to which signed hand-overs lead, signed a checkpoint. */
function checkSigner(
  note: Uint8Array,
  pinned: Key | null,
  failure: Refuted | null,
  handOvers: readonly HandOver[],
): void {
  const newest = handOvers.reduce(
    (key, { oldKey, newKey }) => (key?.text === oldKey.text ? newKey : key),
    pinned,
  );
  if (newest?.text === pinned?.text) {
    if (failure) throw failure;
    return;
  }
  if (!failure) {
    throw new Unanswered(
      `The key ${pinned?.id} of your trust file has handed this log over to the key ${newest?.id}, and has signed it once more. Ask the owner which key is in use, and pin that one.`,
    );
  }
  openNote(note, newest);
}

/** Return why a checkpoint is not one that a key signed, or null if it is. */
function findFailure(note: Uint8Array, key: Key | null): Refuted | null {
  try {
    openNote(note, key);
    return null;
  } catch (error) {
    if (error instanceof Refuted) return error;
    throw error;
  }
}

function openNote(note: Uint8Array, key: Key | null): void {
  readRefuting(() => openCheckpoint(note, key ? [key] : []));
}

/** Read a checkpoint, whose signature by the log is not checked, and its cosignatures. */
function readUnsigned(
  note: Uint8Array,
  policy: Policy,
  origin: string,
): { checkpoint: Checkpoint; cosignatures: Cosignature[] } {
  return readRefuting(() => {
    const checkpoint = readCheckpoint(readNote(note).text);
    if (checkpoint.origin !== origin) throw new Rejected("it is that of another log");
    if (checkpoint.size > Number.MAX_SAFE_INTEGER) throw new Rejected("its size is impossible");
    return { checkpoint, cosignatures: uniqueCosignatures(note, policy) };
  });
}

function readRefuting<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof Rejected)) throw error;
    const message = `The checkpoint is not one that your pinned keys have signed: ${error.message}.`;
    throw new Refuted("checkpoint", message);
  }
}

/** The cosignatures of pinned witnesses, one of each. */
function uniqueCosignatures(note: Uint8Array, policy: Policy): Cosignature[] {
  const all = readCosignatures(note, [...policy.witnesses.values()]);
  return [...new Map(all.map((cosignature) => [cosignature.key.text, cosignature])).values()];
}

/** Refuse a tree that is smaller than the remembered one, or another one of the same size. */
function checkNotBefore(seen: SeenTree | null, { size, root }: Checkpoint): void {
  if (!seen) return;
  if (size < seen.size) {
    throw new Refuted(
      "shorter",
      `The log has ${size} entries, but this browser has seen ${seen.size} of them before.`,
    );
  }
  if (size === BigInt(seen.size) && toHex(root) !== seen.root) throw otherHistory(seen);
}

async function checkContinues(seen: SeenTree | null, tree: ReadLog | TileTree): Promise<void> {
  if (seen && toHex(await tree.rootAt(seen.size)) !== seen.root) throw otherHistory(seen);
}

function otherHistory({ size }: SeenTree): Refuted {
  return new Refuted(
    "history",
    `The first ${size} entries of the log are not those that this browser has seen before.`,
  );
}

/** Return how many entries of a run come after those shown. Throws `Refuted` if one is left out. */
function countNewer(log: ReadLog, { run, items }: Question): number | null {
  if (run === null) return null;
  const shown = new Set(items.map(({ index }) => index));
  const last = items.reduce((highest, { index }) => Math.max(highest, index), -1);
  const absent = log.indexesOf(run).filter((index) => !shown.has(index));
  const left = absent.find((index) => index < last);
  if (left !== undefined) {
    const message = `Entry ${left} of this run is in the signed log and not on this page.`;
    throw new Refuted("missing", message);
  }
  return absent.length;
}

function viewCosignature({ key, time }: Cosignature, policy: Policy): WitnessSighting {
  return {
    name: key.name,
    id: key.id,
    time: Number(time),
    isLocal: isLocalWitness(key.name),
    isIndependent: policy.isIndependent(key),
  };
}
