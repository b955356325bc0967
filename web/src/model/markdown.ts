// Markdown of agents as a tree of plain values. It is untrusted, so there is no HTML, no image and
// nothing that is fetched, and no letter or digit of the text is left out: what a link points to
// and what a fence is named are shown, so the page cannot hide a part of what was said.

export type Inline =
  | { type: "text" | "code"; text: string }
  | { type: "strong" | "em" | "del"; children: Inline[] }
  | { type: "link"; target: string; children: Inline[] };

export interface ListItem {
  /** The number of an item in an ordered list. */
  number: number | null;
  blocks: Block[];
}

export type Block =
  | { type: "heading"; level: number; children: Inline[] }
  | { type: "paragraph"; children: Inline[] }
  | { type: "code"; name: string; text: string }
  | { type: "quote"; blocks: Block[] }
  | { type: "list"; items: ListItem[] }
  | { type: "table"; head: Inline[][]; rows: Inline[][][] }
  | { type: "rule" };

/** Lists, quotes and emphasis deeper than this are shown as they were written. */
const MAX_DEPTH = 6;
const WRAPPED_CHARACTERS = 60;
// No two quantifiers side by side can match the same character: the time would grow with its square.
const FENCE = /^ {0,3}(`{3,}|~{3,}(?!~))([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})[ \t](.*)$/s;
const RULE = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})(?:[-*+]|(0|[1-9]\d{0,8})[.)])[ \t]+(?=\S)/;
const TABLE_LINE = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*(?:\|[ \t]*)?$/;

/** Return the blocks of a text. Never throws; the time grows with the length of the text. */
export function parseMarkdown(text: string): Block[] {
  return parseBlocks(text.replace(/\r\n?/g, "\n").split("\n"), 0);
}

function parseBlocks(lines: string[], depth: number): Block[] {
  const blocks: Block[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    if (line.trim() === "") {
      at++;
      continue;
    }
    const [block, next] =
      readFence(lines, at) ??
      readHeading(line, at) ??
      readRule(line, at) ??
      (depth < MAX_DEPTH ? (readQuote(lines, at, depth) ?? readList(lines, at, depth)) : null) ??
      readTable(lines, at) ??
      readParagraph(lines, at);
    blocks.push(block);
    at = next;
  }
  return blocks;
}

type Read = [Block, number] | null;

function readFence(lines: string[], at: number): Read {
  const opened = FENCE.exec(lines[at] ?? "");
  if (!opened) return null;
  const mark = opened[1] ?? "";
  const closes = (line: string) => line.trim().startsWith(mark) && /^[`~]+$/.test(line.trim());
  let end = at + 1;
  while (end < lines.length && !closes(lines[end] ?? "")) end++;
  const text = lines.slice(at + 1, end).join("\n");
  return [{ type: "code", name: (opened[2] ?? "").trim(), text }, end + 1];
}

