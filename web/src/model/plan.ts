// The plan as a graph: tasks in layers from left to right, laid out by dagre.

import { Graph, layout } from "@dagrejs/dagre";
import type { PlannedForm, TaskForm } from "forumd-client";

export const NODE_WIDTH = 148;
export const NODE_HEIGHT = 52;

/** What the graph shows of a task. */
export type PlanTask = Pick<
  TaskForm,
  "id" | "needs" | "after" | "agent" | "state" | "attempts" | "spent" | "reason" | "entry"
>;

/** A task that nobody has begun. */
export function pendingTask({ id, needs, after, agent }: PlannedForm): PlanTask {
  const spent = { usd: "0", tokens: 0, calls: 0 };
  return { id, needs, after, agent, state: "pending", attempts: 0, spent, reason: "", entry: null };
}

export interface PlanNode {
  task: PlanTask;
  x: number;
  y: number;
}

export interface PlanEdge {
  from: string;
  to: string;
  /** Whether the task gets the output of the other, or only follows it. */
  isInput: boolean;
  /** An SVG path through the points that dagre chose, around the nodes between. */
  path: string;
}

export interface PlanLayout {
  nodes: PlanNode[];
  edges: PlanEdge[];
  width: number;
  height: number;
}

export function layOutPlan(tasks: PlanTask[]): PlanLayout {
  const graph = new Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 14, ranksep: 30, edgesep: 12, marginx: 2, marginy: 2 });
  graph.setDefaultEdgeLabel(() => ({}));
  const names = new Set(tasks.map((task) => task.id));
  for (const task of tasks) graph.setNode(task.id, { width: NODE_WIDTH, height: NODE_HEIGHT });
  const links = tasks.flatMap((task) =>
    [...new Set([...task.needs, ...task.after])]
      .filter((from) => names.has(from))
      .map((from) => ({ from, to: task.id, isInput: task.needs.includes(from) })),
  );
  for (const { from, to } of links) graph.setEdge(from, to);
  layout(graph);
  const size = graph.graph();
  return {
    nodes: tasks.map((task) => {
      const { x, y } = graph.node(task.id) as { x: number; y: number };
      return { task, x: x - NODE_WIDTH / 2, y: y - NODE_HEIGHT / 2 };
    }),
    edges: links.map((link) => {
      const { points } = graph.edge(link.from, link.to) as { points: Point[] };
      const [from, to] = [graph.node(link.from) as Point, graph.node(link.to) as Point];
      // From the right side of one task to the left side of the other, wherever dagre begins.
      const start = { x: from.x + NODE_WIDTH / 2, y: from.y };
      const end = { x: to.x - NODE_WIDTH / 2, y: to.y };
      return { ...link, path: drawCurve([start, ...points.slice(1, -1), end]) };
    }),
    width: size.width ?? 0,
    height: size.height ?? 0,
  };
}

interface Point {
  x: number;
  y: number;
}

/** A path through all points, which leaves and enters each of them horizontally. */
function drawCurve(points: Point[]): string {
  return points
    .map((point, number) => {
      const before = points[number - 1];
      if (!before) return `M${round(point)}`;
      const middle = (before.x + point.x) / 2;
      return `C${round({ x: middle, y: before.y })} ${round({ x: middle, y: point.y })} ${round(point)}`;
    })
    .join("");
}

function round({ x, y }: Point): string {
  return `${x.toFixed(1)},${y.toFixed(1)}`;
}
