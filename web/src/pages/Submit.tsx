import {
  type AskForm,
  type PlanForm,
  type PlannedForm,
  ProblemError,
  type Taken,
} from "forumd-client";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { listAgents, listLanes, previewPlan, submitRun } from "../api/calls";
import { useLoad } from "../api/load";
import { refusalOf } from "../api/session";
import { shortId } from "../model/format";
import {
  type Draft,
  describeCap,
  EMPTY_DRAFT,
  type Faults,
  isLowered,
  isUnpriced,
  placeFault,
  readDraft,
} from "../model/order";
import { pendingTask } from "../model/plan";
import { makeTickets } from "../model/tickets";
import { Field } from "../parts/Field";
import { ErrorNote } from "../parts/Notes";
import { Permitted } from "../parts/Permitted";
import { PlanGraph } from "../parts/PlanGraph";
import { StateMark } from "../parts/StateMark";
import { SafeText } from "../parts/Text";
import { address, go } from "../router";
import "./Submit.css";

const TASKS_EXAMPLE = `[
  {"id": "facts", "instruction": "List the facts."},
  {"id": "report", "instruction": "Write one page.", "needs": ["facts"]}
]`;

interface Preview {
  order: AskForm;
  plan: PlanForm;
}

/** Write a request, see what would be done for it, and submit it. */
export function Submit() {
  const [draft, setDraft] = useState<Draft>(EMPTY_DRAFT);
  const [faults, setFaults] = useState<Faults>({});
  const [preview, setPreview] = useState<Preview | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [submitted, setSubmitted] = useState<Taken | null>(null);
  const ticketFor = useMemo(makeTickets, []);

  /** What is in the form, also for a reply that comes after a change. */
  const latest = useRef(draft);
  latest.current = draft;

  function change(changed: Partial<Draft>) {
    setDraft((old) => ({ ...old, ...changed }));
    // A plan is shown, and an error stands, only for what is in the form.
    setPreview(null);
    setFaults({});
  }

  async function attempt(order: AskForm, work: () => Promise<void>) {
    setBusy(true);
    setFaults({});
    try {
      await work();
    } catch (error) {
      setFaults(faultsOf(error as Error, order));
    }
    setBusy(false);
  }

  function show() {
    const { order, faults: found } = readDraft(draft);
    setFaults(found);
    if (order) {
      void attempt(order, async () => {
        const plan = await previewPlan(order);
        if (latest.current === draft) setPreview({ order, plan });
      });
    }
  }

  function submit(order: AskForm) {
    void attempt(order, async () => {
      const taken = await submitRun(order, ticketFor(order));
      if (taken.worker && mayReadRuns()) go(address("run", [taken.run]));
      else setSubmitted(taken);
    });
  }

  function record({ order }: Preview) {
    void attempt(order, async () => {
      const plan = await previewPlan(order, true);
      if (latest.current === draft) setPreview({ order, plan });
    });
  }

  return (
    <>
      <p class="crumbs">
        <a href="#/">Runs</a> / new run
      </p>
      <div class="page-head">
        <h1>New run</h1>
      </div>
      <div class="submit">
        <OrderForm draft={draft} faults={faults} isBusy={isBusy} change={change} show={show} />
        <div class="stack">
          {faults[""] && <ErrorNote error={new Error(faults[""])} />}
          {submitted && <SubmittedNote taken={submitted} />}
          {preview ? (
            <PlanPreview
              preview={preview}
              isBusy={isBusy}
              submit={() => submit(preview.order)}
              record={() => record(preview)}
            />
          ) : (
            <Steps />
          )}
        </div>
      </div>
    </>
  );
}

function mayReadRuns(): boolean {
  return !refusalOf("read") || !refusalOf("audit");
}

/** What became of a run whose page is not shown at once. */
function SubmittedNote({ taken: { run, worker } }: { taken: Taken }) {
  return (
    <div class={worker ? "note ok" : "note wait"} role="status">
      <StateMark state={worker ? "ok" : "waiting"} label={`Submitted as run ${shortId(run)}.`} />
      {!worker && (
        <p>
          No worker is running, so it waits. Start one with <code>forum worker</code>, or serve and
          work in one process with <code>forum up</code>.
        </p>
      )}
      <p>
        {mayReadRuns() ? (
          <a href={address("run", [run])}>See the run</a>
        ) : (
          "Your key may not read runs, so it is not shown here."
        )}
      </p>
    </div>
  );
}

