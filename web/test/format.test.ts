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

test("marks that no letter has so many of are written as code points", () => {
  const [letter, marks, rest] = splitHidden(`e${"\u0301\u0302".repeat(50_000)}x`);
  expect([letter?.text, rest?.text]).toEqual(["e", "x"]);
  expect(marks?.hidden).toBe(true);
  expect(marks?.text).toBe(Array(50_000).fill("U+0301 U+0302").join(" "));
  expect(marks?.text).not.toMatch(/\p{M}/u);
  const stacked = `e${"\u0301".repeat(8)}`;
  expect(splitHidden(stacked)).toEqual([{ text: stacked, hidden: false }]);
});

test("what nobody sees is marked, and what joins an emoji is not", () => {
  for (const hidden of [
    "\ufe00",
    "\u{e0100}",
    "\u034f",
    "\u2800",
    "\u3164",
    "\u115f",
    "\u{1d159}",
    "\u{16fe4}",
  ]) {
    const code = hidden.codePointAt(0)?.toString(16).toUpperCase().padStart(4, "0");
    expect(splitHidden(`a${hidden}b`).map(({ text }) => text)).toEqual(["a", `U+${code}`, "b"]);
  }
  expect(splitHidden("\u2764\ufe0f ok")).toEqual([{ text: "\u2764\ufe0f ok", hidden: false }]);
  expect(splitHidden("\u2764\ufe0f\u200d\u{1f525}")).toHaveLength(1);
  expect(splitHidden("\u2764\ufe0f\ufe0e").map(({ hidden }) => hidden)).toEqual([false, true]);
  expect(splitHidden("a\ufe0fb")[1]).toEqual({ text: "U+FE0F", hidden: true });
});
