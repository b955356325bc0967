import type { ComponentChildren } from "preact";
import { readSeen } from "../api/memory";
import type { EntryCheck } from "../api/proof";
import { type CheckState, describeCheck, describeReading, describeWitnesses } from "../model/badge";
import type { Item } from "../model/entries";
import { formatNumberOf } from "../model/format";
import { describeOrigin, type Pin } from "../model/memory";
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
          {pin.isHandedOver ? (
            <>
              {describeOrigin(pin)} <Time at={pin.at} />. Whoever rewrites the log later is found
              out. That these keys are the right ones, only somebody can tell you who knows them:
              compare them with <code>forum ledger policy</code>, or forget them under Log and pin
              the ones that you were given.
            </>
          ) : (
            <>
              {describeOrigin(pin)} <Time at={pin.at} />
            </>
          )}
        </Fact>
        <Fact name="memory">
          {seen ? (
            <>
              {formatNumberOf(seen.size, "entry", "entries")}, seen <Time at={seen.at} />. A log
              that does not continue them turns this badge red.
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
        {formatNumberOf(proof.size, "entry", "entries")} with the root{" "}
        <code>{proof.root.slice(0, 16)}…</code>, signed by one of the keys below
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
