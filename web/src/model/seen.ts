// Which part of a text was on the screen, as ranges of its height.

export type Range = readonly [from: number, to: number];

/** Rounding of positions by the browser. */
const SLACK = 1;

/** Return ranges, in order and apart from each other, with one more. */
export function addRange(ranges: readonly Range[], [from, to]: Range): Range[] {
  if (to <= from) return [...ranges];
  const touches = ([start, end]: Range) => start <= to + SLACK && end >= from - SLACK;
  const joined = ranges.filter(touches);
  const whole: Range = [
    Math.min(from, ...joined.map(([start]) => start)),
    Math.max(to, ...joined.map(([, end]) => end)),
  ];
  const apart = ranges.filter((range) => !touches(range));
  return [...apart, whole].sort(([a], [b]) => a - b);
}

/** Return whether ranges leave nothing out of a height. */
export function isCovered(ranges: readonly Range[], height: number): boolean {
  return height > 0 && ranges.some(([from, to]) => from <= SLACK && to >= height - SLACK);
}
