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

test("reviews, incidents, configurations, retention, holds and archives are told in words", () => {
  const digest = "0123456789abcdef".repeat(4);
  const life = readLife([
    item(0, "review.done/1", { by: "key", since: 0, until: 40, stops: 2, indeterminate: 1 }),
    item(1, "review.done/1", { by: "key", since: 0, until: 50, run: "r" }),
    item(2, "incident.open/1", {
      incident: "1f",
      severity: "high",
      by: "key",
      known: 1,
      runs: ["r"],
    }),
    item(3, "incident.close/1", { incident: "1f", by: "key" }),
    item(4, "config.seen/1", {
      engine: "1.0",
      roster: digest,
      policies: digest,
      models: digest,
      tools: digest,
    }),
    item(5, "retention/1", { subject: "call/prompt", seconds: 7_776_000 }),
    item(6, "retention/1", { subject: "*", seconds: 0 }),
    item(7, "hold/1", { hold: "case-7", act: "place" }),
    item(8, "hold/1", { hold: "case-7", act: "release" }),
    item(9, "redact/2", { bodies: ["0/prompt", "1/prompt"], reason: "retention", rule: "call" }),
    item(10, "archive/1", { run: "r", entries: 9, first: 1, last: 9, digest, place: "file:a" }),
  ]).reverse();
  expect(life.map(({ topic, title, detail }) => [topic, title, detail])).toEqual([
    ["oversight", "Log reviewed", "entries 0 to 40: stops 2, effects in doubt 1"],
    ["oversight", "Log reviewed", "entries 0 to 50 of run r: nothing to look at"],
    ["oversight", "Incident opened", "1f: high, runs r"],
    ["oversight", "Incident closed", "1f"],
    [
      "oversight",
      "Configuration recorded",
      "release 1.0, roster 01234567, policies 01234567, models 01234567, tools 01234567",
    ],
    ["redactions", "Retention set", "bodies of call/prompt: 90 days"],
    ["redactions", "Retention set", "bodies of *: for ever"],
    ["redactions", "Hold placed", "case-7: all runs"],
    ["redactions", "Hold released", "case-7"],
    ["redactions", "Bodies erased", "2 bodies: retention of call"],
    ["redactions", "Run archived", "run r, 9 entries: file:a"],
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
