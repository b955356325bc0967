import type { GateForm, RunForm, RunLine, Provenance as Source } from "forumd-client";
import { own } from "../model/own";
import { hasRelayedCalls } from "../model/runs";

const MEANING: Record<Source, string> = {
  driven: "Forum carried out every step.",
  relayed: "A gateway of Forum relayed and recorded each call of a model.",
  wrapped: "The SDK recorded the run inside the program.",
  reported: "A program reported the run afterwards.",
};

/** Where a run comes from, in the words of a choice. */
export const ORIGINS: Record<Source, string> = {
  driven: "carried out by Forum",
  relayed: "went through the gateway",
  wrapped: "recorded in its program",
  reported: "reported afterwards",
};

/** Who asks at a gate, in the words of a sentence; a program that Forum does not run is named so. */
export function describeAsker({ provenance, asked_by }: Asker): string {
  const by = asked_by || "unknown";
  const words: Record<Source, string> = {
    driven: `a run of Forum, submitted by ${by}`,
    relayed: `a gateway of Forum, for ${by}`,
    wrapped: `NOT a run of Forum: the program of ${by} asks through the SDK`,
    reported: `NOT a run of Forum: reported by ${by}`,
  };
  return own(words, provenance) ?? `NOT a run of Forum: ${provenance}, by ${by}`;
}

export type Asker = Pick<GateForm, "provenance" | "asked_by">;

/** Whether what a gate shows is only what a program says. */
export function isForeign({ provenance }: Asker): boolean {
  return provenance === "reported" || provenance === "wrapped";
}

/** How Forum knows of a run. A gateway that relayed nothing knows of no call. */
export function Provenance({ run }: { run: RunLine | RunForm }) {
  const from = run.provenance ?? "driven";
  if (from === "relayed" && !hasRelayedCalls(run)) {
    return (
      <span class="tag" title="The program ran, and Forum saw no call of a model.">
        no call came through Forum{run.outcome === null ? " yet" : ""}
      </span>
    );
  }
  return (
    <span class="tag" title={own(MEANING, from) ?? from}>
      {own(ORIGINS, from) ?? from}
    </span>
  );
}
