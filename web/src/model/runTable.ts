// The table of runs: its order, its totals, and the runs of one evaluation as one row.

import type { EvaluationLine, RunLine } from "forumd-client";
import { own } from "./own";
import { stateOf } from "./runs";

export type SortColumn = "begun" | "state" | "time" | "cost";

export interface RunOrder {
  by: SortColumn;
  isDescending: boolean;
}

export const NEWEST_FIRST: RunOrder = { by: "begun", isDescending: true };

const KEYS: Record<SortColumn, (run: RunLine) => number | string> = {
  begun: ({ begun }) => begun,
  state: stateOf,
  time: ({ seconds }) => seconds ?? Number.POSITIVE_INFINITY,
  cost: ({ spent }) => Number(spent.usd),
};

/** Return runs in an order; those that are equal in it stay as they are. */
export function sortRuns(runs: RunLine[], { by, isDescending }: RunOrder): RunLine[] {
  const key = own(KEYS, by) ?? KEYS.begun;
  const sign = isDescending ? -1 : 1;
  return [...runs].sort((a, b) => {
    const [one, other] = [key(a), key(b)];
    return one === other ? 0 : one < other ? -sign : sign;
  });
}

/** The order after a press on the head of a column: largest first, then the other way round. */
export function nextOrder(order: RunOrder, by: SortColumn): RunOrder {
  return { by, isDescending: order.by === by ? !order.isDescending : by !== "state" };
}

export interface RunTotals {
  runs: number;
  /** How many ended otherwise than well. */
  notOk: number;
  usd: number;
  /** The time of all runs that have ended, added up. */
  seconds: number;
}

export function addUpRuns(runs: RunLine[]): RunTotals {
  return {
    runs: runs.length,
    notOk: runs.filter(({ outcome }) => outcome !== null && outcome !== "ok").length,
    usd: runs.reduce((sum, run) => sum + Number(run.spent.usd), 0),
    seconds: runs.reduce((sum, run) => sum + (run.seconds ?? 0), 0),
  };
}

export interface RunGroup {
  evaluation: EvaluationLine;
  runs: RunLine[];
}

export type RunRow = RunLine | RunGroup;

export function isGroup(row: RunRow): row is RunGroup {
  return "evaluation" in row;
}

/**
 * Return runs as rows: those that play for the same evaluation are one row, where the first of them
 * stood. `evaluations` names the evaluation of each such run.
 */
export function groupRuns(runs: RunLine[], evaluations: Map<string, EvaluationLine>): RunRow[] {
  const groups = new Map<string, RunGroup>();
  const rows: RunRow[] = [];
  for (const run of runs) {
    const evaluation = evaluations.get(run.run);
    const group = evaluation && groups.get(evaluation.run);
    if (group) group.runs.push(run);
    else if (evaluation) {
      const begun = { evaluation, runs: [run] };
      groups.set(evaluation.run, begun);
      rows.push(begun);
    } else rows.push(run);
  }
  return rows;
}
