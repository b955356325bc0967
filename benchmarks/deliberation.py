"""`python -m benchmarks deliberation`: what talk is worth at equal tokens, and how long it takes.

The protocols are the real ones, without an engine: simulated seats (`benchmarks.seats`) read the
prompts and reply.  All protocols are given the same questions and the same first answers, so they
are compared question by question.  A token is four bytes of what is told or said; what a model is
told costs as much as what it says.

council        as it is by default; `ungated` is the same without the gate
symposium      the open protocol; its coordinator ends it when all agree, or after three rounds
single         one answer
vote           the most frequent of as many answers as the other's tokens pay for; their number is
               odd, since an even one pays for a tie
weighted_vote  the same answers, weighed by their confidence
gated_vote     three answers and, where they differ, as many more as the council's exchange costs,
               weighed too: what is left between it and the council is due to the exchange

A difference counts where the interval of 99 per cent leaves out 0: there are many settings.
Wall time is that of the engine, from the opening of a council to the recorded end of its run, and
from its submission, against the time that its calls take where all of a round are made at once.
Last, many councils sit at once on one worker.
"""

import argparse
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import seats
from benchmarks.ledger import say
from benchmarks.seats import COORDINATOR, Decision, Honesty, Nature, Question, chance, plurality
from benchmarks.sides import LOOK_SECONDS, PATIENCE_SECONDS, Ours
from forum.app.clock_ids_and_kinds import KINDS
from forum.engine import RunRequest
from forum.features.council.report import CouncilReport, read_report
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.kinds import RunCloseFacts
from forum.ledger.log import read_strand_entries
from forum.ledger.ports import Amount
from forum.runs.panel import Council, Panel, Seat, Symposium
from forum.runs.panel_protocol import start_protocol
from forum.runs.policy import Agent, Policy, Scripted, ScriptStep
from forum.runs.session_steps import (
    AgentTurn,
    BatchResult,
    Session,
    SessionNote,
    SessionResult,
    TurnBatch,
    TurnResult,
    TurnStatus,
    advance_protocol,
)

SEATS = 5
TOKEN_BYTES = 4
CALL_MILLISECONDS = 200
MANY_SEATS = 50
MICRO = 1_000_000
SYMPOSIUM_ROUNDS = 3
"""As often as a seat of a council may speak."""
GATE = 3
Z_ACCURACY, Z_DIFFERENCE = 1.96, 2.58
PERSONAS = ("logician", "visionary", "researcher", "critic", "engineer")
TWO, FOUR = ("yes", "no"), ("north", "east", "south", "west")


