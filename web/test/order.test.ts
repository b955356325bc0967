import type { AskForm, ModelForm } from "forumd-client";
import { expect, test } from "vitest";
import { EMPTY_DRAFT, isUnpriced, placeFault, readDraft } from "../src/model/order";
import { makeTickets } from "../src/model/tickets";

const DRAFT = { ...EMPTY_DRAFT, request: "Name three rivers.", usd: "0.50" };
const ORDER: AskForm = { request: "Name three rivers.", budget: { usd: "0.50" } };

test("a request needs words and a cap in dollars", () => {
  expect(readDraft(DRAFT)).toEqual({ order: ORDER, faults: {} });
  expect(Object.keys(readDraft({ ...DRAFT, usd: " " }).faults)).toEqual(["usd"]);
  expect(Object.keys(readDraft({ ...DRAFT, request: "\n" }).faults)).toEqual(["request"]);
  expect(readDraft({ ...DRAFT, usd: "0" }).order?.budget?.usd).toBe("0");
});

test.each(["-1", "1,50", "abc", "1e3", "0.1234567891", "$1", "."])("%s is no cap", (usd) => {
  const { order, faults } = readDraft({ ...DRAFT, usd });
  expect(order).toBeNull();
  expect(faults.usd).toContain("number");
});

test("limits are sent as the API takes them, and checked before", () => {
  const filled = { ...DRAFT, calls: "20", tokens: " 5000 ", seconds: "1.5", worker: "one" };
  expect(readDraft(filled).order).toEqual({
    request: "Name three rivers.",
    team: false,
    budget: { usd: "0.50", calls: 20, tokens: 5000, seconds: "1.5" },
  });
  const wrong = readDraft({ ...DRAFT, calls: "1.5", tokens: "many", seconds: "0.0001" });
  expect(Object.keys(wrong.faults)).toEqual(["calls", "tokens", "seconds"]);
});

test("a plan is read from a list or a plan file, and its tasks name their lanes", () => {
  const tasks = [{ id: "a", instruction: "Do a." }];
  const asked = { ...DRAFT, lane: "backend" };
  expect(readDraft(asked).order?.lane).toBe("backend");
  for (const text of [JSON.stringify(tasks), JSON.stringify({ request: "x", tasks })]) {
    expect(readDraft({ ...asked, tasks: text }).order).toEqual({ ...ORDER, tasks });
  }
  for (const text of ["{", "null", "7", '{"tasks": 7}']) {
    expect(readDraft({ ...DRAFT, tasks: text }).faults.tasks).toBeTruthy();
  }
});

test("a refusal stands beside the field that it is about", () => {
  const planned = { ...ORDER, tasks: [] };
  const place = (detail: string, order = ORDER) => Object.keys(placeFault(detail, order))[0];
  expect(place("in the body: Expected `str` of length >= 1 - at `$.request`")).toBe("request");
  expect(place("this cannot be run: budget.usd: -1 is out of range")).toBe("usd");
  expect(place("in the body: Expected `int` >= 0 - at `$.budget.calls`")).toBe("calls");
  expect(place("this cannot be run: no lane is called 'x'; the roster has: a")).toBe("lane");
  expect(place("this cannot be run: no lane is called 'x'; the roster has: a", planned)).toBe(
    "tasks",
  );
  expect(place("this cannot be run: task 'a' needs 'b'", planned)).toBe("tasks");
  expect(place("this cannot be run: task 'answer' has no instruction")).toBe("");
  expect(placeFault("the server is busy", ORDER)).toEqual({ "": "the server is busy" });
});

test("a cap in dollars stops nothing where no agent has a price", () => {
  const agent = (call_usd: string | null) =>
    ({ price: { input_usd: null, output_usd: null, call_usd } }) as ModelForm;
  expect(isUnpriced([agent(null), agent("0.00")])).toBe(true);
  expect(isUnpriced([agent(null), agent("0.01")])).toBe(false);
});

test("the same content has the same name, and other content another one", () => {
  const ticketFor = makeTickets();
  const first = ticketFor(ORDER);
  expect(first).toMatch(/^[0-9a-f]{32}$/);
  expect(ticketFor({ ...ORDER })).toBe(first);
  expect(ticketFor({ ...ORDER, lane: "backend" })).not.toBe(first);
  expect(makeTickets()(ORDER)).not.toBe(first);
});