function readHeading(line: string, at: number): Read {
  const found = HEADING.exec(line);
  if (!found) return null;
  const words = (found[2] ?? "").trimStart().replace(/[ \t]#+[ \t]*$/, "");
  return [
    { type: "heading", level: (found[1] ?? "").length, children: parseInline(words) },
    at + 1,
  ];
}

function readRule(line: string, at: number): Read {
  return RULE.test(line) ? [{ type: "rule" }, at + 1] : null;
}

function readQuote(lines: string[], at: number, depth: number): Read {
  let end = at;
  while (QUOTE.test(lines[end] ?? "")) end++;
  if (end === at) return null;
  const inner = lines.slice(at, end).map((line) => line.replace(QUOTE, ""));
  return [{ type: "quote", blocks: parseBlocks(inner, depth + 1) }, end];
}

function readList(lines: string[], at: number, depth: number): Read {
  const first = ITEM.exec(lines[at] ?? "");
  if (!first) return null;
  const isOrdered = first[2] !== undefined;
  const items: ListItem[] = [];
  let end = at;
  for (;;) {
    const found = ITEM.exec(lines[end] ?? "");
    if (!found || (found[2] !== undefined) !== isOrdered || RULE.test(lines[end] ?? "")) break;
    const indent = found[0].length;
    const inner = [(lines[end] ?? "").slice(indent)];
    end++;
    while (end < lines.length && belongsToItem(lines, end, indent)) {
      inner.push(dedent(lines[end] ?? "", indent));
      end++;
    }
    items.push({
      number: found[2] === undefined ? null : Number(found[2]),
      blocks: parseBlocks(inner, depth + 1),
    });
  }
  return [{ type: "list", items }, end];
}

/** Whether a line continues an item: it is indented, or follows without a blank line. */
function belongsToItem(lines: string[], at: number, indent: number): boolean {
  const line = lines[at] ?? "";
  if (line.trim() === "") {
    return indentOf(lines[at + 1] ?? "") >= Math.min(indent, 2) && (lines[at + 1] ?? "") !== "";
  }
  if (indentOf(line) >= Math.min(indent, 2)) return true;
  const isNew = ITEM.test(line) || HEADING.test(line) || FENCE.test(line) || QUOTE.test(line);
  return !isNew && !RULE.test(line) && (lines[at - 1] ?? "").trim() !== "";
}

function indentOf(line: string): number {
  return line.length - line.trimStart().length;
}

function dedent(line: string, most: number): string {
  return line.slice(Math.min(most, indentOf(line)));
}

function readTable(lines: string[], at: number): Read {
  const head = lines[at] ?? "";
  if (!head.includes("|") || !TABLE_LINE.test(lines[at + 1] ?? "")) return null;
  const cells = splitRow(head);
  if (cells.length !== splitRow(lines[at + 1] ?? "").length) return null;
  const rows: Inline[][][] = [];
  let end = at + 2;
  while (end < lines.length && (lines[end] ?? "").includes("|")) {
    rows.push(splitRow(lines[end] ?? "").map((cell) => parseInline(cell)));
    end++;
  }
  return [{ type: "table", head: cells.map((cell) => parseInline(cell)), rows }, end];
}

function splitRow(line: string): string[] {
  const inner = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  return inner.split("|").map((cell) => cell.trim());
}

function readParagraph(lines: string[], at: number): [Block, number] {
  let end = at + 1;
  while (end < lines.length && !interrupts(lines[end] ?? "")) end++;
  return [{ type: "paragraph", children: parseInline(joinLines(lines.slice(at, end))) }, end];
}

/** A long line was wrapped by its writer and goes on; a short one was meant to end there. */
function joinLines(lines: string[]): string {
  return lines
    .map((line, number) => {
      if (number === lines.length - 1) return line;
      return line.length < WRAPPED_CHARACTERS || /( {2}|\\)$/.test(line) ? `${line}\n` : `${line} `;
    })
    .join("");
}

function interrupts(line: string): boolean {
  return (
    line.trim() === "" ||
    [FENCE, HEADING, RULE, QUOTE, ITEM].some((pattern) => pattern.test(line)) ||
    line.trimStart().startsWith("|")
  );
}

const MARKS: [string, "strong" | "em" | "del"][] = [
  ["**", "strong"],
  ["__", "strong"],
  ["~~", "del"],
  ["*", "em"],
  ["_", "em"],
];

/** Return the parts of a text within a block. */
export function parseInline(text: string, depth = 0): Inline[] {
  const parts: Inline[] = [];
  const closings: Closings = new Map();
  let plain = "";
  let at = 0;
  const put = (part: Inline, next: number) => {
    if (plain) parts.push({ type: "text", text: plain });
    plain = "";
    parts.push(part);
    at = next;
  };
  while (at < text.length) {
    const escaped = text[at] === "\\" && /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "");
    if (escaped) {
      plain += text[at + 1];
      at += 2;
      continue;
    }
    const found =
      readCode(text, at, closings) ??
      (depth < MAX_DEPTH
        ? (readLink(text, at, closings, depth) ?? readEmphasis(text, at, closings, depth))
        : null);
    if (found) put(...found);
    else plain += text[at++];
  }
  if (plain) parts.push({ type: "text", text: plain });
  return parts;
}

