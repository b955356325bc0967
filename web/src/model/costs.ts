// What a run has cost after each reply.

import { factNumber, factText, type Item } from "./entries";
import { fromNanoDollars } from "./format";

export interface CostPoint {
  ts: number;
  /** Dollars, all together. */
  usd: number;
  index: number;
}

const BILLS = new Set(["reply/1", "report.step/1"]);

export function sumCosts(items: Item[]): CostPoint[] {
  const points: CostPoint[] = [];
  let usd = 0;
  for (const { entry, index } of items) {
    // A reply that a fork took over was paid by the other run.
    const isPaid = BILLS.has(entry.kind) && factText(entry, "source") !== "recorded";
    if (points.length && !isPaid) continue;
    usd += isPaid ? fromNanoDollars(factNumber(entry, "usd")) : 0;
    points.push({ ts: entry.ts, usd, index });
  }
  return points;
}
