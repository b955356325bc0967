import { expect, test } from "vitest";
import type { Entry, Item } from "../src/model/entries";
import { splitForFork } from "../src/model/fork";

function item(index: number, kind: string, facts: Record<string, unknown> = {}): Item {
  return { id: "", index, entry: { kind, facts } as unknown as Entry };
}

const RECORD = [
  item(3, "call/1"),
  item(5, "reply/1", { usd: 2_000_000_000 }),
  item(6, "intent/1"),
  item(7, "outcome/1"),
  item(9, "reply/1", { usd: 1_500_000_000, why: "cancelled" }),
  item(12, "reply/1", { usd: 500_000_000 }),
];

test("a fork takes over the replies and effects up to its entry", () => {
  expect(splitForFork(RECORD, 7)).toEqual({
    taken: { replies: 1, usd: 2, effects: 1 },
    again: { replies: 2, usd: 2, effects: 0 },
  });
});

test("a reply that the cancellation cut off is asked for again", () => {
  expect(splitForFork(RECORD, 12)).toEqual({
    taken: { replies: 2, usd: 2.5, effects: 1 },
    again: { replies: 1, usd: 1.5, effects: 0 },
  });
});
