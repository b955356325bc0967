import type { ChangeForm, CouncilForm, SeatForm } from "forumd-client";
import { expect, test } from "vitest";
import {
  costFactor,
  describeCourse,
  describeOutcome,
  listRounds,
  tabulateBallots,
} from "../src/model/council";

const seat = (number: number, answers: string[], weighed: string) =>
  ({
    seat: number,
    agent: `a${number}`,
    model: null,
    votes: answers
      .map((answer, round) => ({ round, answer, confidence: 50 }))
      .filter(({ answer }) => answer),
    weighed,
  }) as SeatForm;
const change = { seat: 1, round: 1, conformity: true } as ChangeForm;
const council = {
  seated: 3,
  ballots: [],
  end: "stable",
  ground: "vote",
  accord: "majority",
  rounds: 1,
  seats: [seat(1, ["no", "yes"], "no"), seat(2, ["yes", ""], "yes")],
  changes: [change],
  baseline: { spent: { usd: "0.5", tokens: 10 } },
  spent: { usd: "1.5", tokens: 20 },
} as unknown as CouncilForm;

test("ballots stand by seat and round, with what moved a seat", () => {
  expect(listRounds(council)).toEqual([0, 1]);
  const [first, second] = tabulateBallots(council, "yes");
  expect(first?.cells.map((cell) => cell?.change ?? null)).toEqual([null, change]);
  expect(second?.cells.map((cell) => cell?.vote.answer)).toEqual(["yes", undefined]);
  expect([first?.holds, second?.holds]).toEqual([false, true]);
});

test("the report names the holders of the answer, whatever their words", () => {
  const named = { ...council, holders: [1] };
  expect(tabulateBallots(named, "yes").map(({ holds }) => holds)).toEqual([true, false]);
});

test("the cost is compared in dollars, and in tokens where nothing is billed", () => {
  expect(costFactor(council)).toBe(3);
  const free = { usd: "0", tokens: 10 };
  const unbilled = { ...council, baseline: { spent: free }, spent: { usd: "0", tokens: 40 } };
  expect(costFactor(unbilled as unknown as CouncilForm)).toBe(4);
  expect(costFactor({ ...council, baseline: null })).toBeNull();
});

test("the course is told before and after the end", () => {
  expect(describeCourse(council)).toBe(
    "Decided by vote, after one exchange; it ended because nobody changed any more.",
  );
  const sealed = (ballots: object[]) =>
    describeCourse({ ...council, end: null, ground: null, ballots } as unknown as CouncilForm);
  expect(sealed([])).toBe("No ballot is sealed yet.");
  expect(sealed([{ round: 0, sealed: 2 }])).toBe("Round 0: 2 of 3 ballots are sealed.");
  expect(
    sealed([
      { round: 0, sealed: 2 },
      { round: 1, sealed: 1 },
    ]),
  ).toBe("Round 1: 1 of 2 ballots are sealed.");
  expect(describeOutcome(council)).toEqual(["a majority", "ok"]);
  expect(describeOutcome({ ...council, ground: "none" })).toEqual(["no answer", "failed"]);
});
