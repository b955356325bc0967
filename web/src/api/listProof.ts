// The check of a list of runs, again when it has changed: one question at a time.

import { type ReadonlySignal, signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import {
  isListComplete,
  isSameList,
  type ListState,
  NO_LIST_CHECKED,
  type RunListing,
} from "../model/listBadge";
import { isSameTree } from "../model/memory";
import { proveList } from "../prover/client";
import { readSeen } from "./memory";
import { RETRY_MS, remember, UNSIGNED_MS, usePinnedLog } from "./proof";
import { session } from "./session";

export interface ListCheck {
  state: ReadonlySignal<ListState>;
  /** How many runs the directory was proven to name: the next list must have them. */
  known: () => number;
  /** Check this list, if it is another one or was not proven whole. */
  want: (listing: RunListing) => void;
  /** Check it again, and read all files of the log again. */
  again: () => void;
  stop: () => void;
}

/** Check lists of a log until `stop` is called; `reload` asks for the list anew. */
function checkLists(origin: string, policy: string, reload: () => void): ListCheck {
  const state = signal<ListState>(NO_LIST_CHECKED);
  let wanted: RunListing | null = null;
  let known = 0;
  let isRunning = false;
  let isStopped = false;
  let isFreshDue = false;
  let timer: ReturnType<typeof setTimeout> | undefined;

  async function check(): Promise<void> {
    clearTimeout(timer);
    if (isRunning || isStopped || !wanted) return;
    isRunning = true;
    const isFresh = isFreshDue;
    isFreshDue = false;
    const [listing, seen] = [wanted, readSeen(origin)];
    const { runs, isEnd } = listing;
    const verdict = await proveList(
      { origin, policy, seen, list: { runs, isEnd }, known: listing.known },
      { session: session.value, isFresh, progress: showProgress },
    );
    isRunning = false;
    if (isStopped) return;
    if (isFreshDue) return check();
    if (verdict.state === "proven") {
      // Another tab may have proven another tree meanwhile, which this one must continue, too.
      if (!isSameTree(readSeen(origin), seen)) return check();
      remember(origin, verdict.proof);
      known = Math.max(known, verdict.proof.total);
      // A list that is asked for from now on must show the newer runs.
      if (verdict.proof.newer && listing === wanted) reload();
    }
    state.value = { verdict, listing, progress: null };
    if (listing !== wanted && verdict.state === "proven") void check();
    else schedule();
  }

  function showProgress(done: number, total: number): void {
    if (!isStopped && !state.value.verdict) {
      state.value = { ...state.value, progress: { done, total } };
    }
  }

  /** Plan the next check. What was refuted stays refuted until the reader asks again. */
  function schedule(): void {
    clearTimeout(timer);
    const { verdict } = state.value;
    if (verdict?.state === "failed") timer = setTimeout(retry, RETRY_MS);
    if (verdict?.state !== "proven") return;
    const { proof } = verdict;
    // What is from before the directory stays so, and a large log is not read whole later.
    const mayGrow = proof.newer || proof.unsigned || !proof.hasQuorum;
    if (!isListComplete(proof) && mayGrow) timer = setTimeout(retry, UNSIGNED_MS);
  }

  function retry(): void {
    if (document.hidden) timer = setTimeout(retry, RETRY_MS);
    else void check();
  }

  return {
    state,
    known: () => known,
    want: (listing) => {
      const { verdict, listing: checked } = state.value;
      wanted = listing;
      if (verdict?.state === "refuted" || verdict?.state === "failed") return;
      const isProven = verdict?.state === "proven" && isListComplete(verdict.proof);
      // The order counts in a list that was asked for after its runs were known.
      const isStricter = listing.known > (checked?.known ?? 0);
      if (!isProven || isStricter || !isSameList(checked, listing)) void check();
    },
    again: () => {
      state.value = NO_LIST_CHECKED;
      isFreshDue = true;
      reload();
      void check();
    },
    stop: () => {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}

/** Check the lists of a page while it is shown; null where no policy is pinned. */
export function useListCheck(isChecked: boolean, reload: () => void): ListCheck | null {
  const { origin, pin } = usePinnedLog();
  const policy = isChecked ? (pin?.policy ?? "") : "";
  const [check, setCheck] = useState<ListCheck | null>(null);
  useEffect(() => {
    const started = policy ? checkLists(origin, policy, reload) : null;
    setCheck(started);
    return started?.stop;
  }, [origin, policy]);
  return check;
}
