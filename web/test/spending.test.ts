import type { CostRowForm, RunLine } from "forumd-client";
import { expect, test } from "vitest";
import {
  type CostFilter,
  daysAgo,
  listNoted,
  MAX_DAYS,
  readCostFilter,
  stackDays,
} from "../src/model/spending";

const NOW = Date.parse("2026-03-10T12:00:00Z");
const ALL: CostFilter = { since: "", until: "", by: "agent" };
const row = (key: string, parts: Record<string, string>) =>
  ({
    key,
    spent: { usd: String(Object.values(parts).reduce((sum, usd) => sum + Number(usd), 0)) },
    parts: Object.entries(parts).map(([name, usd]) => ({ key: name || null, usd })),
  }) as CostRowForm;

test("the address names the period and the axis", () => {
  const read = (text: string) => readCostFilter(new URLSearchParams(text));
  expect(read("")).toEqual(ALL);
  expect(read("since=2026-03-01&by=model")).toEqual({ ...ALL, since: "2026-03-01", by: "model" });
  expect(read("by=day").by).toBe("agent");
  expect(daysAgo(7, NOW)).toBe("2026-03-04");
});

test("the parts of a day are stacked in the same order and colour on all days", () => {
  const rows = [row("2026-03-08", { a: "1", "": "3" }), row("2026-03-10", { a: "4" })];
  const { legend, bars, top } = stackDays(rows, { ...ALL, since: "2026-03-08" }, NOW);
  expect(legend).toEqual(["a", "default"]);
  expect(bars.map(({ day, usd }) => [day, usd])).toEqual([
    ["2026-03-08", 4],
    ["2026-03-09", 0],
    ["2026-03-10", 4],
  ]);
  expect(bars[0]?.segments).toEqual([
    { place: 0, name: "a", usd: 1, from: 0 },
    { place: 1, name: "default", usd: 3, from: 1 },
  ]);
  expect(bars[2]?.segments).toEqual([{ place: 0, name: "a", usd: 4, from: 0 }]);
  expect(top).toBe(4);
});

test("what is added up comes last, however much it is", () => {
  const rows = [row("2026-03-10", { "(others)": "9", a: "1", b: "2" })];
  expect(stackDays(rows, ALL, NOW).legend).toEqual(["b", "a", "(others)"]);
});

test("a period has all of its days, and one without a beginning at least two weeks", () => {
  const count = (filter: Partial<CostFilter>, rows: CostRowForm[] = []) => {
    const { bars, isCut } = stackDays(rows, { ...ALL, ...filter }, NOW);
    return [bars.length, bars[0]?.day, bars.at(-1)?.day, isCut];
  };
  expect(count({})).toEqual([14, "2026-02-25", "2026-03-10", false]);
  expect(count({ until: "2026-03-01" })).toEqual([14, "2026-02-15", "2026-02-28", false]);
  expect(count({ since: "2026-03-09" })).toEqual([2, "2026-03-09", "2026-03-10", false]);
  expect(count({}, [row("2026-01-01", { a: "1" })])).toEqual([
    69,
    "2026-01-01",
    "2026-03-10",
    false,
  ]);
  // A run that began in the period can go on after it.
  expect(count({ since: "2026-02-01", until: "2026-02-03" }, [row("2026-02-05", {})])).toEqual([
    5,
    "2026-02-01",
    "2026-02-05",
    false,
  ]);
  expect(count({ since: "2020-01-01" })).toEqual([MAX_DAYS, "2025-03-10", "2026-03-10", true]);
});

test("runs that a cap stopped and runs without a price are named once", () => {
  const line = (run: string, unpriced: number) =>
    ({ run, unpriced, request: `ask ${run}`, name: null, spent: { usd: "1" } }) as RunLine;
  const noted = listNoted({ stopped: ["old", "b"] }, [line("a", 2), line("b", 1), line("c", 0)]);
  expect(
    noted.map(({ run, title, isStopped, unpriced }) => [run, title, isStopped, unpriced]),
  ).toEqual([
    ["old", null, true, 0],
    ["b", "ask b", true, 1],
    ["a", "ask a", false, 2],
  ]);
});
