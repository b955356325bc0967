import type { KeyForm } from "forumd-client";
import { expect, test } from "vitest";
import { isKeyOf, placeKeyFault, readKeyDraft, sortKeys } from "../src/model/access";

test("a key needs a name and a scope", () => {
  const draft = { name: " ci ", scopes: ["read" as const], seconds: null };
  expect(readKeyDraft(draft)).toEqual({ ask: { name: "ci", scopes: ["read"] }, faults: {} });
  expect(readKeyDraft({ ...draft, seconds: 60 }).ask?.seconds).toBe(60);
  expect(Object.keys(readKeyDraft({ ...draft, name: "", scopes: [] }).faults)).toEqual([
    "name",
    "scopes",
  ]);
});

test.each(["a b", 'a"', "a\\b", "é", "x".repeat(41)])("%s is no name of a key", (name) => {
  const { ask, faults } = readKeyDraft({ name, scopes: ["read"], seconds: null });
  expect(ask).toBeNull();
  expect(faults.name).toBeTruthy();
});

test("a refusal stands beside the field that it is about", () => {
  expect(Object.keys(placeKeyFault("in the body: Expected `str` - at `$.name`"))).toEqual(["name"]);
  expect(Object.keys(placeKeyFault("who has not the scope audit cannot give it"))).toEqual([
    "scopes",
  ]);
  expect(Object.keys(placeKeyFault("busy"))).toEqual([""]);
});

test("keys that open something come first, the newest before the others", () => {
  const key = (id: string, made: string, state: KeyForm["state"]) =>
    ({ id, made, state }) as KeyForm;
  const keys = [key("a", "1", "valid"), key("b", "3", "revoked"), key("c", "2", "valid")];
  expect(sortKeys(keys).map(({ id }) => id)).toEqual(["c", "a", "b"]);
});

test("the key that somebody is signed in with is known by its id", () => {
  expect(isKeyOf("key/ci/00a4", { id: "00a4" })).toBe(true);
  expect(isKeyOf("key/00a4/1111", { id: "00a4" })).toBe(false);
  expect(isKeyOf("oidc/00a4@x/00a4", { id: "00a4" })).toBe(false);
});
