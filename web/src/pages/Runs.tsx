import type { RunLine } from "forumd-client";
import { Fragment } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { listRuns } from "../api/calls";
import { useEvaluationRuns } from "../api/evaluationRuns";
import { useListCheck } from "../api/listProof";
import { useLoad } from "../api/load";
import { formatCount, formatDuration, formatNumberOf, shortId } from "../model/format";
import type { RunListing } from "../model/listBadge";
import { own } from "../model/own";
import {
  OUTCOMES,
  PROVENANCES,
  type RunFilter,
  readFilter,
  STATES,
  stateOf,
  titleOf,
  WORDS,
} from "../model/runs";
import {
  addUpRuns,
  groupRuns,
  isGroup,
  NEWEST_FIRST,
  nextOrder,
  type RunGroup,
  type RunOrder,
  type SortColumn,
  sortRuns,
} from "../model/runTable";
import { ListBadge, ListNote } from "../parts/ListBadge";
import { Money } from "../parts/Money";
import { Empty, ErrorNote, Loading } from "../parts/Notes";
import { Permitted } from "../parts/Permitted";
import { ORIGINS, Provenance } from "../parts/Provenance";
import { SaidByServer } from "../parts/SaidByServer";
import { Mark, StateMark } from "../parts/StateMark";
import { SafeText } from "../parts/Text";
import { Time } from "../parts/Time";
import { address, type Route, replaceAddress, route } from "../router";

const POLL_MS = 5000;
const TYPING_MS = 300;

/** All runs, the newest first; the filters stand in the address. */
export function Runs(props: { route: Route }) {
  const filter = readFilter(props.route.query);
  const [picked, setPicked] = useState<string[]>([]);
  return (
    <>
      <div class="page-head">
        <h1>Runs</h1>
        <div class="actions">
          <Permitted scope="submit" action="submit a run">
            <a class="button primary" href="#/submit">
              New run
            </a>
          </Permitted>
        </div>
      </div>
      <Filters filter={filter} />
      <RunList
        key={JSON.stringify(filter)}
        filter={filter}
        picked={picked}
        toggle={(run) => setPicked((old) => togglePick(old, run))}
      />
      <SaidByServer />
    </>
  );
}

/** Pick a run or take it back; of three the oldest pick is dropped. */
function togglePick(picked: string[], run: string): string[] {
  return picked.includes(run)
    ? picked.filter((other) => other !== run)
    : [...picked, run].slice(-2);
}

interface RunListProps {
  filter: RunFilter;
  picked: string[];
  toggle: (run: string) => void;
}

function RunList({ filter, picked, toggle }: RunListProps) {
  const [pages, setPages] = useState(1);
  // A search reads the texts of runs, which is too much to do again every few seconds.
  const everyMs = filter.text ? 0 : POLL_MS;
  const isFiltered = Object.values(filter).some(Boolean);
  const loading = useRef(() => {});
  const check = useListCheck(!isFiltered, () => loading.current());
  const load = async () => {
    // The list that is asked for now must show every run that was proven to be there.
    const known = check?.known() ?? 0;
    const page = await listRuns(filter, pages);
    const runs = page.runs.map(({ run }) => run);
    return { ...page, listing: { runs, isEnd: page.next === null, known } };
  };
  const { data, error, reload } = useLoad(load, [], everyMs);
  loading.current = reload;
  useEffect(() => {
    if (pages > 1) reload();
  }, [pages]);
  const listing: RunListing | null = data?.listing ?? null;
  useEffect(() => {
    if (listing) check?.want(listing);
  }, [check, listing]);
  if (!data) return error ? <ErrorNote error={error} retry={reload} /> : <Loading what="runs" />;
  return (
    <>
      {error && <ErrorNote error={error} retry={reload} />}
      <p class="row list-check">
        <ListBadge check={check} listing={listing} isFiltered={isFiltered} />
      </p>
      <ListNote check={check} />
      {data.runs.length > 0 && (
        <RunTable runs={data.runs} hasMore={data.next !== null} picked={picked} toggle={toggle} />
      )}
      {data.runs.length === 0 && data.next === null && <NoRuns isFiltered={isFiltered} />}
      {(data.unsearched ?? 0) > 0 && (
        <p class="note wait">
          Not every text of {formatNumberOf(data.unsearched ?? 0, "run")} was searched: they are too
          large, or in an archive that cannot be reached.
        </p>
      )}
      {data.next !== null && (
        <p class="row more">
          {data.runs.length === 0 && <span>None of the newest runs matches these filters.</span>}
          <button type="button" onClick={() => setPages(pages + 1)}>
            {isFiltered ? "Search older runs" : "Show older runs"}
          </button>
        </p>
      )}
    </>
  );
}