def main(arguments: list[str]) -> None:
    """Measure everything and print tables, or one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks deliberation")
    parser.add_argument("--json", action="store_true", help="print one JSON object, and no table")
    parser.add_argument("--full", action="store_true", help="many more sessions")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        figures = measure(Path(scratch), FULL if options.full else QUICK)
    if options.json:
        print(json.dumps(figures))
    else:
        print_tables(figures)


@dataclass(frozen=True)
class Sizes:
    """How much is done."""

    sessions: int
    """Of each protocol, in each setting."""
    variants: int
    """Of each variant, in each setting."""
    rounds: int
    """How often wall time is taken."""
    crowd: int
    """How many councils sit at once."""


QUICK = Sizes(200, 50, 3, 100)
FULL = Sizes(3_000, 1_000, 9, 2_000)


@dataclass(frozen=True, slots=True)
class Setting:
    """Who is asked what."""

    nature: Nature
    options: tuple[str, ...] = FOUR
    models: int = 3
    """Different ones err independently of each other."""
    size: int = 800
    """Of a question, in bytes."""
    thought: int = 0
    """How many tokens each call takes beside what is told and said."""

    def question(self, number: int) -> Question:
        """Return one of its questions."""
        return Question(number, self.options, self.size)

    def seat(self, question: Question, place: int) -> seats.Seat:
        """Return who sits at a place, the first being 1."""
        return seats.Seat(question, self.nature, place, (place - 1) % self.models)


def natures() -> dict[str, Nature]:
    """Return models by how hard they find the questions; a third of their errors they share."""
    errors = {"easy": 0.15, "medium": 0.30, "hard": 0.45}
    return {name: Nature(error, error / 3) for name, error in errors.items()}


def settings() -> dict[str, Setting]:
    """Return all settings, by name."""
    by_name = {
        f"{level}, {len(options)} options, {models} model{'s' if models > 1 else ''}": Setting(
            nature, options, models
        )
        for level, nature in natures().items()
        for options in (TWO, FOUR)
        for models in (1, 3)
    }
    usual = natures()["medium"]
    changed = {
        "no conformity": replace(usual, conformity=0.0),
        "high conformity": replace(usual, conformity=0.6),
        "high conformity, excused": replace(usual, conformity=0.6, excuse=1.0),
        "overconfident": replace(usual, honesty=Honesty.OVERCONFIDENT),
        "uninformative confidence": replace(usual, honesty=Honesty.UNINFORMATIVE),
        "persuasive truth": replace(usual, truth=0.8, lure=0.05),
        "persuasive error": replace(usual, truth=0.1, lure=0.4),
        "no persuasion": replace(usual, truth=0.0, lure=0.0),
    }
    by_name |= {name: Setting(nature) for name, nature in changed.items()}
    worst = replace(usual, conformity=0.6, truth=0.1, lure=0.4, honesty=Honesty.UNINFORMATIVE)
    by_name["all against it"] = Setting(worst, models=1)
    by_name["long questions"] = Setting(usual, size=8_000)
    by_name["much thought"] = Setting(usual, thought=1_000)
    return by_name


def measure(folder: Path, sizes: Sizes, names: Sequence[str] = ()) -> dict[str, Any]:
    """Return all figures; what a reader looks for comes first."""
    chosen = {name: setting for name, setting in settings().items() if not names or name in names}
    say("wall time of councils")
    with Ours(folder / "ledger", None) as ours:
        ours.wait()
        schedule = schedule_figures(ours, sizes.rounds)
        say(f"{sizes.crowd} councils at once")
        crowd = crowd_figures(ours, sizes.crowd)
    say(f"{sizes.sessions} sessions of each protocol in {len(chosen)} settings")
    started = time.perf_counter()
    # Not forked: the engine has left threads here.
    with ProcessPoolExecutor(os.cpu_count(), get_context("forkserver")) as pool:
        compared = dict(
            zip(chosen, pool.map(partial(compare, sizes), chosen.values()), strict=True)
        )
    return {
        **verdicts(
            compared,
            "council",
            "vote",
            ("council_beats_vote", "vote_beats_council", "no_difference"),
        ),
        "council_against_weighted_vote": verdicts(compared, "council", "weighted_vote"),
        "council_against_gated_vote": verdicts(compared, "council", "gated_vote"),
        "ungated_against_vote": verdicts(compared, "ungated", "vote"),
        "symposium_against_vote": verdicts(compared, "symposium", "vote"),
        "schedule_ratio": max(row["ratio"] for row in schedule if row["seats"] == SEATS),
        "schedule": schedule,
        "crowd": crowd,
        "sessions": sizes.sessions,
        "session_seconds": round(time.perf_counter() - started, 1),
        "settings": {name: protocols for name, (protocols, _) in compared.items()},
        "variants": pooled({name: results for name, (_, results) in compared.items()}),
    }


def verdicts(
    compared: "dict[str, Compared]",
    protocol: str,
    rival: str,
    titles: tuple[str, str, str] = ("better", "worse", "no_difference"),
) -> dict[str, list[dict[str, Any]]]:
    """Sort the settings by who is better, a protocol or its rival with the same tokens."""
    better, worse, same = titles
    groups: dict[str, list[dict[str, Any]]] = {title: [] for title in titles}
    for name, (protocols, _) in compared.items():
        figures = protocols[protocol]["against"][rival]
        low, high = figures["interval"]
        title = better if low > 0 else worse if high < 0 else same
        groups[title].append({"setting": name, **figures})
    return groups


# One session


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a session."""

    right: bool
    tokens: int
    rounds: int = 0
    gated: bool = False
    began_right: bool | None = None
    """Whether the first answers alone would have been right, where that is known."""
    exposed: int = 0
    conformed: int = 0
    yielded: int = 0
    recounts: tuple[bool, ...] = ()
    """Whether each other way to count the votes would have been right."""


