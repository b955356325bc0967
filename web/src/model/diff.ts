// The difference of two texts, line by line.

import { formatNumberOf } from "./format";

export interface DiffLine {
  kind: "same" | "removed" | "added";
  text: string;
}

/** Lines above this number are not compared one by one: the table would be too large. */
const MAX_LINES = 2000;

/**
 * Return the shortest edit from one text to the other, by longest common subsequence. Null is no
 * text at all, which has no lines.
 */
export function diffLines(before: string | null, after: string | null): DiffLine[] {
  const old = before?.split("\n") ?? [];
  const now = after?.split("\n") ?? [];
  if (old.length > MAX_LINES || now.length > MAX_LINES) {
    return [...old.map((text) => line("removed", text)), ...now.map((text) => line("added", text))];
  }
  const width = now.length + 1;
  const common = new Uint16Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      const below = common[(i + 1) * width + j] ?? 0;
      const right = common[i * width + j + 1] ?? 0;
      const both = (common[(i + 1) * width + j + 1] ?? 0) + 1;
      common[i * width + j] = old[i] === now[j] ? both : Math.max(below, right);
    }
  }
  const lines: DiffLine[] = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      lines.push(line("same", old[i++] ?? ""));
      j++;
    } else if (
      j >= now.length ||
      (i < old.length && (common[(i + 1) * width + j] ?? 0) >= (common[i * width + j + 1] ?? 0))
    ) {
      lines.push(line("removed", old[i++] ?? ""));
    } else {
      lines.push(line("added", now[j++] ?? ""));
    }
  }
  return lines;
}

export interface ShownLine {
  kind: DiffLine["kind"] | "folded";
  text: string;
}

/** Leave out what both texts have, except for some lines around each change. */
export function foldSame(lines: DiffLine[], around = 3): ShownLine[] {
  const isNear = new Uint8Array(lines.length);
  lines.forEach(({ kind }, number) => {
    if (kind !== "same") isNear.fill(1, Math.max(0, number - around), number + around + 1);
  });
  const shown: ShownLine[] = [];
  for (let number = 0; number < lines.length; number++) {
    let end = number;
    while (end < lines.length && !isNear[end]) end++;
    const count = end - number;
    if (count > 1) {
      shown.push({ kind: "folded", text: `${formatNumberOf(count, "line")} are the same` });
      number = end - 1;
    } else {
      shown.push(lines[number] as DiffLine);
    }
  }
  return shown;
}

function line(kind: DiffLine["kind"], text: string): DiffLine {
  return { kind, text };
}
