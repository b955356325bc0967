// What takes time in a run: calls with their replies, tools, gates, and steps that others report.

import { nameCalls } from "./callNames";
import { type Entry, factNumber, factText, type Item } from "./entries";
import { fromNanoDollars } from "./format";

export interface Span {
  /** The lane of the timeline. */
  strand: string;
  label: string;
  /** Microseconds since 1970. */
  from: number;
  /** Null while it goes on. */
  to: number | null;
  /** An outcome, or `running` or `waiting`. */
  state: string;
  usd: number;
  /** The entry that tells most about it: its end, or its beginning while it goes on. */
  index: number;
  isWait: boolean;
}

const GATE_OPEN = "gate.open/1";
const BEGINNINGS = new Set(["call/1", "intent/1", "report.begin/1", GATE_OPEN]);

/** Return the spans of a run in the order of the log. */
export function findSpans(items: Item[]): Span[] {
  const names = nameCalls(items);
  const open = new Map<string, Span>();
  const spans: Span[] = [];
  for (const { entry, index } of items) {
    if (BEGINNINGS.has(entry.kind)) {
      const isWait = entry.kind === GATE_OPEN;
      const span: Span = {
        strand: laneOf(entry),
        label: names.get(index) ?? labelOf(entry),
        from: entry.ts,
        to: null,
        state: isWait ? "waiting" : "running",
        usd: 0,
        index,
        isWait,
      };
      open.set(entry.strand, span);
      spans.push(span);
    } else if (entry.kind === "report.step/1" && !open.has(entry.strand)) {
      // Reported afterwards, with its beginning.
      spans.push({ ...finished(entry, index), from: factNumber(entry, "began") || entry.ts });
    } else {
      const state = endState(entry);
      const span = open.get(entry.strand);
      if (!state || !span) continue;
      open.delete(entry.strand);
      const { usd } = finished(entry, index);
      Object.assign(span, { to: entry.ts, state, usd, index });
    }
  }
  return spans;
}

function finished(entry: Entry, index: number): Span {
  const usd = fromNanoDollars(factNumber(entry, "usd"));
  const state = endState(entry) || "ok";
  const label = labelOf(entry);
  return {
    strand: laneOf(entry),
    label,
    from: entry.ts,
    to: entry.ts,
    state,
    usd,
    index,
    isWait: false,
  };
}

/** All steps that others report are in one lane each; a gate is in the lane of what waits at it. */
function laneOf(entry: Entry): string {
  return entry.kind.startsWith("report.")
    ? factText(entry, "name") || entry.strand
    : entry.strand.replace(/^gate\//, "");
}

function labelOf(entry: Entry): string {
  switch (entry.kind) {
    case "intent/1":
      return `tool ${factText(entry, "tool")}`;
    case GATE_OPEN:
      return "waits for approval";
    default:
      return factText(entry, "name") || entry.kind;
  }
}

/** The state in which an entry ends the span of its strand; empty if it ends none. */
function endState(entry: Entry): string {
  switch (entry.kind) {
    case "reply/1":
    case "outcome/1":
    case "report.step/1":
      return factText(entry, "outcome");
    case "gate.decision/1":
    case "gate.decision/2":
      return factText(entry, "answer") === "approve" ? "ok" : "denied";
    default:
      return "";
  }
}
