// Entries of a run as the pages use them.

import type { RunEvent } from "forumd-client";
import { own } from "./own";

export interface Commitment {
  h: string;
  size: number;
  type: string;
}

/** An entry of the log; see the specification of entries. */
export interface Entry {
  run: string;
  strand: string;
  n: number;
  step: string;
  /** Microseconds since 1970, by the clock of the writer. */
  ts: number;
  actor: string;
  kind: string;
  parents: string[];
  facts: Record<string, unknown>;
  bodies: Record<string, Commitment>;
}

/** An entry with its place in the log. */
export interface Item {
  id: string;
  index: number;
  entry: Entry;
}

export function readItem({ id, index, entry }: Pick<RunEvent, "id" | "index" | "entry">): Item {
  return { id, index, entry: entry as unknown as Entry };
}

/** A fact as text; empty if there is none. */
export function factText(entry: Entry, name: string): string {
  const value = own(entry.facts, name);
  return value === undefined || value === null ? "" : String(value);
}

/** A fact as a number; 0 if there is none. */
export function factNumber(entry: Entry, name: string): number {
  const value = own(entry.facts, name);
  return typeof value === "number" ? value : 0;
}

/** Return how many items, in the order of the log, are not after an entry. */
export function countUntil(items: Item[], until: number): number {
  const after = items.findIndex(({ index }) => index > until);
  return after === -1 ? items.length : after;
}
