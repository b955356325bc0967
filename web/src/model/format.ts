// Numbers, times and texts as pages show them.

import hiddenCharacters from "./hidden_characters.json";

const NANO = 1_000_000_000;
const EXACT = { minimumFractionDigits: 2, maximumFractionDigits: 9, useGrouping: false };

/** Dollars for reading: two digits, or for less than a dollar as many as tell something. */
export function formatDollars(amount: number | string): string {
  const value = Number(amount);
  if (value === 0) return "$0";
  const digits = value >= 1 ? 2 : Math.min(6, Math.max(2, 1 - Math.floor(Math.log10(value)) + 1));
  const text = value.toFixed(digits).replace(/(\.\d\d(?:\d*[1-9])?)0+$/, "$1");
  return `$${text}`;
}

/** Dollars that were spent of a cap, with as many digits as tell the two apart. */
export function formatSpent(spent: number | string, cap: number | string | null): string {
  const short = formatDollars(spent);
  const isOther = cap !== null && Number(spent) !== Number(cap);
  return isOther && short === formatDollars(cap)
    ? `$${Number(spent).toLocaleString("en", EXACT)}`
    : short;
}

/** Dollars of a fact, which counts billionths. */
export function fromNanoDollars(amount: number): number {
  return amount / NANO;
}

/** A duration in at most two units: `340 ms`, `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`. */
export function formatDuration(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 10) return `${seconds.toFixed(1).replace(/\.0$/, "")} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const units: [number, string, number, string][] = [
    [86_400, "d", 3600, "h"],
    [3600, "h", 60, "min"],
    [60, "min", 1, "s"],
  ];
  for (const [size, name, smaller, smallerName] of units) {
    if (whole < size) continue;
    const rest = Math.floor((whole % size) / smaller);
    return rest
      ? `${Math.floor(whole / size)} ${name} ${rest} ${smallerName}`
      : `${Math.floor(whole / size)} ${name}`;
  }
  return `${whole} s`;
}

export function formatCount(count: number): string {
  return count.toLocaleString("en");
}

/** A number with its noun, in the singular or the plural. */
export function formatNumberOf(count: number, noun: string, plural = `${noun}s`): string {
  return `${formatCount(count)} ${count === 1 ? noun : plural}`;
}

export function formatBytes(count: number): string {
  if (count < 1024) return `${count} B`;
  if (count < 1024 ** 2) return `${(count / 1024).toFixed(1)} kB`;
  return `${(count / 1024 ** 2).toFixed(1)} MB`;
}

/** The time of an entry within its day, in UTC, to the millisecond. */
export function formatClock(microseconds: number): string {
  return new Date(microseconds / 1000).toISOString().slice(11, 23);
}

/** How long ago, or how far ahead, a moment is. */
export function formatAge(moment: number, now: number): string {
  const distance = Math.abs(now - moment);
  const text =
    distance < 60_000 ? "a moment" : formatDuration(distance).split(" ").slice(0, 2).join(" ");
  return moment <= now ? `${text} ago` : `in ${text}`;
}

/** The first part of an id, as the command line shows it. */
export function shortId(id: string): string {
  return id.slice(0, 18);
}

// One list for the terminal and for this page.
const RANGES = hiddenCharacters.ranges
  .map(([first, last]) => `\\u{${first}}-\\u{${last}}`)
  .join("");
const JOINERS = hiddenCharacters.joiners.map((joiner) => `\\u{${joiner}}`).join("");
// A row of joiners could carry a hidden text; only U+FE0F and U+200D follow each other in emoji.
const JOINED = `(?<!(?![${JOINERS}])[\\p{So}\\p{Sk}\\p{Mn}\\p{Mc}])(?<!\\u{FE0F}(?=\\u{200D}))`;
const HIDDEN = `${JOINED}[${JOINERS}]|(?![${JOINERS}])[${RANGES}]`;
// More marks than any script puts on one letter: they cover other lines, or stop the browser.
const STACKED = "\\p{M}{9,}";
const SPLITTER = new RegExp(`(${STACKED}|${HIDDEN})`, "u");

/** Split a text into pieces that are shown as they are and pieces that nobody could read. */
export function splitHidden(text: string): { text: string; hidden: boolean }[] {
  // Every second piece is what was split at.
  return text
    .split(SPLITTER)
    .map((piece, number) => ({ piece, isHidden: number % 2 === 1 }))
    .filter(({ piece }) => piece !== "")
    .map(({ piece, isHidden }) =>
      isHidden
        ? { text: Array.from(piece, nameCodePoint).join(" "), hidden: true }
        : { text: piece, hidden: false },
    );
}

function nameCodePoint(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}
