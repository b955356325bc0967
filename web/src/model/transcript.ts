// The entries that a reader follows a run by, each as a sentence and the body that it is about.

import type { ChatMessage } from "forumd-client";
import { nameCalls } from "./callNames";
import { type Entry, factNumber, factText, type Item } from "./entries";
import { formatBytes, formatDollars, formatDuration, fromNanoDollars } from "./format";
import { own } from "./own";

export interface Line {
  item: Item;
  who: string;
  what: string;
  /** A state, for its mark. */
  state: string;
  /** The body to be shown; empty if there is none. */
  body: string;
}

/**
 * Return the lines of a transcript in the order of the log.  Steps of other programs stand where
 * their first entries stand, in the order in which they began: a program may report a step before
 * the steps that led to it.
 */
export function writeTranscript(items: Item[]): Line[] {
  const names = nameCalls(items);
  const lines: Line[] = [];
  const steps = new Map<string, { place: number; began: number; line: Line }>();
  for (const item of items) {
    const line = writeLine(item, names);
    if (!line) continue;
    const { strand, kind, ts } = item.entry;
    if (kind !== "report.begin/1" && kind !== "report.step/1") {
      lines.push(line);
      continue;
    }
    const begun = steps.get(strand);
    const began = factNumber(item.entry, "began") || begun?.began || ts;
    steps.set(strand, { place: begun?.place ?? lines.length, began, line });
    if (!begun) lines.push(line);
  }
  const places = [...steps.values()].map(({ place }) => place);
  const inOrder = [...steps.values()].sort((a, b) => a.began - b.began);
  places.forEach((place, number) => {
    const step = inOrder[number];
    if (step) lines[place] = step.line;
  });
  return lines;
}

/** Return the number of each step of other programs, by its entry, as pages of messages count. */
export function numberSteps(items: Item[]): Map<number, number> {
  const numbers = new Map<number, number>();
  for (const { item } of writeTranscript(items)) {
    const { kind } = item.entry;
    if (kind === "report.begin/1" || kind === "report.step/1")
      numbers.set(item.index, numbers.size);
  }
  return numbers;
}

function writeLine(item: Item, names: Map<number, string>): Line | null {
  const line = describe(item.entry, names.get(item.index) ?? "");
  if (!line) return null;
  const [what, state, body] = line;
  return {
    item,
    who: whoSays(item.entry),
    what,
    state,
    body: own(item.entry.bodies, body) ? body : "",
  };
}

/** Return who a line is about: the task, the model of a step, or the actor. */
function whoSays(entry: Entry): string {
  if (entry.kind.startsWith("report.") && entry.strand !== "main")
    return factText(entry, "model") || factText(entry, "agent") || factText(entry, "name");
  return entry.strand === "main" ? entry.actor : entry.strand.replace(/^(task|gate|turn)\//, "");
}

/** A message, a tool call or a result as a reader sees it. */
export interface Said {
  role: string;
  text: string;
  /** What kind of text it is; prose may be formatted. */
  form: "prose" | "reasoning" | "call" | "result" | "note";
  /** The name of a tool. */
  tool: string;
}

/** Return a message as texts, each with its role. */
export function splitMessage(message: ChatMessage): Said[] {
  const { role } = message;
  const said: Said[] = [];
  if (message.reasoning) said.push({ role, text: message.reasoning, form: "reasoning", tool: "" });
  if (message.text) said.push({ role, text: message.text, form: "prose", tool: "" });
  for (const call of message.calls ?? [])
    said.push({ role, text: indentJson(call.arguments), form: "call", tool: call.name });
  for (const result of message.results ?? [])
    said.push({ role, text: result.text, form: "result", tool: result.name ?? "" });
  for (const file of message.attachments ?? []) {
    const named = [file.kind, file.name || file.media_type].filter(Boolean).join(" ");
    const text = file.size ? `${named}, ${formatBytes(file.size)}` : named;
    said.push({ role, text, form: "note", tool: "" });
  }
  if (message.note) said.push({ role, text: message.note, form: "note", tool: "" });
  return said;
}

/** Return JSON on several lines; any other text as it is. */
function indentJson(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** Return why a run was stopped.  A gateway and a recorder stop one only at an overrun. */
function stopWord(entry: Entry): string {
  const reason = factText(entry, "reason") || factText(entry, "code");
  const isOverrun = reason === "budget" && ["gateway", "recorder"].includes(entry.actor);
  return isOverrun ? "overrun" : reason;
}

function describe(entry: Entry, asked: string): [what: string, state: string, body: string] | null {
  const fact = (name: string) => factText(entry, name);
  switch (entry.kind) {
    case "accepted/1":
      return ["asked", "accepted", "request"];
    case "call/1":
      return [`asked ${asked}`, "running", "prompt"];
    case "reply/1":
      return [
        `${describeEnd(entry, "replied", "call")}${price(entry)}`,
        fact("outcome"),
        fact("outcome") === "ok" ? "output" : "error",
      ];
    case "intent/1":
      return [`uses ${fact("tool")}`, "running", "arguments"];
    case "outcome/1":
      return [describeToolEnd(entry), fact("outcome"), "result"];
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
      return [`stopped: ${stopWord(entry)}`, "stopped", ""];
    case "cancel/1":
      return ["asked to cancel", "cancelled", ""];
    case "answer/1":
      return entry.bodies.answer?.size === 0
        ? ["ended without an answer", "failed", ""]
        : ["answered", "ok", "answer"];
    case "report.begin/1":
      return [`${fact("op")}, goes on`, "running", "input"];
    case "report.step/1":
      return [
        `${fact("op") === "model" ? describeEnd(entry, "replied", "call") : describeEnd(entry, fact("op"))}${price(entry)}`,
        fact("outcome"),
        fact("outcome") === "ok" ? "output" : "error",
      ];
    case "run.close/1":
      return ["ended", fact("outcome"), ""];
    default:
      return null;
  }
}

const FAILURES: Record<string, string> = {
  failed: "failed",
  denied: "refused",
  timeout: "timed out",
  cancelled: "cancelled",
  indeterminate: "without a reply",
};

/** Return how a step ended: only one that went well has replied. */
function describeEnd(entry: Entry, well: string, step = well): string {
  const outcome = factText(entry, "outcome");
  return outcome === "ok" ? well : `${step} ${own(FAILURES, outcome) ?? outcome}`;
}

function describeToolEnd(entry: Entry): string {
  const tool = factText(entry, "tool") || "the tool";
  return describeEnd(entry, `${tool} answered`, `use of ${tool}`);
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