function Filters({ filter }: { filter: RunFilter }) {
  const change = (changed: Partial<RunFilter>) =>
    replaceAddress(address("runs", [], { ...readFilter(route.value.query), ...changed }));
  return (
    <search class="filters">
      <TypedFilter
        label="Search in requests and messages"
        value={filter.text}
        maxLength={200}
        onChange={(text) => change({ text })}
      />
      <Choice
        label="State"
        all="Every state"
        values={[...STATES, ...OUTCOMES, ...WORDS]}
        value={filter.state}
        onChange={(state) => change({ state })}
      />
      <Choice
        label="Origin"
        all="Every origin"
        values={PROVENANCES}
        words={ORIGINS}
        value={filter.provenance}
        onChange={(provenance) => change({ provenance })}
      />
      <TypedFilter
        label="Kind of work"
        isBrief
        value={filter.lane}
        maxLength={128}
        onChange={(lane) => change({ lane })}
      />
      <Day label="From" value={filter.since} onChange={(since) => change({ since })} />
      <Day label="Before" value={filter.until} onChange={(until) => change({ until })} />
    </search>
  );
}

interface TypedFilterProps {
  label: string;
  value: string;
  maxLength: number;
  isBrief?: boolean;
  onChange: (value: string) => void;
}

/** A text to filter by. The server is asked after the user has paused. */
function TypedFilter({ label, value, maxLength, isBrief, onChange }: TypedFilterProps) {
  const due = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(due.current), []);
  const type = (typed: string) => {
    clearTimeout(due.current);
    due.current = setTimeout(() => onChange(typed), TYPING_MS);
  };
  return (
    <input
      type="search"
      class={isBrief ? "brief" : ""}
      aria-label={label}
      placeholder={label}
      maxLength={maxLength}
      value={value}
      onInput={(event) => type(event.currentTarget.value)}
    />
  );
}

interface DayProps {
  label: string;
  value: string;
  onChange: (value: string) => void;
}

/** A day in UTC. */
function Day({ label, value, onChange }: DayProps) {
  return (
    <label class="row-tight small quiet">
      {label}
      <input
        type="date"
        title="A day in UTC"
        value={value}
        onChange={(event) => onChange(event.currentTarget.value)}
      />
    </label>
  );
}

interface ChoiceProps {
  label: string;
  all: string;
  values: string[];
  value: string;
  /** What a value is called on the page, if not by itself. */
  words?: Record<string, string>;
  onChange: (value: string) => void;
}

function Choice({ label, all, values, value, words = {}, onChange }: ChoiceProps) {
  return (
    <select
      aria-label={label}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
    >
      <option value="">{all}</option>
      {values.map((name) => (
        <option key={name} value={name}>
          {own(words, name) ?? name}
        </option>
      ))}
    </select>
  );
}

interface RunTableProps {
  runs: RunLine[];
  /** Whether older runs are not loaded. */
  hasMore: boolean;
  picked: string[];
  toggle: (run: string) => void;
}

