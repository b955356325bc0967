import { type KeyForm, type NewKeyForm, ProblemError, type Scope } from "forumd-client";
import { useState } from "preact/hooks";
import { createKey, listKeys, revokeKey } from "../api/calls";
import { useLoad } from "../api/load";
import { me } from "../api/session";
import {
  isKeyOf,
  type KeyDraft,
  type KeyFaults,
  LIFETIMES,
  placeKeyFault,
  readKeyDraft,
  SCOPES,
  sortKeys,
} from "../model/access";
import { Dialog } from "../parts/Dialog";
import { Field } from "../parts/Field";
import { Empty, ErrorNote, Loading } from "../parts/Notes";
import { Permitted } from "../parts/Permitted";
import { StateMark } from "../parts/StateMark";
import { SafeText } from "../parts/Text";
import { Time } from "../parts/Time";
import "./Access.css";
import { own } from "../model/own";

const POLL_MS = 10_000;

/** Who may do what: the keys of the ledger. For admins. */
export function Access() {
  return (
    <>
      <div class="page-head">
        <h1>Access</h1>
      </div>
      <Permitted scope="admin" action="see or change who has access">
        <Keys />
      </Permitted>
    </>
  );
}

function Keys() {
  const { data, error, reload } = useLoad(listKeys, [], POLL_MS);
  const [made, setMade] = useState<NewKeyForm | null>(null);
  return (
    <div class="access">
      <div class="stack">
        {made && <NewSecret made={made} close={() => setMade(null)} />}
        {error && <ErrorNote error={error} retry={reload} />}
        {!data && !error && <Loading what="keys" />}
        {data?.length === 0 && !made && (
          <Empty title="No key yet">
            <p>Give each person and each program a key of its own.</p>
          </Empty>
        )}
        {data && data.length > 0 && <KeyTable keys={sortKeys(data)} onRevoked={reload} />}
        <p class="small quiet">
          Every grant, revocation and refusal is an entry of the log. The operator's token (
          <code>forum token</code>) and the tokens of an identity provider are not in this list.
        </p>
      </div>
      <KeyCreation
        onMade={(key) => {
          setMade(key);
          reload();
        }}
        onUnsure={reload}
      />
    </div>
  );
}

/** A secret, for as long as the page shows it. It is kept nowhere. */
function NewSecret({ made, close }: { made: NewKeyForm; close: () => void }) {
  const [isCopied, setCopied] = useState(false);
  // Browsers offer it to pages over TLS and of this machine only; elsewhere the text is selected.
  const clipboard = navigator.clipboard as Clipboard | undefined;
  return (
    <section class="card form" aria-label="New key">
      <h2>
        <StateMark state="ok" label={`The key ${made.key.name} was made`} />
      </h2>
      <div class="secret">
        <input
          type="text"
          readOnly
          aria-label="Secret of the new key"
          value={made.secret}
          onFocus={(event) => event.currentTarget.select()}
        />
        {clipboard && (
          <button
            type="button"
            class="primary"
            onClick={() => clipboard.writeText(made.secret).then(() => setCopied(true))}
          >
            {isCopied ? "Copied" : "Copy"}
          </button>
        )}
        <button type="button" onClick={close}>
          Done
        </button>
      </div>
      <p class="small quiet">
        It is shown this once: Forum keeps only its digest. If it gets lost, revoke it and make
        another one.
      </p>
    </section>
  );
}

const MARKS: Record<KeyForm["state"], string> = {
  valid: "ok",
  expired: "skipped",
  revoked: "cancelled",
};

function KeyTable({ keys, onRevoked }: { keys: KeyForm[]; onRevoked: () => void }) {
  const [asked, setAsked] = useState<KeyForm | null>(null);
  return (
    <section class="card" aria-label="Keys">
      <table>
        <thead>
          <tr>
            <th>Key</th>
            <th>May</th>
            <th>Made</th>
            <th>Ends</th>
            <th>State</th>
            <th>
              <span class="hidden-label">Revoke</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {keys.map((key) => (
            <KeyRow key={key.id} shown={key} revoke={() => setAsked(key)} />
          ))}
        </tbody>
      </table>
      {asked && <Revocation asked={asked} close={() => setAsked(null)} onRevoked={onRevoked} />}
    </section>
  );
}

function KeyRow({ shown, revoke }: { shown: KeyForm; revoke: () => void }) {
  const { id, name, scopes, made, expires, state } = shown;
  return (
    <tr class={state === "valid" ? "" : "ended"}>
      <td class="name">
        <SafeText text={name} />
        <br />
        <code class="small quiet">{id}</code>
      </td>
      <td class="wide">
        <span class="scopes">
          {scopes.map((scope) => (
            <span key={scope} class="tag">
              {scope}
            </span>
          ))}
        </span>
      </td>
      <td data-label="made">
        <Time at={made} />
      </td>
      <td data-label={state === "expired" ? "ended" : "ends"}>
        {state === "revoked" && "–"}
        {state !== "revoked" && (expires ? <Time at={expires} /> : "never")}
      </td>
      <td class="status">
        <StateMark state={own(MARKS, state) ?? "indeterminate"} label={state} />
      </td>
      <td class="number revoke">
        {state === "valid" && (
          <button type="button" class="danger" aria-label={`Revoke ${name}`} onClick={revoke}>
            Revoke
          </button>
        )}
      </td>
    </tr>
  );
}

