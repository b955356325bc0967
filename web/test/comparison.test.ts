import type { DivergenceForm } from "forumd-client";
import { expect, test } from "vitest";
import {
  changedBodies,
  factLines,
  firstDivergences,
  layOut,
  withoutMarks,
} from "../src/model/comparison";
import { diffLines, foldSame } from "../src/model/diff";

function divergence(strand: string, step: string): DivergenceForm {
  return { parting: "bodies", strand, step, first: null, second: null };
}

test("each strand has its first divergence, in the order of the log", () => {
  const found = firstDivergences([
    divergence("task/b", "call/0"),
    divergence("task/a", "call/0"),
    divergence("task/b", "reply/0"),
  ]);
  expect(found.map(({ first, later }) => [first.strand, first.step, later])).toEqual([
    ["task/b", "call/0", 1],
    ["task/a", "call/0", 0],
  ]);
});

test("bodies differ by digest, and where one run has none", () => {
  const step = (bodies: Record<string, string>) => ({
    kind: "reply/1",
    facts: { b: 2, a: 1 },
    bodies,
  });
  const first = step({ same: "1", other: "2" });
  const second = step({ same: "1", other: "3", more: "4" });
  expect(changedBodies({ ...divergence("", ""), first, second })).toEqual(["other", "more"]);
  expect(factLines(first)).toBe("kind: reply/1\na: 1\nb: 2");
});

test("JSON is compared by line, unless only its notation differs", () => {
  expect(layOut('{"a":1}', '{"a":2}')).toEqual(['{\n  "a": 1\n}', '{\n  "a": 2\n}']);
  expect(layOut('{"a":1}', '{"a": 1}')).toEqual(['{"a":1}', '{"a": 1}']);
  expect(layOut("Elbe", '"Oder"')).toEqual(["Elbe", '"Oder"']);
});

test("far from a change, same lines are folded; a missing text has no lines", () => {
  const before = "1\n2\n3\n4\n5\n6";
  const lines = foldSame(diffLines(before, `${before}\n7`), 2);
  expect(lines.map(({ text }) => text)).toEqual(["4 lines are the same", "5", "6", "7"]);
  expect(diffLines(null, "a")).toEqual([{ kind: "added", text: "a" }]);
});

test("money is shown as money, and no limit as such", () => {
  const step = { kind: "accepted/1", bodies: {}, facts: { usd: 200_000_000, tokens: 2 ** 53 - 1 } };
  expect(factLines(step as never)).toBe("kind: accepted/1\ntokens: no limit\nusd: $0.20");
});

test("prompts are compared without the marks around quoted texts", () => {
  const mark = "1a70d4d336a1b0b24c73a5869f3bdc6a";
  const prompt = `Do.\n--- ${mark} begin: task a\nx --- ${mark} end\n--- ${mark} end\n`;
  expect(withoutMarks(prompt)).toBe(`Do.\n--- begin: task a\nx --- ${mark} end\n--- end\n`);
});
