import { expect, test } from "vitest";
import { makeAxis } from "../src/model/axis";
import { diffLines } from "../src/model/diff";
import { countUntil, type Entry, type Item } from "../src/model/entries";
import { findSpans } from "../src/model/spans";

let index = 0;

function item(kind: string, ts: number, strand: string, facts: Record<string, unknown> = {}): Item {
  const entry = { kind, ts, strand, facts, bodies: {}, parents: [], actor: "engine" };
  return { id: "", index: index++, entry: entry as unknown as Entry };
}

const DAY = 86_400_000_000;
const RECORD = [
  item("call/1", 0, "task/a", { agent: "", model: "m" }),
  item("call/1", 500_000, "task/b", { agent: "strong", model: "m" }),
  item("reply/1", 1_000_000, "task/a", { outcome: "failed", usd: 2_000_000_000 }),
  item("reply/1", 2_000_000, "task/b", { outcome: "ok" }),
  item("gate.open/1", 2_000_000, "gate/task/c", { subject: "task/c" }),
  item("gate.decision/2", DAY, "gate/task/c", { answer: "approve" }),
  item("call/1", DAY, "task/c", { agent: "", model: "m" }),
];

test("calls, replies and gates become spans in the lane of their task", () => {
  const spans = findSpans(RECORD);
  expect(spans.map(({ strand, state, usd }) => [strand, state, usd])).toEqual([
    ["task/a", "failed", 2],
    ["task/b", "ok", 0],
    ["task/c", "ok", 0],
    ["task/c", "running", 0],
  ]);
  expect(spans[3]?.to).toBeNull();
});

test("a gate that waits for a day is cut out, and work keeps its proportions", () => {
  const axis = makeAxis(findSpans(RECORD), DAY + 2_000_000);
  expect(axis.pieces.map(({ isCut }) => isCut)).toEqual([false, true, false]);
  const [before, cut, after] = axis.pieces;
  expect(cut?.width).toBeLessThan(0.1);
  expect(before?.width).toBeCloseTo(after?.width ?? 0);
  expect(axis.place(1_000_000)).toBeCloseTo((before?.width ?? 0) / 2);
  expect(axis.place(DAY + 2_000_000)).toBeCloseTo(1);
});

test("a timeline of nothing, or of a wait alone, has an axis", () => {
  expect(makeAxis([], 5).place(5)).toBeLessThanOrEqual(1);
  const waiting = findSpans([item("gate.open/1", 0, "gate/plan", { subject: "plan" })]);
  expect(makeAxis(waiting, DAY).place(DAY)).toBeCloseTo(1);
});

test("a diff keeps what both texts have", () => {
  const signs = { same: " ", removed: "-", added: "+" };
  const lines = diffLines("a\nb\nc", "a\nx\nc\nd").map(({ kind, text }) => signs[kind] + text);
  expect(lines).toEqual([" a", "-b", "+x", " c", "+d"]);
});

test("a run as it stood has the entries up to a moment, also one between its entries", () => {
  const items = [3, 5, 9].map((at) => ({ id: "", index: at, entry: {} as Entry }));
  expect([2, 5, 7, 9, 99].map((until) => countUntil(items, until))).toEqual([0, 2, 2, 3, 3]);
});
