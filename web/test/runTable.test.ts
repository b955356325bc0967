import type { EvaluationLine, RunLine } from "forumd-client";
import { expect, test } from "vitest";
import {
  addUpRuns,
  groupRuns,
  isGroup,
  NEWEST_FIRST,
  nextOrder,
  sortRuns,
} from "../src/model/runTable";

function run(name: string, usd: string, seconds: number | null, outcome: string | null = "ok") {
  const spent = { usd, tokens: 0, calls: 1 };
  return { run: name, begun: name, state: "ended", outcome, seconds, spent } as RunLine;
}

const RUNS = [
  run("d", "0.5", 2),
  run("c", "2", null, null),
  run("b", "0.5", 9, "failed"),
  run("a", "0", 1),
];
const names = (runs: RunLine[]) => runs.map((line) => line.run).join("");

test("runs are sorted by a column, and a second press turns it round", () => {
  const byCost = nextOrder(NEWEST_FIRST, "cost");
  expect(names(sortRuns(RUNS, NEWEST_FIRST))).toBe("dcba");
  expect(names(sortRuns(RUNS, byCost))).toBe("cdba");
  expect(names(sortRuns(RUNS, nextOrder(byCost, "cost")))).toBe("adbc");
  // A run that goes on has taken longer than those that have ended.
  expect(names(sortRuns(RUNS, nextOrder(byCost, "time")))).toBe("cbda");
});

test("totals count what is listed", () => {
  expect(addUpRuns(RUNS)).toEqual({ runs: 4, notOk: 1, usd: 3, seconds: 12 });
});

test("the runs of one evaluation are one row, and no run is lost", () => {
  const evaluation = { run: "e" } as EvaluationLine;
  const rows = groupRuns(
    RUNS,
    new Map([
      ["c", evaluation],
      ["a", evaluation],
    ]),
  );
  expect(rows.map((row) => (isGroup(row) ? `[${names(row.runs)}]` : row.run))).toEqual([
    "d",
    "[ca]",
    "b",
  ]);
});
