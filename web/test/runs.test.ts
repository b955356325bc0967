import { expect, test } from "vitest";
import { queryOf, readFilter } from "../src/model/runs";

test("the server is asked for exactly the filters of the address", () => {
  const query = (text: string) => queryOf(readFilter(new URLSearchParams(text)));
  expect(query("")).toEqual({});
  expect(query("state=waiting&lane=law")).toEqual({ state: "waiting", lane: "law" });
  expect(query("state=failed&since=2026-03-01&entry=7")).toEqual({
    outcome: "failed",
    since: "2026-03-01",
  });
});
