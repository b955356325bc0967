// Which runs a list shows, as the address of the page and as the API say it.

import type { Basis, Outcome, Provenance, RunForm, RunLine, RunState } from "forumd-client";
import { own } from "./own";

export const STATES: RunState[] = ["accepted", "running", "waiting", "interrupted", "stopped"];
export const OUTCOMES: Outcome[] = [
  "ok",
  "failed",
  "timeout",
  "denied",
  "cancelled",
  "indeterminate",
];
/** Words for how a run ended that the API has no filter for: its pages are filtered here. */
export const WORDS = ["budget", "overrun", "split", "blocked"];
export const PROVENANCES: Provenance[] = ["driven", "relayed", "wrapped", "reported"];

/** The filters by their names in the address; an empty one asks for nothing. */
export interface RunFilter {
  /** A state or an outcome, such as `waiting` or `failed`. */
  state: string;
  /** How Forum knows of the run. */
  provenance: string;
  /** A part of the request or the name. */
  text: string;
  lane: string;
  /** The first day, and the day after the last one, in UTC. */
  since: string;
  until: string;
}

/** The filters as the API takes them. */
export interface RunQuery {
  state?: RunState;
  outcome?: Outcome;
  provenance?: Provenance;
  text?: string;
  lane?: string;
  since?: string;
  until?: string;
}

export function readFilter(query: URLSearchParams): RunFilter {
  const read = (name: keyof RunFilter) => query.get(name) ?? "";
  return {
    state: read("state"),
    provenance: read("provenance"),
    text: read("text"),
    lane: read("lane"),
    since: read("since"),
    until: read("until"),
  };
}

/**
 * Return the query for a filter; `isListed` does the rest. A value that the page does not know is
 * left to the server.
 */
export function queryOf({ state, provenance, text, lane, since, until }: RunFilter): RunQuery {
  const isOutcome = OUTCOMES.includes(state as Outcome);
  return {
    ...(state &&
      !WORDS.includes(state) &&
      (isOutcome ? { outcome: state as Outcome } : { state: state as RunState })),
    ...(provenance && { provenance: provenance as Provenance }),
    ...(text && { text }),
    ...(lane && { lane }),
    ...(since && { since }),
    ...(until && { until }),
  };
}

/** Return whether a run that the server found for a filter belongs to it. */
export function isListed(run: RunLine, { state }: RunFilter): boolean {
  return !WORDS.includes(state) || stateOf(run) === state;
}

/** What a run is shown as in every list. */
export function titleOf(
  run: Pick<RunLine, "request" | "title" | "is_cut"> & { name?: string | null },
): string {
  const title = run.request ?? run.title ?? run.name ?? "(erased)";
  return run.is_cut ? `${title}…` : title;
}

/** Return whether a call of a relayed run came to the gateway, also one that was refused. */
export function hasRelayedCalls({ spent, refused = 0, spans = 0 }: RunLine | RunForm): boolean {
  // One step is the program itself.
  const steps = typeof spans === "number" ? spans : spans.length;
  return spent.calls > 0 || refused > 0 || steps > 1;
}

/** The one word for where a run is, as the server and every other surface says it. */
export function stateOf(run: Pick<RunLine, "state" | "outcome" | "word">): string {
  return run.word || (run.outcome ?? run.state);
}

/** By what a lane was chosen, as a part of a sentence. */
const BASES: Record<Basis, string> = {
  given: "as was asked for",
  lexical: "by its words",
  semantic: "by its meaning",
  classifier: "by a classifier",
};

/** The lane of a run, and by what it was chosen; empty where no lane was looked for. */
export function describeRoute({ route }: Pick<RunForm, "route">): string {
  if (!route) return "";
  const { lane, basis, confidence } = route;
  if (basis === "given") return `lane ${lane}, ${own(BASES, basis) ?? basis}`;
  const sure = confidence > 0 ? `, ${Math.round(confidence * 100)} % sure` : "";
  return lane
    ? `lane ${lane}, chosen ${own(BASES, basis) ?? basis}${sure}`
    : `no lane, looked for ${own(BASES, basis) ?? basis}`;
}

/** Whether models planned and judged a run; empty for panels and runs that Forum did not drive. */
export function describeCare(
  run: Pick<RunForm, "provenance" | "deliberation" | "planned" | "judged" | "declined_team">,
): string {
  if ((run.provenance ?? "driven") !== "driven" || run.deliberation) return "";
  const declined = run.declined_team?.join(", ");
  const team = declined ? `, no team: ${declined} gains nothing from one` : "";
  return `${run.planned ? "planned by a model" : "not planned by a model"}, ${run.judged ? "judged" : "not judged"}${team}`;
}