interface RevocationProps {
  asked: KeyForm;
  close: () => void;
  onRevoked: () => void;
}

function Revocation({ asked, close, onRevoked }: RevocationProps) {
  const [isBusy, setBusy] = useState(false);
  const [failure, setFailure] = useState<Error | null>(null);
  const isMine = me.value !== null && isKeyOf(me.value.name, asked);

  async function revoke() {
    setBusy(true);
    try {
      await revokeKey(asked.id);
      close();
      onRevoked();
    } catch (error) {
      setFailure(error as Error);
      setBusy(false);
    }
  }

  return (
    <Dialog label={`Revoke ${asked.name}`} onClose={close}>
      <h2>
        Revoke <SafeText text={asked.name} />?
      </h2>
      <p>
        Every server refuses the key <code>{asked.id}</code> within a second. This cannot be taken
        back; runs that were submitted with it go on.
      </p>
      {isMine && <p class="note wait">You are signed in with this key, and will be signed out.</p>}
      {failure && <ErrorNote error={failure} />}
      <div class="row">
        <button type="button" class="danger" disabled={isBusy} onClick={revoke}>
          Revoke
        </button>
        <button type="button" autofocus onClick={close}>
          Cancel
        </button>
      </div>
    </Dialog>
  );
}

const NEW_DRAFT: KeyDraft = { name: "", scopes: [], seconds: 90 * 86_400 };

interface KeyCreationProps {
  onMade: (made: NewKeyForm) => void;
  /** Called where no reply came, so that the key may have been made. */
  onUnsure: () => void;
}

function KeyCreation({ onMade, onUnsure }: KeyCreationProps) {
  const [draft, setDraft] = useState(NEW_DRAFT);
  const [faults, setFaults] = useState<KeyFaults>({});
  const [isBusy, setBusy] = useState(false);

  function change(changed: Partial<KeyDraft>) {
    setDraft((old) => ({ ...old, ...changed }));
    setFaults({});
  }

  async function create() {
    const { ask, faults: found } = readKeyDraft(draft);
    setFaults(found);
    if (!ask) return;
    setBusy(true);
    try {
      onMade(await createKey(ask));
      setDraft(NEW_DRAFT);
    } catch (error) {
      setFaults(faultsOf(error as Error));
      if (!(error instanceof ProblemError)) onUnsure();
    }
    setBusy(false);
  }

  return (
    <form
      class="card form"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        void create();
      }}
    >
      <h2>New key</h2>
      <Field label="Name" fault={faults.name} hint="Whose it is. Actions are recorded under it.">
        {(control) => (
          <input
            {...control}
            type="text"
            autocomplete="off"
            spellcheck={false}
            required
            value={draft.name}
            onInput={(event) => change({ name: event.currentTarget.value })}
          />
        )}
      </Field>
      <ScopeChoice
        chosen={draft.scopes}
        fault={faults.scopes}
        onChange={(scopes) => change({ scopes })}
      />
      <Field label="Valid for">
        {(control) => (
          <select
            {...control}
            value={String(draft.seconds)}
            onChange={(event) => change({ seconds: Number(event.currentTarget.value) || null })}
          >
            {LIFETIMES.map(([words, seconds]) => (
              <option key={words} value={String(seconds)}>
                {words}
              </option>
            ))}
          </select>
        )}
      </Field>
      {faults[""] && <ErrorNote error={new Error(faults[""])} />}
      <div class="row">
        <button type="submit" class="primary" disabled={isBusy}>
          Make the key
        </button>
      </div>
    </form>
  );
}

function faultsOf(error: Error): KeyFaults {
  if (error instanceof ProblemError && error.detail) return placeKeyFault(error.detail);
  if (error instanceof ProblemError) return { "": error.message };
  return { "": `${error.message} If the list shows the key now, revoke it and make another one.` };
}

interface ScopeChoiceProps {
  chosen: Scope[];
  fault: string | undefined;
  onChange: (scopes: Scope[]) => void;
}

function ScopeChoice({ chosen, fault, onChange }: ScopeChoiceProps) {
  const toggle = (scope: Scope) =>
    onChange(
      chosen.includes(scope) ? chosen.filter((other) => other !== scope) : [...chosen, scope],
    );
  return (
    <fieldset>
      <legend>Scopes</legend>
      {SCOPES.map(([scope, purpose]) => (
        <label key={scope} class="scope">
          <input type="checkbox" checked={chosen.includes(scope)} onChange={() => toggle(scope)} />
          <span>{scope}</span>
          <span class="small quiet">{purpose}</span>
        </label>
      ))}
      {fault && (
        <p class="small tone-bad" role="alert">
          {fault}
        </p>
      )}
    </fieldset>
  );
}