def play(setting: Setting, panel: Panel, number: int) -> Played:
    """Let a panel deliberate on one question."""
    question = setting.question(number)
    sitting = _Sitting(setting, question)
    policy = Policy(agents=_agents(panel), panel=panel)
    closing, notes = sitting.deliberate(Session(question.text, policy, 0))
    right = closing.answer == question.right
    decisions = sitting.decisions
    exposed = sum(decision.exposed for decision in decisions)
    yielded = [decision for decision in decisions if decision.yielded]
    conformed = sum(not decision.because for decision in yielded)
    played = Played(
        right, sitting.tokens, exposed=exposed, conformed=conformed, yielded=len(yielded)
    )
    if isinstance(panel, Symposium):
        return replace(played, rounds=max(map(len, sitting.turns())))
    report = read_report(notes[-1].bodies[0].data)
    return replace(
        played,
        rounds=report.rounds,
        gated=report.end == "gate",
        began_right=report.baseline.answer == question.right,
        recounts=tuple(
            recount(report, question) == question.right for recount in RECOUNTS.values()
        ),
    )


class _Sitting:
    """A panel of simulated seats with one question before them."""

    def __init__(self, setting: Setting, question: Question) -> None:
        self._setting, self._question = setting, question
        self._seats: dict[str, seats.Seat] = {}
        self.tokens = 0

    @property
    def decisions(self) -> list[Decision]:
        """What all of them have made of what they were shown."""
        return [decision for decisions in self.turns() for decision in decisions]

    def turns(self) -> list[list[Decision]]:
        """Return the same, seat by seat."""
        return [seat.decisions for seat in self._seats.values()]

    def deliberate(self, session: Session) -> tuple[SessionResult, list[SessionNote]]:
        """Carry out all steps of a session."""
        steps, result = start_protocol(KINDS, session), None
        notes = []
        while not isinstance(step := advance_protocol(steps, result), SessionResult):
            if isinstance(step, SessionNote):
                notes.append(step)
                result = BatchResult()
            elif isinstance(step, TurnBatch):
                turns = [turn for turn in step.turns if isinstance(turn, AgentTurn)]
                result = BatchResult(tuple(map(self._reply, turns)))
        return step, notes

    def _reply(self, turn: AgentTurn) -> TurnResult:
        output = self._words(turn)
        size = len(turn.briefing.encode()) + len(turn.prompt)
        tokens = self._setting.thought + (size + len(output)) // TOKEN_BYTES
        self.tokens += tokens
        return TurnResult(
            turn.name, TurnStatus.SAID, output, model=turn.agent, spent=Amount(0, tokens, 1)
        )

    def _words(self, turn: AgentTurn) -> bytes:
        if turn.agent == COORDINATOR:
            return seats.coordinate(turn.prompt, turn.schema, SYMPOSIUM_ROUNDS)
        if turn.agent not in self._seats:
            place = int(turn.agent.removeprefix("seat-"))
            self._seats[turn.agent] = self._setting.seat(self._question, place)
        seat = self._seats[turn.agent]
        is_ballot = turn.name.startswith("ballot.")
        return seat.ballot(turn.prompt) if is_ballot else seat.turn(turn.prompt)


def _agents(panel: Panel) -> dict[str, Agent]:
    names = [seat.agent for seat in panel.seats] if isinstance(panel, Council) else [*panel.agents]
    return dict.fromkeys(names, Scripted())


def council_of(setting: Setting, size: int = SEATS, **rules: Any) -> Council:  # noqa: ANN401
    """Return a council that answers the questions of a setting."""
    chairs = tuple(Seat(f"seat-{number}") for number in range(1, size + 1))
    return Council(chairs, setting.options, **rules)


