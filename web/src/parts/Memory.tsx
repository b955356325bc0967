import { useEffect, useState } from "preact/hooks";
import { forgetLog, listPinned, readPin, readSeen } from "../api/memory";
import { usePinnedLog } from "../api/proof";
import { formatNumberOf } from "../model/format";
import { describeOrigin } from "../model/memory";
import type { PolicyKeys } from "../prover/check";
import { listPolicyKeys } from "../prover/client";
import { Dialog } from "./Dialog";
import { KeyList, PinDialog } from "./PinDialog";
import { Time } from "./Time";

/** What this browser keeps of the logs of this server: pinned keys, and the last tree. */
export function Memory() {
  const { origin, pin } = usePinnedLog();
  const [isPinning, setPinning] = useState(false);
  return (
    <section class="card">
      <h2>What this browser remembers</h2>
      <div class="stack">
        {listPinned().map((name) => (
          <RememberedLog key={name} origin={name} />
        ))}
        {origin && !pin && (
          <>
            <p>
              No key is pinned for <code>{origin}</code>, so this browser checks nothing.
            </p>
            <div class="row">
              <button type="button" class="primary" onClick={() => setPinning(true)}>
                Pin the keys of this log
              </button>
            </div>
          </>
        )}
      </div>
      {isPinning && <PinDialog origin={origin} close={() => setPinning(false)} />}
    </section>
  );
}

function RememberedLog({ origin }: { origin: string }) {
  const [isAsking, setAsking] = useState(false);
  const pin = readPin(origin);
  const seen = readSeen(origin);
  const keys = usePinnedKeys(pin?.policy ?? "");
  return (
    <div class="stack">
      <p>
        <code>{origin}</code>
        {pin && (
          <>
            , keys {describeOrigin(pin)} <Time at={pin.at} />
          </>
        )}
      </p>
      {keys && <KeyList keys={keys} />}
      <p class="small">
        {seen ? (
          <>
            Last proven tree: {formatNumberOf(seen.size, "entry", "entries")}, <Time at={seen.at} />
            , with the root <code>{seen.root}</code>
          </>
        ) : (
          "No tree of this log was proven yet."
        )}
      </p>
      <div class="row">
        <button type="button" class="danger" onClick={() => setAsking(true)}>
          Forget this log
        </button>
      </div>
      {isAsking && (
        <Dialog label={`Forget ${origin}`} onClose={() => setAsking(false)}>
          <h2>Forget {origin}?</h2>
          <p>
            This browser then accepts any history of the log, also one that contradicts what it has
            seen. Do this only if you know why the log has changed.
          </p>
          <div class="row">
            <button
              type="button"
              class="danger"
              onClick={() => {
                setAsking(false);
                forgetLog(origin);
              }}
            >
              Forget
            </button>
            <button type="button" autofocus onClick={() => setAsking(false)}>
              Cancel
            </button>
          </div>
        </Dialog>
      )}
    </div>
  );
}

function usePinnedKeys(policy: string): PolicyKeys | null {
  const [keys, setKeys] = useState<PolicyKeys | null>(null);
  useEffect(() => {
    let isCurrent = true;
    listPolicyKeys(policy).then(
      (read) => isCurrent && setKeys(read),
      () => isCurrent && setKeys(null),
    );
    return () => {
      isCurrent = false;
    };
  }, [policy]);
  return keys;
}