type Found = [Inline, number] | null;

/** Where each mark was found last, or -1; so each part of a text is searched for a mark once. */
type Closings = Map<string, number>;

/** Return where a mark is closed, or -1. A later search for the same mark starts further on. */
function findClosing(text: string, mark: string, from: number, closings: Closings): number {
  const known = closings.get(mark);
  if (known !== undefined && (known < 0 || known >= from)) return known;
  const end = text.indexOf(mark, from);
  closings.set(mark, end);
  return end;
}

function readCode(text: string, at: number, closings: Closings): Found {
  if (text[at] !== "`") return null;
  const end = findClosing(text, "`", at + 1, closings);
  return end > at + 1 ? [{ type: "code", text: text.slice(at + 1, end) }, end + 1] : null;
}

function readLink(text: string, at: number, closings: Closings, depth: number): Found {
  if (text[at] !== "[") return null;
  const middle = findClosing(text, "](", at + 1, closings);
  // A label that goes on for pages is no label; the bound keeps the time linear.
  if (middle < 0 || middle - at > 1000) return null;
  const label = text.slice(at + 1, middle);
  const end = findClosing(text, ")", middle + 2, closings);
  if (end < 0 || end - middle > 2000 || label.includes("[") || label.includes("\n\n")) return null;
  const target = text.slice(middle + 2, end).trim();
  return [{ type: "link", target, children: parseInline(label, depth + 1) }, end + 1];
}

function readEmphasis(text: string, at: number, closings: Closings, depth: number): Found {
  for (const [mark, type] of MARKS) {
    if (!text.startsWith(mark, at)) continue;
    const begin = at + mark.length;
    const isOpening = /\S/.test(text[begin] ?? " ") && text[begin] !== mark[0];
    // `snake_case` and `2*3` are no emphasis.
    if (!isOpening || /[\p{L}\p{N}]/u.test(text[at - 1] ?? "")) return null;
    const end = findClosing(text, mark, begin, closings);
    if (end <= begin || /\s/.test(text[end - 1] ?? "") || text[end + mark.length] === mark[0]) {
      return null;
    }
    const children = parseInline(text.slice(begin, end), depth + 1);
    return [{ type, children }, end + mark.length];
  }
  return null;
}

/** Whether blocks look different from the text itself. */
export function isFormatted(blocks: Block[]): boolean {
  return blocks.some(
    (block) => block.type !== "paragraph" || block.children.some(({ type }) => type !== "text"),
  );
}

/** Return everything that a reader of the blocks sees, in order. */
export function visibleText(blocks: Block[]): string {
  return blocks.map(blockText).join("\n");
}

function blockText(block: Block): string {
  switch (block.type) {
    case "heading":
    case "paragraph":
      return inlineText(block.children);
    case "code":
      return `${block.name}\n${block.text}`;
    case "quote":
      return visibleText(block.blocks);
    case "list":
      return block.items
        .map(({ number, blocks }) => `${number ?? ""} ${visibleText(blocks)}`)
        .join("\n");
    case "table":
      return [block.head, ...block.rows].map((row) => row.map(inlineText).join(" ")).join("\n");
    case "rule":
      return "";
  }
}

function inlineText(parts: Inline[]): string {
  return parts
    .map((part) => {
      if ("text" in part) return part.text;
      const inner = inlineText(part.children);
      return part.type === "link" ? `${inner} (${part.target})` : inner;
    })
    .join("");
}

/** Return the address that a link may lead to; null for anything but a page of the web. */
export function safeTarget(target: string): string | null {
  if (!/^https?:\/\/[^\s]+$/i.test(target)) return null;
  try {
    const { protocol, username, password, href } = new URL(target);
    const isPlain = (protocol === "http:" || protocol === "https:") && !username && !password;
    return isPlain ? href : null;
  } catch {
    return null;
  }
}