def symposium() -> Symposium:
    """Return a symposium of as many seats, each with a persona."""
    ids = [f"seat-{number}" for number in range(1, SEATS + 1)]
    speaks = {"provider": "simulated", "model": "simulated"}
    agents = [
        {"id": name, "persona_ref": persona, **speaks}
        for name, persona in zip(ids, PERSONAS, strict=True)
    ]
    config = {
        "schema_version": "1.0.0",
        "session_id": "benchmark",
        "originator": "user",
        "problem_statement": "It is given with the session.",
        "selector": {
            "strategy": "fixed",
            "default_deliberation_panel": ids,
            "coordinator_agent": COORDINATOR,
        },
        "agents": agents,
        "coordinator": {"id": COORDINATOR, "persona_ref": COORDINATOR, **speaks},
        "budget": {
            "max_total_tokens": 10_000_000,
            "max_total_cost_usd": 5,
            "max_rounds": 5,
            "max_wallclock_seconds": 1800,
        },
        "runtime": {},
    }
    return Symposium(config, {name: name for name in (*ids, COORDINATOR)})


# Votes


def vote(setting: Setting, answers: float, number: int) -> tuple[bool, bool]:
    """Ask for so many answers on average, and tell whether the vote is right, plain and weighed."""
    below = max(1, 2 * math.floor((answers - 1) / 2) + 1)
    more = chance(number, "answers") < (answers - below) / 2
    ballots = _sampled(setting, number, below + 2 * more)
    right = setting.question(number).right
    return plurality(answer for answer, _ in ballots) == right, heaviest(ballots) == right


def gated_vote(setting: Setting, more: float, number: int) -> bool:
    """Ask for three answers and, where they differ, for so many more on average."""
    ballots = _sampled(setting, number, GATE)
    if len({answer for answer, _ in ballots}) > 1:
        count = math.floor(more) + (chance(number, "more") < more % 1)
        ballots = _sampled(setting, number, GATE + count)
    return heaviest(ballots) == setting.question(number).right


def heaviest(ballots: Iterable[tuple[str, float]]) -> str:
    """Return the answer with the most weight; of several, the one that was given first."""
    weights: dict[str, float] = {}
    for answer, weight in ballots:
        weights[answer] = weights.get(answer, 0) + weight
    return max(weights, key=weights.__getitem__)


def _sampled(setting: Setting, number: int, count: int) -> list[tuple[str, float]]:
    question = setting.question(number)
    seats = (setting.seat(question, place) for place in range(1, count + 1))
    return [(seat.first, float(max(1, seat.confidence))) for seat in seats]


# Other ways to count

Recount = Callable[[CouncilReport, Question], str]


def _recounted(
    weigh: Callable[[int, int], float], unreasoned: str, report: CouncilReport, question: Question
) -> str:
    """Count the votes of a report in another way; all else went as it did."""
    weights: dict[str, float] = {}
    for seat in report.seats:
        last = seat.votes[-1]
        if last.answer != seat.weighed and unreasoned == "dropped":
            continue
        held = last.answer if unreasoned == "counted" else seat.weighed
        cast = next(vote for vote in reversed(seat.votes) if vote.answer == held)
        weight = weigh(cast.confidence, len(question.options))
        weights[held] = weights.get(held, 0) + weight
    base = report.baseline.answer
    return max(weights, key=lambda answer: (weights[answer], answer == base), default=base)


def _linear(confidence: int, _: int) -> float:
    return max(1, confidence)


def _count(_: int, __: int) -> float:
    return 1


def _log_odds(confidence: int, options: int) -> float:
    """Return how much more an answer says than a guess."""
    right = min(max(confidence, 1), 99) / 100
    return max(0.01, math.log(right * (options - 1) / (1 - right)))


