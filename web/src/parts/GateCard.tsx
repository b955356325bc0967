import type { Answer, ShownGateForm } from "forumd-client";
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import {
  decideGate,
  editGate,
  getGateContent,
  type GateContent as LoadedContent,
} from "../api/calls";
import { refreshGates } from "../api/gates";
import { useLoad } from "../api/load";
import { refusalOf } from "../api/session";
import { digestOf, textOf } from "../model/body";
import { formatDollars, formatNumberOf, shortId } from "../model/format";
import { readGateText, titleOfGate } from "../model/gates";
import { addRange, isCovered, type Range } from "../model/seen";
import { Dialog } from "./Dialog";
import { Diff } from "./Diff";
import { Field } from "./Field";
import "./GateCard.css";
import { own } from "../model/own";
import { Markdown } from "./Markdown";
import { ErrorNote, Loading } from "./Notes";
import { describeAsker, isForeign } from "./Provenance";
import { Mark, StateMark } from "./StateMark";
import { SafeText, TextBlock } from "./Text";
import { Time } from "./Time";

interface GateCardProps {
  run: string;
  subject: string;
  /** Whether the keys `a`, `r` and `e` decide about this gate. */
  hasKeys?: boolean;
}

/** What waits for a person, the digest of exactly these bytes, and the decision. */
export function GateCard({ run, subject, hasKeys }: GateCardProps) {
  const { data, error, reload } = useLoad(() => loadGate(run, subject), [run, subject]);
  const [asked, setAsked] = useState<Answer | null>(null);
  const [isEditing, setEditing] = useState(false);
  const [said, setSaid] = useState("");
  const [reason, setReason] = useState("");
  const [failure, setFailure] = useState<Error | null>(null);
  const [isSettled, isSeen, content] = useShown(data?.digest ?? "", isEditing);
  const isOpen =
    data?.digest != null && !data.isAltered && data.content.gate.decided === null && !said;
  const refusal = refusalOf("approve");
  const canDecide = isOpen && !refusal;
  const canAnswer: Record<Answer, boolean> = {
    approve: canDecide && isSettled && isSeen,
    reject: canDecide && isSettled,
  };
  const [canApprove, canReject] = [canAnswer.approve, canAnswer.reject];

  // A question that was asked about another content is not answered about this one.
  useEffect(() => setAsked(null), [data?.digest]);

  useEffect(() => {
    if (!hasKeys || !canDecide || isEditing) return;
    const press = (event: KeyboardEvent) => {
      const isTyping =
        event.target instanceof Element && event.target.closest("input, textarea, select, dialog");
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "a" && canApprove) setAsked("approve");
      else if (event.key === "r" && canReject) setAsked("reject");
      else if (event.key === "e") setEditing(true);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [hasKeys, canDecide, canApprove, canReject, isEditing]);

  if (error) return <ErrorNote error={error} retry={reload} />;
  if (!data) return <Loading what={`what waits at ${subject}`} />;
  const { gate } = data.content;
  const { digest } = data;

  async function decide(answer: Answer) {
    setAsked(null);
    if (digest === null || !canAnswer[answer]) return;
    try {
      await decideGate(run, { subject, answer, digest, reason });
      setSaid(`${answer === "approve" ? "Approved" : "Rejected"}. The decision is in the log.`);
      void refreshGates();
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
          <Mark state={gate.decided ? "ok" : "waiting"} />{" "}
          {gate.decided ? "Decided" : "Waits for you"}: <SafeText text={titleOfGate(subject)} />
        </h2>
        {!gate.decided && (
          <span class="small quiet end">
            {gate.default === "reject" ? "rejected" : "approved"} automatically{" "}
            <Time at={gate.deadline} /> unless decided
          </span>
        )}
      </div>
      {failure && <ErrorNote error={failure} />}
      <p class={isForeign(gate) ? "note bad" : "small quiet"}>
        Asked by <SafeText text={describeAsker(gate)} />.
        {isForeign(gate) &&
          " What is below is what that program says. Forum has checked none of it."}
      </p>
      <GateContext gate={gate} />
      <div class="gate-part">
        <h3>{gate.decided ? "What was decided" : "What you decide"}</h3>
        {isEditing ? (
          <Editor text={data.text} save={save} cancel={() => setEditing(false)} />
        ) : (
          <div ref={content} class="exact">
            <GateContent subject={subject} text={data.text} />
          </div>
        )}
        <DigestLine digest={digest} claimed={gate.digest} isAltered={data.isAltered} />
      </div>
      {said && (
        <p class="note ok" role="status">
          <StateMark state="ok" label={said} />
        </p>
      )}
      {gate.decided && !said && <DecidedLine gate={gate} />}
      {isOpen && refusal && (
        <p class="note">{refusal} Sign in with a key that has it to decide here.</p>
      )}
      {canDecide && !isEditing && (
        <>
          <dl class="gate-effects">
            <dt>If you approve</dt>
            <dd>
              <SafeText text={gate.if_approved} />
            </dd>
            <dt>If you reject</dt>
            <dd>
              <SafeText text={gate.if_rejected} />
            </dd>
          </dl>
          <Field label="Reason (optional)" hint="Recorded with your decision. It can be erased.">
            {(control) => (
              <textarea
                {...control}
                class="prose"
                rows={2}
                maxLength={20_000}
                value={reason}
                onInput={(event) => setReason(event.currentTarget.value)}
              />
            )}
          </Field>
          <div class="row">
            <button
              type="button"
              class="primary"
              disabled={!canApprove}
              onClick={() => setAsked("approve")}
            >
              Approve {hasKeys && <kbd>a</kbd>}
            </button>
            <button
              type="button"
              class="danger"
              disabled={!canReject}
              onClick={() => setAsked("reject")}
            >
              Reject {hasKeys && <kbd>r</kbd>}
            </button>
            <button type="button" onClick={() => setEditing(true)}>
              Edit {hasKeys && <kbd>e</kbd>}
            </button>
            {!isSeen && (
              <span class="small quiet">
                To approve, read what you decide to its end. All of it must have been on the screen.
              </span>
            )}
          </div>
        </>
      )}
      {asked && digest !== null && (
        <Confirmation
          answer={asked}
          gate={gate}
          text={data.text}
          reason={reason}
          digest={digest}
          confirm={() => decide(asked)}
          cancel={() => setAsked(null)}
        />
      )}
    </section>
  );
}

/** How long a content stands before it can be decided: a hand that moves already must not hit it. */
const SETTLE_MS = 1000;

/** Whether a content has stood for a moment, whether all of it was on the screen, and its place. */
function useShown(
  digest: string,
  isEditing: boolean,
): [boolean, boolean, RefObject<HTMLDivElement | null>] {
  const [settled, setSettled] = useState("");
  const [seen, setSeen] = useState("");
  const content = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(digest), SETTLE_MS);
    return () => clearTimeout(timer);
  }, [digest]);
  useEffect(() => {
    const element = content.current;
    if (!element || isEditing || !digest || seen === digest) return;
    let [ranges, height]: [Range[], number] = [[], 0];
    const look = () => {
      if (document.visibilityState !== "visible") return;
      const place = element.getBoundingClientRect();
      // In another width the lines are at other heights.
      if (Math.abs(place.height - height) > 1) [ranges, height] = [[], place.height];
      const [from, to] = [Math.max(0, -place.top), Math.min(height, innerHeight - place.top)];
      ranges = addRange(ranges, [from, to]);
      if (isCovered(ranges, height)) setSeen(digest);
    };
    const observer = new ResizeObserver(look);
    observer.observe(element);
    addEventListener("scroll", look, { capture: true, passive: true });
    document.addEventListener("visibilitychange", look);
    return () => {
      observer.disconnect();
      removeEventListener("scroll", look, { capture: true });
      document.removeEventListener("visibilitychange", look);
    };
  }, [digest, seen, isEditing]);
  return [settled === digest, seen === digest, content];
}

