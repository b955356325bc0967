// The entries of a log, read whole and once: their hashes, and which run each belongs to.

import { equalBytes, includesBytes, readUtf8, writeUtf8 } from "verify-page/bytes.js";
import { keysHaveSigned } from "verify-page/log_keys.js";
import { type Key, LOG_KEY, readKey } from "verify-page/note.js";
import { Rejected } from "verify-page/rejected.js";
import { type Checkpoint, hashLeaf } from "verify-page/tree.js";
import { Frontier } from "./frontier";
import { Refuted } from "./refuted";
import { type ReadFile, readEntryBundle, rootOf, TILE_WIDTH } from "./tiles";

/** How many tiles are asked for at the same time. */
const READ_AHEAD = 5;
const QUOTE = 0x22;
/** What follows the name of a run in the entry that opens it. */
const OPENING = writeUtf8('","strand":"main","n":0,');
const ROTATION = "key.rotate/2";
const ROTATION_MARK = writeUtf8(`"kind":"${ROTATION}"`);

/** A hand-over of the log from one key to the next, which both have signed. */
export interface HandOver {
  oldKey: Key;
  newKey: Key;
}

export type Progress = (done: number, total: number) => void;

/** The part of a log that was read so far. A later checkpoint needs the new entries only. */
export class ReadLog {
  readonly #leaves: Uint8Array[] = [];
  readonly #runs = new Map<string, number[]>();
  readonly #openings: { run: string; index: number }[] = [];
  readonly #frontier = new Frontier();
  /** Roots at sizes that are asked for again and again: those of checkpoints. */
  readonly #roots = new Map<number, Uint8Array>();
  readonly #prefix: Uint8Array;
  /** The hand-overs in the order of the log. */
  readonly handOvers: HandOver[] = [];

  constructor(readonly origin: string) {
    // Entries are canonical, so each begins with the same bytes up to the name of its run.
    this.#prefix = writeUtf8(`{"v":"forum/entry/1","log":"${origin}","run":"`);
  }

  get size(): number {
    return this.#leaves.length;
  }

  leaf(index: number): Uint8Array {
    const leaf = this.#leaves[index];
    if (!leaf) throw new Error(`Entry ${index} was not read.`);
    return leaf;
  }

  /** The indexes of the entries of a run, rising. */
  indexesOf(run: string): readonly number[] {
    return this.#runs.get(run) ?? [];
  }

  /** The runs that were opened behind one index and before another. */
  openedBetween(index: number, size: number): string[] {
    const opened = this.#openings.filter((each) => index < each.index && each.index < size);
    return opened.map(({ run }) => run).filter((run) => run !== "log");
  }

  /** Return the root that the log had when it had this many entries. */
  rootAt(size: number): Uint8Array {
    const root = this.#roots.get(size) ?? rootOf(this.#leaves.slice(0, size));
    this.#roots.set(size, root);
    return root;
  }

  /**
   * Read up to a checkpoint. Throws `Refuted` if the entries do not give its root.
   *
   * The root at the size `seen` is computed on the way.
   */
  async readUpTo(
    checkpoint: Checkpoint,
    seen: number,
    read: ReadFile,
    progress: Progress,
  ): Promise<void> {
    const size = Number(checkpoint.size);
    const tiles = Math.ceil(size / TILE_WIDTH);
    const first = Math.floor(this.size / TILE_WIDTH);
    const ahead: Promise<Uint8Array[]>[] = [];
    for (let tile = first; this.size < size; tile++) {
      for (let next = tile + ahead.length; next < Math.min(tile + READ_AHEAD, tiles); next++) {
        const reading = readEntryBundle(read, next, size);
        reading.catch(() => {}); // it is awaited below, unless one before it fails
        ahead.push(reading);
      }
      const entries = (await ahead.shift()) ?? [];
      for (const entry of entries.slice(this.size - tile * TILE_WIDTH)) {
        this.#add(entry);
        if (this.size === seen || this.size === size) {
          this.#roots.set(this.size, this.#frontier.root());
        }
      }
      progress(this.size, size);
    }
    if (!equalBytes(this.rootAt(size), checkpoint.root)) {
      throw new Refuted("tile", `The ${size} entries of the tiles do not give the signed root.`);
    }
  }

  #add(entry: Uint8Array): void {
    const run = this.#readRun(entry);
    const indexes = this.#runs.get(run) ?? [];
    indexes.push(this.size);
    const rest = this.#prefix.length + run.length;
    if (run && equalBytes(entry.subarray(rest, rest + OPENING.length), OPENING)) {
      this.#openings.push({ run, index: this.size });
    }
    if (run === "log" && includesBytes(entry, ROTATION_MARK)) this.#addHandOver(entry);
    this.#runs.set(run, indexes);
    const leaf = hashLeaf(entry);
    this.#leaves.push(leaf);
    this.#frontier.add(leaf);
  }

  #addHandOver(data: Uint8Array): void {
    try {
      const { log, strand, kind, facts } = JSON.parse(readUtf8(data));
      const [oldKey, newKey] = [readKey(facts.old), readKey(facts.vkey)];
      const isOurs = [oldKey, newKey].every(
        (key) => key.name === this.origin && key.algorithm === LOG_KEY,
      );
      const isPlaced = log === this.origin && strand === "keys" && kind === ROTATION;
      if (!isOurs || !isPlaced || !(facts.since <= this.size)) return;
      const signed = new Map(Object.entries(facts));
      if (keysHaveSigned(ROTATION, this.origin, signed, [oldKey, newKey])) {
        this.handOvers.push({ oldKey, newKey });
      }
    } catch (error) {
      // What is no hand-over leads to no key.
      if (!(error instanceof Rejected || error instanceof SyntaxError)) throw error;
    }
  }

  /** The run that an entry names; empty if it has another form. */
  #readRun(entry: Uint8Array): string {
    const start = this.#prefix.length;
    if (!equalBytes(entry.subarray(0, start), this.#prefix)) return "";
    const end = entry.indexOf(QUOTE, start);
    return end < 0 ? "" : String.fromCharCode(...entry.subarray(start, end));
  }
}
