// The check of a page's entries, again and again as entries come: one question at a time.

import { type ReadonlySignal, signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { type CheckState, lacksQuorum, NOTHING_CHECKED } from "../model/badge";
import type { Item } from "../model/entries";
import { isSameTree, type Pin } from "../model/memory";
import type { SeenTree, TreeProof } from "../prover/check";
import { prove } from "../prover/client";
import type { Verdict } from "../prover/messages";
import { keepSeen, readPin, readSeen } from "./memory";
import { me, session } from "./session";

/** How long entries are collected before they are checked. */
const COLLECT_MS = 300;
export const UNSIGNED_MS = 3000;
export const RETRY_MS = 15_000;

export interface EntryCheck {
  state: ReadonlySignal<CheckState>;
  /** Check these items, as far as they are not yet. */
  want: (items: Item[]) => void;
  /** Check all again, and read all files of the log again. */
  again: () => void;
  stop: () => void;
}

export interface CheckTarget {
  origin: string;
  policy: string;
  /** The run that the items belong to; null for entries of the whole log. */
  run: string | null;
}

/** Check items of a log against its pinned policy until `stop` is called. */
export function checkEntries({ origin, policy, run }: CheckTarget): EntryCheck {
  const state = signal<CheckState>(NOTHING_CHECKED);
  let wanted: Item[] | null = null;
  let isRunning = false;
  let isStopped = false;
  /** Whether the reader has asked to read everything again. */
  let isFreshDue = false;
  let timer: ReturnType<typeof setTimeout> | undefined;

  async function check(): Promise<void> {
    clearTimeout(timer);
    if (isRunning || isStopped || !wanted) return;
    isRunning = true;
    const isFresh = isFreshDue;
    isFreshDue = false;
    const items = wanted;
    const seen = readSeen(origin);
    const verdict = await prove(
      { origin, policy, seen, run, items },
      { session: session.value, isFresh, progress: showProgress },
    );
    isRunning = false;
    if (isStopped) return;
    if (isFreshDue) return check();
    if (verdict.state === "proven") {
      // Another tab may have proven another tree meanwhile, which this one must continue, too.
      if (!isSameTree(readSeen(origin), seen)) return check();
      remember(origin, verdict.proof);
    }
    state.value = { verdict, ...sortItems(verdict, items, state.value.checked), progress: null };
    schedule();
  }

  function showProgress(done: number, total: number): void {
    if (!isStopped && !state.value.verdict) {
      state.value = { ...state.value, progress: { done, total } };
    }
  }

  /** Plan the next check. What was refuted stays refuted until the reader asks again. */
  function schedule(): void {
    clearTimeout(timer);
    const { verdict, checked } = state.value;
    const isComplete =
      verdict?.state === "proven" &&
      !lacksQuorum(verdict.proof) &&
      wanted?.every((item) => checked.has(item));
    if (isRunning || verdict?.state === "refuted") return;
    if (verdict?.state === "failed") timer = setTimeout(retry, RETRY_MS);
    else if (!isComplete) timer = setTimeout(retry, delayOf(state.value, wanted ?? []));
  }

  function retry(): void {
    if (document.hidden && state.value.verdict) timer = setTimeout(retry, RETRY_MS);
    else void check();
  }

  return {
    state,
    want: (items) => {
      if (run !== null && items.length === 0) return; // it is not loaded yet
      wanted = items;
      // A check that failed is tried again anyway, however many entries come.
      if (state.value.verdict?.state !== "failed") schedule();
    },
    again: () => {
      state.value = NOTHING_CHECKED;
      isFreshDue = true;
      void check();
    },
    stop: () => {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}

/** Say of each item whether it is proven by now, or not signed yet. */
function sortItems(verdict: Verdict, items: Item[], checked: ReadonlySet<Item>) {
  if (verdict.state !== "proven") return { checked, unsigned: new Set<Item>() };
  const { proven, size } = verdict.proof;
  const indexes = new Set(proven);
  return {
    checked: new Set([...checked, ...items.filter(({ index }) => indexes.has(index))]),
    unsigned: new Set(items.filter(({ index }) => index >= size)),
  };
}

/** New entries are checked soon; for the next signature there is more time. */
function delayOf({ verdict, checked, unsigned }: CheckState, items: Item[]): number {
  if (!verdict) return 0;
  const isNew = items.some((item) => !checked.has(item) && !unsigned.has(item));
  return isNew ? COLLECT_MS : UNSIGNED_MS;
}

export function remember(origin: string, { size, root }: TreeProof): void {
  const tree: SeenTree = { size, root, at: Date.now() };
  keepSeen(origin, tree);
}

export interface PinnedLog {
  /** The name of the log, as the server says; empty until it has. */
  origin: string;
  pin: Pin | null;
}

/** The log of this session, and what the reader has pinned for it. */
export function usePinnedLog(): PinnedLog {
  const origin = me.value?.ledger ?? "";
  return { origin, pin: origin ? readPin(origin) : null };
}

/** Check the items of a page while it is shown; null where no policy is pinned. */
export function useEntryCheck(run: string | null, items: Item[]): EntryCheck | null {
  const { origin, pin } = usePinnedLog();
  const policy = pin?.policy ?? "";
  const [check, setCheck] = useState<EntryCheck | null>(null);
  useEffect(() => {
    const started = policy ? checkEntries({ origin, policy, run }) : null;
    setCheck(started);
    return started?.stop;
  }, [origin, policy, run]);
  useEffect(() => check?.want(items), [check, items]);
  return check;
}
