// The axis of a timeline. Times in which nothing works, such as a gate that waits for a day, are
// cut out: they get a short piece of fixed width, which says how long it was.

import type { Span } from "./spans";

export interface AxisPiece {
  from: number;
  to: number;
  /** Where the piece begins and how wide it is, from 0 to 1. */
  start: number;
  width: number;
  isCut: boolean;
}

export interface Axis {
  pieces: AxisPiece[];
  /** The place of a moment, from 0 to 1. */
  place: (moment: number) => number;
}

const CUT_WIDTH = 0.05;
/** A pause is cut out if it is longer than this share of the work. */
const MIN_CUT_SHARE = 0.15;

export function makeAxis(spans: Span[], now: number): Axis {
  const busy = mergeWork(spans, now);
  const first = Math.min(...spans.map((span) => span.from), now);
  const last = Math.max(first + 1, ...spans.map((span) => span.to ?? now));
  const worked = busy.reduce((sum, [from, to]) => sum + to - from, 0) || 1;
  const raw: { from: number; to: number; isCut: boolean }[] = [];
  let at = first;
  const add = (to: number, isCut: boolean) => {
    const before = raw.at(-1);
    if (before && !before.isCut && !isCut) before.to = to;
    else if (to > at) raw.push({ from: at, to, isCut });
    at = to;
  };
  for (const [from, to] of busy) {
    if (from > at) add(from, from - at > worked * MIN_CUT_SHARE);
    add(Math.max(to, at), false);
  }
  if (last > at) add(last, last - at > worked * MIN_CUT_SHARE);
  return layOut(raw);
}

/** The intervals in which something works, one after the other. */
function mergeWork(spans: Span[], now: number): [number, number][] {
  const merged: [number, number][] = [];
  const work = spans
    .filter((span) => !span.isWait)
    .map((span) => [span.from, span.to ?? now] as const);
  for (const [from, to] of work.sort((a, b) => a[0] - b[0])) {
    const before = merged.at(-1);
    if (before && from <= before[1]) before[1] = Math.max(before[1], to);
    else merged.push([from, to]);
  }
  return merged;
}

function layOut(raw: { from: number; to: number; isCut: boolean }[]): Axis {
  const cuts = raw.filter((piece) => piece.isCut).length;
  const cutWidth = Math.min(CUT_WIDTH, 0.4 / (cuts || 1));
  const shown =
    raw.filter((piece) => !piece.isCut).reduce((sum, { from, to }) => sum + to - from, 0) || 1;
  const forWork = cuts === raw.length ? 0 : 1 - cuts * cutWidth;
  let start = 0;
  const pieces = raw.map(({ from, to, isCut }) => {
    const width = isCut ? (forWork ? cutWidth : 1 / cuts) : (forWork * (to - from)) / shown;
    const piece = { from, to, isCut, start, width };
    start += width;
    return piece;
  });
  const place = (moment: number) => {
    const piece = pieces.find(({ to }) => moment <= to) ?? pieces.at(-1);
    if (!piece) return 0;
    const share = (moment - piece.from) / (piece.to - piece.from || 1);
    return piece.start + piece.width * Math.min(1, Math.max(0, share));
  };
  return { pieces, place };
}
