import { describe, expect, it } from "vitest";
import { parseMarkdown, safeTarget, visibleText } from "../src/model/markdown";

const PIECES = [
  "# Head",
  "## ",
  "- item",
  "* item",
  "  - inner",
  "1. one",
  "3) three",
  "> quote",
  ">",
  "```js",
  "```",
  "~~~",
  "| a | b |",
  "|---|---|",
  "| 1 |",
  "---",
  "***",
  "",
  "    deep",
  "text",
  "**bold**",
  "*it",
  "em*",
  "_a_",
  "__b__",
  "~~c~~",
  "`code`",
  "``",
  "[label](https://a.example/x)",
  "[",
  "](",
  ")",
  "![alt](https://b.example/p.png)",
  "<img src=x onerror=alert(1)>",
  "<script>z</script>",
  "[x](javascript:alert(1))",
  "\\*",
  "\\",
  "&amp;",
  "\u202e",
  "\u0000",
  "ß",
  "漢字",
  "😀",
  "\t",
  "\r",
];

/** A generator of numbers below `most` that is the same in each run. */
function draw(seed: number): (most: number) => number {
  let state = seed;
  return (most) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state % most;
  };
}

function lettersOf(text: string): string {
  return text.replace(/[^\p{L}\p{N}]/gu, "");
}

describe("parseMarkdown", () => {
  it("leaves out no letter and no digit, whatever it is given", { timeout: 60_000 }, () => {
    for (let seed = 0; seed < 5_000; seed++) {
      const next = draw(seed);
      const text = Array.from({ length: 1 + next(14) }, () => {
        const piece = PIECES[next(PIECES.length)] ?? "";
        return piece + ["\n", " ", "", "\n\n"][next(4)];
      }).join("");
      expect(lettersOf(visibleText(parseMarkdown(text))), JSON.stringify(text)).toBe(
        lettersOf(text),
      );
    }
  });

  it("takes time that grows with the length of the text", { timeout: 60_000 }, () => {
    const worst = [
      "*a ",
      "[",
      "[a](",
      "`",
      "> ",
      "- ",
      "**a*",
      "_a ",
      "| a ",
      "~~",
      "\\",
      "1. ",
      "#",
      "[a]((",
      "> - ",
      "* * ",
      "*a\\",
      "_[a",
    ];
    for (const piece of worst) {
      for (const [between, end] of [
        ["", ""],
        ["\n", ""],
        ["", "](x)"],
        ["", "*_~~`"],
      ] as const) {
        const begun = process.cpuUsage();
        parseMarkdown((piece + between).repeat(100_000 / (piece.length + between.length)) + end);
        const millis = process.cpuUsage(begun).user / 1000;
        expect(millis, JSON.stringify([piece, between, end])).toBeLessThan(1000);
      }
    }
  });

  it("reads headings, lists, tables, code and emphasis", () => {
    const text =
      "# Flood\n\nA **dike** of `3 m`.\n\n- one\n  - two\n- three\n\n2. b\n\n|a|b|\n|-|-|\n|1|2|\n\n```py\nx\n```";
    const blocks = parseMarkdown(text);
    expect(blocks.map(({ type }) => type)).toEqual([
      "heading",
      "paragraph",
      "list",
      "list",
      "table",
      "code",
    ]);
    expect(blocks[2]).toMatchObject({
      items: [{ blocks: [{ type: "paragraph" }, { type: "list" }] }, { number: null }],
    });
    expect(blocks[3]).toMatchObject({ items: [{ number: 2 }] });
  });

  it("takes HTML and images for text", () => {
    const [block] = parseMarkdown("<b>x</b> ![alt](https://b.example/p.png)");
    expect(visibleText(block ? [block] : [])).toBe("<b>x</b> !alt (https://b.example/p.png)");
  });
});

describe("safeTarget", () => {
  it("is a page of the web or nothing", () => {
    expect(safeTarget("https://a.example/x?y#z")).toBe("https://a.example/x?y#z");
    for (const target of [
      "javascript:alert(1)",
      " javascript:alert(1)",
      "data:text/html,x",
      "vbscript:x",
      "//a.example",
      "#/access",
      "/api/v1/runs",
      "https://user:secret@a.example/",
      "file:///etc/passwd",
      "mailto:a@b",
      "JaVaScRiPt:alert(1)",
      "java\nscript:x",
      "",
    ]) {
      expect(safeTarget(target), target).toBeNull();
    }
  });
});
