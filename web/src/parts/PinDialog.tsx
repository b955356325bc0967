import { useEffect, useState } from "preact/hooks";
import { keepPin, listPinned } from "../api/memory";
import type { PolicyKeys } from "../prover/check";
import { listPolicyKeys } from "../prover/client";
import { Dialog } from "./Dialog";
import { Evidence } from "./Evidence";

/** How long the reader types before the policy is read. */
const TYPING_MS = 250;

/** Pin the keys of a log: the reader gives a policy, compares its keys, and has them kept. */
export function PinDialog({ origin, close }: { origin: string; close: () => void }) {
  const [policy, setPolicy] = useState("");
  const { keys, fault } = usePolicyKeys(policy, origin);
  const [failure, setFailure] = useState("");
  const pin = () => {
    try {
      keepPin(origin, { policy, at: Date.now() });
      close();
    } catch {
      setFailure("This browser keeps nothing for this page, so it cannot remember keys.");
    }
  };
  return (
    <Dialog label="Check the log in this browser" class="wide" onClose={close}>
      <h2>Check the log in this browser</h2>
      <p>
        This browser can prove the entries on the screen, if you tell it once which keys to trust:
        the trust file of the log <code>{origin}</code>. It is never asked for from the server.
      </p>
      <OtherPins origin={origin} />
      <p class="small">
        The owner of the log prints it with <code>forum ledger policy</code>. Take it from somebody
        whom you trust to know it, and by another way than this page.
      </p>
      <label class="field">
        <span class="strong">Trust file</span>
        <textarea
          rows={4}
          spellcheck={false}
          placeholder="log …&#10;witness …&#10;quorum …"
          value={policy}
          onInput={(event) => setPolicy(event.currentTarget.value)}
        />
      </label>
      <label class="field">
        <span class="small quiet">or choose the file</span>
        <input
          type="file"
          onChange={async (event) =>
            setPolicy((await event.currentTarget.files?.[0]?.text()) ?? "")
          }
        />
      </label>
      {keys && <KeyList keys={keys} />}
      {(fault || failure) && (
        <p class="note bad" role="alert">
          {fault || failure}
        </p>
      )}
      <div class="row">
        <button type="button" class="primary" disabled={!keys || fault !== ""} onClick={pin}>
          Pin these keys
        </button>
        <button type="button" onClick={close}>
          Cancel
        </button>
      </div>
      <Evidence run={undefined} />
    </Dialog>
  );
}

/** The keys in the text of a policy, or why it cannot be pinned for a log. */
function usePolicyKeys(policy: string, origin: string) {
  const [read, setRead] = useState<{ keys: PolicyKeys | null; fault: string }>(NOTHING_READ);
  useEffect(() => {
    setRead(NOTHING_READ);
    if (!policy.trim()) return;
    let isCurrent = true;
    const show = (keys: PolicyKeys | null, fault: string) => isCurrent && setRead({ keys, fault });
    const due = setTimeout(() => {
      listPolicyKeys(policy).then(
        (keys) => show(keys, faultOf(keys, origin)),
        (error: Error) => show(null, error.message),
      );
    }, TYPING_MS);
    return () => {
      isCurrent = false;
      clearTimeout(due);
    };
  }, [policy, origin]);
  return read;
}

const NOTHING_READ = { keys: null, fault: "" };

function faultOf({ logs }: PolicyKeys, origin: string): string {
  return logs.some(({ name }) => name === origin)
    ? ""
    : `This trust file has no key of the log ${origin}, which the server shows.`;
}

/** The keys, for the reader to compare before they are pinned. */
export function KeyList({ keys }: { keys: PolicyKeys }) {
  const rows = [
    ...keys.logs.map((key) => ({ ...key, kind: "log", isLocal: false })),
    ...keys.witnesses.map((key) => ({ ...key, kind: "witness" })),
  ];
  return (
    <table class="keys">
      <thead>
        <tr>
          <th>Key of</th>
          <th>Name</th>
          <th>Id</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(({ kind, name, id, isLocal }) => (
          <tr key={`${kind} ${name} ${id}`}>
            <td>{isLocal ? "witness on the writer's own machine" : kind}</td>
            <td>
              <code>{name}</code>
            </td>
            <td>
              <code>{id}</code>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** A server that shows another log than before may hide what became of that one. */
function OtherPins({ origin }: { origin: string }) {
  const others = listPinned().filter((name) => name !== origin);
  if (!others.length) return null;
  return (
    <p class="note wait">
      You have pinned keys here for {others.join(", ")}. The server shows another log now. Pin its
      keys only if you expected that.
    </p>
  );
}
