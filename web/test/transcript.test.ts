import { describe, expect, test } from "vitest";
import type { Entry, Item } from "../src/model/entries";
import { findSpans } from "../src/model/spans";
import { splitMessage, writeTranscript } from "../src/model/transcript";

function item(index: number, strand: string, kind: string, facts: Record<string, unknown>): Item {
  const entry: Entry = {
    run: "r",
    strand,
    n: index,
    step: "",
    ts: index,
    actor: "operator",
    kind,
    parents: [],
    facts,
    bodies: { output: { h: "", size: 1, type: "text/plain" } },
  };
  return { id: String(index), index, entry };
}

const MODEL = { op: "model", model: "gpt-5", name: "gpt-5" };

describe("writeTranscript", () => {
  test("a step of another program is one line, where it begins, headed by its model", () => {
    const lines = writeTranscript([
      item(1, "span/root", "report.begin/1", { op: "step", name: "python" }),
      item(2, "span/5a28d10c669f1a88", "report.begin/1", MODEL),
      item(3, "span/5a28d10c669f1a88", "report.step/1", {
        ...MODEL,
        outcome: "ok",
        micros: 250_000,
        usd: 5_000_000,
      }),
      item(4, "span/root", "report.step/1", { op: "step", name: "python", outcome: "ok" }),
      item(5, "span/open", "report.begin/1", MODEL),
    ]);
    expect(lines.map((line) => [line.item.index, line.who, line.what, line.state])).toEqual([
      [4, "python", "step", "ok"],
      [3, "gpt-5", "replied in 250 ms for $0.005", "ok"],
      [5, "gpt-5", "model, goes on", "running"],
    ]);
  });
});

test("steps that were reported afterwards stand in the order in which they began", () => {
  const step = { op: "step", outcome: "ok" };
  const lines = writeTranscript([
    item(1, "main", "accepted/1", {}),
    item(2, "span/b", "report.step/1", { ...step, name: "child", began: 20 }),
    item(3, "span/a", "report.step/1", { ...step, name: "parent", began: 10 }),
    item(4, "main", "run.close/1", { outcome: "ok" }),
  ]);
  expect(lines.map((line) => line.who)).toEqual(["operator", "parent", "child", "operator"]);
});

test("a panel that judges is called by its name, in the transcript and in the timeline", () => {
  const within = { agent: "run", model: "run" };
  const items = [
    item(1, "task/a", "call/1", { agent: "", model: "m" }),
    item(2, "task/a", "call/1", { ...within, role: "validator" }),
    item(3, "task/a", "verdict/1", { outcome: "ok", judge: "board" }),
    item(4, "task/b", "call/1", within),
    item(5, "role/intent.2", "call/1", { ...within, role: "intent" }),
    item(6, "role/intent.2", "verdict/1", { outcome: "ok" }),
    item(7, "main", "check/1", { subject: "intent", outcome: "ok", judge: "jury" }),
    item(8, "task/c", "call/1", { ...within, role: "validator" }),
  ];
  const names = ["the default agent (m)", "panel board", "a run within", "panel jury"];
  const all = [...names, "panel of the validator"];
  const asked = writeTranscript(items).filter((line) => line.item.entry.kind === "call/1");
  expect(asked.map((line) => line.what)).toEqual(all.map((name) => `asked ${name}`));
  expect(findSpans(items).map(({ label }) => label)).toEqual(all);
});

test("only a call that went well has replied", () => {
  const ends = (kind: string, facts: object) =>
    ["ok", "denied", "failed", "timeout", "cancelled", "indeterminate"].map(
      (outcome) => writeTranscript([item(1, "span/a", kind, { ...facts, outcome })])[0]?.what,
    );
  const calls = [
    "replied",
    "call refused",
    "call failed",
    "call timed out",
    "call cancelled",
    "call without a reply",
  ];
  expect(ends("report.step/1", MODEL)).toEqual(calls);
  expect(ends("reply/1", {})).toEqual(calls);
  expect(ends("outcome/1", { tool: "lookup" }).slice(0, 2)).toEqual([
    "lookup answered",
    "use of lookup refused",
  ]);
  expect(ends("report.step/1", { op: "tool" }).slice(0, 3)).toEqual([
    "tool",
    "tool refused",
    "tool failed",
  ]);
});

describe("splitMessage", () => {
  test("text, reasoning, calls, results and attachments each have a form", () => {
    const said = splitMessage({
      role: "assistant",
      text: "Look:",
      reasoning: "Hm.",
      calls: [{ name: "lookup", arguments: '{"river":"Rhine"}', id: "c1" }],
      results: [{ text: "1233 km", id: "c1", name: "lookup" }],
      attachments: [{ kind: "image", media_type: "image/png", size: 2048, name: "" }],
      note: "",
    });
    expect(said.map(({ form, tool, text }) => [form, tool, text])).toEqual([
      ["reasoning", "", "Hm."],
      ["prose", "", "Look:"],
      ["call", "lookup", '{\n  "river": "Rhine"\n}'],
      ["result", "lookup", "1233 km"],
      ["note", "", "image image/png, 2.0 kB"],
    ]);
  });

  test("arguments that are no JSON are shown as they are", () => {
    const [call] = splitMessage({
      role: "assistant",
      calls: [{ name: "sh", arguments: "ls -l" }],
    });
    expect(call?.text).toBe("ls -l");
  });
});
