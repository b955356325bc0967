import type { RunForm, RunLine } from "forumd-client";
import { expect, test } from "vitest";
import {
  describeCare,
  describeRoute,
  hasRelayedCalls,
  isListed,
  queryOf,
  readFilter,
  titleOf,
  WORDS,
} from "../src/model/runs";

test("the server is asked for exactly the filters of the address", () => {
  const query = (text: string) => queryOf(readFilter(new URLSearchParams(text)));
  expect(query("")).toEqual({});
  expect(query("state=waiting&lane=law")).toEqual({ state: "waiting", lane: "law" });
  expect(query("state=failed&since=2026-03-01&entry=7")).toEqual({
    outcome: "failed",
    since: "2026-03-01",
  });
});

test("a word that the server cannot filter by is filtered here", () => {
  const run = { state: "ended", outcome: "denied", word: "overrun" } as RunLine;
  const listed = (state: string) => isListed(run, readFilter(new URLSearchParams({ state })));
  for (const word of WORDS)
    expect(queryOf(readFilter(new URLSearchParams({ state: word })))).toEqual({});
  expect([listed("overrun"), listed("budget"), listed("denied"), listed("")]).toEqual([
    true,
    false,
    true,
    true,
  ]);
});

test("a run is called by its request, else by its title, and not by its interpreter", () => {
  expect(titleOf({ request: null, title: "agent.py: Hi", name: "python" })).toBe("agent.py: Hi");
  expect(titleOf({ request: null })).toBe("(erased)");
});

test("a program without a call did not go through the gateway; refused calls came to it", () => {
  const line = (calls: number, refused: number, spans: number) =>
    hasRelayedCalls({ spent: { calls }, refused, spans } as RunLine);
  expect([line(0, 0, 1), line(0, 0, 2), line(0, 3, 4), line(1, 0, 1)]).toEqual([
    false,
    true,
    true,
    true,
  ]);
  expect(hasRelayedCalls({ spent: { calls: 0 }, spans: [{}] } as RunForm)).toBe(false);
});

test("a run says by what its lane was chosen, and whether it was planned and judged", () => {
  const route = (basis: string, lane: string | null) =>
    describeRoute({ route: { lane, basis, confidence: 0.84 } } as RunForm);
  expect(route("classifier", "backend")).toBe("lane backend, chosen by a classifier, 84 % sure");
  expect(route("given", "backend")).toBe("lane backend, as was asked for");
  expect(route("lexical", null)).toBe("no lane, looked for by its words");
  expect(describeRoute({ route: null })).toBe("");
  const care = (run: Partial<RunForm>) => describeCare({ deliberation: null, ...run } as RunForm);
  expect(care({ planned: true, judged: true })).toBe("planned by a model, judged");
  expect(care({ planned: false, judged: false })).toBe("not planned by a model, not judged");
  expect(care({ declined_team: ["tiny"] })).toMatch(/, no team: tiny gains nothing from one$/);
  expect(care({ provenance: "reported" })).toBe("");
});
