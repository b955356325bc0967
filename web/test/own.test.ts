import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Entry, Item } from "../src/model/entries";
import { titleOfStrand } from "../src/model/exchange";
import { readLife } from "../src/model/logLife";
import { own } from "../src/model/own";
import { writeTranscript } from "../src/model/transcript";
import { toneOf } from "../src/parts/StateMark";

const INHERITED = ["constructor", "toString", "__proto__", "hasOwnProperty", "valueOf"];
const SOURCE = join(import.meta.dirname, "../src");

function item(kind: string, facts: Record<string, unknown> = {}): Item {
  const entry = { kind, strand: "main", actor: "a", ts: 1, n: 0, facts, bodies: {} };
  return { id: "e", index: 0, entry: entry as unknown as Entry };
}

test("what every object inherits is no word of the server", () => {
  for (const word of INHERITED) {
    expect(own({ ok: 1 }, word)).toBeUndefined();
    expect(toneOf(word)).toBe("idle");
    expect(titleOfStrand(`${word}/x`)).toBe(`${word}/x`);
    expect(readLife([item(`${word}/1`)])).toMatchObject([{ topic: "other", title: `${word}/1` }]);
    expect(readLife([item("score/1", { subject: word })])[0]?.title).toBe("Run scored");
    const [line] = writeTranscript([item("outcome/1", { outcome: word })]);
    expect(line?.what).toBe(`use of the tool ${word}`);
    expect(writeTranscript([item("outcome/1")])[0]?.body).toBe("");
  }
});

/**
 * Tables are constants in capitals; facts, bodies and words are tables of the server or of a page.
 * A table of any other name that is indexed by text would be declared as a record of texts.
 */
const TABLE = /\b(?:[A-Z][A-Z_]+|facts|bodies|words)(?:\?\.)?\[(?!\d+\]|")/;
const DECLARED = /\b(?:const|let) ([a-z]\w*): Record<string,/;
const MEMBER = /\b\w+ in (?:\w+\.)+(?:facts|bodies|words)\b/;

test("no table is indexed by a text of another program", () => {
  const files = readdirSync(SOURCE, { recursive: true, encoding: "utf8" });
  const sources = files.filter((name) => /\.tsx?$/.test(name) && !name.endsWith("own.ts"));
  expect(sources.length).toBeGreaterThan(50);
  const found = sources.flatMap((name) =>
    readFileSync(join(SOURCE, name), "utf8")
      .split("\n")
      .filter((line) => !/^\s*(?:\/\/|\*|\/\*)/.test(line))
      .filter((line) => [TABLE, DECLARED, MEMBER].some((form) => form.test(line)))
      .map((line) => `${name}: ${line.trim()}`),
  );
  expect(found).toEqual([]);
});
