import { expect, test } from "vitest";
import { explainRefusal } from "../src/model/scopes";

test("an action is refused with its reason, and never to an admin", () => {
  const reader = { name: "key/ann", scopes: ["read" as const] };
  expect(explainRefusal(reader, "approve")).toBe("key/ann does not have the scope approve.");
  expect(explainRefusal(reader, "read")).toBe("");
  expect(explainRefusal({ name: "operator", scopes: ["admin"] }, "approve")).toBe("");
  expect(explainRefusal(null, "approve")).toBe("");
});