RECOUNTS: dict[str, Recount] = {
    "weights: plain count": partial(_recounted, _count, "previous"),
    "weights: log odds": partial(_recounted, _log_odds, "previous"),
    "changes without reason: dropped": partial(_recounted, _linear, "dropped"),
    "changes without reason: counted": partial(_recounted, _linear, "counted"),
    "plain count, changes without reason counted": partial(_recounted, _count, "counted"),
}
VARIANTS: dict[str, dict[str, int]] = {
    "threshold: two of three": {"threshold": 600},
    "no gate": {"baseline": 0},
    "gate of five": {"baseline": 5},
    "peers: 1": {"peers": 1},
    "peers: 2": {"peers": 2},
    "peers: 4": {"peers": 4},
    "rounds: 0": {"rounds": 0},
    "rounds: 1": {"rounds": 1},
    "rounds: 4": {"rounds": 4},
    "seats: 3": {"size": 3},
    "seats: 7": {"size": 7},
    "seats: 9, rounds: 0": {"size": 9, "rounds": 0},
}


# Many sessions

Results = dict[str, list[Played]]
Compared = tuple[dict[str, Any], Results]


def compare(sizes: Sizes, setting: Setting) -> Compared:
    """Return the figures of all protocols in a setting, and what came of the variants."""
    numbers = range(sizes.sessions)
    panels: dict[str, Panel] = {
        "council": council_of(setting),
        "ungated": council_of(setting, baseline=0),
        "symposium": symposium(),
        "single": council_of(setting, 1, baseline=0, rounds=0),
    }
    played = {
        name: [play(setting, panel, number) for number in numbers] for name, panel in panels.items()
    }
    price = mean(result.tokens for result in played["single"])
    figures = {name: protocol_figures(results) for name, results in played.items()}
    for name in ("council", "ungated", "symposium"):
        figures[name]["against"] = rivals(setting, played[name], price)
    return figures, variants(setting, sizes.variants, played["council"])


def variants(setting: Setting, sessions: int, usual: list[Played]) -> Results:
    """Let other councils deliberate on the first questions of a setting."""
    results = {"default": usual[:sessions]}
    for place, name in enumerate(RECOUNTS):
        results[name] = [
            replace(result, right=result.recounts[place]) for result in results["default"]
        ]
    for name, rules in VARIANTS.items():
        panel = council_of(setting, **rules)
        results[name] = [play(setting, panel, number) for number in range(sessions)]
    return results


def rivals(setting: Setting, played: list[Played], price: float) -> dict[str, Any]:
    """Compare with votes that are paid with the same tokens."""
    answers = mean(result.tokens for result in played) / price
    votes = [vote(setting, answers, number) for number in range(len(played))]
    figures = {
        "vote": difference(played, [plain for plain, _ in votes]) | {"answers": round(answers, 2)},
        "weighted_vote": difference(played, [weighted for _, weighted in votes]),
    }
    open_share = 1 - mean(result.gated for result in played)
    if open_share < 1:
        more = max(0.0, (answers - GATE) / open_share)
        gated = [gated_vote(setting, more, number) for number in range(len(played))]
        figures["gated_vote"] = difference(played, gated) | {"more_answers": round(more, 2)}
    return figures


def protocol_figures(played: list[Played]) -> dict[str, Any]:
    """Return what a protocol came to."""
    judged = [result for result in played if result.began_right is not None]
    exposed = sum(result.exposed for result in played)
    return {
        **accuracy([result.right for result in played]),
        "tokens": round(mean(result.tokens for result in played)),
        "rounds": round(mean(result.rounds for result in played), 3),
        "gated": round(mean(result.gated for result in played), 4),
        "helped": sum(result.right and not result.began_right for result in judged)
        if judged
        else None,
        "harmed": sum(result.began_right is True and not result.right for result in judged)
        if judged
        else None,
        "exposures": exposed,
        "conformity": share(sum(result.conformed for result in played), exposed),
        "yielded": share(sum(result.yielded for result in played), exposed),
    }


def accuracy(right: Sequence[bool]) -> dict[str, Any]:
    """Return the share that is right, with the interval of Wilson."""
    n, z = len(right), Z_ACCURACY
    p = mean(right)
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return {"accuracy": round(p, 4), "interval": [round(middle - half, 4), round(middle + half, 4)]}


