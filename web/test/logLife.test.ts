import { expect, test } from "vitest";
import { readSightings, readSignatures } from "../src/model/checkpoint";
import type { Item } from "../src/model/entries";
import { readLife } from "../src/model/logLife";
import { FakeLog } from "./fakeLog";

const item = (index: number, kind: string, facts: object) =>
  ({ id: "", index, entry: { kind, facts } }) as unknown as Item;

test("the newest event comes first, and an unknown kind is shown by its name", () => {
  const life = readLife([
    item(0, "log.open/1", { program: "forumd/1" }),
    item(1, "access.grant/2", { name: "ci", scopes: ["read", "audit"] }),
    item(2, "access.deny/1", { who: "ci", door: "submit", why: "scope", times: 3 }),
    item(3, "redact/1", { entry: "0123456789abcdef", body: "reply", reason: "legal" }),
    item(4, "export/1", { run: "r", entries: 7 }),
    item(5, "tags.enforce/1", {}),
  ]);
  expect(life.map(({ topic, title, detail }) => [topic, title, detail])).toEqual([
    ["other", "tags.enforce/1", ""],
    ["exports", "Evidence taken", "run r, 7 entries"],
    ["redactions", "Body erased", "reply of entry 0123456789ab: legal"],
    ["access", "Denied 3 times", "ci at submit: scope"],
    ["access", "Key granted", "ci: read, audit"],
    ["log", "Log opened", "forumd/1"],
  ]);
});

test("the signatures of a checkpoint are those of the log and of its witnesses", () => {
  const log = new FakeLog(3);
  const note = new TextDecoder().decode(log.checkpoint());
  expect(readSignatures(note)).toEqual([
    { name: log.origin, at: null },
    { name: log.witness.name, at: 1_800_000_000_000 },
  ]);
  expect(readSightings(note)).toEqual([{ witness: log.witness.name, at: 1_800_000_000_000 }]);
});
