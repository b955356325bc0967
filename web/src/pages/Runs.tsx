import type { RunLine } from "forumd-client";
import { useEffect, useRef, useState } from "preact/hooks";
import { listRuns } from "../api/calls";
import { useLoad } from "../api/load";
import { shortId } from "../model/format";
import { OUTCOMES, PROVENANCES, type RunFilter, readFilter, STATES, stateOf } from "../model/runs";
import { Unchecked } from "../parts/Badge";
import { Money } from "../parts/Money";
import { Empty, ErrorNote, Loading } from "../parts/Notes";
import { Permitted } from "../parts/Permitted";
import { Provenance } from "../parts/Provenance";
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
        <Unchecked why="The server makes this list. Open a run to check its entries." />
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
  const { data, error, reload } = useLoad(() => listRuns(filter, pages), [], POLL_MS);
  useEffect(() => {
    if (pages > 1) reload();
  }, [pages]);
  const isFiltered = Object.values(filter).some(Boolean);
  if (!data) return error ? <ErrorNote error={error} retry={reload} /> : <Loading what="runs" />;
  return (
    <>
      {error && <ErrorNote error={error} retry={reload} />}
      {data.runs.length > 0 && <RunTable runs={data.runs} picked={picked} toggle={toggle} />}
      {data.runs.length === 0 && data.next === null && <NoRuns isFiltered={isFiltered} />}
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
        label="Search in requests"
        value={filter.text}
        maxLength={200}
        onChange={(text) => change({ text })}
      />
      <Choice
        label="State"
        all="Every state"
        values={[...STATES, ...OUTCOMES]}
        value={filter.state}
        onChange={(state) => change({ state })}
      />
      <Choice
        label="How Forum knows of the run"
        all="Driven or recorded"
        values={PROVENANCES}
        value={filter.provenance}
        onChange={(provenance) => change({ provenance })}
      />
      <TypedFilter
        label="Lane"
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
  onChange: (value: string) => void;
}

function Choice({ label, all, values, value, onChange }: ChoiceProps) {
  return (
    <select
      aria-label={label}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
    >
      <option value="">{all}</option>
      {values.map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </select>
  );
}

interface RunTableProps {
  runs: RunLine[];
  picked: string[];
  toggle: (run: string) => void;
}

function RunTable({ runs, picked, toggle }: RunTableProps) {
  const [first = "", second = ""] = picked;
  return (
    <section class="card">
      <div class="card-head">
        <p class="small quiet">
          {picked.length === 0 && "Choose two runs to compare them."}
          {picked.length === 1 && `${shortId(first)} is chosen. Choose another to compare it with.`}
          {picked.length === 2 && `${shortId(first)} and ${shortId(second)} are chosen.`}
        </p>
        {picked.length === 2 && (
          <a class="button" href={address("compare", picked)}>
            Compare
          </a>
        )}
      </div>
      <table class="runs">
        <thead>
          <tr>
            <th>
              <span class="hidden-label">Compare</span>
            </th>
            <th>Request</th>
            <th>State</th>
            <th class="number">Steps</th>
            <th class="number">Cost</th>
            <th class="number">Begun</th>
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => (
            <RunRow
              key={run.run}
              run={run}
              isPicked={picked.includes(run.run)}
              toggle={() => toggle(run.run)}
            />
          ))}
        </tbody>
      </table>
    </section>
  );
}

function RunRow(props: { run: RunLine; isPicked: boolean; toggle: () => void }) {
  const { run, isPicked, toggle } = props;
  const title = run.request ?? run.name ?? "(erased)";
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
          <SafeText text={title} />
        </a>
        <span class="row small quiet">
          <code>{shortId(run.run)}</code>
          {run.provenance !== "driven" && <Provenance of={run.provenance} />}
          {run.gaps > 0 && <span class="tone-wait">{run.gaps} gaps</span>}
        </span>
        {run.altered && <AlteredNote />}
      </td>
      <td class="status">
        <StateMark state={stateOf(run)} label={stateLabel(run)} />
      </td>
      <td class="number tasks">{stepsLabel(run)}</td>
      <td class="number">
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

function stateLabel(run: RunLine): string {
  return run.stopped ? `${stateOf(run)}: ${run.stopped}` : stateOf(run);
}

function stepsLabel(run: RunLine): string {
  if (run.provenance !== "driven") return `${run.spans} spans`;
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
