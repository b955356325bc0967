// A state as a shape, a word and a colour; the shape and the word are enough.

import { own } from "../model/own";

export type Tone = "ok" | "bad" | "wait" | "busy" | "idle";

const STATES: Record<string, [Tone, string]> = {
  ok: ["ok", "M4 8.5l3 3 5.5-6.5"],
  passed: ["ok", "M4 8.5l3 3 5.5-6.5"],
  failed: ["bad", "M4.5 4.5l7 7m0-7l-7 7"],
  denied: ["bad", "M3.5 8a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0m1.3 3.2l6.4-6.4"],
  timeout: ["bad", "M3.5 8a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0m4.5-3v3l2 1.5"],
  stopped: ["bad", "M4.5 4.5h7v7h-7z"],
  budget: ["bad", "M4.5 4.5h7v7h-7z"],
  overrun: ["bad", "M4.5 4.5h7v7h-7z"],
  depth: ["bad", "M4.5 4.5h7v7h-7z"],
  repeat: ["bad", "M4.5 4.5h7v7h-7z"],
  "ping-pong": ["bad", "M4.5 4.5h7v7h-7z"],
  turns: ["bad", "M4.5 4.5h7v7h-7z"],
  lost: ["bad", "M4.5 4.5h7v7h-7z"],
  rejected: ["bad", "M4.5 4.5h7v7h-7z"],
  error: ["bad", "M4.5 4.5h7v7h-7z"],
  role: ["bad", "M4.5 4.5h7v7h-7z"],
  blocked: ["bad", "M4.5 4.5h7v7h-7z"],
  split: ["wait", "M5.5 4v8m5-8v8"],
  interrupted: ["bad", "M8 3.5v6m0 2.5v.5"],
  indeterminate: ["wait", "M6 6a2 2 0 1 1 2.6 2c-.5.3-.6.6-.6 1.2m0 2.3v.5"],
  waiting: ["wait", "M5.5 4v8m5-8v8"],
  running: ["busy", "M6 4l6 4-6 4z"],
  accepted: ["busy", "M3.5 8a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0"],
  cancelled: ["idle", "M4.5 4.5h7v7h-7z"],
  skipped: ["idle", "M4 8h8"],
  pending: ["idle", "M3.5 8a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0"],
};
const UNKNOWN: [Tone, string] = ["idle", "M7 8h2"];

export function toneOf(state: string): Tone {
  return (own(STATES, state) ?? UNKNOWN)[0];
}

export function Mark({ state }: { state: string }) {
  return (
    <svg
      class={`mark tone-${toneOf(state)}`}
      viewBox="0 0 16 16"
      width="16"
      height="16"
      aria-hidden="true"
    >
      <path
        d={(own(STATES, state) ?? UNKNOWN)[1]}
        fill="none"
        stroke="currentColor"
        stroke-width="1.8"
        stroke-linecap="round"
        stroke-linejoin="round"
      />
    </svg>
  );
}

/** A state with its mark. `label` says more than the state alone, such as `live`. */
export function StateMark({ state, label }: { state: string; label?: string }) {
  return (
    <span class={`state tone-${toneOf(state)}`}>
      <Mark state={state} />
      {label ?? state}
    </span>
  );
}
