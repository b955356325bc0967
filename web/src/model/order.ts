// A request as it is typed, as the API takes it, and which field an error is about.

import type { AskForm, CapForm, ModelForm, PlanForm, TaskAsk } from "forumd-client";
import { formatNumberOf } from "./format";

/** The fields of the form. All are texts until they are read. */
export interface Draft {
  request: string;
  lane: string;
  /** Who works: `team`, `one`, or as the project's settings say. */
  worker: string;
  /** A plan as JSON; empty if Forum is to make it. */
  tasks: string;
  usd: string;
  calls: string;
  tokens: string;
  seconds: string;
}

export type Field = keyof Draft;
/** What is wrong, by the field that it is about; without a field it is under `""`. */
export type Faults = Partial<Record<Field | "", string>>;

export const EMPTY_DRAFT: Draft = {
  request: "",
  lane: "",
  worker: "",
  tasks: "",
  usd: "",
  calls: "",
  tokens: "",
  seconds: "",
};

const DOLLARS = /^\s*\d{1,9}(\.\d{1,9})?\s*$/;
const SECONDS = /^\s*\d{1,9}(\.\d{1,3})?\s*$/;
const WHOLE = /^\s*\d{1,15}\s*$/;

/** Read the form. The order is null if there is a fault. */
export function readDraft(draft: Draft): { order: AskForm | null; faults: Faults } {
  const faults: Faults = {};
  if (!draft.request.trim()) faults.request = "Say what is to be done.";
  if (!draft.usd.trim()) {
    faults.usd = "Say how many dollars the run may cost at most. 0 allows free agents only.";
  } else if (!DOLLARS.test(draft.usd)) {
    faults.usd = "Write dollars as a number, such as 0.50.";
  }
  for (const name of ["calls", "tokens"] as const) {
    if (draft[name].trim() && !WHOLE.test(draft[name])) faults[name] = "Write a whole number.";
  }
  if (draft.seconds.trim() && !SECONDS.test(draft.seconds)) {
    faults.seconds = "Write seconds as a number, such as 600.";
  }
  const tasks = readTasks(draft.tasks);
  if (typeof tasks === "string") faults.tasks = tasks;
  if (typeof tasks === "string" || Object.keys(faults).length > 0) return { order: null, faults };
  const [calls, tokens, seconds] = [draft.calls.trim(), draft.tokens.trim(), draft.seconds.trim()];
  const order: AskForm = {
    request: draft.request,
    // With a plan, each task names its lane.
    ...(tasks.length ? { tasks } : draft.lane && { lane: draft.lane }),
    ...(draft.worker && { team: draft.worker === "team" }),
    budget: {
      usd: draft.usd.trim(),
      ...(calls && { calls: Number(calls) }),
      ...(tokens && { tokens: Number(tokens) }),
      ...(seconds && { seconds }),
    },
  };
  return { order, faults };
}

/** The tasks of a plan in JSON, or what is wrong with it. What a task holds the server checks. */
function readTasks(text: string): TaskAsk[] | string {
  if (!text.trim()) return [];
  try {
    const read = JSON.parse(text) as { tasks?: unknown } | unknown[];
    const tasks = Array.isArray(read) ? read : read?.tasks;
    if (Array.isArray(tasks)) return tasks as TaskAsk[];
  } catch (error) {
    return `This is not JSON: ${(error as Error).message}`;
  }
  return 'Write a list of tasks, or an object with "tasks", as in a plan file.';
}

const PLACES: [RegExp, Field][] = [
  [/\$\.request\b/, "request"],
  [/\bbudget\.usd\b/, "usd"],
  [/\bbudget\.calls\b/, "calls"],
  [/\bbudget\.tokens\b/, "tokens"],
  [/\bbudget\.seconds\b/, "seconds"],
  [/\$\.tasks\b|\btasks?\b/, "tasks"],
  [/\blane\b/, "lane"],
];

/** Put the server's refusal beside the field that it is about. */
export function placeFault(detail: string, order: AskForm): Faults {
  const text = detail.replace(/^(in the body|this cannot be run): /, "");
  const field = PLACES.find(([pattern]) => pattern.test(text))?.[1] ?? "";
  const isShown = field !== "tasks" || order.tasks !== undefined;
  if (field === "lane" && order.tasks) return { tasks: text };
  return { [isShown ? field : ""]: text };
}

/** The limits of a run in words, the strictest for a purse first. */
export function describeCap({ usd, calls, tokens, seconds }: CapForm): string {
  return [
    usd !== null && `$${usd}`,
    calls !== null && formatNumberOf(calls, "call"),
    tokens !== null && formatNumberOf(tokens, "token"),
    seconds !== null && formatNumberOf(seconds, "second"),
  ]
    .filter(Boolean)
    .join(", ");
}

/** Whether the operator allows less than was asked for. */
export function isLowered(order: AskForm, plan: PlanForm): boolean {
  return plan.cap.usd !== null && Number(plan.cap.usd) < Number(order.budget?.usd);
}

/** Whether no agent has a price, so that a cap in dollars stops nothing. */
export function isUnpriced(agents: ModelForm[]): boolean {
  return agents.every(({ price }) =>
    [price.input_usd, price.output_usd, price.call_usd].every((usd) => !Number(usd)),
  );
}