/** What the decision is about: the request, the results so far, and what the run has cost. */
function GateContext({ gate }: { gate: ShownGateForm }) {
  const { spent, cap } = gate;
  const ofCap = cap.usd === null ? ", without a cap" : ` of at most ${formatDollars(cap.usd)}`;
  return (
    <>
      <div class="gate-part">
        <h3>Request</h3>
        {gate.request === null ? (
          <p class="quiet">It was erased.</p>
        ) : (
          <Markdown text={gate.request} label="Request" />
        )}
      </div>
      {gate.results.map(({ task, result }) => (
        <details key={task} class="gate-part" open>
          <summary>
            <h3>Result of {task}</h3>
          </summary>
          <Markdown text={result} label={`Result of ${task}`} />
        </details>
      ))}
      <p class="small quiet">
        Cost so far: {formatDollars(spent.usd)}
        {ofCap}, {formatNumberOf(spent.calls, "call")}
        {spent.tokens > 0 && `, ${formatNumberOf(spent.tokens, "token")}`}
      </p>
    </>
  );
}

/** What waits, taken apart where that hides nothing. */
function GateContent({ subject, text }: { subject: string; text: string }) {
  const content = readGateText(subject, text);
  if (content.type === "plan") {
    return (
      <ol class="gate-plan">
        {content.tasks.map((task) => (
          <li key={task.id}>
            <strong>
              <SafeText text={task.id} />
            </strong>
            <ExactText text={task.instruction} label={`Instruction of ${task.id}`} />
            {task.others && (
              <pre class="small quiet">
                <SafeText text={task.others} />
              </pre>
            )}
          </li>
        ))}
      </ol>
    );
  }
  if (content.type === "use") {
    return (
      <>
        <p>
          The tool{" "}
          <code>
            <SafeText text={content.tool} />
          </code>{" "}
          with these arguments:
        </p>
        <ExactText text={content.arguments} label="Arguments" />
      </>
    );
  }
  return <ExactText text={text} label={`What waits at ${subject}`} />;
}

