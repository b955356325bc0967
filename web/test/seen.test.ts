import { expect, test } from "vitest";
import { addRange, isCovered, type Range } from "../src/model/seen";

const see = (...positions: Range[]) => positions.reduce<Range[]>(addRange, []);

test("a text is seen when every part of it was on the screen, in any order", () => {
  expect(isCovered(see([0, 800]), 6000)).toBe(false);
  expect(isCovered(see([0, 800], [5200, 6000]), 6000)).toBe(false);
  expect(isCovered(see([0, 800], [5200, 6000], [810, 5190]), 6000)).toBe(false);
  const pages = Array.from({ length: 8 }, (_, page): Range => [page * 750, page * 750 + 800]);
  expect(isCovered(see(...pages), 6000)).toBe(true);
  expect(isCovered(see(...pages.toReversed()), 6000)).toBe(true);
  for (const page of pages.slice(1, -1)) {
    expect(isCovered(see(...pages.filter((other) => other !== page)), 6000)).toBe(false);
  }
});

test("what has no height, or was beside the screen, was not seen", () => {
  expect(isCovered([], 0)).toBe(false);
  expect(see([300, 100])).toEqual([]);
});
