import type {
  EvaluationForm,
  EvaluationLine,
  JudgeUse,
  PlayResult,
  ReportCheck,
} from "forumd-client";
import { useState } from "preact/hooks";
import { getEvaluation, listEvaluations, listRuns } from "../api/calls";
import { useLoad } from "../api/load";
import {
  type CaseRow,
  countByLane,
  type FigureGroup,
  formatInterval,
  formatQuality,
  groupFigures,
  listCases,
  MEASURES,
  type Measure,
} from "../model/evaluations";
import {
  formatCount,
  formatDollars,
  formatDuration,
  formatNumberOf,
  shortId,
} from "../model/format";
import { readFilter } from "../model/runs";
import { IntervalPlot, QualityAgainstCost } from "../parts/EvaluationPlots";
import { Money } from "../parts/Money";
import { Empty, ErrorNote, Loading } from "../parts/Notes";
import { SaidByServer } from "../parts/SaidByServer";
import { ScrollTable } from "../parts/ScrollTable";
import { Mark, StateMark } from "../parts/StateMark";
import { SafeText } from "../parts/Text";
import { Time } from "../parts/Time";
import { address, type Route } from "../router";
import "./Scores.css";
import { own } from "../model/own";

const CASES_AT_ONCE = 50;
const LISTED_UNPLAYED = 10;
/** How many pages of a hundred runs are counted by lane. */
const COUNTED_PAGES = 3;

/** Evaluations: how good agents are, and what that costs. The address names one, or the newest. */
export function Scores({ route }: { route: Route }) {
  const [pages, setPages] = useState(1);
  const { data, error, reload } = useLoad(() => listEvaluations(pages), [pages]);
  const [named] = route.parts;
  const shown = named || data?.evaluations.find(({ ended }) => ended)?.run;
  return (
    <>
      <div class="page-head">
        <h1>Scores</h1>
      </div>
      {error && <ErrorNote error={error} retry={reload} />}
      {!data && !error && <Loading what="evaluations" />}
      {data && data.evaluations.length === 0 && !named && <NoEvaluation />}
      <div class="stack">
        {data && data.evaluations.length > 0 && (
          <EvaluationList
            evaluations={data.evaluations}
            chosen={shown ?? ""}
            more={data.next === null ? null : () => setPages(pages + 1)}
          />
        )}
        {shown && <Evaluation key={shown} run={shown} />}
        {data && <OutcomesByLane />}
      </div>
      <SaidByServer />
    </>
  );
}

function NoEvaluation() {
  return (
    <Empty title="No evaluation yet">
      <p>Write cases into a file, one on each line, and let two agents play them:</p>
      <pre>
        {`echo '{"request": "Say Elbe.", "checks": "contains Elbe"}' > cases.jsonl
forum eval cases.jsonl --agent echo=cat --agent loud="tr a-z A-Z"`}
      </pre>
    </Empty>
  );
}

interface EvaluationListProps {
  evaluations: EvaluationLine[];
  chosen: string;
  more: (() => void) | null;
}

function EvaluationList({ evaluations, chosen, more }: EvaluationListProps) {
  return (
    <section class="card" aria-label="Evaluations">
      <h2>Evaluations</h2>
      <ul class="evaluations">
        {evaluations.map((line) => (
          <li key={line.run}>
            <EvaluationLink line={line} isChosen={line.run === chosen} />
          </li>
        ))}
      </ul>
      {more && (
        <p class="more">
          <button type="button" onClick={more}>
            Show older evaluations
          </button>
        </p>
      )}
    </section>
  );
}

function EvaluationLink({ line, isChosen }: { line: EvaluationLine; isChosen: boolean }) {
  const content = (
    <>
      <span class="strong">
        <SafeText text={line.configurations.join(", ")} />
      </span>
      <span class="small quiet">
        {formatNumberOf(line.plays, "play")} of {formatNumberOf(line.cases, "case")},{" "}
        <Time at={line.begun} />
      </span>
    </>
  );
  if (!line.ended) {
    return (
      <span class="evaluation">
        {content}
        <StateMark state="running" label="goes on, or was given up: no report yet" />
      </span>
    );
  }
  return (
    <a
      class="evaluation"
      href={address("scores", [line.run])}
      aria-current={isChosen ? "page" : undefined}
    >
      {content}
    </a>
  );
}

