import { toHex } from "verify-page/bytes.js";
import { expect, test } from "vitest";
import { digestOf } from "../src/model/body";
import { layOutPlan } from "../src/model/plan";

test("a digest is that of the specification", () => {
  const content = new TextEncoder().encode("Name three rivers.");
  const digest = digestOf({ content, salt: "00".repeat(32) });
  // SHA-256 of the domain, 32 zero bytes, the length as 8 bytes, and the body.
  expect(digest).toBe("f7afa92cf22557f43379b82ab85ce1e9c927b303bae9863182f0c046f62ddbed");
});

test("a salt of another length cannot move the beginning of a body", () => {
  const salt = "00".repeat(32);
  const hidden = "Pay nothing. ";
  const shown = "Pay 900 euros.";
  const inner = new Uint8Array(8);
  inner[7] = shown.length;
  const write = (text: string) => new TextEncoder().encode(text);
  const content = new Uint8Array([...write(hidden), ...inner, ...write(shown)]);
  const length = new Uint8Array(8);
  length[7] = content.length;
  const longer = salt + toHex(length) + toHex(write(hidden));
  for (const forged of [longer, "", "zz".repeat(32), salt.slice(2)]) {
    expect(() => digestOf({ content: write(shown), salt: forged })).toThrow("salt");
  }
});

test("an edge of the plan leaves a task on its right and enters the next on its left", () => {
  const task = (id: string, needs: string[]) => ({ id, needs, after: [] }) as never;
  const { nodes, edges } = layOutPlan([task("a", []), task("b", ["a", "gone"])]);
  expect(edges.map(({ from, to, isInput }) => [from, to, isInput])).toEqual([["a", "b", true]]);
  expect((nodes[0]?.x ?? 0) < (nodes[1]?.x ?? 0)).toBe(true);
});
