// A run, live: its entries as they are written, and the view that the server derives from them.

import { type ReadonlySignal, signal } from "@preact/signals";
import { ProblemError, type RunForm } from "forumd-client";
import { type Item, readItem } from "../model/entries";
import { getRun } from "./calls";
import { client, signOut } from "./session";

/** How long entries are collected before the page is drawn again. */
const BATCH_MS = 150;
const RECONNECT_MS = 2000;

export type Connection = "connecting" | "live" | "lost" | "ended";

export interface LiveRun {
  view: ReadonlySignal<RunForm | null>;
  items: ReadonlySignal<Item[]>;
  connection: ReadonlySignal<Connection>;
  error: ReadonlySignal<Error | null>;
  stop: () => void;
}

/** Follow a run until `stop` is called. After a lost connection it goes on after the last entry. */
export function followRun(run: string): LiveRun {
  const view = signal<RunForm | null>(null);
  const items = signal<Item[]>([]);
  const connection = signal<Connection>("connecting");
  const error = signal<Error | null>(null);
  const stopping = new AbortController();
  let received: Item[] = [];
  let due: ReturnType<typeof setTimeout> | undefined;

  async function refresh(): Promise<void> {
    try {
      view.value = await getRun(run, { signal: stopping.signal });
      error.value = null;
    } catch (failure) {
      if (!stopping.signal.aborted && view.value === null) error.value = failure as Error;
    }
  }

  function draw(): void {
    due = undefined;
    items.value = [...items.value, ...received];
    received = [];
    void refresh();
  }

  async function read(): Promise<void> {
    while (!stopping.signal.aborted) {
      const last = received.at(-1) ?? items.value.at(-1);
      try {
        const options = { after: last?.index ?? -1, signal: stopping.signal };
        for await (const event of client.value.follow(run, options)) {
          connection.value = "live";
          received.push(readItem(event));
          due ??= setTimeout(draw, BATCH_MS);
        }
        connection.value = "ended";
        return;
      } catch (failure) {
        if (stopping.signal.aborted) return;
        // The client has given up after half a minute; a person who looks on has not.
        if (failure instanceof ProblemError && failure.status === 401) signOut(failure.detail);
        if (failure instanceof ProblemError && failure.status < 500) return;
        connection.value = "lost";
        await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS));
      }
    }
  }

  void refresh();
  void read();
  const stop = () => {
    stopping.abort();
    clearTimeout(due);
  };
  return { view, items, connection, error, stop };
}
