import type { DiffForm, RunForm } from "forumd-client";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { diffRuns, findSteps, getBody, getRun } from "../api/calls";
import { useLoad } from "../api/load";
import { textOf } from "../model/body";
import {
  changedBodies,
  factLines,
  firstDivergences,
  layOut,
  PARTING,
  placeOf,
  type StrandDivergence,
  withoutMarks,
} from "../model/comparison";
import type { Item } from "../model/entries";
import {
  formatCount,
  formatDollars,
  formatDuration,
  formatNumberOf,
  shortId,
} from "../model/format";
import { own } from "../model/own";
import { stateOf, titleOf } from "../model/runs";
import { Diff } from "../parts/Diff";
import { Empty, ErrorNote, Loading } from "../parts/Notes";
import { Provenance } from "../parts/Provenance";
import { StateMark } from "../parts/StateMark";
import { SafeText } from "../parts/Text";
import { Time } from "../parts/Time";
import { address, type Route } from "../router";

const STRANDS_AT_ONCE = 20;
/** Longer texts are not compared here. */
const MAX_BODY_BYTES = 262_144;

/** Two runs: what each took, and where each of their strands parts first. */
export function Compare({ route }: { route: Route }) {
  const [a = "", b = ""] = route.parts;
  if (!a || !b) return <NothingChosen />;
  return (
    <>
      <p class="crumbs">
        <a href="#/">Runs</a> / compare
      </p>
      <div class="page-head">
        <h1>Compare two runs</h1>
        <div class="actions">
          <a class="button" href={address("compare", [b, a])}>
            Swap them
          </a>
        </div>
      </div>
      <Comparison a={a} b={b} />
    </>
  );
}

function NothingChosen() {
  return (
    <Empty title="Choose two runs to compare">
      <p>
        Tick two runs in <a href="#/">the list of runs</a>, then choose Compare.
      </p>
    </Empty>
  );
}

function Comparison({ a, b }: { a: string; b: string }) {
  const { data, error, reload } = useLoad(
    () => Promise.all([diffRuns(a, b), getRun(a), getRun(b)]),
    [a, b],
  );
  if (error) {
    return (
      <div class="stack">
        <ErrorNote error={error} retry={reload} />
        <p>
          <a href="#/">Choose two other runs</a>
        </p>
      </div>
    );
  }
  if (!data) return <Loading what="both runs" />;
  const [diff, first, second] = data;
  return (
    <div class="stack">
      <Totals first={first} second={second} />
      <Verdict diff={diff} />
      {diff.answer_a !== diff.answer_b && (
        <section class="card divergence" aria-label="Answers">
          <h2>Answers</h2>
          <TextDiff label="Answers" before={diff.answer_a} after={diff.answer_b} />
        </section>
      )}
      {!diff.equal && <Strands diff={diff} />}
    </div>
  );
}

