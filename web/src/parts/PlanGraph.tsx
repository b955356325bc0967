import { useMemo } from "preact/hooks";
import { formatDollars, formatNumberOf } from "../model/format";
import { layOutPlan, NODE_HEIGHT, NODE_WIDTH, type PlanNode, type PlanTask } from "../model/plan";
import { Mark, toneOf } from "./StateMark";

interface PlanGraphProps {
  tasks: PlanTask[];
  chosen?: number | null;
  /** What a press on a task does. Without it nobody has begun the plan. */
  onChoose?: (entry: number) => void;
}

/** The plan as a graph: a task stands to the right of all that it waits for. */
export function PlanGraph({ tasks, chosen = null, onChoose }: PlanGraphProps) {
  const { nodes, edges, width, height } = useMemo(() => layOutPlan(tasks), [tasks]);
  const passed = tasks.filter((task) => task.state === "passed").length;
  return (
    <section class="card">
      <div class="card-head">
        <h2>Plan</h2>
        <span class="small quiet">
          {onChoose
            ? `${passed} of ${formatNumberOf(tasks.length, "task")} passed`
            : `${tasks.length} ${tasks.length === 1 ? "task" : "tasks"}`}
        </span>
        {edges.length > 0 && <Legend />}
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, also by keyboard */}
      <section class="scroll" tabIndex={0} aria-label="Plan, scrollable">
        <div class="plan" style={{ width: `${width}px`, height: `${height}px` }}>
          <svg width={width} height={height} aria-hidden="true">
            {edges.map(({ from, to, isInput, path }) => (
              <path key={`${from} ${to}`} class={isInput ? "edge" : "edge after"} d={path} />
            ))}
          </svg>
          {nodes.map((node) => (
            <TaskNode key={node.task.id} node={node} chosen={chosen} onChoose={onChoose} />
          ))}
        </div>
      </section>
    </section>
  );
}

function Legend() {
  return (
    <span class="small quiet end legend">
      <svg width="28" height="8" aria-hidden="true">
        <path class="edge" d="M0,4H28" />
      </svg>
      gets the result
      <svg width="28" height="8" aria-hidden="true">
        <path class="edge after" d="M0,4H28" />
      </svg>
      only follows
    </span>
  );
}

interface TaskNodeProps {
  node: PlanNode;
  chosen: number | null;
  onChoose: ((entry: number) => void) | undefined;
}

function TaskNode({ node: { task, x, y }, chosen, onChoose }: TaskNodeProps) {
  const shape = {
    class: `node edge-${toneOf(task.state)}`,
    style: {
      left: `${x}px`,
      top: `${y}px`,
      width: `${NODE_WIDTH}px`,
      height: `${NODE_HEIGHT}px`,
    },
    title: describeTask(task),
  };
  const content = (
    <>
      <span class="row-tight strong">
        <Mark state={task.state} />
        <span class="hidden-label">{task.state}</span>
        <span class="clip">{task.id}</span>
        {task.attempts > 1 && <span class="attempts">{task.attempts}×</span>}
      </span>
      <span class="small quiet clip">
        {task.agent || "default"}
        {Number(task.spent.usd) > 0 && ` · ${formatDollars(task.spent.usd)}`}
      </span>
    </>
  );
  if (!onChoose) return <div {...shape}>{content}</div>;
  return (
    <button
      {...shape}
      type="button"
      aria-pressed={task.entry !== null && task.entry === chosen}
      onClick={() => task.entry !== null && onChoose(task.entry)}
    >
      {content}
    </button>
  );
}

function describeTask(task: PlanTask): string {
  const parts = [`${task.id}: ${task.state}`];
  if (task.attempts > 1) parts.push(`${formatNumberOf(task.attempts, "attempt")}`);
  if (task.needs.length) parts.push(`needs ${task.needs.join(", ")}`);
  if (task.after.length) parts.push(`after ${task.after.join(", ")}`);
  if (task.reason) parts.push(task.reason);
  return parts.join("; ");
}
