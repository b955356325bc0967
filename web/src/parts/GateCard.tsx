import type { Answer } from "forumd-client";
import { useEffect, useState } from "preact/hooks";
import { decideGate, editGate, type GateContent, getGateContent } from "../api/calls";
import { useLoad } from "../api/load";
import { refusalOf } from "../api/session";
import { digestOf, textOf } from "../model/body";
import { Dialog } from "./Dialog";
import { Diff } from "./Diff";
import { ErrorNote, Loading } from "./Notes";
import { Mark, StateMark } from "./StateMark";
import { TextBlock } from "./Text";
import { Time } from "./Time";

interface GateCardProps {
  run: string;
  subject: string;
  /** Whether the keys `a`, `r` and `e` decide about this gate. */
  hasKeys?: boolean;
  onDecided?: () => void;
}

/** What waits for a person, the digest of exactly these bytes, and the decision. */
export function GateCard({ run, subject, hasKeys, onDecided }: GateCardProps) {
  const { data, error, reload } = useLoad(() => loadGate(run, subject), [run, subject]);
  const [asked, setAsked] = useState<Answer | null>(null);
  const [isEditing, setEditing] = useState(false);
  const [said, setSaid] = useState("");
  const [failure, setFailure] = useState<Error | null>(null);
  const isOpen =
    data?.digest != null && !data.isAltered && data.content.gate.decided === null && !said;
  const refusal = refusalOf("approve");
  const canDecide = isOpen && !refusal;

  useEffect(() => {
    if (!hasKeys || !canDecide || isEditing) return;
    const press = (event: KeyboardEvent) => {
      const isTyping =
        event.target instanceof Element && event.target.closest("input, textarea, select, dialog");
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "a") setAsked("approve");
      else if (event.key === "r") setAsked("reject");
      else if (event.key === "e") setEditing(true);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [hasKeys, canDecide, isEditing]);

  if (error) return <ErrorNote error={error} retry={reload} />;
  if (!data) return <Loading what={`what waits at ${subject}`} />;
  const { gate } = data.content;
  const { digest } = data;

  async function decide(answer: Answer) {
    setAsked(null);
    if (digest === null) return;
    try {
      await decideGate(run, { subject, answer, digest });
      setSaid(`${answer === "approve" ? "Approved" : "Rejected"}. The decision is in the log.`);
      onDecided?.();
    } catch (problem) {
      setFailure(problem as Error);
      reload();
    }
  }

  async function save(shown: string) {
    try {
      await editGate(run, { subject, digest: gate.digest, shown });
      setEditing(false);
      setFailure(null);
      reload();
    } catch (problem) {
      setFailure(problem as Error);
    }
  }

  return (
    <section class="card gate" aria-label={`Gate ${subject}`}>
      <div class="card-head">
        <h2 class="row-tight">
          <Mark state={gate.decided ? "ok" : "waiting"} /> Waits for you: {subject}
        </h2>
        <span class="small quiet end">
          {gate.default === "reject" ? "rejected" : "approved"} automatically{" "}
          <Time at={gate.deadline} /> unless decided
        </span>
      </div>
      {failure && <ErrorNote error={failure} />}
      {isEditing ? (
        <Editor text={data.text} save={save} cancel={() => setEditing(false)} />
      ) : (
        <TextBlock text={data.text} label={`What waits at ${subject}`} />
      )}
      <DigestLine digest={digest} claimed={gate.digest} isAltered={data.isAltered} />
      {said && (
        <p class="note ok" role="status">
          <StateMark state="ok" label={said} />
        </p>
      )}
      {isOpen && refusal && (
        <p class="note">{refusal} Sign in with a key that has it to decide here.</p>
      )}
      {canDecide && !isEditing && (
        <div class="row">
          <button type="button" class="primary" onClick={() => setAsked("approve")}>
            Approve {hasKeys && <kbd>a</kbd>}
          </button>
          <button type="button" class="danger" onClick={() => setAsked("reject")}>
            Reject {hasKeys && <kbd>r</kbd>}
          </button>
          <button type="button" onClick={() => setEditing(true)}>
            Edit {hasKeys && <kbd>e</kbd>}
          </button>
        </div>
      )}
      {asked && digest !== null && (
        <Confirmation
          answer={asked}
          subject={subject}
          digest={digest}
          confirm={() => decide(asked)}
          cancel={() => setAsked(null)}
        />
      )}
    </section>
  );
}

interface LoadedGate {
  content: GateContent;
  text: string;
  /** The digest of the bytes on the screen; null if the server does not give them. */
  digest: string | null;
  /** Whether the bytes on the screen are not those that the gate names. */
  isAltered: boolean;
}

async function loadGate(run: string, subject: string): Promise<LoadedGate> {
  const content = await getGateContent(run, subject);
  const { gate, body } = content;
  const text = body ? textOf(body) : gate.shown;
  const digest = body ? digestOf(body) : null;
  return { content, text, digest, isAltered: digest !== null && digest !== gate.digest };
}

function DigestLine(props: { digest: string | null; claimed: string; isAltered: boolean }) {
  const { digest, claimed, isAltered } = props;
  if (isAltered) {
    return (
      <p class="note bad" role="alert">
        These bytes have the digest <code>{digest}</code>, but the gate names <code>{claimed}</code>
        . The server shows something else than what waits, so nothing can be decided here.
      </p>
    );
  }
  if (digest === null) {
    return (
      <p class="note bad" role="alert">
        The server does not give the bytes with the digest <code>{claimed}</code>, so this browser
        cannot compare the text above with what waits, and nothing can be decided here.
      </p>
    );
  }
  return (
    <p class="small row">
      <span class="quiet">Digest</span>
      <code title={claimed}>{claimed.slice(0, 32)}…</code>
      <StateMark state="ok" label="recomputed from the text above" />
    </p>
  );
}

interface ConfirmationProps {
  answer: Answer;
  subject: string;
  digest: string;
  confirm: () => void;
  cancel: () => void;
}

function Confirmation({ answer, subject, digest, confirm, cancel }: ConfirmationProps) {
  const verb = answer === "approve" ? "Approve" : "Reject";
  return (
    <Dialog label={`${verb} ${subject}`} onClose={cancel}>
      <h2>
        {verb} {subject}?
      </h2>
      <p>
        Your decision is about exactly the bytes with the digest <code>{digest}</code>. It is
        recorded in the log and cannot be taken back.
      </p>
      <div class="row">
        <button
          type="button"
          class={answer === "approve" ? "primary" : "danger"}
          autofocus
          onClick={confirm}
        >
          {verb}
        </button>
        <button type="button" onClick={cancel}>
          Cancel
        </button>
      </div>
    </Dialog>
  );
}

interface EditorProps {
  text: string;
  save: (text: string) => void;
  cancel: () => void;
}

function Editor({ text, save, cancel }: EditorProps) {
  const [changed, setChanged] = useState(text);
  return (
    <div class="stack">
      <textarea
        aria-label="New content"
        rows={14}
        value={changed}
        onInput={(event) => setChanged(event.currentTarget.value)}
      />
      {changed !== text && <Diff label="What changes" before={text} after={changed} />}
      <div class="row">
        <button
          type="button"
          class="primary"
          disabled={changed === text}
          onClick={() => save(changed)}
        >
          Save the change
        </button>
        <button type="button" onClick={cancel}>
          Discard
        </button>
        <span class="small quiet">
          The change is recorded. You approve or reject it afterwards.
        </span>
      </div>
    </div>
  );
}
