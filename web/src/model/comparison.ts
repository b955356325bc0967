// Two runs, and where they part. What differs is found by the server.

import type { DivergenceForm, DivergenceKind, StepForm } from "forumd-client";
import { formatDollars, fromNanoDollars } from "./format";
import { own } from "./own";

/** What a divergence means, in words. */
export const PARTING: Record<DivergenceKind, string> = {
  facts: "the facts differ",
  bodies: "the texts differ",
  missing: "only the first run has this step",
  added: "only the second run has this step",
};

export interface StrandDivergence {
  first: DivergenceForm;
  /** How many later steps of the strand differ. */
  later: number;
}

/** Return the first divergence of each strand. They keep their order, which is that of the log. */
export function firstDivergences(divergences: DivergenceForm[]): StrandDivergence[] {
  const strands = new Map<string, StrandDivergence>();
  for (const divergence of divergences) {
    const known = strands.get(divergence.strand);
    if (known) known.later++;
    else strands.set(divergence.strand, { first: divergence, later: 0 });
  }
  return [...strands.values()];
}

/** The name of a step within its run. */
export function placeOf({ strand, step }: { strand: string; step: string }): string {
  return JSON.stringify([strand, step]);
}

/** The kind and the facts of a step, a line each. */
export function factLines(step: StepForm): string {
  const facts = Object.keys(step.facts)
    .sort()
    .map((name) => `${name}: ${formatFact(name, step)}`);
  return [`kind: ${step.kind}`, ...facts].join("\n");
}

/** What stands for "no limit" in a fact: the largest number that JSON keeps exactly. */
const NO_LIMIT = Number.MAX_SAFE_INTEGER;

/** A fact for reading: amounts of money are in billionths of a dollar. */
function formatFact(name: string, { facts }: StepForm): string {
  const value = own(facts, name);
  if (value === NO_LIMIT) return "no limit";
  // A stop names the limit that was reached, and counts in its unit.
  const isOfLimit = facts.limit === "usd" && ["asked", "used", "cap"].includes(name);
  const isMoney = name === "usd" || name.endsWith("_usd") || isOfLimit;
  return isMoney && typeof value === "number"
    ? formatDollars(fromNanoDollars(value))
    : JSON.stringify(value);
}

/**
 * Take the marks out of a prompt. A mark is the digest of the text that it encloses: it differs
 * where the text does, and a reader who sees the text need not read the mark.
 */
export function withoutMarks(prompt: string): string {
  return prompt.replace(/^--- (?:[0-9a-f]{32}|[0-9]{8}) (begin: .*|end)$/gm, "--- $1");
}

/** The names of the bodies that are not the same on both sides. */
export function changedBodies({ first, second }: DivergenceForm): string[] {
  const names = new Set([
    ...Object.keys(first?.bodies ?? {}),
    ...Object.keys(second?.bodies ?? {}),
  ]);
  return [...names].filter(
    (name) => own(first?.bodies ?? {}, name) !== own(second?.bodies ?? {}, name),
  );
}

/** Lay out two JSON texts so that they can be compared by line; other texts stay as they are. */
export function layOut(before: string, after: string): [string, string] {
  try {
    const [a, b] = [before, after].map((text) => JSON.stringify(JSON.parse(text), null, 2));
    // Two texts that differ in their notation alone must not look the same.
    return a === undefined || b === undefined || a === b ? [before, after] : [a, b];
  } catch {
    return [before, after];
  }
}
