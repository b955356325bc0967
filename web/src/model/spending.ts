// What runs have cost in a period, arranged for pictures and tables.

import type { CostAxis, CostRowForm, CostsForm, RunLine } from "forumd-client";
import { titleOf } from "./runs";
import { roundUp } from "./scale";

const DAY_MS = 86_400_000;
/** So many days are drawn at least, so that one day is not as wide as the page, and at most. */
const MIN_DAYS = 14;
export const MAX_DAYS = 366;

/** How the API calls what it adds up. */
const OTHERS = "(others)";

/** What the costs of a day can be told apart by. */
export const AXES: Exclude<CostAxis, "day">[] = ["agent", "model", "lane"];

/** The period and the axis by their names in the address. */
export interface CostFilter {
  /** The first day, and the day after the last one, in UTC; empty: no limit. */
  since: string;
  until: string;
  by: Exclude<CostAxis, "day">;
}

export function readCostFilter(query: URLSearchParams): CostFilter {
  return {
    since: query.get("since") ?? "",
    until: query.get("until") ?? "",
    by: AXES.find((axis) => axis === query.get("by")) ?? "agent",
  };
}

/** The first of the last so many days. */
export function daysAgo(count: number, now: number): string {
  return dayOf(now - (count - 1) * DAY_MS);
}

function dayOf(milliseconds: number): string {
  return new Date(milliseconds).toISOString().slice(0, 10);
}

/** The name of a row or a part: a default agent, a run without a lane and a lost model have none. */
export function nameOf(key: string | null, by: CostAxis): string {
  if (key !== null) return key;
  return by === "agent" ? "default" : `no ${by}`;
}

export interface Segment {
  /** Its place in the legend, which decides its colour. */
  place: number;
  name: string;
  usd: number;
  /** Where it begins: the sum of the segments below. */
  from: number;
}

export interface DayBar {
  day: string;
  usd: number;
  segments: Segment[];
}

export interface CostChart {
  /** The names of the parts, the dearest first. */
  legend: string[];
  bars: DayBar[];
  /** Where the scale ends. */
  top: number;
  /** Whether earlier days are left out. */
  isCut: boolean;
}

/** Stack the costs of each day of a period; days without costs are there and empty. */
export function stackDays(rows: CostRowForm[], filter: CostFilter, now: number): CostChart {
  const legend = listParts(rows, filter.by);
  const byDay = new Map(rows.map((row) => [row.key ?? "", stackParts(row, legend, filter.by)]));
  const days = listDays([...byDay.keys()].sort(), filter, now);
  const bars = days.slice(-MAX_DAYS).map((day) => byDay.get(day) ?? { day, usd: 0, segments: [] });
  return {
    legend,
    bars,
    top: roundUp(Math.max(0, ...bars.map(({ usd }) => usd))),
    isCut: days.length > MAX_DAYS,
  };
}

/** All parts, the dearest first, as each row has them; what is added up comes last. */
function listParts(rows: CostRowForm[], by: CostAxis): string[] {
  const totals = new Map<string, number>();
  for (const { parts = [] } of rows) {
    for (const { key, usd } of parts) {
      const name = nameOf(key, by);
      totals.set(name, (totals.get(name) ?? 0) + Number(usd));
    }
  }
  const names = [...totals].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  return [...names.filter((name) => name !== OTHERS), ...names.filter((name) => name === OTHERS)];
}

function stackParts(row: CostRowForm, legend: string[], by: CostAxis): DayBar {
  const parts = (row.parts ?? []).map(({ key, usd }) => ({
    name: nameOf(key, by),
    usd: Number(usd),
  }));
  const placed = parts
    .map((part) => ({ ...part, place: legend.indexOf(part.name) }))
    .sort((a, b) => a.place - b.place);
  let from = 0;
  const segments = placed.map((part) => {
    const segment = { ...part, from };
    from += part.usd;
    return segment;
  });
  return { day: row.key ?? "", usd: Number(row.spent.usd), segments };
}

/** Every day of the period, from the first with a cost if the period has no beginning. */
function listDays(known: string[], { since, until }: CostFilter, now: number): string[] {
  const end = until ? Date.parse(until) - DAY_MS : now;
  const last = Math.max(Date.parse(dayOf(end)), Date.parse(known.at(-1) ?? dayOf(end)));
  const earliest = Date.parse(known[0] ?? dayOf(last));
  const first = since ? Date.parse(since) : Math.min(earliest, last - (MIN_DAYS - 1) * DAY_MS);
  const count = Math.max(1, Math.round((last - first) / DAY_MS) + 1);
  return Array.from({ length: count }, (_, at) => dayOf(last - (count - 1 - at) * DAY_MS));
}

export interface NotedRun {
  run: string;
  /** As lists show it; null if it is not among the newest runs. */
  title: string | null;
  usd: string | null;
  /** Whether a budget or a cap stopped it. */
  isStopped: boolean;
  /** Whether a cap refused calls of it. */
  isRefused: boolean;
  /** Whether a provider billed more than the bound of a call. */
  isOverrun: boolean;
  /** How many of its calls have no known price. */
  unpriced: number;
}

/** The runs that a cap stopped or refused calls of, overruns, and newest runs without a price. */
export function listNoted(
  { stopped, refused = [], overrun = [] }: Pick<CostsForm, "stopped" | "refused" | "overrun">,
  newest: RunLine[],
): NotedRun[] {
  const lines = new Map(newest.map((line) => [line.run, line]));
  const unpriced = newest.filter((line) => (line.unpriced ?? 0) > 0).map(({ run }) => run);
  return [...new Set([...stopped, ...refused, ...overrun, ...unpriced])].map((run) => {
    const line = lines.get(run);
    return {
      run,
      title: line ? titleOf(line) : null,
      usd: line?.spent.usd ?? null,
      isStopped: stopped.includes(run),
      isRefused: refused.includes(run),
      isOverrun: overrun.includes(run),
      unpriced: line?.unpriced ?? 0,
    };
  });
}
