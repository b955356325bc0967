import { useState } from "preact/hooks";
import type { ListCheck } from "../api/listProof";
import { usePinnedLog } from "../api/proof";
import { describeWitnesses } from "../model/badge";
import {
  describeList,
  describeProven,
  describeUnproven,
  type RunListing,
  reasonNotChecked,
} from "../model/listBadge";
import { Reason } from "./CheckDetails";
import { CheckFacts, Fact } from "./CheckFacts";
import { Dialog } from "./Dialog";
import { Evidence } from "./Evidence";
import { PinDialog } from "./PinDialog";
import { Mark, StateMark, toneOf } from "./StateMark";
import "./Badge.css";

interface ListBadgeProps {
  /** Null where no policy is pinned, and for a list with filters. */
  check: ListCheck | null;
  /** What is on the screen; null while it is loaded. */
  listing: RunListing | null;
  isFiltered: boolean;
}

/** How far this browser has proven that a list of runs is whole. */
export function ListBadge({ check, listing, isFiltered }: ListBadgeProps) {
  const [isOpen, setOpen] = useState(false);
  const { origin, pin } = usePinnedLog();
  const { state, label } = describeList(check?.state.value ?? null, listing, isFiltered);
  const close = () => setOpen(false);
  return (
    <>
      <button
        type="button"
        class={`badge tone-${toneOf(state)}`}
        aria-haspopup="dialog"
        onClick={() => setOpen(true)}
      >
        <Mark state={state} />
        {label}
      </button>
      {isOpen && pin && (
        <ListDetails check={check} listing={listing} isFiltered={isFiltered} close={close} />
      )}
      {isOpen && !pin && <PinDialog origin={origin} close={close} />}
    </>
  );
}

function ListDetails({
  check,
  listing,
  isFiltered,
  close,
}: ListBadgeProps & { close: () => void }) {
  const state = check?.state.value ?? null;
  const words = describeList(state, listing, isFiltered);
  const verdict = state?.verdict ?? null;
  const proof = verdict?.state === "proven" ? verdict.proof : null;
  return (
    <Dialog label="What this browser has checked of the list" class="wide" onClose={close}>
      <h2>What this browser has checked of the list</h2>
      <p>
        <StateMark {...words} />
      </p>
      {isFiltered && <p class="note wait">{reasonNotChecked(isFiltered)}</p>}
      <Reason verdict={verdict} />
      <dl class="facts">
        {proof && (
          <>
            <Fact name="proven">
              <Lines lines={describeProven(proof)} />
            </Fact>
            <Fact name="not proven">
              <Lines lines={describeUnproven(proof)} />
            </Fact>
            <Fact name="witnesses">{describeWitnesses(proof)}</Fact>
          </>
        )}
      </dl>
      <CheckFacts />
      <Evidence run={undefined} />
      <div class="row">
        <button type="button" class="primary" onClick={close}>
          Close
        </button>
        {check && (
          <button type="button" onClick={check.again}>
            Check again
          </button>
        )}
        <a href="#/log">What this browser remembers</a>
      </div>
    </Dialog>
  );
}

function Lines({ lines }: { lines: string[] }) {
  return (
    <div class="stack">
      {lines.map((line) => (
        <p key={line}>{line}</p>
      ))}
    </div>
  );
}

/** What this browser has found to be wrong with a list, or why it could not check it. */
export function ListNote({ check }: { check: ListCheck | null }) {
  const verdict = check?.state.value.verdict;
  if (!verdict || verdict.state === "proven") return null;
  if (verdict.state === "failed") {
    return (
      <p class="note wait" role="status">
        This browser could not check whether the list is whole. {verdict.reason} It tries again.
      </p>
    );
  }
  return (
    <div class="note bad stack" role="alert">
      <p>
        <strong>{verdict.reason}</strong> Do not rely on this list.
      </p>
      <Evidence run={undefined} />
    </div>
  );
}
