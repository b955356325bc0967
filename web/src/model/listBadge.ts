// The words of the badge of a list of runs: how far this browser has proven that it is whole.

import type { ListProof } from "../prover/check";
import type { Verdict } from "../prover/messages";
import { type BadgeText, describeProgress, describeRefutation, lacksQuorum } from "./badge";
import { formatCount, formatNumberOf } from "./format";

/** The runs of a page, as they were asked for. */
export interface RunListing {
  runs: string[];
  /** Whether the server says that there are no older ones. */
  isEnd: boolean;
  /** How many runs the directory was proven to name before the list was asked for. */
  known: number;
}

/** A check, and the list that it is about. */
export interface ListState {
  verdict: Verdict<ListProof> | null;
  listing: RunListing | null;
  progress: { done: number; total: number } | null;
}

export const NO_LIST_CHECKED: ListState = { verdict: null, listing: null, progress: null };

/** Why a list is not checked at all; empty if it is. */
export function reasonNotChecked(isFiltered: boolean): string {
  return isFiltered
    ? "Filters hide runs, and nothing proves that these are all that match. Clear the filters to have the list checked."
    : "";
}

/** Return the words for a list; `check` is null where no trust file is pinned. */
export function describeList(
  check: ListState | null,
  listing: RunListing | null,
  isFiltered: boolean,
): BadgeText {
  if (isFiltered) return { state: "pending", label: "filtered: not checked" };
  if (!check) return { state: "pending", label: "check in this browser" };
  const { verdict, progress } = check;
  if (verdict?.state === "refuted") {
    return { state: "failed", label: describeRefutation(verdict.kind) };
  }
  if (verdict?.state === "failed") return { state: "indeterminate", label: "list not checked" };
  if (!verdict || !isSameList(check.listing, listing)) {
    return { state: "running", label: describeProgress(progress) };
  }
  return describeListProof(verdict.proof);
}

export function isSameList(one: RunListing | null, other: RunListing | null): boolean {
  const [runs, others] = [one?.runs ?? [], other?.runs ?? []];
  // Each name by itself: a name may have the character that would join two of them.
  const isSame = runs.length === others.length && runs.every((run, at) => run === others[at]);
  return one?.isEnd === other?.isEnd && isSame;
}

function describeListProof(proof: ListProof): BadgeText {
  const { listed, newer, unsigned, older, total } = proof;
  const parts = [
    listed || !total ? `${formatNumberOf(listed, "run")} proven, none left out` : "",
    newer ? `${formatCount(newer)} newer not on this page` : "",
    unsigned ? `${formatCount(unsigned)} not signed yet` : "",
    older ? `${formatCount(older)} from before the directory` : "",
    proof.isWhole ? "" : `up to entry ${formatCount(proof.index)}`,
    lacksQuorum(proof) ? "quorum not reached" : "",
  ];
  const label = parts.filter(Boolean).join(" · ") || "no run to prove";
  return { state: isListComplete(proof) ? "ok" : "waiting", label };
}

/** Whether nothing of a list is left to be proven. */
export function isListComplete(proof: ListProof): boolean {
  return !proof.newer && !proof.unsigned && !proof.older && proof.isWhole && !lacksQuorum(proof);
}

/** What is proven of a list, in sentences. */
export function describeProven(proof: ListProof): string[] {
  const { from, to, hidden, listed, total, size, index } = proof;
  const tree = `the checkpoint of size ${formatCount(size)}`;
  if (!to) return [`No run of this page is in the directory yet, under ${tree}.`];
  const range = from === to ? `Run ${from}` : `Runs ${formatCount(from)} to ${formatCount(to)}`;
  const lines = [
    `${range} of the ${formatCount(total)} in the directory, none left out, under ${tree}.`,
  ];
  if (hidden.length) {
    lines.push(
      `${formatCount(listed)} of them ${listed === 1 ? "is" : "are"} listed. The record of the other ${formatCount(hidden.length)} says that another run started them or that they are evaluations, which this list never shows.`,
    );
  }
  const end = `The directory ends with entry ${formatCount(index)} of the log`;
  lines.push(
    proof.isWhole
      ? `${end}, and no run was opened behind it in the signed tree.`
      : `${end}. Whether a run was opened behind it was not checked, because the log is large.`,
  );
  return lines;
}

/** What is not proven of a list, in sentences. */
export function describeUnproven(proof: ListProof): string[] {
  const { newer, unsigned, older } = proof;
  return [
    newer
      ? `${formatNumberOf(newer, "newer run")} of the directory ${newer === 1 ? "is" : "are"} not on this page. The list is asked for again.`
      : "",
    unsigned
      ? `${formatNumberOf(unsigned, "run")} on this page ${unsigned === 1 ? "waits" : "wait"} for the next checkpoint.`
      : "",
    older
      ? `${formatNumberOf(older, "run")} at the end of this list ${older === 1 ? "is" : "are"} from before the directory. Nothing proves that they are all.`
      : "",
    "Runs that were opened after the checkpoint.",
    "State, cost, time and text of each run: the server makes them of the entries. Open a run to have those checked.",
  ].filter(Boolean);
}