function Evaluation({ run }: { run: string }) {
  const { data, error, reload } = useLoad(() => getEvaluation(run), [run]);
  if (error) return <ErrorNote error={error} retry={reload} />;
  if (!data) return <Loading what="the report" />;
  const { report } = data;
  const groups = groupFigures(report);
  const isPriced = report.configurations.some(({ figures }) => figures.usd.mean > 0);
  return (
    <>
      <section class="card">
        <div class="card-head">
          <h2>
            {formatNumberOf(report.configurations.length, "configuration")} on{" "}
            {formatNumberOf(report.cases, "case")}
          </h2>
          <code class="small quiet">{shortId(report.evaluation)}</code>
          <span class="end">
            <CheckMark check={data.check} />
          </span>
        </div>
        <CheckNote check={data.check} run={run} />
        {report.comparisons.map(({ first, second, conclusion }) => (
          <p key={`${first} ${second}`} class="conclusion">
            <SafeText text={conclusion} />
          </p>
        ))}
        <div class="plots">
          {MEASURES.map((measure) => (
            <IntervalPlot key={measure.title} groups={groups} measure={measure} />
          ))}
          {isPriced && <QualityAgainstCost rows={report.configurations} />}
        </div>
        <p class="small quiet">
          A dot is the mean over cases, a bar its 95 % confidence interval. Plays of the same case
          are averaged first.
        </p>
      </section>
      <details class="card fold" open>
        <summary>
          <h2>Mean of a case</h2>
        </summary>
        <FigureTable groups={groups} />
      </details>
      <ModelTable form={data} />
      <CaseTable form={data} />
      <Remarks form={data} />
    </>
  );
}

const CHECKS: Record<ReportCheck, [string, string]> = {
  follows: ["ok", "computed anew from the record: the same"],
  differs: ["failed", "does not follow from the record"],
  erased: ["indeterminate", "cannot be computed anew"],
  "not computed": ["indeterminate", "not computed anew"],
};

function CheckMark({ check }: { check: ReportCheck }) {
  const [state, label] = own(CHECKS, check) ?? ["indeterminate", check];
  return <StateMark state={state} label={label} />;
}

function CheckNote({ check, run }: { check: ReportCheck; run: string }) {
  if (check === "differs") {
    return (
      <p class="note bad">
        The recorded report is another one than the recorded cases, answers and runs lead to. The
        figures below are those of the report. Do not rely on them; run{" "}
        <code>forum ledger verify</code>.
      </p>
    );
  }
  if (check === "erased") {
    return (
      <p class="note wait">
        The cases or an answer were erased, so the figures below are those of the recorded report.
      </p>
    );
  }
  if (check === "not computed") {
    return (
      <p class="note wait">
        The report has too many plays to be computed anew here. Run{" "}
        <code>forum eval --of {shortId(run)}</code>.
      </p>
    );
  }
  return null;
}

function FigureTable({ groups }: { groups: FigureGroup[] }) {
  return (
    <ScrollTable label="Mean of a case" class="figures">
      <thead>
        <tr>
          <th>Configuration</th>
          <th class="number">Cases</th>
          <th class="number">Plays</th>
          <th class="number">Failed</th>
          {MEASURES.map(({ title }) => (
            <th key={title} class="number">
              {title}
            </th>
          ))}
        </tr>
      </thead>
      {groups.map(({ title, rows }) => (
        <tbody key={title}>
          {groups.length > 1 && (
            <tr>
              <th colSpan={4 + MEASURES.length} scope="rowgroup">
                <SafeText text={title} />
              </th>
            </tr>
          )}
          {rows.map(({ configuration, figures }) => (
            <tr key={configuration}>
              <td>
                <SafeText text={configuration} />
              </td>
              <td class="number">{formatCount(figures.quality.cases)}</td>
              <td class="number">{formatCount(figures.plays)}</td>
              <td class="number">{formatCount(figures.failed)}</td>
              {MEASURES.map((measure) => (
                <FigureCell key={measure.title} measure={measure} estimate={measure.of(figures)} />
              ))}
            </tr>
          ))}
        </tbody>
      ))}
    </ScrollTable>
  );
}