function Totals({ first, second }: { first: RunForm; second: RunForm }) {
  const rows: [string, (run: RunForm) => ComponentChildren][] = [
    ["Request", (run) => <SafeText text={titleOf(run)} />],
    ["State", (run) => <StateMark state={stateOf(run)} />],
    ["Origin", (run) => <Provenance run={run} />],
    ["Steps", describeSteps],
    ["Cost", (run) => formatDollars(run.spent.usd)],
    ["Calls", (run) => formatCount(run.spent.calls)],
    ["Tokens", (run) => formatCount(run.spent.tokens)],
    ["Time", (run) => formatDuration(run.seconds * 1000)],
    ["Begun", (run) => <Time at={run.begun} />],
  ];
  return (
    <section class="card">
      <table class="totals">
        <thead>
          <tr>
            <th scope="col">
              <span class="hidden-label">What</span>
            </th>
            {[first, second].map((run, number) => (
              <th key={number} scope="col">
                {number === 0 ? "First run" : "Second run"}{" "}
                <a href={address("run", [run.run])}>
                  <code>{shortId(run.run)}</code>
                </a>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, show]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>{show(first)}</td>
              <td>{show(second)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function describeSteps(run: RunForm): string {
  if (run.provenance !== "driven") return formatNumberOf(run.spans?.length ?? 0, "step");
  const passed = run.tasks.filter(({ state }) => state === "passed").length;
  return `${passed} of ${formatNumberOf(run.tasks.length, "task")}`;
}

function Verdict({ diff }: { diff: DiffForm }) {
  if (diff.equal) {
    return (
      <p class="note ok row" role="status">
        <StateMark state="ok" label="The runs are the same." />
        <span>
          Every step has the same facts and the same texts. Ids, times and durations are not
          compared.
        </span>
      </p>
    );
  }
  return (
    <p class="note" role="status">
      <strong>
        {formatCount(diff.count)} {diff.count === 1 ? "step differs" : "steps differ"}.
      </strong>{" "}
      For each strand you see the first one. Lines with − are of the first run, lines with + of the
      second. Ids, times and durations are not compared.
      {diff.count > diff.divergences.length &&
        ` Only the first ${formatCount(diff.divergences.length)} were looked at; "forum diff" shows the others.`}
    </p>
  );
}

function Strands({ diff }: { diff: DiffForm }) {
  const strands = firstDivergences(diff.divergences);
  const [count, setCount] = useState(STRANDS_AT_ONCE);
  const { data, error, reload } = useLoad(() => locate(diff, strands), [diff]);
  if (error) return <ErrorNote error={error} retry={reload} />;
  if (!data) return <Loading what="the texts of both runs" />;
  return (
    <>
      {strands.slice(0, count).map((strand) => (
        <StrandCard
          key={strand.first.strand}
          strand={strand}
          before={data.first.get(placeOf(strand.first))}
          after={data.second.get(placeOf(strand.first))}
        />
      ))}
      {strands.length > count && (
        <p>
          <button type="button" onClick={() => setCount(count + STRANDS_AT_ONCE)}>
            Show more of {formatNumberOf(strands.length, "strand")}
          </button>
        </p>
      )}
    </>
  );
}

interface Located {
  first: Map<string, Item>;
  second: Map<string, Item>;
}

/** Find the entries of the steps that differ, for their texts. */
async function locate({ a, b }: DiffForm, strands: StrandDivergence[]): Promise<Located> {
  const places = (side: "first" | "second") =>
    new Set(strands.filter(({ first }) => first[side] !== null).map(({ first }) => placeOf(first)));
  const [first, second] = await Promise.all([
    findSteps(a, places("first")),
    findSteps(b, places("second")),
  ]);
  return { first, second };
}

interface StrandCardProps {
  strand: StrandDivergence;
  before: Item | undefined;
  after: Item | undefined;
}

function StrandCard({ strand: { first: divergence, later }, before, after }: StrandCardProps) {
  const { strand, step, parting, first, second } = divergence;
  const facts: [string | null, string | null] = [
    first && factLines(first),
    second && factLines(second),
  ];
  return (
    <section class="card divergence" aria-label={`Strand ${strand}`}>
      <div class="card-head">
        <h2>
          <SafeText text={strand || "the run itself"} />
        </h2>
        <span>
          <code>
            <SafeText text={step} />
          </code>
          : {own(PARTING, parting) ?? parting}
        </span>
        <span class="end small row">
          {before && <EntryLink which="first" item={before} />}
          {after && <EntryLink which="second" item={after} />}
        </span>
      </div>
      {facts[0] !== facts[1] && <TextDiff label="Facts" before={facts[0]} after={facts[1]} />}
      {changedBodies(divergence).map((name) => (
        <BodyDiff
          key={name}
          name={name}
          before={{ item: before, isThere: own(first?.bodies ?? {}, name) !== undefined }}
          after={{ item: after, isThere: own(second?.bodies ?? {}, name) !== undefined }}
        />
      ))}
      {later > 0 && (
        <p class="small quiet">
          {formatCount(later)} later {later === 1 ? "step" : "steps"} of this strand{" "}
          {later === 1 ? "differs" : "differ"} too.
        </p>
      )}
    </section>
  );
}

function EntryLink({ which, item }: { which: string; item: Item }) {
  return (
    <a href={address("run", [item.entry.run], { entry: String(item.index) })}>
      {which} run: entry {item.index}
    </a>
  );
}

interface TextDiffProps {
  label: string;
  before: string | null;
  after: string | null;
}

/** Two texts, of which one may be absent. */
function TextDiff({ label, before, after }: TextDiffProps) {
  const [old, now] = before !== null && after !== null ? layOut(before, after) : [before, after];
  return <Diff label={label} before={old} after={now} />;
}

interface Side {
  /** The entry of the step; spans of recorded runs have other names here than in their entries. */
  item: Item | undefined;
  /** Whether the step has this body. */
  isThere: boolean;
}

interface BodyDiffProps {
  name: string;
  before: Side;
  after: Side;
}

function BodyDiff({ name, before, after }: BodyDiffProps) {
  const { data, error, reload } = useLoad(
    () => Promise.all([readBody(before, name), readBody(after, name)]),
    [before.item?.index, after.item?.index, name],
  );
  return (
    <div class="body">
      <h3>{name}</h3>
      {error && <ErrorNote error={error} retry={reload} />}
      {!data && !error && <Loading what={name} />}
      {data && <ReadBodies name={name} bodies={data} />}
    </div>
  );
}

type ReadBody = { text: string | null; missing: string };

function ReadBodies({ name, bodies }: { name: string; bodies: [ReadBody, ReadBody] }) {
  const [before, after] = bodies;
  const missing = [
    before.missing && `In the first run ${before.missing}`,
    after.missing && `In the second run ${after.missing}`,
  ].filter(Boolean);
  return (
    <>
      {missing.length > 0 && <p class="small quiet">{missing.join(" ")}</p>}
      {(before.text !== null || after.text !== null) && (
        <TextDiff label={name} before={before.text} after={after.text} />
      )}
    </>
  );
}

/** The text of a body, or why there is none. */
async function readBody({ item, isThere }: Side, name: string): Promise<ReadBody> {
  const commitment = item && own(item.entry.bodies, name);
  if (!isThere) return { text: null, missing: "" };
  if (!item || !commitment) return { text: null, missing: "it can only be read on its page." };
  if (commitment.size > MAX_BODY_BYTES) {
    return { text: null, missing: "it is too long to compare here; open its entry." };
  }
  const body = await getBody(item.index, name);
  if (!body) return { text: null, missing: "it was erased." };
  const text = textOf(body);
  return { text: name === "prompt" ? withoutMarks(text) : text, missing: "" };
}
