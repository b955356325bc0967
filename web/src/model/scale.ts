// Scales of pictures, from 0 to a round number.

/** The next round number: one digit, or 15 or 25, times a power of ten. */
export function roundUp(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const step =
    [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((factor) => value <= factor * power * (1 + 1e-9)) ??
    10;
  return step * power;
}

/** A value as a share of its scale, in per cent. */
export function placeOn(value: number, top: number): number {
  return (Math.min(top, Math.max(0, value)) / top) * 100;
}
