// The life of a log: entries about keys, access, configuration, oversight and erasure, in words.

import { type Entry, factNumber, factText, type Item } from "./entries";
import { formatNumberOf, shortId } from "./format";
import { own } from "./own";

export type LifeTopic = "log" | "access" | "redactions" | "oversight" | "exports" | "other";

export interface LifeEvent {
  item: Item;
  topic: LifeTopic;
  /** What happened, for reading. */
  title: string;
  /** What it was about: recorded text. */
  detail: string;
}

const DAY_SECONDS = 86_400;
const SEEN: [string, string][] = [
  ["stops", "stops"],
  ["budget_stops", "budget stops"],
  ["denials", "denials"],
  ["gaps", "gaps"],
  ["indeterminate", "effects in doubt"],
  ["gates", "open gates"],
];

/** Say how long bodies are kept; 0 seconds keep them for ever. */
function describePeriod(seconds: number): string {
  if (!seconds) return "for ever";
  const days = seconds / DAY_SECONDS;
  return Number.isInteger(days)
    ? formatNumberOf(days, "day")
    : formatNumberOf(seconds / 3600, "hour");
}

function describeTimes(times: number): string {
  return times === 1 ? "Denied once" : `Denied ${times} times`;
}

const SCORED: Record<string, string> = { run: "Run", task: "Task", answer: "Answer" };

/** Say of which runs something is; none are all. */
function describeRuns(entry: Entry): string {
  const runs = [entry.facts.runs ?? []].flat();
  return runs.length ? `runs ${runs.join(", ")}` : "all runs";
}

/** Say what a reviewer was shown. */
function describeReview(entry: Entry): string {
  const seen = SEEN.map(([fact, words]) => [factNumber(entry, fact), words] as const)
    .filter(([count]) => count)
    .map(([count, words]) => `${words} ${count}`);
  const run = factText(entry, "run");
  const place = `entries ${factNumber(entry, "since")} to ${factNumber(entry, "until")}`;
  return `${place}${run && ` of run ${run}`}: ${seen.join(", ") || "nothing to look at"}`;
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
    describeTimes(factNumber(entry, "times") || 1),
    `${factText(entry, "who")} at ${factText(entry, "door")}: ${factText(entry, "why")}`,
  ],
  redact: (entry) => {
    const reason = factText(entry, "reason");
    const bodies = [entry.facts.bodies ?? []].flat();
    if (bodies.length) {
      const rule = factText(entry, "rule");
      return [
        "redactions",
        "Bodies erased",
        `${formatNumberOf(bodies.length, "body", "bodies")}: ${reason}${rule && ` of ${rule}`}`,
      ];
    }
    const place = `${factText(entry, "body")} of entry ${factText(entry, "entry").slice(0, 12)}`;
    return ["redactions", "Body erased", `${place}: ${reason}`];
  },
  retention: (entry) => [
    "redactions",
    "Retention set",
    `bodies of ${factText(entry, "subject")}: ${describePeriod(factNumber(entry, "seconds"))}`,
  ],
  hold: (entry) => {
    const isPlaced = factText(entry, "act") === "place";
    const name = factText(entry, "hold");
    return isPlaced
      ? ["redactions", "Hold placed", `${name}: ${describeRuns(entry)}`]
      : ["redactions", "Hold released", name];
  },
  archive: (entry) => [
    "redactions",
    "Run archived",
    `run ${factText(entry, "run")}, ${formatNumberOf(factNumber(entry, "entries"), "entry", "entries")}: ${factText(entry, "place")}`,
  ],
  "review.done": (entry) => ["oversight", "Log reviewed", describeReview(entry)],
  "incident.open": (entry) => {
    const runs = entry.facts.runs ? `, ${describeRuns(entry)}` : "";
    const what = `${factText(entry, "incident")}: ${factText(entry, "severity")}`;
    return ["oversight", "Incident opened", `${what}${runs}`];
  },
  "incident.close": (entry) => ["oversight", "Incident closed", factText(entry, "incident")],
  "config.seen": (entry) => [
    "oversight",
    "Configuration recorded",
    [
      `release ${factText(entry, "engine")}`,
      // Release 0.2 recorded digests of the parts.
      ...["roster", "policies", "models", "tools"]
        .filter((part) => factText(entry, part))
        .map((part) => `${part} ${factText(entry, part).slice(0, 8)}`),
      ...Object.entries({ changed: "changed", erased: "erased before it, not compared" })
        .filter(([name]) => factText(entry, name))
        .map(([name, words]) => `${words} ${factText(entry, name).replaceAll(",", " ")}`),
    ].join(", "),
  ],
  export: (entry) => [
    "exports",
    "Evidence taken",
    `run ${factText(entry, "run")}, ${formatNumberOf(factNumber(entry, "entries"), "entry", "entries")}`,
  ],
  score: (entry) => [
    "other",
    `${own(SCORED, factText(entry, "subject")) ?? "Run"} scored`,
    `${factText(entry, "name")} ${factNumber(entry, "value") / 1000}: ${[
      factText(entry, "task") && `task ${factText(entry, "task")}`,
      `run ${shortId(factText(entry, "run"))}`,
    ]
      .filter(Boolean)
      .join(" of ")}`,
  ],
  notice: (entry) => ["other", "Webhook called", factText(entry, "endpoint")],
};

/** Return what entries of the log's own run say, the newest first. */
export function readLife(items: readonly Item[]): LifeEvent[] {
  return items
    .map((item) => {
      const describe = own(EVENTS, item.entry.kind.split("/")[0] ?? "");
      const [topic, title, detail] = describe?.(item.entry) ?? ["other", item.entry.kind, ""];
      return { item, topic: topic as LifeTopic, title, detail };
    })
    .reverse();
}
