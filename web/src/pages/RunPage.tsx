import { ProblemError, type RunForm } from "forumd-client";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { cancelRun, getRun } from "../api/calls";
import { type Connection, followRun, type LiveRun } from "../api/live";
import { type EntryCheck, useEntryCheck } from "../api/proof";
import { countUntil, type Item } from "../model/entries";
import {
  formatDollars,
  formatDuration,
  formatNumberOf,
  formatSpent,
  shortId,
} from "../model/format";
import { describeCare, describeRoute, stateOf, titleOf } from "../model/runs";
import { Badge } from "../parts/Badge";
import { BodyText } from "../parts/BodyText";
import { CheckNote } from "../parts/CheckNote";
import { CostCard } from "../parts/CostCard";
import { CouncilCard } from "../parts/CouncilCard";
import { TakeEvidence } from "../parts/Evidence";
import { ForkAction } from "../parts/ForkAction";
import { GateCard } from "../parts/GateCard";
import { Inspector } from "../parts/Inspector";
import { Markdown } from "../parts/Markdown";
import { ErrorNote, Loading } from "../parts/Notes";
import { Permitted } from "../parts/Permitted";
import { PlanGraph } from "../parts/PlanGraph";
import { Provenance } from "../parts/Provenance";
import { RunEntries } from "../parts/RunEntries";
import { Sightings } from "../parts/Sightings";
import { StateMark } from "../parts/StateMark";
import { SafeText } from "../parts/Text";
import { Time } from "../parts/Time";
import { Timeline } from "../parts/Timeline";
import { TimeTravel } from "../parts/TimeTravel";
import { address, type Route, replaceAddress } from "../router";

/** How long the slider rests before the run is asked for as it stood there. */
const TRAVEL_MS = 150;

const NO_ITEMS: Item[] = [];

/** One run, live or as it stood. The chosen entry and the moment stand in the address. */
export function RunPage({ route }: { route: Route }) {
  const run = route.parts[0] ?? "";
  const [live, setLive] = useState<LiveRun | null>(null);
  useEffect(() => {
    const followed = followRun(run);
    setLive(followed);
    return followed.stop;
  }, [run]);
  const [entry, until] = [readIndex(route.query, "entry"), readIndex(route.query, "until")];
  const past = usePast(run, until);
  const all = live?.items.value;
  const items = useMemo(
    () => (all && until !== null ? all.slice(0, countUntil(all, until)) : (all ?? [])),
    [all, until],
  );
  const check = useEntryCheck(run, all ?? NO_ITEMS);
  // What was shown stays until the other moment is loaded: the slider must keep its focus.
  const shown = useRef<RunForm | null>(null);
  const view = (until === null ? live?.view.value : past.view) ?? shown.current;
  shown.current = view;
  const error = until === null ? live?.error.value : past.error;
  const show = (changed: { entry?: number | null; until?: number | null }) => {
    const place = { entry, until, ...changed };
    const query = { entry: String(place.entry ?? ""), until: String(place.until ?? "") };
    replaceAddress(address("run", [run], query));
  };
  if (error) return <RunError error={error} back={() => show({ until: null })} until={until} />;
  if (!live || !view) return <Loading what="the run" />;
  return (
    <>
      <RunHead
        view={view}
        connection={until === null ? live.connection.value : null}
        check={check}
        items={items}
      />
      <TimeTravel
        items={live.items.value}
        until={until}
        onChange={(moment) => show({ until: moment })}
      >
        {view.provenance === "driven" && (
          <ForkAction
            view={view}
            items={live.items.value}
            at={until ?? live.items.value.at(-1)?.index ?? 0}
          />
        )}
      </TimeTravel>
      <RunBody
        view={view}
        items={items}
        check={check}
        isPast={until !== null}
        chosen={entry}
        choose={(index) => show({ entry: index })}
      />
    </>
  );
}

