// The messages of a run, loaded page by page as its lines come into view.

import type { ExchangeForm } from "forumd-client";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Item } from "../model/entries";
import { numberSteps } from "../model/transcript";
import { getExchanges, TRANSCRIPT_PAGE_SIZE } from "./calls";

/** How long entries may come in before a page is asked for again. */
const SETTLE_MS = 500;

export interface Exchanges {
  /** The messages of each step that is loaded, by the entry that ends it, or begins it. */
  found: Map<number, ExchangeForm>;
  /** Load the page of a step, if it is not there; called when the step comes into view. */
  want: (entry: number) => void;
  /** Whether a step has messages that are not loaded yet. */
  isComing: (entry: number) => boolean;
}

/** Load the messages of a run where they are looked at. */
export function useExchanges(items: Item[]): Exchanges {
  const [found, setFound] = useState<Map<number, ExchangeForm>>(new Map());
  /** What is known of each page: the entries that are waited for, or that it was loaded. */
  const pages = useRef(new Map<number, Set<number> | "loaded">());
  const [failed, setFailed] = useState(false);
  const run = items[0]?.entry.run;
  const shown = useRef(run);
  const numbers = useMemo(() => numberSteps(items), [items]);
  useEffect(() => {
    shown.current = run;
    pages.current.clear();
    setFound(new Map());
    return () => {
      shown.current = undefined;
    };
  }, [run]);
  const load = (page: number, wanted: Set<number>, delay: number) => {
    if (run === undefined) return;
    pages.current.set(page, wanted);
    setTimeout(() => {
      if (shown.current !== run) return;
      getExchanges(run, page).then(
        (loaded) => {
          if (shown.current !== run) return;
          setFailed(false);
          setFound((before) => new Map([...before, ...loaded]));
          const late = [...wanted].filter((entry) => !loaded.has(entry));
          pages.current.set(page, "loaded");
          // A step that came in meanwhile is asked for once more.
          if (late.length && delay === 0) load(page, new Set(late), SETTLE_MS);
        },
        () => {
          // Without them each line shows its body; the next line in view asks again.
          if (shown.current !== run) return;
          pages.current.delete(page);
          setFailed(true);
        },
      );
    }, delay);
  };
  const want = (entry: number) => {
    const number = numbers.get(entry);
    if (number === undefined || found.has(entry)) return;
    const page = Math.floor(number / TRANSCRIPT_PAGE_SIZE);
    const state = pages.current.get(page);
    if (state === undefined) load(page, new Set([entry]), 0);
    // The step is newer than what is loaded of its page.
    else if (state === "loaded") load(page, new Set([entry]), SETTLE_MS);
    else state.add(entry);
  };
  const isComing = (entry: number) => !failed && numbers.has(entry) && !found.has(entry);
  return { found, want, isComing };
}
