// What a council did, arranged by seat and round.

import type {
  Accord,
  ChangeForm,
  CouncilForm,
  End,
  Ground,
  SeatForm,
  VoteForm,
} from "forumd-client";
import { own } from "./own";

const ENDS: Record<End, string> = {
  gate: "the first answers agreed",
  unanimous: "all agreed",
  stable: "nobody changed any more",
  exhausted: "nobody had a new claim",
  rounds: "all rounds were held",
  stopped: "it was stopped",
  silent: "nobody cast a ballot",
};
const GROUNDS: Record<Ground, string> = {
  gate: "without deliberation",
  vote: "by vote",
  check: "by a tool that found it to hold",
  judge: "by a judge",
  none: "",
};
/** How far the seats agree, with the state whose mark says the same. */
const ACCORDS: Record<Accord, [string, string]> = {
  agreed: ["agreed", "ok"],
  majority: ["a majority", "ok"],
  split: ["split", "waiting"],
  blocked: ["blocked", "failed"],
};

/** The outcome in words, and the state whose mark belongs to it. */
export function describeOutcome({ accord, ground }: CouncilForm): [string, string] | null {
  if (!accord || !ground) return null;
  return ground === "none"
    ? ["no answer", "failed"]
    : (own(ACCORDS, accord) ?? [accord, "indeterminate"]);
}

/** How the council came to its end, or how far it is. */
export function describeCourse(council: CouncilForm): string {
  const { end, ground, rounds, ballots, seated } = council;
  if (!end) {
    const last = ballots.at(-1);
    if (!last) return "No ballot is sealed yet.";
    // Later rounds ask only seats that have cast a ballot before.
    const asked =
      last.round === 0 ? seated : Math.max(...ballots.slice(0, -1).map((b) => b.sealed));
    return `Round ${last.round}: ${last.sealed} of ${asked} ballots are sealed.`;
  }
  const exchanges = rounds === 1 ? "one exchange" : `${rounds} exchanges`;
  const by = ground && own(GROUNDS, ground) ? `Decided ${own(GROUNDS, ground)}` : "Not decided";
  return `${by}${rounds ? `, after ${exchanges}` : ""}; it ended because ${own(ENDS, end) ?? end}.`;
}

export interface BallotCell {
  round: number;
  vote: VoteForm;
  /** How the seat came from its answer before to this one; null if that is the same. */
  change: ChangeForm | null;
}

export interface SeatRow {
  seat: SeatForm;
  /** One for each round; null where the seat cast no ballot. */
  cells: (BallotCell | null)[];
  /** Whether it was counted for the answer of the council. */
  holds: boolean;
}

/** The ballots by seat and round. */
export function tabulateBallots(council: CouncilForm, answer: string | null): SeatRow[] {
  const rounds = listRounds(council);
  return council.seats.map((seat) => ({
    seat,
    cells: rounds.map((round) => {
      const vote = seat.votes.find((cast) => cast.round === round);
      if (!vote) return null;
      const change = council.changes.find((c) => c.seat === seat.seat && c.round === round);
      return { round, vote, change: change ?? null };
    }),
    // Councils by the first rules do not name those who hold the answer.
    holds: council.holders?.length
      ? council.holders.includes(seat.seat)
      : answer !== null && seat.weighed === answer,
  }));
}

/** The numbers of the rounds in which a seat cast a ballot. */
export function listRounds({ seats }: CouncilForm): number[] {
  const last = Math.max(-1, ...seats.flatMap(({ votes }) => votes.map(({ round }) => round)));
  return Array.from({ length: last + 1 }, (_, round) => round);
}

/** How many times the cost of the plain vote all of it took; null if that cost nothing. */
export function costFactor({ baseline, spent }: CouncilForm): number | null {
  if (!baseline || !spent) return null;
  const [plain, all] = [baseline.spent, spent].map(({ usd, tokens }) => [Number(usd), tokens]);
  const unit = plain?.[0] ? 0 : 1;
  return plain?.[unit] ? (all?.[unit] ?? 0) / plain[unit] : null;
}
