import { readdirSync, readFileSync } from "node:fs";
import { parseAst } from "vite";
import { expect, test } from "vitest";

const LENGTH = 5_000;
const OTHERS = ["", " ", "a", "0", "\n", "\u2028"];

/** Return the patterns in a file, also those that are added later. */
function findPatterns(name: string): RegExp[] {
  const source = readFileSync(new URL(`../src/${name}`, import.meta.url), "utf8");
  const found: RegExp[] = [];
  const visit = (node: unknown) => {
    if (typeof node !== "object" || node === null) return;
    if ("regex" in node) {
      const { pattern, flags } = node.regex as { pattern: string; flags: string };
      found.push(new RegExp(pattern, flags));
    }
    Object.values(node).forEach(visit);
  };
  visit(parseAst(source, { lang: name.endsWith("x") ? "tsx" : "ts" }));
  return found;
}

/** Return texts that repeat one character of a pattern between two others. */
function makeTexts({ source }: RegExp): string[] {
  const characters = [...new Set([...OTHERS, ...source.replace(/\\[a-z]|[\\()?^]/g, "")])];
  const begins = characters.flatMap((character) => [character, character.repeat(3)]);
  return characters.flatMap((repeated) => {
    const middle = repeated.repeat(LENGTH);
    return begins.flatMap((begin) => characters.map((end) => begin + middle + end));
  });
}

function cpuMillis(pattern: RegExp, text: string): number {
  const begun = process.cpuUsage();
  text.search(pattern);
  const { user, system } = process.cpuUsage(begun);
  return (user + system) / 1000;
}

test("the time of each pattern grows with the length of the text", { timeout: 120_000 }, () => {
  const names = readdirSync(new URL("../src", import.meta.url), {
    recursive: true,
    encoding: "utf8",
  }).filter((name) => /\.tsx?$/.test(name));
  const slow: string[] = [];
  for (const name of names) {
    for (const pattern of findPatterns(name)) {
      // With the square of the length, it would be more than ten million steps.
      const isSlow = (text: string) => [1, 2, 3].every(() => cpuMillis(pattern, text) > 8);
      const text = makeTexts(pattern).find(isSlow);
      if (text !== undefined)
        slow.push(`${name}: ${pattern} on ${JSON.stringify(text.slice(0, 9))}`);
    }
  }
  expect(slow).toEqual([]);
});