/** An index in the address; null if there is none. */
function readIndex(query: URLSearchParams, name: string): number | null {
  const text = query.get(name) ?? "";
  return /^\d+$/.test(text) ? Number(text) : null;
}

interface Past {
  view: RunForm | null;
  error: Error | null;
}

/** A run as it stood after an entry; null until the first one is loaded. */
function usePast(run: string, until: number | null): Past {
  const [past, setPast] = useState<Past>({ view: null, error: null });
  useEffect(() => {
    if (until === null) {
      setPast({ view: null, error: null });
      return;
    }
    const stopping = new AbortController();
    const { signal } = stopping;
    const due = setTimeout(() => {
      getRun(run, { until, signal }).then(
        (view) => signal.aborted || setPast({ view, error: null }),
        (error: Error) => signal.aborted || setPast({ view: null, error }),
      );
    }, TRAVEL_MS);
    return () => {
      clearTimeout(due);
      stopping.abort();
    };
  }, [run, until]);
  return past;
}

function RunError(props: { error: Error; until: number | null; back: () => void }) {
  if (props.until === null && props.error instanceof ProblemError && props.error.status === 404) {
    return (
      <>
        <div class="page-head">
          <h1>There is no such run</h1>
        </div>
        <p>
          The address may be cut off, or the run is of another project.{" "}
          <a href="#/">See all runs</a>
        </p>
      </>
    );
  }
  return (
    <div class="stack">
      <ErrorNote error={props.error} />
      {props.until !== null && (
        <p>
          <button type="button" onClick={props.back}>
            Back to now
          </button>
        </p>
      )}
    </div>
  );
}

interface RunBodyProps {
  view: RunForm;
  items: Item[];
  check: EntryCheck | null;
  isPast: boolean;
  chosen: number | null;
  choose: (entry: number | null) => void;
}

function RunBody({ view, items, check, isPast, chosen, choose }: RunBodyProps) {
  const item = useMemo(() => items.find(({ index }) => index === chosen) ?? null, [items, chosen]);
  const now = useMemo(() => endOf(view, items, isPast), [view, items, isPast]);
  const isAlone = view.tasks.length < 2;
  return (
    <div class={item ? "columns" : ""}>
      <div class="stack">
        {!isPast &&
          view.waits_for.map(({ run, subject }) => (
            <GateCard
              key={`${run} ${subject}`}
              run={run}
              subject={subject}
              hasKeys={view.waits_for.length === 1}
            />
          ))}
        {view.deliberation?.protocol === "council" && (
          <CouncilCard council={view.deliberation} answer={view.answer} />
        )}
        {!isAlone && <PlanGraph tasks={view.tasks} chosen={chosen} onChoose={choose} />}
        <Timeline items={items} now={now} chosen={chosen} onChoose={choose} />
        <div class="pair">
          <CostCard view={view} items={items} />
          <Sightings lastEntry={items.at(-1)?.index ?? 0} check={check} />
        </div>
        <RunEntries items={items} chosen={chosen} onChoose={choose} />
      </div>
      {item && (
        <Inspector
          item={item}
          items={items}
          check={check}
          onChoose={choose}
          onClose={() => choose(null)}
        />
      )}
    </div>
  );
}

/** Where spans end that go on: now, or at the last entry of what is over. */
function endOf(view: RunForm, items: Item[], isPast: boolean): number {
  const last = items.at(-1)?.entry.ts ?? 0;
  return isPast || view.state === "ended" || view.state === "stopped"
    ? last
    : Math.max(last, Date.now() * 1000);
}

interface RunHeadProps {
  view: RunForm;
  /** Without one the run is shown as it stood, and nothing can be done. */
  connection: Connection | null;
  check: EntryCheck | null;
  items: Item[];
}

