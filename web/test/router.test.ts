import { expect, test } from "vitest";
import { address, parseAddress } from "../src/router";

test("an address is read as it was written", () => {
  const written = address("gates", ["run 1", "task/a b"], { text: "50 %", state: "" });
  const { page, parts, query } = parseAddress(written);
  expect([page, parts, query.toString()]).toEqual(["gates", ["run 1", "task/a b"], "text=50+%25"]);
});

test("an address with a stray percent sign is still an address", () => {
  expect(parseAddress("#/run/100%").parts).toEqual(["100%"]);
  expect(parseAddress("").page).toBe("");
});
