import type {
  BudgetForm,
  CostRowForm,
  CostsForm,
  UpstreamForm,
  UpstreamsForm,
} from "forumd-client";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { getCosts, getUpstreams, listBudgets, listRuns } from "../api/calls";
import { useLoad } from "../api/load";
import {
  formatCount,
  formatDollars,
  formatDuration,
  formatNumberOf,
  formatSpent,
  shortId,
} from "../model/format";
import { readFilter } from "../model/runs";
import {
  AXES,
  type CostFilter,
  daysAgo,
  listNoted,
  type NotedRun,
  nameOf,
  readCostFilter,
  stackDays,
} from "../model/spending";
import { CostBars } from "../parts/CostBars";
import { Money } from "../parts/Money";
import { Empty, ErrorNote, Loading } from "../parts/Notes";
import { SaidByServer } from "../parts/SaidByServer";
import { ScrollTable } from "../parts/ScrollTable";
import { StateMark } from "../parts/StateMark";
import { SafeText } from "../parts/Text";
import { address, type Route, replaceAddress } from "../router";
import "./Costs.css";
import { own } from "../model/own";

const POLL_MS = 30_000;
const DAYS_AT_ONCE = 14;
const TITLES = { agent: "Agent", model: "Model", lane: "Lane", day: "Day" };

/** What runs have cost, and what is left of caps. The period and the axis stand in the address. */
export function Costs({ route }: { route: Route }) {
  const filter = readCostFilter(route.query);
  return (
    <>
      <div class="page-head">
        <h1>Costs</h1>
      </div>
      <Period filter={filter} />
      <div class="stack">
        <Spending key={JSON.stringify(filter)} filter={filter} />
        <Budgets />
        <Upstreams key={`${filter.since} ${filter.until}`} filter={filter} />
      </div>
      <SaidByServer />
    </>
  );
}

function Period({ filter }: { filter: CostFilter }) {
  const change = (changed: Partial<CostFilter>) =>
    replaceAddress(address("costs", [], { ...filter, ...changed }));
  const now = Date.now();
  const periods = [
    { title: "7 days", since: daysAgo(7, now) },
    { title: "30 days", since: daysAgo(30, now) },
    { title: "All", since: "" },
  ];
  return (
    <search class="filters">
      {periods.map(({ title, since }) => (
        <button
          key={title}
          type="button"
          aria-pressed={filter.since === since && filter.until === ""}
          onClick={() => change({ since, until: "" })}
        >
          {title}
        </button>
      ))}
      <label class="row-tight small quiet">
        From
        <input
          type="date"
          title="A day in UTC"
          value={filter.since}
          onChange={(event) => change({ since: event.currentTarget.value })}
        />
      </label>
      <label class="row-tight small quiet">
        Before
        <input
          type="date"
          title="A day in UTC"
          value={filter.until}
          onChange={(event) => change({ until: event.currentTarget.value })}
        />
      </label>
      <label class="row-tight small quiet">
        By
        <select
          value={filter.by}
          onChange={({ currentTarget }) =>
            change({ by: AXES.find((axis) => axis === currentTarget.value) ?? "agent" })
          }
        >
          {AXES.map((axis) => (
            <option key={axis} value={axis}>
              {axis}
            </option>
          ))}
        </select>
      </label>
    </search>
  );
}

function Spending({ filter }: { filter: CostFilter }) {
  const days = useLoad(() => getCosts("day", filter, filter.by), [], POLL_MS);
  const rows = useLoad(() => getCosts(filter.by, filter), [], POLL_MS);
  const error = days.error ?? rows.error;
  if (error && !(days.data && rows.data)) return <ErrorNote error={error} retry={days.reload} />;
  if (!days.data || !rows.data) return <Loading what="costs" />;
  if (days.data.total.runs === 0 && countCapped(days.data) === 0) {
    return <NoCosts isFiltered={Boolean(filter.since || filter.until)} />;
  }
  return (
    <>
      {error && <ErrorNote error={error} retry={days.reload} />}
      <Totals costs={days.data} />
      <section class="card">
        <div class="card-head">
          <h2>Cost of each day</h2>
          <span class="small quiet">of runs that began in the period; days in UTC</span>
        </div>
        <CostBars chart={stackDays(days.data.rows, filter, Date.now())} by={filter.by} />
        <DayTable rows={days.data.rows} />
      </section>
      <section class="card">
        <h2>By {filter.by}</h2>
        <CostTable costs={rows.data} />
      </section>
      <Noted costs={days.data} filter={filter} />
    </>
  );
}

