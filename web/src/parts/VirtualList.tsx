import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { VList, type VListHandle, WindowVirtualizer } from "virtua";

interface VirtualListProps<T> {
  items: T[];
  label: string;
  /** The position of the chosen item, which is scrolled to; -1 if none is chosen. */
  chosen: number;
  onChoose: (item: T) => void;
  /** Whether it is as long as it is and scrolls with the page, instead of in a box of its own. */
  isInPage?: boolean;
  children: (item: T, position: number) => ComponentChildren;
}

/** A long list, of which only what is visible exists. The arrow keys choose the next item. */
export function VirtualList<T>(props: VirtualListProps<T>) {
  const { items, label, chosen, onChoose, isInPage, children } = props;
  const list = useRef<{ scrollToIndex: VListHandle["scrollToIndex"] }>(null);
  const follow = (position: number) => list.current?.scrollToIndex(position, { align: "nearest" });
  useEffect(() => {
    // The page itself must not jump to its end when something is chosen at its beginning.
    if (chosen >= 0 && !isInPage) follow(chosen);
  }, [chosen]);
  const move = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const next = step === undefined ? undefined : items[chosen + step];
    if (next === undefined || step === undefined) return;
    event.preventDefault();
    onChoose(next);
    if (isInPage) follow(chosen + step);
  };
  // The types of the library are those of React.
  return isInPage ? (
    <section class="virtual in-page" aria-label={label} onKeyDown={move}>
      <WindowVirtualizer ref={list as never} data={items}>
        {children as never}
      </WindowVirtualizer>
    </section>
  ) : (
    // biome-ignore lint/a11y/noStaticElementInteractions: the keys of the list inside
    <div class="virtual" onKeyDown={move}>
      <VList ref={list as never} data={items} tabIndex={0} role="region" aria-label={label}>
        {children as never}
      </VList>
    </div>
  );
}
