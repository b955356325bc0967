// Who is asked by the calls of a run. A run within, such as that of a panel, has no agent of its own.

import { type Entry, factText, type Item } from "./entries";

/** The agent and the model in the call of a run within. */
const RUN_WITHIN = "run";

/** Return the names of those who are asked by calls, by the index of the call. */
export function nameCalls(items: Item[]): Map<number, string> {
  const names = new Map<number, string>();
  const judging = new Map<string, number>();
  for (const { entry, index } of items) {
    const judge = factText(entry, "judge");
    if (entry.kind === "call/1") {
      names.set(index, nameCall(entry));
      // Only a panel is asked in a role by a run within; its verdict names it.
      if (isRunWithin(entry) && factText(entry, "role")) judging.set(entry.strand, index);
    } else if (entry.kind === "verdict/1" && judge) {
      setName(names, judging.get(entry.strand), judge);
    } else if (entry.kind === "check/1" && judge) {
      for (const [strand, call] of judging)
        if (strand.startsWith(`role/${factText(entry, "subject")}`)) setName(names, call, judge);
    }
  }
  return names;
}

function setName(names: Map<number, string>, call: number | undefined, judge: string): void {
  if (call !== undefined) names.set(call, `panel ${judge}`);
}

function nameCall(entry: Entry): string {
  const [agent, model, role] = [
    factText(entry, "agent"),
    factText(entry, "model"),
    factText(entry, "role"),
  ];
  if (isRunWithin(entry)) return role ? `panel of the ${role}` : "a run within";
  return [agent || "the default agent", model && `(${model})`].filter(Boolean).join(" ");
}

function isRunWithin(entry: Entry): boolean {
  return factText(entry, "agent") === RUN_WITHIN && factText(entry, "model") === RUN_WITHIN;
}