function FigureCell(props: { measure: Measure; estimate: ReturnType<Measure["of"]> }) {
  const { measure, estimate } = props;
  const interval = formatInterval(estimate, measure.format);
  return (
    <td class="number">
      <span class="strong">{measure.format(estimate.mean)}</span>
      <span class="interval-words small quiet">{interval || "no interval: one case"}</span>
    </td>
  );
}

function ModelTable({ form }: { form: EvaluationForm }) {
  const { models } = form.report;
  if (models.length === 0) return null;
  return (
    <details class="card fold" open>
      <summary>
        <h2>By model, all plays together</h2>
      </summary>
      <ScrollTable label="By model">
        <thead>
          <tr>
            <th>Configuration</th>
            <th>Model</th>
            <th class="number">Calls</th>
            <th class="number">Tokens</th>
            <th class="number">Cost</th>
            <th class="number">Time</th>
          </tr>
        </thead>
        <tbody>
          {models.map(({ configuration, model, calls, tokens, spent_usd, seconds }) => (
            <tr key={`${configuration} ${model}`}>
              <td>
                <SafeText text={configuration} />
              </td>
              <td>
                <SafeText text={model} />
              </td>
              <td class="number">{formatCount(calls)}</td>
              <td class="number">{formatCount(tokens)}</td>
              <td class="number">
                <Money usd={spent_usd} />
              </td>
              <td class="number">{formatDuration(seconds * 1000)}</td>
            </tr>
          ))}
        </tbody>
      </ScrollTable>
    </details>
  );
}

