// What a step was asked and what it replied, for whichever of its entries somebody has chosen.

import type { Item } from "./entries";
import { own } from "./own";

export interface Exchange {
  asked: Item | null;
  replied: Item | null;
}

const STRANDS = { task: "Task", gate: "Gate", turn: "Turn", span: "Step" };
const ASKED = new Set(["call/1", "report.begin/1"]);
const REPLIED = new Set(["reply/1", "report.step/1"]);

/** Return the call that an entry of a strand is about, and its reply; null if there is none. */
export function findExchange(items: Item[], chosen: Item): Exchange | null {
  const strand = items.filter(({ entry }) => entry.strand === chosen.entry.strand);
  const isBefore = ({ entry }: Item) => entry.n <= chosen.entry.n;
  const isCall = ASKED.has(chosen.entry.kind);
  const calls = strand.filter(({ entry }) => ASKED.has(entry.kind));
  const asked = calls.filter(isBefore).at(-1) ?? calls[0];
  if (!asked) return null;
  const next = calls.find(({ entry }) => entry.n > asked.entry.n);
  const replies = strand.filter(
    ({ entry }) =>
      REPLIED.has(entry.kind) &&
      entry.n > asked.entry.n &&
      (next === undefined || entry.n < next.entry.n),
  );
  return { asked, replied: (isCall ? replies[0] : replies.at(-1)) ?? null };
}

/** Name a strand as a person would: `task/draft` is the task draft. */
export function titleOfStrand(strand: string): string {
  const [what = "", ...rest] = strand.split("/");
  const name = rest.join("/");
  const word = own(STRANDS, what);
  return name && word ? `${word} ${name}` : strand;
}
