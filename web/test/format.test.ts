import { expect, test } from "vitest";
import {
  formatAge,
  formatDollars,
  formatDuration,
  formatSpent,
  splitHidden,
} from "../src/model/format";

test.each([
  ["0", "$0"],
  ["0.0364", "$0.0364"],
  ["0.000012", "$0.000012"],
  ["0.1", "$0.10"],
  ["12.345", "$12.35"],
])("%s dollars are %s", (amount, shown) => expect(formatDollars(amount)).toBe(shown));

test.each([
  ["0.05005", "0.05", "$0.05005"],
  ["0.05", "0.05", "$0.05"],
  ["0.01", "0.05", "$0.01"],
  ["20.001", "20", "$20.001"],
  ["0.05005", null, "$0.05"],
])("%s dollars of a cap of %s are %s", (spent, cap, shown) =>
  expect(formatSpent(spent, cap)).toBe(shown),
);

test.each([
  [340, "340 ms"],
  [2_500, "2.5 s"],
  [59_600, "1 min"],
  [200_000, "3 min 20 s"],
  [7_500_000, "2 h 5 min"],
  [273_600_000, "3 d 4 h"],
])("%d milliseconds are %s", (ms, shown) => expect(formatDuration(ms)).toBe(shown));

test("an age says whether it is past or to come", () => {
  expect(formatAge(0, 30_000)).toBe("a moment ago");
  expect(formatAge(7_200_000, 0)).toBe("in 2 h");
});

test("what a text hides is made visible, and lines stay lines", () => {
  const pieces = splitHidden("pay\u202eevil\n\tok\u0000");
  expect(pieces.map((piece) => piece.text)).toEqual(["pay", "U+202E", "evil\n\tok", "U+0000"]);
  expect(pieces.map((piece) => piece.hidden)).toEqual([false, true, false, true]);
});
