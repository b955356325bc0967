// Which runs a list shows, as the address of the page and as the API say it.

import type { Outcome, Provenance, RunLine, RunState } from "forumd-client";

export const STATES: RunState[] = ["accepted", "running", "waiting", "interrupted", "stopped"];
export const OUTCOMES: Outcome[] = [
  "ok",
  "failed",
  "timeout",
  "denied",
  "cancelled",
  "indeterminate",
];
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

/** Return the query for a filter. A value that the page does not know is left to the server. */
export function queryOf({ state, provenance, text, lane, since, until }: RunFilter): RunQuery {
  const isOutcome = OUTCOMES.includes(state as Outcome);
  return {
    ...(state && (isOutcome ? { outcome: state as Outcome } : { state: state as RunState })),
    ...(provenance && { provenance: provenance as Provenance }),
    ...(text && { text }),
    ...(lane && { lane }),
    ...(since && { since }),
    ...(until && { until }),
  };
}

/** The one word for where a run is: its outcome, and its state before. */
export function stateOf(run: Pick<RunLine, "state" | "outcome">): string {
  return run.outcome ?? run.state;
}
