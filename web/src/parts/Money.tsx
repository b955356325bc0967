import { formatSpent } from "../model/format";

interface MoneyProps {
  usd: string | number;
  /** What it must differ from to the eye if it does. */
  cap?: number | null;
}

/** An amount in dollars, short; the exact one is in the title. */
export function Money({ usd, cap = null }: MoneyProps) {
  return <span title={`$${usd}`}>{formatSpent(usd, cap)}</span>;
}
