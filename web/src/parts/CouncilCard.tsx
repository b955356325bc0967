import type {
  ArgumentForm,
  BaselineForm,
  ComparisonForm,
  CouncilForm,
  MinorityForm,
  SpentForm,
} from "forumd-client";
import type { ComponentChildren } from "preact";
import {
  type BallotCell,
  costFactor,
  describeCourse,
  describeOutcome,
  listRounds,
  type SeatRow,
  tabulateBallots,
} from "../model/council";
import { formatCount, formatNumberOf } from "../model/format";
import { Money } from "./Money";
import { ScrollTable } from "./ScrollTable";
import { Mark, StateMark } from "./StateMark";
import { SafeText } from "./Text";
import "./CouncilCard.css";

/** A council: every ballot, what moved each seat, what was counted, and who dissents. */
export function CouncilCard(props: { council: CouncilForm; answer: string | null }) {
  const { council, answer } = props;
  const outcome = describeOutcome(council);
  return (
    <section class="card council" aria-label="Council">
      <div class="card-head">
        <h2>Council of {council.seated}</h2>
        {outcome && <StateMark state={outcome[1]} label={outcome[0]} />}
      </div>
      <p>{describeCourse(council)}</p>
      {council.headline && (
        <p class="note wait">
          <SafeText text={council.headline} />
        </p>
      )}
      {council.baseline && (
        <Gain council={council} baseline={council.baseline} answer={answer ?? "(none)"} />
      )}
      {council.seats.length > 0 && <BallotTable council={council} answer={answer} />}
      <Arguments council={council} />
      <Remarks council={council} />
      {council.comparison && <Comparison comparison={council.comparison} />}
    </section>
  );
}

/** The plain vote beside the answer, with what each cost. */
function Gain(props: { council: CouncilForm; baseline: BaselineForm; answer: string }) {
  const { council, baseline, answer } = props;
  const factor = costFactor(council);
  return (
    <div>
      <dl class="gain">
        <Position
          title={`Plain vote of the first ${baseline.answers}`}
          answer={baseline.answer}
          spent={baseline.spent}
        >
          {Math.round(baseline.agreement * 100)} % of those asked
        </Position>
        {council.spent && (
          <Position title="After deliberation" answer={answer} spent={council.spent}>
            {baseline.changed ? "another answer" : "the same answer"}
          </Position>
        )}
      </dl>
      {factor !== null && factor > 1 && (
        <p class="small quiet">
          Deliberation took {factor.toFixed(1)} times the cost of the plain vote
          {baseline.changed ? " and changed the answer." : ", and the answer stayed the same."}
        </p>
      )}
    </div>
  );
}

interface PositionProps {
  title: string;
  answer: string;
  spent: SpentForm;
  children: ComponentChildren;
}

function Position({ title, answer, spent, children }: PositionProps) {
  return (
    <div>
      <dt class="small quiet">{title}</dt>
      <dd class="strong">
        <SafeText text={answer} />
      </dd>
      <dd class="small">{children}</dd>
      <dd class="small quiet">
        <Money usd={spent.usd} />, {formatNumberOf(spent.tokens, "token")}
      </dd>
    </div>
  );
}

function BallotTable({ council, answer }: { council: CouncilForm; answer: string | null }) {
  const rounds = listRounds(council);
  return (
    <ScrollTable label="Ballots by seat and round" class="ballots">
      <thead>
        <tr>
          <th>Seat</th>
          {rounds.map((round) => (
            <th key={round}>{round === 0 ? "Sealed first answer" : `After exchange ${round}`}</th>
          ))}
          <th>Counted as</th>
        </tr>
      </thead>
      <tbody>
        {tabulateBallots(council, answer).map((row) => (
          <SeatLine key={row.seat.seat} row={row} />
        ))}
      </tbody>
    </ScrollTable>
  );
}

function SeatLine({ row }: { row: SeatRow }) {
  const { seat, cells, holds } = row;
  return (
    <tr>
      <th scope="row">
        {seat.seat} <SafeText text={seat.agent || "default"} />
        {seat.model && seat.model !== seat.agent && (
          <span class="below quiet">
            <SafeText text={seat.model} />
          </span>
        )}
      </th>
      {cells.map((cell, round) => (
        <td key={round}>{cell ? <Ballot cell={cell} /> : <span class="quiet">no ballot</span>}</td>
      ))}
      <td>
        <span class="strong">
          <SafeText text={seat.weighed ?? "not counted"} />
        </span>
        {seat.weighed !== null && (
          <span class="below">
            {holds ? (
              <StateMark state="ok" label="for the answer" />
            ) : (
              <span class="quiet">dissent</span>
            )}
          </span>
        )}
      </td>
    </tr>
  );
}