function RunTable({ runs, hasMore, picked, toggle }: RunTableProps) {
  const [order, setOrder] = useState(NEWEST_FIRST);
  const [opened, setOpened] = useState<string[]>([]);
  const evaluations = useEvaluationRuns(runs);
  const sorted = sortRuns(runs, order);
  const rows = order.by === "begun" ? groupRuns(sorted, evaluations) : sorted;
  const showRun = (run: RunLine) => (
    <RunRow
      key={run.run}
      run={run}
      isPicked={picked.includes(run.run)}
      toggle={() => toggle(run.run)}
    />
  );
  return (
    <section class="card">
      <div class="card-head">
        <Totals runs={runs} hasMore={hasMore} />
        <Picked picked={picked} />
      </div>
      <table class="runs">
        <thead>
          <tr>
            <th>
              <span class="hidden-label">Compare</span>
            </th>
            <th>Request</th>
            <SortHead title="State" by="state" order={order} onChange={setOrder} />
            <th>Model</th>
            <th class="number">Steps</th>
            <SortHead title="Time" by="time" order={order} onChange={setOrder} isNumber />
            <SortHead title="Cost" by="cost" order={order} onChange={setOrder} isNumber />
            <SortHead title="Begun" by="begun" order={order} onChange={setOrder} isNumber />
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => {
            if (!isGroup(row)) return showRun(row);
            const { run } = row.evaluation;
            const isOpen = opened.includes(run);
            const turn = () =>
              setOpened(isOpen ? opened.filter((name) => name !== run) : [...opened, run]);
            return (
              <Fragment key={run}>
                <GroupRow group={row} isOpen={isOpen} turn={turn} />
                {isOpen && row.runs.map(showRun)}
              </Fragment>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}

function Totals({ runs, hasMore }: { runs: RunLine[]; hasMore: boolean }) {
  const totals = addUpRuns(runs);
  return (
    <p class="totals">
      <strong>{formatNumberOf(totals.runs, "run")}</strong>
      {hasMore && <span class="quiet"> (the newest)</span>}
      {" · "}
      <Money usd={totals.usd} />
      {" · "}
      {formatDuration(totals.seconds * 1000)} in total
      {totals.notOk > 0 && ` · ${formatCount(totals.notOk)} did not end well`}
    </p>
  );
}

function Picked({ picked }: { picked: string[] }) {
  const [first = "", second = ""] = picked;
  return (
    <span class="row small quiet end">
      {picked.length === 0 && "Choose two runs to compare them."}
      {picked.length === 1 && `${shortId(first)} is chosen. Choose another to compare it with.`}
      {picked.length === 2 && `${shortId(first)} and ${shortId(second)} are chosen.`}
      {picked.length === 2 && (
        <a class="button" href={address("compare", picked)}>
          Compare
        </a>
      )}
    </span>
  );
}

interface SortHeadProps {
  title: string;
  by: SortColumn;
  order: RunOrder;
  isNumber?: boolean;
  onChange: (order: RunOrder) => void;
}

/** The head of a column that sorts the loaded runs. */
function SortHead({ title, by, order, isNumber, onChange }: SortHeadProps) {
  const direction = order.isDescending ? "descending" : "ascending";
  return (
    <th class={isNumber ? "number" : ""} aria-sort={order.by === by ? direction : "none"}>
      <button type="button" class="sort" onClick={() => onChange(nextOrder(order, by))}>
        {title}
        <span aria-hidden="true">{order.by === by ? (order.isDescending ? "▾" : "▴") : ""}</span>
      </button>
    </th>
  );
}

/** The runs of one evaluation, folded. */
function GroupRow(props: { group: RunGroup; isOpen: boolean; turn: () => void }) {
  const { group, isOpen, turn } = props;
  const { evaluation, runs } = group;
  const totals = addUpRuns(runs);
  const ok = runs.filter(({ outcome }) => outcome === "ok").length;
  return (
    <tr class="run-group">
      <td class="pick">
        <button
          type="button"
          class="plain fold"
          aria-expanded={isOpen}
          aria-label={`Runs of the evaluation ${shortId(evaluation.run)}`}
          onClick={turn}
        >
          {isOpen ? "▾" : "▸"}
        </button>
      </td>
      <td class="request">
        <a class="clip" href={address("scores", [evaluation.run])}>
          Evaluation of <SafeText text={evaluation.configurations.join(", ")} />
        </a>
        <span class="row small quiet">
          {formatNumberOf(runs.length, "run")} of {formatNumberOf(evaluation.cases, "case")}
        </span>
      </td>
      <td class="status">
        {ok} of {runs.length} ok
      </td>
      <td class="model" />
      <td class="number tasks" />
      <td class="number time">{formatDuration(totals.seconds * 1000)}</td>
      <td class="number cost">
        <Money usd={totals.usd} />
      </td>
      <td class="number begun quiet">
        <Time at={evaluation.begun} />
      </td>
    </tr>
  );
}

function RunRow(props: { run: RunLine; isPicked: boolean; toggle: () => void }) {
  const { run, isPicked, toggle } = props;
  const models = run.models ?? [];
  return (
    <tr>
      <td class="pick">
        <input
          type="checkbox"
          aria-label={`Compare ${shortId(run.run)}`}
          checked={isPicked}
          onChange={toggle}
        />
      </td>
      <td class="request">
        <a class="clip" href={address("run", [run.run])}>
          <SafeText text={titleOf(run)} />
        </a>
        <span class="row small quiet">
          <code>{shortId(run.run)}</code>
          {run.provenance !== "driven" && <Provenance run={run} />}
          {run.lane && <SafeText text={run.lane} />}
          {run.gaps > 0 && <span class="tone-wait">{formatNumberOf(run.gaps, "gap")}</span>}
        </span>
        {run.altered && <AlteredNote />}
      </td>
      <td class="status">
        <StateMark state={stateOf(run)} />
        {(run.refused ?? 0) > 0 && <Refused calls={run.refused ?? 0} />}
      </td>
      <td class="model" title={models.join(", ")}>
        {models[0] && <SafeText text={models[0]} />}
        {models.length > 1 && <span class="quiet"> +{models.length - 1}</span>}
      </td>
      <td class="number tasks">{stepsLabel(run)}</td>
      <td class="number time">{run.seconds == null ? "" : formatDuration(run.seconds * 1000)}</td>
      <td class="number cost">
        <Money usd={run.spent.usd} />
        {(run.unpriced ?? 0) > 0 && <Unpriced calls={run.unpriced ?? 0} />}
      </td>
      <td class="number begun quiet">
        <Time at={run.begun} />
      </td>
    </tr>
  );
}

function Unpriced({ calls }: { calls: number }) {
  return (
    <span
      class="small tone-wait unpriced"
      title={`${calls} of its calls have no known price, and count as free`}
    >
      without a price
    </span>
  );
}

function AlteredNote() {
  return (
    <span class="small tone-bad altered">
      <Mark state="failed" /> Altered: somebody changed the summary or the request of this run in
      the database. Run <code>forum ledger verify</code>.
    </span>
  );
}

function Refused({ calls }: { calls: number }) {
  return (
    <span class="small tone-wait refused" title="A cap refused these calls">
      {formatNumberOf(calls, "call")} refused
    </span>
  );
}

function stepsLabel(run: RunLine): string {
  if (run.provenance !== "driven") return formatNumberOf(run.spans, "step");
  return run.tasks ? `${run.passed} of ${run.tasks}` : "–";
}

function NoRuns({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) {
    return (
      <Empty title="No run matches these filters">
        <p>
          <a href="#/">Clear the filters</a>
        </p>
      </Empty>
    );
  }
  return (
    <Empty title="No run yet">
      <p>
        <a href="#/submit">Submit one here</a>, or in a terminal, or point an agent at the gateway:
      </p>
      <pre>{'forum submit "Name three rivers."\nforum run -- python agent.py'}</pre>
    </Empty>
  );
}
