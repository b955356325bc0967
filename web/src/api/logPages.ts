// The entries of a whole log by their indexes, read page by page where they are looked at.

import { type ReadonlySignal, signal } from "@preact/signals";
import type { Item } from "../model/entries";
import { listLog } from "./calls";

const PAGE_SIZE = 100;

export interface LogPages {
  /** All that was read so far, in the order of the log. */
  items: ReadonlySignal<Item[]>;
  error: ReadonlySignal<Error | null>;
  /** Return an entry if it was read; otherwise have its page read. */
  item: (index: number) => Item | undefined;
}

export function openLog(): LogPages {
  const items = signal<Item[]>([]);
  const error = signal<Error | null>(null);
  const known = new Map<number, Item>();
  const asked = new Set<number>();

  async function read(page: number): Promise<void> {
    asked.add(page);
    try {
      for (const item of await listLog(page * PAGE_SIZE, PAGE_SIZE)) {
        if (!known.has(item.index)) known.set(item.index, item);
      }
      error.value = null;
      items.value = [...known.values()].sort((one, other) => one.index - other.index);
    } catch (failure) {
      error.value = failure as Error;
    } finally {
      asked.delete(page);
    }
  }

  return {
    items,
    error,
    item: (index) => {
      const page = Math.floor(index / PAGE_SIZE);
      if (!known.has(index) && !asked.has(page) && !error.value) queueMicrotask(() => read(page));
      return known.get(index);
    },
  };
}
