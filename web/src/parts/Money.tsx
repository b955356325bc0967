import { formatDollars } from "../model/format";

/** An amount in dollars, short; the exact one is in the title. */
export function Money({ usd }: { usd: string | number }) {
  return <span title={`$${usd}`}>{formatDollars(usd)}</span>;
}
