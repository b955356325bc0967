// The stored forms of what this browser keeps of a log.

import type { SeenTree } from "../prover/check";

/** The keys of a log that this browser trusts, and since when, in milliseconds since 1970. */
export interface Pin {
  policy: string;
  at: number;
  /** Whether the server of this machine handed them over at the sign-in; else the reader did. */
  isHandedOver?: boolean;
}

/** Return who gave the keys to this browser. */
export function describeOrigin(pin: Pin): string {
  return pin.isHandedOver
    ? "handed over by Forum on this machine when you signed in,"
    : "pinned by you";
}

export function parsePin(stored: string | null): Pin | null {
  const { policy, at, isHandedOver } = parseObject(stored);
  if (typeof policy !== "string" || typeof at !== "number") return null;
  return isHandedOver === true ? { policy, at, isHandedOver } : { policy, at };
}

export function parseSeen(stored: string | null): SeenTree | null {
  const { size, root, at } = parseObject(stored);
  const isTree = Number.isSafeInteger(size) && typeof root === "string" && typeof at === "number";
  return isTree ? { size: size as number, root, at } : null;
}

/** Return whether nothing was remembered in the meantime, or the same. */
export function isSameTree(one: SeenTree | null, other: SeenTree | null): boolean {
  return one?.size === other?.size && one?.root === other?.root;
}

function parseObject(stored: string | null): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(stored ?? "{}");
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
