import type { EntryCheck } from "../api/proof";
import { describeCheck, describeReading, describeWitnesses } from "../model/badge";
import type { Item } from "../model/entries";
import { formatNumberOf } from "../model/format";
import type { Proof } from "../prover/check";
import type { Verdict } from "../prover/messages";
import { CheckFacts, Fact } from "./CheckFacts";
import { Dialog } from "./Dialog";
import { Evidence } from "./Evidence";
import { StateMark } from "./StateMark";

interface CheckDetailsProps {
  check: EntryCheck;
  items: Item[];
  run: string | undefined;
  close: () => void;
}

/** What this browser has checked, with which keys, and what it has not checked. */
export function CheckDetails({ check, items, run, close }: CheckDetailsProps) {
  const state = check.state.value;
  const words = describeCheck(state, items);
  const proof = state.verdict?.state === "proven" ? state.verdict.proof : null;
  return (
    <Dialog label="What this browser has checked" class="wide" onClose={close}>
      <h2>What this browser has checked</h2>
      <p>
        <StateMark {...words} />
      </p>
      <Reason verdict={state.verdict} />
      {proof && <ProofFacts proof={proof} />}
      <CheckFacts />
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

export function Reason({ verdict }: { verdict: Verdict<unknown> | null }) {
  if (!verdict || verdict.state === "proven") return null;
  return <p class={verdict.state === "refuted" ? "note bad" : "note wait"}>{verdict.reason}</p>;
}

function ProofFacts({ proof }: { proof: Proof }) {
  return (
    <dl class="facts">
      <Fact name="tree">
        {formatNumberOf(proof.size, "entry", "entries")} with the root{" "}
        <code>{proof.root.slice(0, 16)}…</code>, signed by one of the keys below
      </Fact>
      <Fact name="read">{describeReading(proof)}</Fact>
      <Fact name="witnesses">{describeWitnesses(proof)}</Fact>
    </dl>
  );
}
