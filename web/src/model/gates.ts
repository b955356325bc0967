// What waits at a gate, in words, and as parts that are easier to read than its bytes.

/** Name what a gate is about: `plan`, `task/NAME`, `use/NAME/N`, `effect/NAME/N` or `dissent/NAME`. */
export function titleOfGate(subject: string): string {
  const [what = "", ...rest] = subject.split("/");
  const name = rest.slice(0, Math.max(1, rest.length - 1)).join("/");
  if (subject === "plan") return "the plan";
  if (what === "task" && rest.length > 0) return `the task ${rest.join("/")}`;
  if (what === "use" && rest.length > 1) return `a tool call of the task ${name}`;
  if (what === "effect" && rest.length > 1)
    return `whether a tool call of the task ${name} happened`;
  if (what === "dissent" && rest.length > 0)
    return `the answer of the council of the task ${rest.join("/")}`;
  return subject;
}

export interface ShownTask {
  id: string;
  instruction: string;
  /** All other members, as JSON; empty if there are none. */
  others: string;
}

export type GateText =
  | { type: "plan"; tasks: ShownTask[] }
  | { type: "use"; tool: string; arguments: string }
  | { type: "text" };

/**
 * Return what waits, taken apart. Nothing is left out: where the parts would not tell everything
 * that the text says, such as a member that is written twice, it stays a text.
 */
export function readGateText(subject: string, text: string): GateText {
  const content = parseExactly(text);
  if (subject === "plan") return readPlan(content) ?? { type: "text" };
  if (subject.startsWith("use/")) return readUse(content) ?? { type: "text" };
  return { type: "text" };
}

type Members = Record<string, unknown>;

/** Parse JSON that is written as this browser would write it, so that no member is hidden. */
function parseExactly(text: string): Members | null {
  try {
    const content: unknown = JSON.parse(text);
    return isObject(content) && JSON.stringify(content) === text.trim() ? content : null;
  } catch {
    return null;
  }
}

function isObject(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function readPlan(content: Members | null): GateText | null {
  const { tasks, ...rest } = content ?? {};
  if (!Array.isArray(tasks) || Object.keys(rest).length > 0) return null;
  const shown: ShownTask[] = [];
  for (const task of tasks) {
    const { id, instruction, ...others } = isObject(task) ? task : {};
    if (typeof id !== "string" || typeof instruction !== "string") return null;
    const more = Object.keys(others).length > 0 ? JSON.stringify(others, null, 1) : "";
    shown.push({ id, instruction, others: more });
  }
  return { type: "plan", tasks: shown };
}

function readUse(content: Members | null): GateText | null {
  const { tool, arguments: given, ...rest } = content ?? {};
  if (typeof tool !== "string" || typeof given !== "string" || Object.keys(rest).length)
    return null;
  return { type: "use", tool, arguments: given };
}
