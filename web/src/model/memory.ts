// The stored forms of what this browser keeps of a log.

import type { SeenTree } from "../prover/check";

/** The policy that the reader pinned, and when, in milliseconds since 1970. */
export interface Pin {
  policy: string;
  at: number;
}

export function parsePin(stored: string | null): Pin | null {
  const { policy, at } = parseObject(stored);
  return typeof policy === "string" && typeof at === "number" ? { policy, at } : null;
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
