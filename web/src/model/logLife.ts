// The life of a log: entries about keys, access, redactions and exports, in words.

import { type Entry, factNumber, factText, type Item } from "./entries";

export type LifeTopic = "log" | "access" | "redactions" | "exports" | "other";

export interface LifeEvent {
  item: Item;
  topic: LifeTopic;
  /** What happened, for reading. */
  title: string;
  /** What it was about: recorded text. */
  detail: string;
}

type Describe = (entry: Entry) => [LifeTopic, string, string];

const EVENTS: Record<string, Describe> = {
  "log.open": (entry) => ["log", "Log opened", factText(entry, "program")],
  "log.epoch": (entry) => ["log", "Log continues another one", `key ${factText(entry, "key")}`],
  "log.seal": (entry) => ["log", "Log sealed", factText(entry, "reason")],
  "key.add": (entry) => ["log", "Signing key", factText(entry, "vkey")],
  "key.rotate": (entry) => ["log", "Signing key replaced", factText(entry, "vkey")],
  "access.grant": (entry) => [
    "access",
    "Key granted",
    `${factText(entry, "name")}: ${[entry.facts.scopes].flat().join(", ")}`,
  ],
  "access.revoke": (entry) => ["access", "Key revoked", factText(entry, "key")],
  "access.deny": (entry) => [
    "access",
    `Denied ${factNumber(entry, "times") || 1} times`,
    `${factText(entry, "who")} at ${factText(entry, "door")}: ${factText(entry, "why")}`,
  ],
  redact: (entry) => [
    "redactions",
    "Body erased",
    `${factText(entry, "body")} of entry ${factText(entry, "entry").slice(0, 12)}: ${factText(entry, "reason")}`,
  ],
  export: (entry) => [
    "exports",
    "Evidence taken",
    `run ${factText(entry, "run")}, ${factNumber(entry, "entries")} entries`,
  ],
  score: () => ["other", "Run scored", ""],
  notice: (entry) => ["other", "Webhook called", factText(entry, "endpoint")],
};

/** Return what entries of the log's own run say, the newest first. */
export function readLife(items: readonly Item[]): LifeEvent[] {
  return items
    .map((item) => {
      const describe = EVENTS[item.entry.kind.split("/")[0] ?? ""];
      const [topic, title, detail] = describe?.(item.entry) ?? ["other", item.entry.kind, ""];
      return { item, topic: topic as LifeTopic, title, detail };
    })
    .reverse();
}
