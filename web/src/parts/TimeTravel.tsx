import type { ComponentChildren } from "preact";
import { countUntil, type Item } from "../model/entries";
import { formatClock, formatCount, formatNumberOf } from "../model/format";

interface TimeTravelProps {
  items: Item[];
  /** The last entry that is shown; null for the run as it stands. */
  until: number | null;
  onChange: (until: number | null) => void;
  /** What can be done from the moment that is shown. */
  children?: ComponentChildren;
}

/** A slider over the entries of a run, to see it as it stood after one of them. */
export function TimeTravel({ items, until, onChange, children }: TimeTravelProps) {
  if (items.length < 2) return null;
  const last = items.length;
  const position = until === null ? last : Math.max(1, countUntil(items, until));
  const item = items[position - 1];
  const words =
    until === null
      ? `now, after ${formatNumberOf(last, "entry", "entries")}`
      : `after ${formatCount(position)} of ${formatNumberOf(last, "entry", "entries")}: ${item?.entry.kind}, ${formatClock(item?.entry.ts ?? 0)} UTC`;
  const move = (to: number) => onChange(to === last ? null : (items[to - 1]?.index ?? null));
  return (
    <section class="card travel" aria-label="Time travel">
      <label class="row-tight">
        <span class="strong">As it stood</span>
        <input
          type="range"
          min={1}
          max={last}
          value={position}
          aria-valuetext={words}
          onInput={(event) => move(Number(event.currentTarget.value))}
        />
      </label>
      <span class="small quiet">{words}</span>
      {until !== null && (
        <button type="button" onClick={() => onChange(null)}>
          Back to now
        </button>
      )}
      {children}
    </section>
  );
}