/** A text that somebody decides about: as it was written, and all of it on the page. */
function ExactText({ text, label }: { text: string; label: string }) {
  return <TextBlock text={text} label={label} whole isUncut />;
}

function DecidedLine({ gate }: { gate: ShownGateForm }) {
  const words = gate.decided === "approve" ? "Approved" : "Rejected";
  return (
    <div class="note">
      <StateMark
        state={gate.decided === "approve" ? "ok" : "failed"}
        label={`${words} by ${own(DECIDERS, gate.by ?? "end") ?? gate.by}`}
      />
      {gate.reason && (
        <p>
          Reason: <SafeText text={gate.reason} />
        </p>
      )}
    </div>
  );
}

const DECIDERS: Record<NonNullable<ShownGateForm["by"]>, string> = {
  person: "a person",
  key: "the holder of a key",
  operator: "the operator",
  deadline: "its deadline: nobody decided in time",
  end: "the end of the run",
};

interface LoadedGate {
  content: LoadedContent;
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

/** Characters of a request that a dialog repeats. */
const MAX_TITLE = 200;

interface ConfirmationProps {
  answer: Answer;
  gate: ShownGateForm;
  /** What is decided, as it is on the page. */
  text: string;
  reason: string;
  digest: string;
  confirm: () => void;
  cancel: () => void;
}

function Confirmation(props: ConfirmationProps) {
  const { answer, gate, text, reason, digest, confirm, cancel } = props;
  const verb = answer === "approve" ? "Approve" : "Reject";
  const title = `${verb} ${titleOfGate(gate.subject)}?`;
  return (
    <Dialog label={title} class="confirmation" onClose={cancel}>
      <h2>
        <SafeText text={title} />
      </h2>
      <p>
        Run {shortId(gate.run)}
        {gate.request && (
          <>
            : <SafeText text={gate.request.slice(0, MAX_TITLE)} />
            {gate.request.length > MAX_TITLE && "…"}
          </>
        )}
      </p>
      <p class={isForeign(gate) ? "note bad" : ""}>
        Asked by <SafeText text={describeAsker(gate)} />.
      </p>
      <div class="exact">
        <TextBlock text={text} label="What you decide" isUncut />
      </div>
      <p>
        <SafeText text={answer === "approve" ? gate.if_approved : gate.if_rejected} />
      </p>
      {reason.trim() && (
        <p>
          Your reason: <SafeText text={reason.trim()} />
        </p>
      )}
      <p class="small quiet">
        Your decision is recorded and cannot be taken back. It is about what you see here and
        nothing else: its digest is <code class="digest">{digest}</code>.
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