function faultsOf(error: Error, order: AskForm): Faults {
  return error instanceof ProblemError && error.detail
    ? placeFault(error.detail, order)
    : { "": error.message };
}

/** What stands beside the form before there is a plan. */
function Steps() {
  return (
    <section class="card form">
      <h2>What happens</h2>
      <p>
        You see the plan first. Nothing is recorded or spent until you submit it. The run then stops
        before a call that its cap cannot pay.
      </p>
      <p class="small quiet">
        In a terminal: <code>forum submit --max-usd 0.50 "Name three rivers."</code>
      </p>
    </section>
  );
}

interface OrderFormProps {
  draft: Draft;
  faults: Faults;
  isBusy: boolean;
  change: (changed: Partial<Draft>) => void;
  show: () => void;
}

function OrderForm({ draft, faults, isBusy, change, show }: OrderFormProps) {
  const refusal = refusalOf("submit");
  const hasTasks = draft.tasks.trim() !== "";
  const [isOpen, setOpen] = useState(false);
  return (
    <form
      class="card form"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        show();
      }}
    >
      {refusal && <p class="note">{refusal} It can preview plans, and cannot submit them.</p>}
      <Field label="Request" fault={faults.request}>
        {(control) => (
          <textarea
            {...control}
            class="request"
            rows={5}
            required
            value={draft.request}
            onInput={(event) => change({ request: event.currentTarget.value })}
          />
        )}
      </Field>
      <Field
        label="Cap in dollars"
        fault={faults.usd}
        hint="For example 0.50. The run may cost this much and no more."
      >
        {(control) => (
          <span class="dollars">
            $
            <input
              {...control}
              type="text"
              inputmode="decimal"
              autocomplete="off"
              required
              value={draft.usd}
              onInput={(event) => change({ usd: event.currentTarget.value })}
            />
          </span>
        )}
      </Field>
      <div class="fields two">
        <LaneField draft={draft} fault={faults.lane} isFixed={hasTasks} change={change} />
        <Field label="Who works" fault={faults.worker}>
          {(control) => (
            <select
              {...control}
              value={draft.worker}
              onChange={(event) => change({ worker: event.currentTarget.value })}
            >
              <option value="">As forum.toml says</option>
              <option value="one">One agent</option>
              <option value="team">A team, which plans and judges</option>
            </select>
          )}
        </Field>
      </div>
      <Limits draft={draft} faults={faults} change={change} />
      <details
        open={isOpen || Boolean(faults.tasks)}
        onToggle={(event) => setOpen(event.currentTarget.open)}
      >
        <summary>Your own plan</summary>
        <Field
          label="Tasks as JSON"
          fault={faults.tasks}
          hint="As in a plan file. Leave it empty to have Forum make the plan."
        >
          {(control) => (
            <textarea
              {...control}
              rows={8}
              spellcheck={false}
              placeholder={TASKS_EXAMPLE}
              value={draft.tasks}
              onInput={(event) => change({ tasks: event.currentTarget.value })}
            />
          )}
        </Field>
      </details>
      <div class="row">
        <button type="submit" class="primary" disabled={isBusy}>
          Preview the plan
        </button>
      </div>
    </form>
  );
}

interface LaneFieldProps {
  draft: Draft;
  fault: string | undefined;
  isFixed: boolean;
  change: (changed: Partial<Draft>) => void;
}

function LaneField({ draft, fault, isFixed, change }: LaneFieldProps) {
  const { data, error } = useLoad(listLanes, []);
  const lanes = data ?? [];
  const groups = [...new Set(lanes.map(({ group }) => group))];
  const hint = isFixed
    ? "The tasks of your plan name their lanes."
    : (lanes.find(({ name }) => name === draft.lane)?.does ?? error?.message ?? "");
  return (
    <Field label="Kind of work (lane)" fault={fault} hint={hint}>
      {(control) => (
        <select
          {...control}
          disabled={isFixed}
          value={isFixed ? "" : draft.lane}
          onChange={(event) => change({ lane: event.currentTarget.value })}
        >
          <option value="">Chosen by the words above</option>
          {groups.map((title) => (
            <optgroup key={title} label={title}>
              {lanes
                .filter(({ group }) => group === title)
                .map(({ name, does }) => (
                  <option key={name} value={name}>
                    {name}: {shorten(does)}
                  </option>
                ))}
            </optgroup>
          ))}
        </select>
      )}
    </Field>
  );
}

const MAX_OPTION_CHARACTERS = 70;

