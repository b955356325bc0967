import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const NOUNS =
  "attempts|bodies|calls|cases|characters|configurations|days|decisions|entries|gaps|gates|keys|lines|messages|plays|replies|requests|rows|runs|seats|spans|steps|strands|tasks|tokens|turns|uses|votes|witnesses";
/** A number that was put into a text, and a noun in the plural right after it. */
const COUNTED = new RegExp(
  `\\$?\\{(?!role)[^{}]*\\}(?:</\\w+>)?(?:\\{" "\\})?\\s+(?:${NOUNS})\\b(?!=)`,
  "g",
);

test("a number and its noun are written by formatNumberOf, which knows the singular", () => {
  const folder = new URL("../src", import.meta.url);
  const found = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => /^(model|pages|parts)\/.+\.tsx?$/.test(name))
    .flatMap((name) => {
      const source = readFileSync(new URL(`../src/${name}`, import.meta.url), "utf8");
      const code = source.replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, "");
      return [...code.matchAll(COUNTED)].map(([words]) => `${name}: ${words}`);
    });
  expect(found).toEqual([]);
});