function RunHead({ view, connection, check, items }: RunHeadProps) {
  const title = titleOf(view);
  const [failure, setFailure] = useState<Error | null>(null);
  const attempt = (work: Promise<unknown>) => work.then(() => setFailure(null), setFailure);
  return (
    <div class="run-head">
      <p class="crumbs">
        <a href="#/">Runs</a> / <code>{shortId(view.run)}</code>
        {view.about && (
          <>
            {" · "}
            about the answer of <a href={address("run", [view.about])}>{shortId(view.about)}</a>
          </>
        )}
        {view.within && (
          <>
            {" "}
            within <a href={address("run", [view.within])}>{shortId(view.within)}</a>
          </>
        )}
        {view.fork_of && (
          <>
            {" "}
            forked from <a href={address("run", [view.fork_of])}>{shortId(view.fork_of)}</a>
          </>
        )}
      </p>
      <div class="page-head">
        <h1>
          <SafeText text={title} />
        </h1>
        {connection !== null && (
          <div class="actions">
            <TakeEvidence run={view.run} />
            {view.outcome === null && view.provenance === "driven" && (
              <Permitted scope="submit" action="cancel this run">
                <button type="button" class="danger" onClick={() => attempt(cancelRun(view.run))}>
                  Cancel the run
                </button>
              </Permitted>
            )}
          </div>
        )}
      </div>
      <div class="row facts-line">
        <StateMark state={stateOf(view)} />
        <span>
          <strong>{formatSpent(view.spent.usd, view.cap.usd)}</strong>
          {view.cap.usd !== null && ` of ${formatDollars(view.cap.usd)}`}
        </span>
        <span>{formatNumberOf(view.spent.calls, "call")}</span>
        {(view.refused ?? 0) > 0 && (
          <span class="tone-wait">
            {formatNumberOf(view.refused ?? 0, "call")} refused by a cap
          </span>
        )}
        <span>{formatNumberOf(view.spent.tokens, "token")}</span>
        <span>{formatDuration(view.seconds * 1000)}</span>
        <span class="quiet">
          begun <Time at={view.begun} />
        </span>
        <Provenance run={view} />
        {view.source && (
          <span class="quiet">
            by <SafeText text={view.source.by} />
          </span>
        )}
        {describeCare(view) && <span class="quiet">{describeCare(view)}</span>}
        {describeRoute(view) && <span class="quiet">{describeRoute(view)}</span>}
        {connection !== null && <ConnectionMark connection={connection} />}
        <Badge check={check} items={items} run={view.run} />
      </div>
      <CheckNote check={check} run={view.run} />
      {failure && <ErrorNote error={failure} />}
      {view.provenance !== "driven" && view.coverage && <p class="note">{view.coverage}</p>}
      {(view.gaps?.length ?? 0) > 0 && (
        <p class="note wait">
          {formatNumberOf(view.gaps?.length ?? 0, "gap")}: steps of this run are known to be missing
          from the record.
        </p>
      )}
      {(view.why || view.reason) && view.waits_for.length === 0 && (
        <p class={view.outcome === null ? "note wait" : "note bad"}>
          <SafeText text={view.why || view.reason} />
        </p>
      )}
      {view.answer && <AnswerText answer={view.answer} items={items} />}
    </div>
  );
}

/** The answer: the body of its entry, which this browser compares with the commitment. */
function AnswerText({ answer, items }: { answer: string; items: Item[] }) {
  const item = items.find(({ entry }) => entry.kind === "answer/1");
  const commitment = item?.entry.bodies.answer;
  return (
    <section class="answer" aria-label="Answer">
      <h2 class="hidden-label">Answer</h2>
      {item && commitment ? (
        <BodyText
          key={item.index}
          entry={item.index}
          name="answer"
          title="Answer"
          commitment={commitment}
          isProse
        />
      ) : (
        <Markdown text={answer} label="Answer" />
      )}
    </section>
  );
}

function ConnectionMark({ connection }: { connection: Connection }) {
  if (connection === "ended") return null;
  if (connection === "lost")
    return <StateMark state="waiting" label="connection lost, trying again" />;
  return <StateMark state="running" label={connection === "live" ? "live" : "connecting"} />;
}