function NoCosts({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) {
    return (
      <Empty title="No costs in this period">
        <p>
          <a href="#/costs">Show all of them</a>
        </p>
      </Empty>
    );
  }
  return (
    <Empty title="No costs yet">
      <p>Costs appear with the first call of a model. Set a cap for it:</p>
      <pre>forum submit "Name three rivers." --max-usd 0.50</pre>
    </Empty>
  );
}

function Totals({ costs }: { costs: CostsForm }) {
  const { total } = costs;
  return (
    <section class="card">
      <dl class="totals-line">
        <Total name="Cost">
          <Money usd={total.spent.usd} />
        </Total>
        <Total name="Runs">{formatCount(total.runs)}</Total>
        <Total name="Calls">{formatCount(total.spent.calls)}</Total>
        <Total name="Tokens">{formatCount(total.spent.tokens)}</Total>
        <Total name="Stopped by a cap">{formatCount(costs.runs_stopped)}</Total>
        <Total name="Calls refused by a cap">{formatCount(costs.calls_refused ?? 0)}</Total>
        {(costs.runs_overrun ?? 0) > 0 && (
          <Total name="Overruns">{formatCount(costs.runs_overrun ?? 0)}</Total>
        )}
        <Total name="Calls without a price">{formatCount(total.unpriced)}</Total>
      </dl>
      {costs.runs_open > 0 && (
        <p class="small quiet">
          {counted(costs.runs_open, "run goes", "runs go")} on: counted with the cost so far, and
          open calls with what is reserved for them.
        </p>
      )}
      {costs.runs_altered > 0 && (
        <p class="note bad">
          Somebody changed the summary of {counted(costs.runs_altered, "run", "runs")} in the
          database. Their costs are counted by their entries. Run <code>forum ledger verify</code>.
        </p>
      )}
      {costs.next !== null && (
        <p class="note wait">
          Older runs of this period are not counted: there are too many for one request. Choose a
          shorter period.
        </p>
      )}
    </section>
  );
}

