// What this browser keeps of a log, by the log's name: the policy that the reader pinned, and the
// last tree that was proven. Nothing here comes from the server unchecked.

import { signal } from "@preact/signals";
import { type Pin, parsePin, parseSeen } from "../model/memory";
import type { SeenTree } from "../prover/check";

const PIN = "forum.pin.";
const SEEN = "forum.seen.";

/**
 * Rises when something is kept or forgotten, here or in another tab. Every function that reads
 * reads it too, so that whatever shows what is kept is drawn again.
 */
const memoryVersion = signal(0);

globalThis.addEventListener?.("storage", ({ key }) => {
  if (!key || key.startsWith(PIN) || key.startsWith(SEEN)) memoryVersion.value++;
});

/** Return a stored text; null if there is none, or if this browser stores nothing for the page. */
function read(name: string): string | null {
  memoryVersion.value;
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

export function readPin(origin: string): Pin | null {
  return parsePin(read(PIN + origin));
}

/** Keep a policy. Throws if this browser stores nothing for the page. */
export function keepPin(origin: string, pin: Pin): void {
  localStorage.setItem(PIN + origin, JSON.stringify(pin));
  memoryVersion.value++;
}

/** The same, for keys that nobody asked to be kept: a browser that stores nothing is no error. */
export function keepPinIfPossible(origin: string, pin: Pin): void {
  try {
    keepPin(origin, pin);
  } catch {
    // The badge then says that nothing is checked.
  }
}

export function readSeen(origin: string): SeenTree | null {
  return parseSeen(read(SEEN + origin));
}

export function keepSeen(origin: string, seen: SeenTree): void {
  try {
    localStorage.setItem(SEEN + origin, JSON.stringify(seen));
  } catch {
    // Nothing is remembered then, and the page says so; what was proven is proven.
  }
  memoryVersion.value++;
}

/** Forget the pinned policy and the last tree of a log. */
export function forgetLog(origin: string): void {
  localStorage.removeItem(PIN + origin);
  localStorage.removeItem(SEEN + origin);
  memoryVersion.value++;
}

/** The names of the logs whose policies are pinned. */
export function listPinned(): string[] {
  memoryVersion.value;
  return Object.keys(localStorage)
    .filter((name) => name.startsWith(PIN))
    .map((name) => name.slice(PIN.length))
    .sort();
}
