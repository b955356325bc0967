import type { Estimate, EvalReport, EvaluationForm, PlayResult, RunLine } from "forumd-client";
import { expect, test } from "vitest";
import {
  COST,
  countByLane,
  formatInterval,
  formatQuality,
  groupFigures,
  listCases,
  QUALITY,
  scaleTop,
} from "../src/model/evaluations";
import { placeOn, roundUp } from "../src/model/scale";

const estimate = (mean: number, low: number | null = null, high: number | null = null) =>
  ({ mean, low, high, cases: 2, method: "student-t" }) as Estimate;
const figures = (usd: Estimate) => ({
  plays: 2,
  failed: 0,
  quality: estimate(0.5),
  usd,
  seconds: estimate(1),
  tokens: estimate(1),
});
const rowOf = (configuration: string, usd: Estimate) => ({ configuration, figures: figures(usd) });

test("a scale ends at a round number above all intervals", () => {
  expect([0.0034, 0.02, 3, 8.1, 0].map(roundUp)).toEqual([0.004, 0.02, 3, 10, 1]);
  const groups = [
    { title: "", rows: [rowOf("a", estimate(0.003, 0.001, 0.009)), rowOf("b", estimate(0.001))] },
  ];
  expect(scaleTop(groups, COST)).toBe(0.01);
  expect(scaleTop(groups, QUALITY)).toBe(1);
  expect([placeOn(0.005, 0.01), placeOn(2, 1), placeOn(-1, 1)]).toEqual([50, 100, 0]);
});

test("an interval is said only where there is one", () => {
  expect(formatInterval(estimate(0.5, 0.25, 0.75), formatQuality)).toBe("0.25 to 0.75");
  expect(formatInterval(estimate(0.5), formatQuality)).toBe("");
});

test("lanes are shown where they tell more than all cases together", () => {
  const configurations = [rowOf("a", estimate(1))];
  const lane = (name: string) => ({ lane: name, ...rowOf("a", estimate(1)) });
  const titles = (lanes: string[]) =>
    groupFigures({ configurations, lanes: lanes.map(lane) } as unknown as EvalReport).map(
      ({ title }) => title,
    );
  expect(titles(["code"])).toEqual(["All cases"]);
  expect(titles(["", "code"])).toEqual(["All cases", "Without a lane", "Lane code"]);
});

test("each case has its request and the plays of each configuration", () => {
  const play = (number: number, configuration: string, run: string) =>
    ({ case: number, configuration, run, lane: "code" }) as PlayResult;
  const plays = [play(2, "b", "r3"), play(1, "a", "r1"), play(1, "a", "r2")];
  const form = { requests: ["first"], report: { plays } } as unknown as EvaluationForm;
  const [first, second] = listCases(form);
  expect(first?.request).toBe("first");
  expect(first?.plays.get("a")?.map(({ run }) => run)).toEqual(["r1", "r2"]);
  expect(second).toMatchObject({ number: 2, request: null });
});

test("runs are counted by lane and outcome", () => {
  const run = (lane: string | null, outcome: string | null) =>
    ({ lane, outcome, passed: 1, tasks: 2, spent: { usd: "0.5" } }) as RunLine;
  const runs = [run("law", "ok"), run(null, "failed"), run("law", null), run("law", "timeout")];
  expect(countByLane(runs)).toEqual([
    { lane: "law", runs: 3, ok: 1, notOk: 1, open: 1, passed: 3, tasks: 6, usd: 1.5 },
    { lane: "", runs: 1, ok: 0, notOk: 1, open: 0, passed: 1, tasks: 2, usd: 0.5 },
  ]);
});