function Total({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt class="small quiet">{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function counted(count: number, one: string, many: string): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}

/** The days, the newest first. */
function DayTable({ rows }: { rows: CostRowForm[] }) {
  const [isWhole, setWhole] = useState(false);
  const newest = rows.toReversed();
  const shown = isWhole ? newest : newest.slice(0, DAYS_AT_ONCE);
  return (
    <>
      <RowTable label="Cost of each day" head="Day" rows={shown} name={(key) => key ?? ""} />
      {shown.length < rows.length && (
        <p class="more">
          <button type="button" onClick={() => setWhole(true)}>
            Show all {formatNumberOf(rows.length, "day")}
          </button>
        </p>
      )}
    </>
  );
}

function CostTable({ costs }: { costs: CostsForm }) {
  const { by, rows } = costs;
  return (
    <RowTable
      label={`Cost by ${by}`}
      head={own(TITLES, by) ?? by}
      rows={rows}
      name={(key) => nameOf(key, by)}
    />
  );
}

interface RowTableProps {
  label: string;
  head: string;
  rows: CostRowForm[];
  name: (key: string | null) => string;
}

function RowTable({ label, head, rows, name }: RowTableProps) {
  return (
    <ScrollTable label={label}>
      <thead>
        <tr>
          <th>{head}</th>
          <th class="number">Cost</th>
          <th class="number">Runs</th>
          <th class="number">Calls</th>
          <th class="number">Tokens</th>
          <th class="number">Without a price</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.key}>
            <td class="cost-key">
              <SafeText text={name(row.key)} />
            </td>
            <td class="number">
              <Money usd={row.spent.usd} />
            </td>
            <td class="number">{formatCount(row.runs)}</td>
            <td class="number">{formatCount(row.spent.calls)}</td>
            <td class="number">{formatCount(row.spent.tokens)}</td>
            <td class="number">
              {row.unpriced > 0 ? (
                <StateMark state="indeterminate" label={formatCount(row.unpriced)} />
              ) : (
                "0"
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </ScrollTable>
  );
}

/** Runs that a cap stopped, and runs with calls whose price nobody knows. */
function Noted({ costs, filter }: { costs: CostsForm; filter: CostFilter }) {
  const { since, until } = filter;
  const listed = useLoad(
    () => listRuns({ ...readFilter(new URLSearchParams()), since, until }, 1),
    [],
  );
  const noted = listNoted(costs, listed.data?.runs ?? []);
  if (!countCapped(costs) && costs.runs_unpriced === 0) return null;
  const unpriced = noted.filter((run) => run.unpriced > 0).length;
  return (
    <section class="card">
      <div class="card-head">
        <h2>Caps reached and prices unknown</h2>
        <span class="small quiet">
          {describeCaps(costs)}, {counted(costs.runs_unpriced, "run", "runs")} with calls without a
          price
        </span>
      </div>
      <ScrollTable label="Runs that a cap stopped or refused, or without a price">
        <thead>
          <tr>
            <th>Run</th>
            <th>What happened</th>
            <th class="number">Cost</th>
          </tr>
        </thead>
        <tbody>
          {noted.map((run) => (
            <NotedLine key={run.run} noted={run} />
          ))}
        </tbody>
      </ScrollTable>
      {listed.data && unpriced < costs.runs_unpriced && (
        <p class="small quiet">
          Of the runs without a price, those among the newest {listed.data.runs.length} are listed.
        </p>
      )}
      {costs.runs_unpriced > 0 && (
        <p class="small quiet">
          A call without a known price counts as free. Give its model a price in{" "}
          <code>forum.toml</code>.
        </p>
      )}
    </section>
  );
}

/** How many runs a cap or a bound has changed. */
function countCapped({ runs_stopped, runs_refused = 0, runs_overrun = 0 }: CostsForm): number {
  return runs_stopped + runs_refused + runs_overrun;
}

function describeCaps({ runs_stopped, runs_refused = 0, runs_overrun = 0 }: CostsForm): string {
  const parts = [
    `${counted(runs_stopped, "run", "runs")} stopped by a cap`,
    `${counted(runs_refused, "run", "runs")} with refused calls`,
    runs_overrun ? `${counted(runs_overrun, "run", "runs")} billed above a bound` : "",
  ];
  return parts.filter(Boolean).join(", ");
}

function NotedLine({ noted }: { noted: NotedRun }) {
  const { run, title, usd, isStopped, isRefused, isOverrun, unpriced } = noted;
  return (
    <tr>
      <td class="noted-run">
        <a href={address("run", [run])}>
          <SafeText text={title ?? shortId(run)} />
        </a>
      </td>
      <td>
        {isStopped && <StateMark state="budget" />}
        {isRefused && <StateMark state="waiting" label="a cap refused calls" />}
        {isOverrun && <StateMark state="overrun" />}
        {unpriced > 0 && (
          <StateMark
            state="indeterminate"
            label={counted(unpriced, "call without a price", "calls without a price")}
          />
        )}
      </td>
      <td class="number">{usd === null ? "" : <Money usd={usd} />}</td>
    </tr>
  );
}

/** What was used of caps over many runs. */
function Budgets() {
  const { data, error, reload } = useLoad(listBudgets, [], POLL_MS);
  if (error && !data) return <ErrorNote error={error} retry={reload} />;
  if (!data) return <Loading what="budgets" />;
  return (
    <section class="card">
      <h2>Budgets</h2>
      {data.frozen && (
        <p class="note bad">
          All spending is frozen: no call is made. To end that, run{" "}
          <code>forum budgets unfreeze</code>.
        </p>
      )}
      {data.budgets.length === 0 ? (
        <div class="stack small quiet">
          <p>No cap over many runs is used now. Set one in forum.toml:</p>
          <pre>{'[budgets.daily]\nper = "day"\nusd = 20'}</pre>
        </div>
      ) : (
        <ScrollTable label="Budgets">
          <thead>
            <tr>
              <th>Cap</th>
              <th>For</th>
              <th>Period</th>
              <th>Used</th>
              <th>Left</th>
            </tr>
          </thead>
          <tbody>
            {data.budgets.map((budget) => (
              <BudgetLine key={`${budget.name} ${budget.scope}`} budget={budget} />
            ))}
          </tbody>
        </ScrollTable>
      )}
    </section>
  );
}

function BudgetLine({ budget }: { budget: BudgetForm }) {
  const { name, scope, period, cap, used, left } = budget;
  return (
    <tr>
      <td>
        <SafeText text={name} />
      </td>
      <td>
        <SafeText text={scope} />
      </td>
      <td class="cost-key">{period}</td>
      <td>
        {cap.usd !== null && (
          <Use
            what="dollars"
            used={Number(used.usd)}
            cap={Number(cap.usd)}
            isSpent={Number(left.usd) === 0}
            words={`${formatSpent(used.usd, cap.usd)} of ${formatDollars(cap.usd)}`}
          />
        )}
        {cap.tokens !== null && (
          <Use
            what="tokens"
            used={used.tokens}
            cap={cap.tokens}
            isSpent={left.tokens === 0}
            words={`${formatCount(used.tokens)} of ${formatNumberOf(cap.tokens, "token")}`}
          />
        )}
        {cap.runs !== null && (
          <Use
            what="runs"
            used={used.runs}
            cap={cap.runs}
            isSpent={left.runs === 0}
            words={`${formatCount(used.runs)} of ${formatNumberOf(cap.runs, "run")}`}
          />
        )}
      </td>
      <td class="cost-key">
        {left.usd !== null && <div>{formatSpent(left.usd, cap.usd)}</div>}
        {left.tokens !== null && <div>{formatNumberOf(left.tokens, "token")}</div>}
        {left.runs !== null && <div>{formatNumberOf(left.runs, "run")}</div>}
      </td>
    </tr>
  );
}

interface UseProps {
  what: string;
  used: number;
  cap: number;
  isSpent: boolean;
  words: string;
}

function Use({ what, used, cap, isSpent, words }: UseProps) {
  return (
    <span class="use">
      <meter aria-label={`Used ${what}`} min={0} max={cap || 1} value={used} />
      {words}
      {isSpent && <StateMark state="stopped" label="used up" />}
    </span>
  );
}

/** How providers have answered the calls of gateways and reported runs, and what was refused. */
function Upstreams({ filter }: { filter: CostFilter }) {
  const { data, error, reload } = useLoad(() => getUpstreams(filter), [], POLL_MS);
  if (error && !data) return <ErrorNote error={error} retry={reload} />;
  if (!data) return <Loading what="upstreams" />;
  return (
    <section class="card">
      <div class="card-head">
        <h2>Upstreams</h2>
        <span class="small quiet">
          model calls of <code>forum run</code>, the gateway and programs that report
        </span>
      </div>
      {data.upstreams.length === 0 ? (
        <p class="small quiet">No such call was made in this period.</p>
      ) : (
        <UpstreamTable upstreams={data.upstreams} />
      )}
      <Refused refused={data.refused} />
      {data.since !== null && (
        <p class="note wait">
          Calls before {data.since.slice(0, 16).replace("T", " ")} UTC are not counted: only the
          newest entries are read.
        </p>
      )}
    </section>
  );
}

function UpstreamTable({ upstreams }: { upstreams: UpstreamForm[] }) {
  return (
    <ScrollTable label="Upstreams">
      <thead>
        <tr>
          <th>Upstream</th>
          <th class="number">Calls</th>
          <th class="number">Failed</th>
          <th class="number" title="Half of the calls that ended well took at most so long">
            p50
          </th>
          <th class="number" title="Of the calls that ended well, 95 % took at most so long">
            p95
          </th>
          <th class="number">Cost</th>
        </tr>
      </thead>
      <tbody>
        {upstreams.map(({ name, calls, failed, usd, p50_ms, p95_ms }) => (
          <tr key={name}>
            <td class="cost-key">
              <SafeText text={name || "no name"} />
            </td>
            <td class="number">{formatCount(calls)}</td>
            <td class="number">
              {failed > 0 ? <StateMark state="failed" label={formatCount(failed)} /> : "0"}
            </td>
            <td class="number">{failed < calls ? formatDuration(p50_ms) : ""}</td>
            <td class="number">{failed < calls ? formatDuration(p95_ms) : ""}</td>
            <td class="number">
              <Money usd={usd} />
            </td>
          </tr>
        ))}
      </tbody>
    </ScrollTable>
  );
}

function Refused({ refused }: { refused: UpstreamsForm["refused"] }) {
  if (refused.length === 0) return null;
  return (
    <div class="refused">
      <RefusedTable refused={refused} />
    </div>
  );
}

function RefusedTable({ refused }: { refused: UpstreamsForm["refused"] }) {
  return (
    <ScrollTable label="Refused calls">
      <thead>
        <tr>
          <th>Refused because of</th>
          <th class="number">Calls</th>
        </tr>
      </thead>
      <tbody>
        {refused.map(({ reason, calls }) => (
          <tr key={reason}>
            <td>
              <SafeText text={reason || "no reason"} />
            </td>
            <td class="number">{formatCount(calls)}</td>
          </tr>
        ))}
      </tbody>
    </ScrollTable>
  );
}
