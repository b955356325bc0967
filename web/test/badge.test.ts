import { describe, expect, test } from "vitest";
import {
  type CheckState,
  describeCheck,
  describeItem,
  describeReading,
  describeWitnesses,
  NOTHING_CHECKED,
} from "../src/model/badge";
import type { Item } from "../src/model/entries";
import { isSameTree, parsePin, parseSeen } from "../src/model/memory";
import type { Proof } from "../src/prover/check";

const items = [0, 1, 2, 3].map((index) => ({ id: String(index), index }) as Item);
const proof: Proof = {
  size: 4,
  root: "ab",
  proven: [],
  newer: 0,
  isWhole: true,
  cosignatures: [{ name: "w", id: "00", time: 1, isLocal: true, isIndependent: false }],
  witnesses: 2,
  hasQuorum: true,
};
const proven = (changed: Partial<CheckState> = {}, of: Partial<Proof> = {}): CheckState => ({
  ...NOTHING_CHECKED,
  verdict: { state: "proven", proof: { ...proof, ...of } },
  checked: new Set(items),
  ...changed,
});

describe("the badge", () => {
  test("says nothing before keys are pinned", () => {
    expect(describeCheck(null, items).label).toBe("check in this browser");
  });

  test("counts what is proven", () => {
    expect(describeCheck(proven(), items)).toEqual({ state: "ok", label: "4 entries proven here" });
    expect(describeCheck(proven(), items.slice(0, 1)).label).toBe("1 entry proven here");
  });

  test("is not green while the quorum of the policy is not reached", () => {
    const words = { state: "waiting", label: "4 entries proven here · quorum not reached" };
    expect(describeCheck(proven({}, { hasQuorum: false }), items)).toEqual(words);
    const alone = proven({}, { hasQuorum: false, witnesses: 0, cosignatures: [] });
    expect(describeCheck(alone, items).state).toBe("ok");
  });

  test("is bound to the very items that were checked", () => {
    const same = items.map((item) => ({ ...item }));
    const words = { state: "running", label: "4 not checked yet" };
    expect(describeCheck(proven(), same)).toEqual(words);
    const [, , , last] = items;
    expect(describeItem(proven(), last as Item).state).toBe("ok");
    expect(describeItem(proven(), same[3] as Item).state).toBe("running");
  });

  test("says what is not signed and what has arrived", () => {
    const check = proven({
      checked: new Set(items.slice(0, 1)),
      unsigned: new Set(items.slice(1, 3)),
    });
    expect(describeCheck(check, items)).toEqual({
      state: "running",
      label: "1 entry proven here · 2 not signed yet · 1 not checked yet",
    });
    expect(describeCheck(check, items.slice(0, 3)).state).toBe("waiting");
    expect(describeCheck(check, items.slice(1, 3)).label).toBe("2 not signed yet");
  });

  test("is not green where the log has more of the run", () => {
    expect(describeCheck(proven({}, { newer: 2 }), items)).toEqual({
      state: "waiting",
      label: "4 entries proven here · 2 more in the log",
    });
  });

  test("never shows what was proven before beside a failure or a contradiction", () => {
    const failed = proven({ verdict: { state: "failed", reason: "" } });
    const refuted = proven({ verdict: { state: "refuted", kind: "tile", reason: "" } });
    expect(describeCheck(failed, items)).toEqual({
      state: "indeterminate",
      label: "could not check",
    });
    expect(describeCheck(refuted, items).state).toBe("failed");
    expect(describeItem(refuted, items[0] as Item)).toEqual({
      state: "failed",
      label: "not proven",
    });
    expect(describeItem(failed, items[0] as Item).state).toBe("indeterminate");
  });

  test("shows how much was read", () => {
    const reading = { ...NOTHING_CHECKED, progress: { done: 256, total: 4000 } };
    expect(describeCheck(reading, items).label).toBe("checking: 256 of 4,000 entries read");
  });
});

test("witnesses are counted, and those of the writer named so", () => {
  expect(describeWitnesses({ ...proof, hasQuorum: false })).toBe(
    "1 of 2 pinned witnesses cosigned it, on the writer's own machine: that is as strong as the " +
      "owner of that machine. The quorum of your trust file is not reached.",
  );
  expect(describeWitnesses({ ...proof, cosignatures: [] })).toContain("None of the 2");
  expect(describeWitnesses({ ...proof, witnesses: 0 })).toContain("names no witness");
});

test("what was read is said", () => {
  expect(describeReading(proof)).toContain("None of the run is left out");
  expect(describeReading({ ...proof, newer: 1 })).toContain(
    "1 entry of the run is not on this page",
  );
  expect(describeReading({ ...proof, isWhole: false, newer: null })).toContain("was not checked");
});

test("stored memories are read back, and malformed ones are none", () => {
  expect(parsePin('{"policy":"log x","at":1}')).toEqual({ policy: "log x", at: 1 });
  expect(parseSeen('{"size":3,"root":"ab","at":1}')).toEqual({ size: 3, root: "ab", at: 1 });
  for (const stored of [null, "", "null", "3", '{"size":"3","root":"ab","at":1}', "{"]) {
    expect(parsePin(stored)).toBeNull();
    expect(parseSeen(stored)).toBeNull();
  }
  const tree = { size: 3, root: "ab", at: 1 };
  expect(isSameTree(tree, { ...tree, at: 2 })).toBe(true);
  expect(isSameTree(tree, null)).toBe(false);
  expect(isSameTree(null, null)).toBe(true);
});
