// The entries that a reader follows a run by, each as a sentence and the body that it is about.

import { type Entry, factNumber, factText, type Item } from "./entries";
import { formatDollars, formatDuration, fromNanoDollars } from "./format";

export interface Line {
  item: Item;
  who: string;
  what: string;
  /** A state, for its mark. */
  state: string;
  /** The body to be shown; empty if there is none. */
  body: string;
}

/** Return the lines of a transcript in the order of the log. */
export function writeTranscript(items: Item[]): Line[] {
  return items.flatMap((item) => {
    const line = describe(item.entry);
    if (!line) return [];
    const [what, state, body] = line;
    const name = item.entry.strand.replace(/^(task|gate|turn)\//, "");
    const who = item.entry.strand === "main" ? item.entry.actor : name;
    return [{ item, who, what, state, body: body in item.entry.bodies ? body : "" }];
  });
}

function describe(entry: Entry): [what: string, state: string, body: string] | null {
  const fact = (name: string) => factText(entry, name);
  switch (entry.kind) {
    case "accepted/1":
      return ["asked", "accepted", "request"];
    case "call/1":
      return [
        `asked ${fact("agent") || "the default agent"} (${fact("model")})`,
        "running",
        "prompt",
      ];
    case "reply/1":
      return [
        `replied${price(entry)}`,
        fact("outcome"),
        fact("outcome") === "ok" ? "output" : "error",
      ];
    case "intent/1":
      return [`uses ${fact("tool")}`, "running", "arguments"];
    case "outcome/1":
      return [`${fact("tool") || "the tool"} answered`, fact("outcome"), "result"];
    case "verdict/1":
      return [describeVerdict(entry), fact("outcome"), ""];
    case "gate.open/1":
      return ["waits for approval", "waiting", "shown"];
    case "gate.edit/1":
      return [`${entry.actor} changed what waits`, "waiting", "shown"];
    case "gate.decision/1":
    case "gate.decision/2":
      return [
        `${fact("answer")}, by ${entry.actor}`,
        fact("answer") === "approve" ? "ok" : "denied",
        "",
      ];
    case "skip/1":
      return ["skipped", "skipped", ""];
    case "stop/1":
      return [`stopped: ${fact("reason") || fact("code")}`, "stopped", ""];
    case "cancel/1":
      return ["asked to cancel", "cancelled", ""];
    case "answer/1":
      return ["answered", "ok", "answer"];
    case "report.step/1":
      return [`${fact("op")} ${fact("name")}${price(entry)}`, fact("outcome"), "output"];
    case "run.close/1":
      return ["ended", fact("outcome"), ""];
    default:
      return null;
  }
}

function describeVerdict(entry: Entry): string {
  const next = factText(entry, "next");
  return `checked by ${factText(entry, "check")}: ${next || factText(entry, "outcome")}`;
}

function price(entry: Entry): string {
  const usd = fromNanoDollars(factNumber(entry, "usd"));
  const ms = factNumber(entry, "milliseconds") || factNumber(entry, "micros") / 1000;
  return `${ms ? ` in ${formatDuration(ms)}` : ""}${usd ? ` for ${formatDollars(usd)}` : ""}`;
}