function Ballot({ cell }: { cell: BallotCell }) {
  const { vote, change } = cell;
  const answer = <SafeText text={vote.answer} />;
  return (
    <>
      <span class={change ? "strong" : ""}>{answer}</span>{" "}
      <span class="quiet">{vote.confidence} %</span>
      {change?.conformity && (
        <span class="below tone-bad">
          <Mark state="failed" /> changed without a reason: not counted
        </span>
      )}
      {change && !change.conformity && (
        <span class="below">
          <span class="tone-busy">changed because</span>{" "}
          {change.because.map((claim) => (
            <q key={claim}>
              <SafeText text={claim} />
            </q>
          ))}
          {change.because.length > 0 && change.evidence && "; "}
          {change.evidence && <SafeText text={change.evidence} />}
        </span>
      )}
    </>
  );
}

function Arguments({ council }: { council: CouncilForm }) {
  const { claims = [], minority } = council;
  if (!claims.length && !minority.length) return null;
  return (
    <div class="arguments">
      {claims.length > 0 && (
        <div>
          <h3>Why this answer</h3>
          {claims.map((claim) => (
            <Claim key={claim.claim} claim={claim} />
          ))}
        </div>
      )}
      {minority.length > 0 && (
        <div>
          <h3>Dissent</h3>
          {minority.map((dissent) => (
            <Dissent key={dissent.answer} dissent={dissent} />
          ))}
        </div>
      )}
    </div>
  );
}

function Claim({ claim }: { claim: ArgumentForm }) {
  const support = claim.support ? `, supported by ${seats(claim.support)}` : "";
  return (
    <div class="note ok">
      <p>
        <q>
          <SafeText text={claim.claim} />
        </q>{" "}
        <span class="quiet">
          ({claim.status}
          {support})
        </span>
      </p>
      <p class="small quiet">
        {claim.evidence ? (
          <>
            source: <SafeText text={claim.evidence} />
          </>
        ) : (
          "no source"
        )}
      </p>
      <Attacks attacks={claim.attacks} />
    </div>
  );
}

function Dissent({ dissent }: { dissent: MinorityForm }) {
  const { seats: who, weight, argument, evidence, support, attacks } = dissent;
  return (
    <div class="note wait">
      <p>
        <strong>
          <SafeText text={dissent.answer} />
        </strong>{" "}
        <span class="quiet">
          (seat{who.length === 1 ? "" : "s"} {who.join(", ")};{" "}
          <span title="the sum of their confidences">weight {weight}</span>)
        </span>
      </p>
      {argument ? (
        <p>
          best argument:{" "}
          <q>
            <SafeText text={argument} />
          </q>
          {support > 0 && <span class="quiet"> (supported by {seats(support)})</span>}
        </p>
      ) : (
        <p class="small quiet">No argument was given for it.</p>
      )}
      {evidence && (
        <p class="small quiet">
          source: <SafeText text={evidence} />
        </p>
      )}
      <Attacks attacks={attacks} />
    </div>
  );
}

function Attacks({ attacks }: { attacks: string[] }) {
  return (
    <>
      {attacks.map((why) => (
        <p key={why} class="small">
          <span class="tone-bad">against it:</span> <SafeText text={why} />
        </p>
      ))}
    </>
  );
}

function seats(count: number): string {
  return count === 1 ? "one other seat" : `${count} other seats`;
}

/** What keeps the outcome open: objections, evidence that would decide, seats that are missing. */
function Remarks({ council }: { council: CouncilForm }) {
  const { blockers, decisive, absent, warnings } = council;
  if (![blockers, decisive, absent, warnings].some((list) => list.length)) return null;
  return (
    <ul class="plain-list">
      {blockers.map(({ seat, text }) => (
        <li key={`${seat} ${text}`}>
          <StateMark state="failed" label={`Seat ${seat} blocks:`} /> <SafeText text={text} />
        </li>
      ))}
      {decisive.length > 0 && (
        <li>
          <span class="quiet">Would decide it:</span> <SafeText text={decisive.join("; ")} />
        </li>
      )}
      {absent.map(({ seat, reason }) => (
        <li key={seat}>
          <span class="quiet">Seat {seat} cast no ballot:</span> <SafeText text={reason} />
        </li>
      ))}
      {warnings.map((text) => (
        <li key={text}>
          <span class="tone-wait">
            <Mark state="interrupted" /> <SafeText text={text} />
          </span>
        </li>
      ))}
    </ul>
  );
}

/** How answers in free text were compared. */
function Comparison({ comparison }: { comparison: ComparisonForm }) {
  const { answers, positions, pairs, encoder } = comparison;
  return (
    <details>
      <summary>
        {formatCount(answers)} wordings come to {formatCount(positions)} answers
      </summary>
      {encoder === null && (
        <p class="small quiet">
          Without the extra <code>semantic</code> and its weights, only the text of answers was
          compared.
        </p>
      )}
      <ul class="plain-list small">
        {pairs.map(({ first, second, same, step, score, rule }) => (
          <li key={`${first} ${second}`}>
            {same ? "same" : "different"} by {step}
            {score !== null && `, similarity ${score.toFixed(2)}`}
            {rule && (
              <>
                , rule: <SafeText text={rule} />
              </>
            )}
            :{" "}
            <q>
              <SafeText text={first} />
            </q>{" "}
            and{" "}
            <q>
              <SafeText text={second} />
            </q>
          </li>
        ))}
      </ul>
    </details>
  );
}
