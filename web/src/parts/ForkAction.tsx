import type { RunForm } from "forumd-client";
import { useMemo, useState } from "preact/hooks";
import { forkRun } from "../api/calls";
import type { Item } from "../model/entries";
import { type ForkShare, splitForFork } from "../model/fork";
import { formatCount, formatDollars } from "../model/format";
import { describeCap } from "../model/order";
import { makeTickets } from "../model/tickets";
import { address, go } from "../router";
import { Dialog } from "./Dialog";
import { ErrorNote } from "./Notes";
import { Permitted } from "./Permitted";

interface ForkActionProps {
  view: RunForm;
  items: Item[];
  /** The last entry that the fork takes over. */
  at: number;
}

/** Begin a run that takes over what this one has up to an entry. */
export function ForkAction({ view, items, at }: ForkActionProps) {
  const [isAsked, setAsked] = useState(false);
  return (
    <Permitted scope="submit" action="fork this run">
      <button type="button" onClick={() => setAsked(true)}>
        Fork here
      </button>
      {isAsked && <ForkDialog view={view} items={items} at={at} close={() => setAsked(false)} />}
    </Permitted>
  );
}

function ForkDialog({ view, items, at, close }: ForkActionProps & { close: () => void }) {
  const { taken, again } = useMemo(() => splitForFork(items, at), [items, at]);
  const [isBusy, setBusy] = useState(false);
  const [failure, setFailure] = useState<Error | null>(null);
  const ticketFor = useMemo(makeTickets, []);

  async function fork() {
    setBusy(true);
    setFailure(null);
    try {
      const { run } = await forkRun(view.run, at, ticketFor([view.run, at]));
      go(address("run", [run]));
    } catch (error) {
      setFailure(error as Error);
      setBusy(false);
    }
  }

  return (
    <Dialog label="Fork this run" onClose={close}>
      <h2>Fork this run after entry {at}?</h2>
      <p>A new run begins with the request, the agents and the plan of this one.</p>
      <dl class="facts">
        <div>
          <dt>Taken over</dt>
          <dd>
            {describeShare(taken)}
            {taken.effects > 0 && ", which do not happen again"}
          </dd>
        </div>
        <div>
          <dt>Paid again</dt>
          <dd>
            everything after this entry; in this run {describeShare(again)}. A reply is taken over
            only if the fork asks for exactly the same.
          </dd>
        </div>
        <div>
          <dt>Cap</dt>
          <dd>{describeCap(view.cap) || "none"}, as this run; what is taken over does not count</dd>
        </div>
        <div>
          <dt>Gates</dt>
          <dd>have to be passed again</dd>
        </div>
      </dl>
      {view.cap.usd === null && (
        <p class="note wait">
          This run has no cap in dollars, so the fork has none of its own either.
        </p>
      )}
      {failure && <ErrorNote error={failure} />}
      <div class="row">
        <button type="button" class="primary" autofocus disabled={isBusy} onClick={fork}>
          Fork
        </button>
        <button type="button" onClick={close}>
          Cancel
        </button>
      </div>
    </Dialog>
  );
}

function describeShare({ replies, usd, effects }: ForkShare): string {
  const parts = [
    `${formatCount(replies)} ${replies === 1 ? "reply" : "replies"} for ${formatDollars(usd)}`,
  ];
  if (effects > 0) parts.push(`${formatCount(effects)} ${effects === 1 ? "effect" : "effects"}`);
  return parts.join(" and ");
}
