import { expect, test } from "vitest";
import type { Item } from "../src/model/entries";
import { findExchange, titleOfStrand } from "../src/model/exchange";

function item(index: number, strand: string, n: number, kind: string): Item {
  return {
    index,
    id: String(index),
    entry: { strand, n, kind, bodies: {}, facts: {} },
  } as unknown as Item;
}

const ITEMS = [
  item(0, "main", 0, "accepted/1"),
  item(1, "task/a", 0, "call/1"),
  item(2, "task/a", 1, "reply/1"),
  item(3, "task/b", 0, "call/1"),
  item(4, "task/a", 2, "verdict/1"),
  item(5, "task/a", 3, "call/1"),
  item(6, "task/a", 4, "reply/1"),
  item(7, "task/a", 5, "verdict/1"),
];

test("each entry of a task leads to the call and the reply that it is about", () => {
  const found = (index: number) => {
    const exchange = findExchange(ITEMS, ITEMS[index] as Item);
    return exchange && [exchange.asked?.index ?? null, exchange.replied?.index ?? null];
  };
  expect([1, 2, 4].map(found)).toEqual([
    [1, 2],
    [1, 2],
    [1, 2],
  ]);
  expect([5, 6, 7].map(found)).toEqual([
    [5, 6],
    [5, 6],
    [5, 6],
  ]);
  expect(found(3)).toEqual([3, null]);
  expect(found(0)).toBeNull();
});

test("a strand is named in words", () => {
  expect(["task/draft", "gate/task/a", "main"].map(titleOfStrand)).toEqual([
    "Task draft",
    "Gate task/a",
    "main",
  ]);
});