function CaseTable({ form }: { form: EvaluationForm }) {
  const [isWhole, setWhole] = useState(false);
  const cases = listCases(form);
  const names = form.report.configurations.map(({ configuration }) => configuration);
  const listed = isWhole ? cases : cases.slice(0, CASES_AT_ONCE);
  return (
    <details class="card fold" open>
      <summary>
        <h2>Cases</h2>
      </summary>
      <ScrollTable label="Cases" class="cases">
        <thead>
          <tr>
            <th>Case</th>
            {names.map((name) => (
              <th key={name} class="number">
                <SafeText text={name} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {listed.map((row) => (
            <CaseLine key={row.number} row={row} names={names} />
          ))}
        </tbody>
      </ScrollTable>
      {listed.length < cases.length && (
        <p class="more">
          <button type="button" onClick={() => setWhole(true)}>
            Show all {formatNumberOf(cases.length, "case")}
          </button>
        </p>
      )}
    </details>
  );
}

function CaseLine({ row, names }: { row: CaseRow; names: string[] }) {
  return (
    <tr>
      <td class="case-request">
        <span class="quiet">{row.number}.</span> <SafeText text={row.request ?? "(erased)"} />
        {row.lane && (
          <>
            {" "}
            <span class="tag">
              <SafeText text={row.lane} />
            </span>
          </>
        )}
      </td>
      {names.map((name) => (
        <td key={name} class="number">
          {(row.plays.get(name) ?? []).map((play) => (
            <PlayLink key={play.run} play={play} />
          ))}
        </td>
      ))}
    </tr>
  );
}

/** The mark of a play: a tick for a perfect answer, a cross for a useless one or none. */
function markOf({ outcome, quality }: PlayResult): string {
  if (outcome !== "ok" || quality === 0) return "failed";
  return quality === 1 ? "ok" : "skipped";
}

/** The quality of a play, which leads to its run. */
function PlayLink({ play }: { play: PlayResult }) {
  const label = `Case ${play.case} by ${play.configuration}: quality ${formatQuality(play.quality)}, ${play.outcome}`;
  return (
    <span class="play">
      <a href={address("run", [play.run])} aria-label={label} title={label}>
        <Mark state={markOf(play)} />
        {formatQuality(play.quality)}
      </a>
      <span class="small quiet">
        {formatDollars(play.usd)}, {formatDuration(play.seconds * 1000)}
      </span>
    </span>
  );
}

function Remarks({ form }: { form: EvaluationForm }) {
  const { configurations, unplayed = [], judge } = form.report;
  const silent = configurations.filter(({ figures }) => figures.failed > 0);
  if (!silent.length && !unplayed.length && !judge) return null;
  return (
    <section class="card">
      <h2>Remarks</h2>
      <ul class="remarks">
        {silent.map(({ configuration, figures }) => (
          <li key={configuration}>
            {figures.failed} of {formatNumberOf(figures.plays, "run")} of{" "}
            <SafeText text={configuration} /> ended without an answer: their quality is 0.
          </li>
        ))}
        {unplayed.slice(0, LISTED_UNPLAYED).map((skipped) => (
          <li key={`${skipped.case} ${skipped.configuration} ${skipped.repeat}`}>
            Not played: case {skipped.case} by <SafeText text={skipped.configuration} />:{" "}
            <SafeText text={skipped.reason} />.
          </li>
        ))}
        {unplayed.length > LISTED_UNPLAYED && (
          <li>{unplayed.length - LISTED_UNPLAYED} more were not played.</li>
        )}
        {judge && <JudgeRemark judge={judge} />}
      </ul>
    </section>
  );
}

function JudgeRemark({ judge }: { judge: JudgeUse }) {
  return (
    <li>
      <SafeText text={judge.agent} /> judged {judge.judged} answers for{" "}
      <Money usd={judge.spent_usd} />.
      {judge.unjudged > 0 &&
        ` For ${judge.unjudged} it gave no usable reply, and code matched the reference.`}
      {judge.not_independent_of.length > 0 && (
        <span class="tone-wait">
          {" "}
          It is the same model as <SafeText text={judge.not_independent_of.join(", ")} />: not
          independent.
        </span>
      )}
    </li>
  );
}

/** How the newest runs ended, by lane. */
function OutcomesByLane() {
  const { data } = useLoad(() => listRuns(readFilter(new URLSearchParams()), COUNTED_PAGES), []);
  const lanes = countByLane(data?.runs ?? []);
  if (!data || !lanes.some(({ lane }) => lane)) return null;
  const counted = `the newest ${formatNumberOf(data.runs.length, "run")}`;
  return (
    <details class="card fold" open>
      <summary>
        <h2>Outcomes by lane</h2>
        <span class="small quiet">{data.next === null ? "all runs" : counted}</span>
      </summary>
      <ScrollTable label="Outcomes by lane">
        <thead>
          <tr>
            <th>Lane</th>
            <th class="number">Runs</th>
            <th class="number">Ended ok</th>
            <th class="number">Ended otherwise</th>
            <th class="number">Not ended</th>
            <th class="number">Tasks passed</th>
            <th class="number">Cost of a run</th>
          </tr>
        </thead>
        <tbody>
          {lanes.map((row) => (
            <tr key={row.lane}>
              <td>
                {row.lane ? (
                  <a href={address("runs", [], { lane: row.lane })}>
                    <SafeText text={row.lane} />
                  </a>
                ) : (
                  <span class="quiet">no lane</span>
                )}
              </td>
              <td class="number">{formatCount(row.runs)}</td>
              <td class="number">{formatCount(row.ok)}</td>
              <td class="number">{formatCount(row.notOk)}</td>
              <td class="number">{formatCount(row.open)}</td>
              <td class="number">
                {formatCount(row.passed)} of {formatCount(row.tasks)}
              </td>
              <td class="number">{formatDollars(row.usd / row.runs)}</td>
            </tr>
          ))}
        </tbody>
      </ScrollTable>
    </details>
  );
}
