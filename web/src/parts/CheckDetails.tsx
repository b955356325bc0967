import type { ComponentChildren } from "preact";
import { readSeen } from "../api/memory";
import type { EntryCheck } from "../api/proof";
import { type CheckState, describeCheck, describeReading, describeWitnesses } from "../model/badge";
import type { Item } from "../model/entries";
import { formatCount } from "../model/format";
import type { Pin } from "../model/memory";
import type { Proof } from "../prover/check";
import { Dialog } from "./Dialog";
import { Evidence } from "./Evidence";
import { StateMark } from "./StateMark";
import { Time } from "./Time";

interface CheckDetailsProps {
  check: EntryCheck;
  items: Item[];
  origin: string;
  pin: Pin;
  run: string | undefined;
  close: () => void;
}

/** What this browser has checked, with which keys, and what it has not checked. */
export function CheckDetails({ check, items, origin, pin, run, close }: CheckDetailsProps) {
  const state = check.state.value;
  const words = describeCheck(state, items);
  const proof = state.verdict?.state === "proven" ? state.verdict.proof : null;
  const seen = readSeen(origin);
  return (
    <Dialog label="What this browser has checked" class="wide" onClose={close}>
      <h2>What this browser has checked</h2>
      <p>
        <StateMark {...words} />
      </p>
      <Reason state={state} />
      {proof && <ProofFacts proof={proof} />}
      <dl class="facts">
        <Fact name="log">
          <code>{origin}</code>
        </Fact>
        <Fact name="keys">
          pinned by you <Time at={pin.at} />
        </Fact>
        <Fact name="memory">
          {seen ? (
            <>
              {formatCount(seen.size)} entries, seen <Time at={seen.at} />. A log that does not
              continue them turns this badge red.
            </>
          ) : (
            "This browser remembers no tree of this log yet."
          )}
        </Fact>
      </dl>
      {run && (
        <p class="small quiet">
          State, cost, request, plan and council on this page are what the server makes of the
          entries. This browser has checked the entries, not the summary. A text is compared with
          its entry where a mark says so.
        </p>
      )}
      <Evidence run={run} />
      <div class="row">
        <button type="button" class="primary" onClick={close}>
          Close
        </button>
        <button type="button" onClick={check.again}>
          Check again
        </button>
        <a href="#/log">What this browser remembers</a>
      </div>
    </Dialog>
  );
}

function Reason({ state }: { state: CheckState }) {
  const { verdict } = state;
  if (!verdict || verdict.state === "proven") return null;
  return <p class={verdict.state === "refuted" ? "note bad" : "note wait"}>{verdict.reason}</p>;
}

function ProofFacts({ proof }: { proof: Proof }) {
  return (
    <dl class="facts">
      <Fact name="tree">
        {formatCount(proof.size)} entries with the root <code>{proof.root.slice(0, 16)}…</code>,
        signed by a key that you pinned
      </Fact>
      <Fact name="read">{describeReading(proof)}</Fact>
      <Fact name="witnesses">{describeWitnesses(proof)}</Fact>
    </dl>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
