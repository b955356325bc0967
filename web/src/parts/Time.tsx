import { formatAge } from "../model/format";

/** A moment as its distance from now; the exact one is in the title. */
export function Time({ at, now = Date.now() }: { at: string | number; now?: number }) {
  const date = new Date(at);
  return (
    <time dateTime={date.toISOString()} title={date.toISOString()}>
      {formatAge(date.getTime(), now)}
    </time>
  );
}