function shorten(text: string): string {
  return text.length > MAX_OPTION_CHARACTERS
    ? `${text.slice(0, MAX_OPTION_CHARACTERS - 1)}…`
    : text;
}

const LIMITS = [
  { name: "calls", label: "Calls" },
  { name: "tokens", label: "Tokens" },
  { name: "seconds", label: "Seconds" },
] as const;

interface LimitsProps {
  draft: Draft;
  faults: Faults;
  change: (changed: Partial<Draft>) => void;
}

function Limits({ draft, faults, change }: LimitsProps) {
  return (
    <fieldset>
      <legend>Other limits</legend>
      <div class="fields">
        {LIMITS.map(({ name, label }) => (
          <Field key={name} label={label} fault={faults[name]}>
            {(control) => (
              <input
                {...control}
                type="text"
                inputmode="decimal"
                autocomplete="off"
                placeholder="no limit"
                value={draft[name]}
                onInput={(event) => change({ [name]: event.currentTarget.value })}
              />
            )}
          </Field>
        ))}
      </div>
    </fieldset>
  );
}

interface PlanPreviewProps {
  preview: Preview;
  isBusy: boolean;
  submit: () => void;
  record: () => void;
}

function PlanPreview({ preview: { order, plan }, isBusy, submit, record }: PlanPreviewProps) {
  const tasks = useMemo(() => plan.tasks.map(pendingTask), [plan]);
  const shown = useRef<HTMLElement>(null);
  useEffect(() => shown.current?.focus(), [plan]); // on a narrow screen it is below the form
  return (
    <>
      <section ref={shown} class="card form" tabIndex={-1} aria-label="What would be done">
        <h2>What would be done</h2>
        <dl class="facts">
          <div>
            <dt>Costs</dt>
            <dd>at most {describeCap(plan.cap)}</dd>
          </div>
          {!order.tasks && (
            <div>
              <dt>Lane</dt>
              <dd>
                {plan.lane ?? (plan.classifier ? `chosen by ${plan.classifier}, a model` : "none")}
              </dd>
            </div>
          )}
          <div>
            <dt>Judged</dt>
            <dd>{plan.judged ? "yes, by models or verifiers" : "no"}</dd>
          </div>
          {plan.gates.length > 0 && (
            <div>
              <dt>Waits for</dt>
              <dd>approval of {plan.gates.join(", ")}</dd>
            </div>
          )}
        </dl>
        {isLowered(order, plan) && (
          <p class="note wait">The operator of this server allows less than you asked for.</p>
        )}
        <PriceNote />
        {plan.team && (
          <p>A team makes the plan when the run begins, so no task is known before it.</p>
        )}
        <div class="row">
          <Permitted scope="submit" action="submit this run">
            <button type="button" class="primary" disabled={isBusy} onClick={submit}>
              Submit the run
            </button>
            {plan.recorded == null && (
              <button type="button" disabled={isBusy} onClick={record}>
                Record this preview
              </button>
            )}
          </Permitted>
          {plan.recorded != null && (
            <a href={address("run", [plan.recorded])}>Recorded: see the note</a>
          )}
        </div>
      </section>
      {tasks.length > 0 && <PlanGraph tasks={tasks} />}
      {tasks.length > 0 && (
        <section class="card" aria-label="Tasks">
          <h2>Tasks</h2>
          <PlannedTasks tasks={plan.tasks} />
        </section>
      )}
    </>
  );
}

/** Says where a cap in dollars is no limit. */
function PriceNote() {
  const { data } = useLoad(listAgents, []);
  if (!data || !isUnpriced(data)) return null;
  return (
    <p class="note wait">
      No agent of this project has a price, so a cap in dollars stops nothing. Limit calls, tokens
      or seconds as well.
    </p>
  );
}

function PlannedTasks({ tasks }: { tasks: PlannedForm[] }) {
  return (
    <ol class="planned">
      {tasks.map((task) => (
        <li key={task.id}>
          <p class="row">
            <span class="strong">
              <SafeText text={task.id} />
            </span>
            <span class="small quiet">
              {task.agent || "default agent"}
              {task.lane && `, lane ${task.lane}`}
            </span>
          </p>
          <pre>
            <SafeText text={task.instruction} />
          </pre>
          {task.done_when && (
            <p class="small quiet">
              Done when: <SafeText text={task.done_when} />
            </p>
          )}
          {task.tasks.length > 0 && <PlannedTasks tasks={task.tasks} />}
        </li>
      ))}
    </ol>
  );
}
