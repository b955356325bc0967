// What an evaluation found, arranged for tables and pictures.

import type {
  Estimate,
  EvalReport,
  EvaluationForm,
  PlayFigures,
  PlayResult,
  RunLine,
} from "forumd-client";
import { formatDollars, formatDuration } from "./format";
import { stateOf } from "./runs";
import { roundUp } from "./scale";

/** One thing that is measured of each case. */
export interface Measure {
  title: string;
  of: (figures: PlayFigures) => Estimate;
  format: (value: number) => string;
  /** Where the scale ends, if that does not depend on the values. */
  top?: number;
}

export const QUALITY: Measure = {
  title: "Quality",
  of: ({ quality }) => quality,
  format: formatQuality,
  top: 1,
};
export const COST: Measure = { title: "Cost", of: ({ usd }) => usd, format: formatDollars };
export const TIME: Measure = {
  title: "Time",
  of: ({ seconds }) => seconds,
  format: (seconds) => formatDuration(seconds * 1000),
};
export const MEASURES = [QUALITY, COST, TIME];

export interface FigureRow {
  configuration: string;
  figures: PlayFigures;
}

/** The configurations over some cases. */
export interface FigureGroup {
  title: string;
  rows: FigureRow[];
}

export function formatQuality(quality: number): string {
  return quality.toFixed(2);
}

/** An interval in words; empty where there are too few cases for one. */
export function formatInterval({ low, high }: Estimate, format: Measure["format"]): string {
  return low === null || high === null ? "" : `${format(low)} to ${format(high)}`;
}

/** The configurations over all cases, and over the cases of each lane if there are several. */
export function groupFigures({ configurations, lanes }: EvalReport): FigureGroup[] {
  const groups = [{ title: "All cases", rows: configurations as FigureRow[] }];
  const names = [...new Set(lanes.map(({ lane }) => lane))];
  if (names.length < 2) return groups;
  return groups.concat(
    names.map((name) => ({
      title: name ? `Lane ${name}` : "Without a lane",
      rows: lanes.filter(({ lane }) => lane === name),
    })),
  );
}

/** Where the scale of a measure ends: a round number that no interval exceeds. */
export function scaleTop(groups: FigureGroup[], measure: Measure): number {
  if (measure.top !== undefined) return measure.top;
  const estimates = groups.flatMap(({ rows }) => rows.map(({ figures }) => measure.of(figures)));
  return roundUp(Math.max(0, ...estimates.map(({ mean, high }) => high ?? mean)));
}

export interface CaseRow {
  number: number;
  /** Null if the cases were erased. */
  request: string | null;
  lane: string;
  /** By configuration, each in the order of its repetitions. */
  plays: Map<string, PlayResult[]>;
}

/** The cases in their order, each with who played it. */
export function listCases({ requests, report }: EvaluationForm): CaseRow[] {
  const rows = new Map<number, CaseRow>();
  for (const play of report.plays) {
    const row = rows.get(play.case) ?? {
      number: play.case,
      request: requests[play.case - 1] ?? null,
      lane: play.lane,
      plays: new Map(),
    };
    row.plays.set(play.configuration, [...(row.plays.get(play.configuration) ?? []), play]);
    rows.set(play.case, row);
  }
  return [...rows.values()].sort((a, b) => a.number - b.number);
}

export interface LaneOutcomes {
  /** Empty for runs that no route put into a lane. */
  lane: string;
  runs: number;
  ok: number;
  notOk: number;
  /** Runs that have not ended. */
  open: number;
  passed: number;
  tasks: number;
  usd: number;
}

/** How the runs of each lane ended, the lane with the most runs first. */
export function countByLane(runs: RunLine[]): LaneOutcomes[] {
  const lanes = new Map<string, LaneOutcomes>();
  for (const run of runs) {
    const lane = run.lane ?? "";
    const row = lanes.get(lane) ?? {
      lane,
      ...{ runs: 0, ok: 0, notOk: 0, open: 0, passed: 0, tasks: 0, usd: 0 },
    };
    row.runs += 1;
    if (stateOf(run) === "ok") row.ok += 1;
    else if (run.outcome === null) row.open += 1;
    else row.notOk += 1;
    row.passed += run.passed;
    row.tasks += run.tasks;
    row.usd += Number(run.spent.usd);
    lanes.set(lane, row);
  }
  return [...lanes.values()].sort((a, b) => b.runs - a.runs || a.lane.localeCompare(b.lane));
}