def difference(played: Sequence[Played], rival: Sequence[bool]) -> dict[str, Any]:
    """Return by how much more often a protocol is right than its rival, question by question."""
    gaps = [result.right - other for result, other in zip(played, rival, strict=True)]
    middle, half = mean(gaps), 0.0
    if len(gaps) > 1:
        half = Z_DIFFERENCE * statistics.stdev(gaps) / math.sqrt(len(gaps))
    return {
        "rival_accuracy": round(mean(rival), 4),
        "difference": round(middle, 4),
        "interval": [round(middle - half, 4), round(middle + half, 4)],
    }


def pooled(results: dict[str, Results]) -> dict[str, Any]:
    """Return what each variant comes to, over all settings and where it differs."""
    names = next(iter(results.values()))
    return {name: _variant(name, results) for name in names}


def _variant(name: str, results: dict[str, Results]) -> dict[str, Any]:
    every = [result for each in results.values() for result in each[name]]
    usual = [result.right for each in results.values() for result in each["default"]]
    gaps = {
        setting: difference(each[name], [result.right for result in each["default"]])
        for setting, each in results.items()
    }
    return {
        **difference(every, usual),
        "accuracy": round(mean(result.right for result in every), 4),
        "tokens": round(mean(result.tokens for result in every)),
        "better_in": [where for where, gap in gaps.items() if gap["interval"][0] > 0],
        "worse_in": [where for where, gap in gaps.items() if gap["interval"][1] < 0],
    }


def mean(numbers: Iterable[float]) -> float:
    """Return the mean."""
    return statistics.fmean(numbers)


def share(part: int, whole: int) -> float | None:
    """Return a share; of nothing there is none."""
    return round(part / whole, 4) if whole else None


# Wall time


def schedule_figures(ours: Ours, rounds: int) -> list[dict[str, Any]]:
    """Have the engine carry out councils whose calls take a known time."""
    seconds_of(ours, order_of(SEATS, GATE))
    return [
        timed(ours, size, baseline, rounds)
        for size in (SEATS, MANY_SEATS)
        for baseline in (GATE, 0)
    ]


def crowd_figures(ours: Ours, count: int) -> dict[str, Any]:
    """Have one worker carry many councils at once, of five seats that speak three times each."""
    orders, turns = [order_of(SEATS, GATE)] * count, 3 * SEATS * count
    spent = ours.timed(lambda: ours.finish(orders))
    return {
        "councils": count,
        "councils_per_s": round(count / spent.seconds, 2),
        "turns_per_s": round(turns / spent.seconds, 1),
        "cpu_ms_per_turn": round(1000 * spent.cpu_seconds / turns, 2),
        "peak_mb": ours.servers[0].peak_mb(),
    }


def timed(ours: Ours, size: int, baseline: int, rounds: int) -> dict[str, Any]:
    """Return how long a council takes, against what its calls take."""
    request = order_of(size, baseline)
    spent = [seconds_of(ours, request) for _ in range(rounds)]
    sat, submitted = (statistics.median(times) for times in zip(*spent, strict=True))
    # The seats of the gate, the others, and two rounds of exchange.
    limit = ((1 if baseline else 0) + 3) * CALL_MILLISECONDS / 1000
    return {
        "seats": size,
        "gate": baseline > 0,
        "limit_seconds": limit,
        "seconds": round(sat, 3),
        "ratio": round(sat / limit, 3),
        "submitted_seconds": round(submitted, 3),
        "submitted_ratio": round(submitted / limit, 3),
    }


def seconds_of(ours: Ours, request: RunRequest) -> tuple[float, float]:
    """Return how long a council sat, and how long that was from its submission, by the record."""
    run, deadline = ours.forum.runs.submit(request), time.monotonic() + PATIENCE_SECONDS
    while True:
        entries = [entry for _, entry in read_strand_entries(ours.forum.ledger, run, MAIN_STRAND)]
        if isinstance(entries[-1].facts, RunCloseFacts):
            break
        assert time.monotonic() < deadline, "it does not end"
        time.sleep(LOOK_SECONDS)
    at = {entry.step: entry.ts for entry in entries}
    assert "reveal/2" in at, "it ended too early"
    return (entries[-1].ts - at["council"]) / MICRO, (entries[-1].ts - entries[0].ts) / MICRO


