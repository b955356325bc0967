// The words of the badge: how far this browser has proven what a page shows.

import type { Proof, TreeProof } from "../prover/check";
import type { Verdict } from "../prover/messages";
import type { Refutation } from "../prover/refuted";
import type { Item } from "./entries";
import { formatCount, formatNumberOf } from "./format";
import { own } from "./own";

/** A check, and what it is about. Everything is bound to the very items that were checked. */
export interface CheckState {
  /** The last verdict; null until there is one. */
  verdict: Verdict | null;
  /** The items that were found in the signed tree. */
  checked: ReadonlySet<Item>;
  /** The items that the last check found to be behind the signed end of the log. */
  unsigned: ReadonlySet<Item>;
  /** How much of the log has been read, while it is read for the first time. */
  progress: { done: number; total: number } | null;
}

export const NOTHING_CHECKED: CheckState = {
  verdict: null,
  checked: new Set(),
  unsigned: new Set(),
  progress: null,
};

export interface BadgeText {
  /** A state that has a mark; see `StateMark`. */
  state: string;
  label: string;
}

const REFUTATIONS: Record<Refutation, string> = {
  checkpoint: "the checkpoint was altered",
  shorter: "the log is shorter than before",
  history: "another history than before",
  tile: "a tile of the log was altered",
  entry: "an entry was altered",
  missing: "an entry is left out",
  directory: "the directory was altered",
  omitted: "a run is left out",
  order: "a run is out of place",
};

export function describeRefutation(kind: Refutation): string {
  return own(REFUTATIONS, kind) ?? kind;
}

/** Return the words for items on a page; `check` is null where no trust file is pinned. */
export function describeCheck(check: CheckState | null, items: readonly Item[]): BadgeText {
  if (!check) return { state: "pending", label: "check in this browser" };
  const { verdict, progress } = check;
  if (verdict?.state === "refuted")
    return { state: "failed", label: describeRefutation(verdict.kind) };
  if (verdict?.state === "failed") return { state: "indeterminate", label: "could not check" };
  if (!verdict) return { state: "running", label: describeProgress(progress) };
  return describeProof(verdict.proof, check, items);
}

export function describeProgress(progress: CheckState["progress"]): string {
  return progress
    ? `checking: ${formatCount(progress.done)} of ${formatNumberOf(progress.total, "entry", "entries")} read`
    : "checking";
}

function describeProof(proof: Proof, check: CheckState, items: readonly Item[]): BadgeText {
  const open = items.filter((item) => !check.checked.has(item));
  const unsigned = open.filter((item) => check.unsigned.has(item)).length;
  const unchecked = open.length - unsigned;
  const proven = items.length - open.length;
  const newer = proof.newer ?? 0;
  const parts = [
    proven ? `${countEntries(proven)} proven here` : "",
    unsigned ? `${formatCount(unsigned)} not signed yet` : "",
    unchecked ? `${formatCount(unchecked)} not checked yet` : "",
    newer ? `${formatCount(newer)} more in the log` : "",
    lacksQuorum(proof) ? "quorum not reached" : "",
  ];
  if (!items.length) return { state: "pending", label: "no entries to check" };
  const isWaiting = unsigned || newer || lacksQuorum(proof);
  const state = unchecked ? "running" : isWaiting ? "waiting" : "ok";
  return { state, label: parts.filter(Boolean).join(" · ") };
}

/** Whether witnesses that the trust file asks for have not cosigned; it may name none. */
export function lacksQuorum({ witnesses, hasQuorum }: TreeProof): boolean {
  return witnesses > 0 && !hasQuorum;
}

/** What is known about one entry. */
export function describeItem(check: CheckState | null, item: Item): BadgeText {
  const isProven = check?.verdict?.state === "proven" && check.checked.has(item);
  if (isProven) return { state: "ok", label: "in the signed log, byte for byte" };
  const alone = describeCheck(check, [item]);
  return check?.verdict?.state === "refuted" ? { ...alone, label: "not proven" } : alone;
}

/** What was read for a proof, and what follows about entries that a page does not show. */
export function describeReading({ isWhole, newer }: Proof): string {
  if (!isWhole) {
    return "Hashes alone, because the log is large. Whether entries are left out was not checked.";
  }
  const all = "All entries of the log, and they give this root.";
  if (newer === null) return all;
  return newer
    ? `${all} ${countEntries(newer)} of the run ${newer === 1 ? "is" : "are"} not on this page.`
    : `${all} None of the run is left out on this page.`;
}

/** Who cosigned, as far as the reader's trust file names them. */
export function describeWitnesses(proof: TreeProof): string {
  if (!proof.witnesses)
    return "Your trust file names no witness: only the log's own key speaks for it.";
  if (!proof.cosignatures.length) {
    return `None of the ${formatCount(proof.witnesses)} pinned witnesses has cosigned it yet.`;
  }
  const count = `${proof.cosignatures.length} of ${proof.witnesses} pinned witnesses cosigned it`;
  const local = proof.cosignatures.every(({ isLocal }) => isLocal)
    ? ", on the writer's own machine: that is as strong as the owner of that machine"
    : "";
  if (!proof.hasQuorum) return `${count}${local}. The quorum of your trust file is not reached.`;
  const isIndependent = proof.cosignatures.some((sighting) => sighting.isIndependent);
  return isIndependent
    ? `Independent: ${count}, and your trust file marks one as another organization's.`
    : `Self-witnessed: ${count}${local}. Your trust file marks none as another organization's (a line of a file that names this log alone: independent NAME).`;
}

export function countEntries(count: number): string {
  return `${formatCount(count)} ${count === 1 ? "entry" : "entries"}`;
}
