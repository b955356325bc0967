// What a fork takes over from a run, and what it would do again.

import { factNumber, factText, type Item } from "./entries";
import { fromNanoDollars } from "./format";

/** Replies of models, what they cost this run in dollars, and effects of tools. */
export interface ForkShare {
  replies: number;
  usd: number;
  effects: number;
}

/** Split what was done in a run at an entry: before it, and after it. */
export function splitForFork(items: Item[], at: number): { taken: ForkShare; again: ForkShare } {
  const taken = { replies: 0, usd: 0, effects: 0 };
  const again = { replies: 0, usd: 0, effects: 0 };
  for (const { entry, index } of items) {
    // A call that was cut off by the cancellation of this run is made again.
    const isTaken = index <= at && factText(entry, "why") !== "cancelled";
    const share = isTaken ? taken : again;
    if (entry.kind === "reply/1") {
      share.replies++;
      share.usd += fromNanoDollars(factNumber(entry, "usd"));
    } else if (entry.kind === "outcome/1") share.effects++;
  }
  return { taken, again };
}