def order_of(size: int, baseline: int) -> RunRequest:
    """Return the order to deliberate on something for two rounds, with nobody of one mind."""
    moves: dict[str, tuple[ScriptStep, ...]] = {
        f"~ballot.{turn}.{number}": (
            ScriptStep(say=_said(number, turn), milliseconds=CALL_MILLISECONDS),
        )
        for number in range(1, size + 1)
        for turn in range(3)
    }
    chairs = tuple(Seat("seat") for _ in range(size))
    council = Council(chairs, TWO, baseline=baseline)
    agents: dict[str, Agent] = {"": Scripted(), "seat": Scripted(moves)}
    return RunRequest("Yes or no?", policy=Policy(agents=agents, parallel=size, panel=council))


def _said(number: int, turn: int) -> str:
    """Return a ballot: the first seat changes its answer each time, for a reason."""
    answer = TWO[(number + (turn if number == 1 else 0)) % 2]
    claims = [{"text": f"Claim {turn} of seat {number}"}]
    ballot = {"answer": answer, "confidence": 80, "claims": claims, "evidence": "It was measured."}
    return msgspec.json.encode(ballot).decode()


# For people

COLUMNS = ("council", "ungated", "symposium", "single")
COURSE = ("gated", "rounds", "helped", "harmed", "conformity", "yielded")


def print_tables(figures: dict[str, Any]) -> None:
    """Print what was found."""
    print(f"{figures['sessions']} sessions of each protocol in each setting; accuracy / tokens")
    print(f"{'':<28}" + "".join(f"{name:>15}" for name in (*COLUMNS, "vote", "gated vote")))
    for name, protocols in figures["settings"].items():
        cells = [f"{protocols[c]['accuracy']:.3f} /{protocols[c]['tokens']:6}" for c in COLUMNS]
        against = protocols["council"]["against"]
        cells += [f"{against[rival]['rival_accuracy']:.3f}" for rival in ("vote", "gated_vote")]
        print(f"{name:<28}" + "".join(f"{cell:>15}" for cell in cells))
    print(f"\n{'council':<28}" + "".join(f"{name:>12}" for name in COURSE))
    for name, protocols in figures["settings"].items():
        print(f"{name:<28}{_course(protocols['council'])}")
    for title in ("council_beats_vote", "vote_beats_council", "no_difference"):
        print(f"\n{title.replace('_', ' ')}, at equal tokens:")
        for row in figures[title]:
            low, high = row["interval"]
            print(f"  {row['setting']:<28}{row['difference']:+.3f}  ({low:+.3f} to {high:+.3f})")
    print("\nother councils, against the default over all settings:")
    for name, row in figures["variants"].items():
        low, high = row["interval"]
        print(
            f"  {name:<46}{row['accuracy']:.3f} /{row['tokens']:6}  {row['difference']:+.4f}"
            f"  ({low:+.4f} to {high:+.4f})"
        )
    print("\nwall time against that of the calls, from the opening and from the submission:")
    for row in figures["schedule"]:
        gate = "with a gate" if row["gate"] else "without"
        times = f"{row['ratio']} times, {row['submitted_ratio']} times"
        print(f"  {row['seats']:>3} seats, {gate:<12}{row['seconds']:7.3f} s, {times}")
    crowd = figures["crowd"]
    print(
        f"\n{crowd['councils']} councils at once, one worker: {crowd['councils_per_s']} councils/s,"
        f" {crowd['turns_per_s']} turns/s, {crowd['cpu_ms_per_turn']} ms of CPU a turn,"
        f" {crowd['peak_mb']} MB"
    )


def _course(council: dict[str, Any]) -> str:
    return "".join(f"{'' if council[name] is None else council[name]:>12}" for name in COURSE)
