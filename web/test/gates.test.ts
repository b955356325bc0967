import { describe, expect, it } from "vitest";
import { readGateText, titleOfGate } from "../src/model/gates";

describe("titleOfGate", () => {
  it("names what waits", () => {
    const titles = ["plan", "task/a", "use/a/2", "effect/a.b/1", "deploy", "task"].map(titleOfGate);
    expect(titles).toEqual([
      "the plan",
      "the task a",
      "a tool call of the task a",
      "whether a tool call of the task a.b happened",
      "deploy",
      "task",
    ]);
  });
});

describe("readGateText", () => {
  it("takes a plan apart, with every member", () => {
    const plan = { tasks: [{ id: "a", instruction: "Do.", budget: { usd: 5 } }] };
    expect(readGateText("plan", JSON.stringify(plan))).toEqual({
      type: "plan",
      tasks: [{ id: "a", instruction: "Do.", others: '{\n "budget": {\n  "usd": 5\n }\n}' }],
    });
  });

  it("shows the text itself where the parts would hide something", () => {
    for (const text of [
      '{"tasks":[{"id":"a","instruction":"x","instruction":"y"}]}',
      '{"tasks":[{"id":"a"}]}',
      '{"tasks":[],"more":1}',
      '{ "tasks": [] }',
      "no JSON",
      "[]",
    ]) {
      expect(readGateText("plan", text), text).toEqual({ type: "text" });
    }
    expect(readGateText("use/a/1", '{"tool":"x","arguments":"{}","again":1}')).toEqual({
      type: "text",
    });
    expect(readGateText("task/a", '{"tasks":[]}')).toEqual({ type: "text" });
  });

  it("keeps the arguments of a tool as they were written", () => {
    const given = '{"to":"a","to":"b"}';
    const text = JSON.stringify({ tool: "pay", arguments: given });
    expect(readGateText("use/a/1", text)).toEqual({ type: "use", tool: "pay", arguments: given });
  });
});
