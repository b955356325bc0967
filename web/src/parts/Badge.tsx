import { useState } from "preact/hooks";
import { type EntryCheck, usePinnedLog } from "../api/proof";
import { describeCheck, describeItem } from "../model/badge";
import type { Item } from "../model/entries";
import { CheckDetails } from "./CheckDetails";
import { PinDialog } from "./PinDialog";
import { Mark, toneOf } from "./StateMark";
import "./Badge.css";

interface BadgeProps {
  /** Null where no policy is pinned. */
  check: EntryCheck | null;
  /** What is on the screen. */
  items: Item[];
  /** The run whose evidence can be taken. */
  run?: string;
}

/** How far this browser has proven what a page shows. It opens what was checked, or the pinning. */
export function Badge({ check, items, run }: BadgeProps) {
  const [isOpen, setOpen] = useState(false);
  const { origin, pin } = usePinnedLog();
  const { state, label } = describeCheck(check?.state.value ?? null, items);
  const close = () => setOpen(false);
  return (
    <>
      <button
        type="button"
        class={`badge tone-${toneOf(state)}`}
        aria-haspopup="dialog"
        onClick={() => setOpen(true)}
      >
        <Mark state={state} />
        {label}
      </button>
      {isOpen && pin && check && (
        <CheckDetails check={check} items={items} run={run} close={close} />
      )}
      {isOpen && !pin && <PinDialog origin={origin} close={close} />}
    </>
  );
}

/** What this browser knows of one entry. */
export function EntryBadge({ check, item }: { check: EntryCheck | null; item: Item }) {
  // Without pinned keys the badge of the page says so, and one is enough.
  if (!check) return null;
  const { state, label } = describeItem(check.state.value, item);
  return (
    <span class={`badge tone-${toneOf(state)}`}>
      <Mark state={state} />
      {label}
    </span>
  );
}
