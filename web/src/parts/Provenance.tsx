import type { Provenance as Source } from "forumd-client";

const MEANING: Record<Source, string> = {
  driven: "Forum carried out every step.",
  relayed: "A gateway of Forum relayed and recorded each call of a model.",
  wrapped: "The SDK recorded the run inside the program.",
  reported: "A program reported the run afterwards.",
};

/** How Forum knows of a run. */
export function Provenance({ of }: { of: Source }) {
  return (
    <span class="tag" title={MEANING[of]}>
      {of}
    </span>
  );
}
