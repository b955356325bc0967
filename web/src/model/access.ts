// Keys: what they allow, and a form for a new one.

import type { KeyAsk, KeyForm, Scope } from "forumd-client";

/** The scopes, and what each is for. */
export const SCOPES: [Scope, string][] = [
  ["submit", "submit, cancel and fork runs"],
  ["read", "look at runs and their answers"],
  ["approve", "decide at gates"],
  ["audit", "read the log, take evidence, verify"],
  ["report", "report runs of other programs, and read nothing"],
  ["metrics", "read /metrics, and nothing else"],
  ["admin", "everything, and who may do what"],
];

const DAY_S = 86_400;
/** How long a key can hold, by the words of the form. */
export const LIFETIMES: [string, number | null][] = [
  ["1 day", DAY_S],
  ["30 days", 30 * DAY_S],
  ["90 days", 90 * DAY_S],
  ["1 year", 365 * DAY_S],
  ["no end", null],
];

export interface KeyDraft {
  name: string;
  scopes: Scope[];
  seconds: number | null;
}

export type KeyFaults = Partial<Record<"name" | "scopes" | "", string>>;

/** Read the form. There is nothing to ask for if there is a fault. */
export function readKeyDraft(draft: KeyDraft): { ask: KeyAsk | null; faults: KeyFaults } {
  const faults: KeyFaults = {};
  const name = draft.name.trim();
  if (!/^[!#-[\]-~]{1,40}$/.test(name)) {
    faults.name = "Up to 40 letters, digits and signs, without spaces, quotes and backslashes.";
  }
  if (draft.scopes.length === 0) faults.scopes = "Choose at least one.";
  const { scopes, seconds } = draft;
  const isSound = Object.keys(faults).length === 0;
  return { ask: isSound ? { name, scopes, ...(seconds && { seconds }) } : null, faults };
}

/** Put the server's refusal beside the field that it is about. */
export function placeKeyFault(detail: string): KeyFaults {
  if (/\$\.name\b/.test(detail)) return { name: detail };
  if (/\$\.scopes\b|\bscope\b/.test(detail)) return { scopes: detail };
  return { "": detail };
}

/** Keys that open something first, and of them the newest. */
export function sortKeys(keys: KeyForm[]): KeyForm[] {
  const rank = ({ state }: KeyForm) => (state === "valid" ? 0 : 1);
  return [...keys].sort((a, b) => rank(a) - rank(b) || b.made.localeCompare(a.made));
}

/** Whether the entries that an actor records are recorded with this key, as in `key/ci/00a4…`. */
export function isKeyOf(actor: string, key: Pick<KeyForm, "id">): boolean {
  return actor.startsWith("key/") && actor.endsWith(`/${key.id}`);
}
