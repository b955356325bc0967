import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { VList, type VListHandle } from "virtua";

interface VirtualListProps<T> {
  items: T[];
  label: string;
  /** The position of the chosen item, which is scrolled to; -1 if none is chosen. */
  chosen: number;
  onChoose: (item: T) => void;
  children: (item: T, position: number) => ComponentChildren;
}

/** A long list, of which only what is visible exists. The arrow keys choose the next item. */
export function VirtualList<T>({ items, label, chosen, onChoose, children }: VirtualListProps<T>) {
  const list = useRef<VListHandle>(null);
  useEffect(() => {
    if (chosen >= 0) list.current?.scrollToIndex(chosen, { align: "nearest" });
  }, [chosen]);
  const move = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const next = step === undefined ? undefined : items[chosen + step];
    if (next === undefined) return;
    event.preventDefault();
    onChoose(next);
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the keys of the list inside
    <div class="virtual" onKeyDown={move}>
      {/* Its types are those of React. */}
      <VList ref={list as never} data={items} tabIndex={0} role="region" aria-label={label}>
        {children as never}
      </VList>
    </div>
  );
}
