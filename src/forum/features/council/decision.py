"""Decide when a council ends, which answer it gives, and how far its seats agree.

The vote decides.  Before it a tool can check answers, and between free texts without a majority a
judge compares; both can only choose among answers that seats gave.
"""

import msgspec

from forum.features.council import kinds as council_kinds
from forum.features.council import prompts as council_prompts
from forum.features.council.council_state import CouncilState, SessionStopped, parse_result
from forum.runs import session_steps as steps

MAX_COMPARED = 4
"""Maximum number of answers that a judge compares or a tool checks."""


def find_end(state: CouncilState) -> council_kinds.End | None:
    """Return why no further round is held, or None if another one follows."""
    if not state.stated:
        return council_kinds.End.SILENT
    if _is_unanimous(state) and not state.blockers():
        return council_kinds.End.UNANIMOUS
    if state.round > 0 and not any(change.round == state.round for change in state.changes):
        return council_kinds.End.STABLE
    if state.round > 0 and state.news == 0:
        return council_kinds.End.EXHAUSTED
    return council_kinds.End.ROUNDS if state.round >= state.council.rounds else None


def choose_answer(
    state: CouncilState, end: council_kinds.End
) -> steps.ProtocolPart[tuple[str, council_kinds.Ground]]:
    """Return the answer and its ground: a tool's check, else the vote, else a judge.

    The judge only decides between free texts none of which has a majority.
    """
    if end is council_kinds.End.GATE:
        return state.position(state.baseline_answer), council_kinds.Ground.GATE
    ranking = state.rank_positions()
    if not ranking:
        return "", council_kinds.Ground.NONE
    if state.council.check:
        holding = yield from check_answers(state, ranking[:MAX_COMPARED])
        if holding:
            return holding[0], council_kinds.Ground.CHECK
    # Fixed options are decided by the vote alone; a judge only compares free texts.
    open_texts = not state.council.options and state.council.judge is not None
    if open_texts and not state.count_ballots().has_majority(ranking[0]) and len(ranking) > 1:
        return (yield from _judge_answers(state, ranking[:MAX_COMPARED]))
    return ranking[0], council_kinds.Ground.VOTE


def measure_accord(state: CouncilState, end: council_kinds.End, stand: str) -> council_kinds.Accord:
    """Return how far the seats agree with a position in the end."""
    if state.blockers():
        return council_kinds.Accord.BLOCKED
    # A seat that was asked and cast no ballot agrees with nobody.
    seats = len(state.council.seats)
    if end is council_kinds.End.GATE:
        seats = min(seats, state.council.baseline)
    if _is_unanimous(state) and len(state.weighed) == seats:
        return council_kinds.Accord.AGREED
    return (
        council_kinds.Accord.MAJORITY
        if 2 * state.count_ballots().seats[stand] > seats
        else council_kinds.Accord.SPLIT
    )


def check_answers(state: CouncilState, stands: list[str]) -> steps.ProtocolPart[list[str]]:
    """Return the positions whose answer passes the tool's check."""
    inputs = (
        {"request": state.session.problem, "answer": state.wording(stand)} for stand in stands
    )
    place = "gate" if state.baseline is None else "end"
    probes = tuple(
        steps.ToolProbe(f"check.{place}.{n}", state.council.check, msgspec.json.encode(value))
        for n, value in enumerate(inputs, 1)
    )
    batch = yield from state.ask(probes)
    if batch.stopped:
        raise SessionStopped
    results = zip(stands, batch.said, strict=True)
    return [stand for stand, result in results if result.fate is steps.TurnStatus.SAID]


def _judge_answers(
    state: CouncilState, ranking: list[str]
) -> steps.ProtocolPart[tuple[str, council_kinds.Ground]]:
    """Compare answers pairwise, each pair in both orders.

    A judge that always prefers the first answer contradicts itself, and its preference is
    ignored.
    """
    best, ground = ranking[0], council_kinds.Ground.VOTE
    for number, rival in enumerate(ranking[1:], 1):
        pair = (state.wording(best), state.wording(rival))
        turns = (
            _comparison(state, f"judge.{number}.1", *pair),
            _comparison(state, f"judge.{number}.2", *reversed(pair)),
        )
        batch = yield from state.ask(turns)
        if batch.stopped:
            raise SessionStopped
        read = [parse_result(turn, result) for turn, result in zip(turns, batch.said, strict=True)]
        choices = [
            preference.better
            for preference in read
            if isinstance(preference, council_prompts.Preference)
        ]
        if choices == [council_prompts.FIRST, council_prompts.SECOND]:
            ground = council_kinds.Ground.JUDGE
        elif choices == [council_prompts.SECOND, council_prompts.FIRST]:
            best, ground = rival, council_kinds.Ground.JUDGE
    return best, ground


def _comparison(state: CouncilState, name: str, first: str, second: str) -> steps.AgentTurn:
    prompt = council_prompts.judge_prompt(state.question, first, second)
    agent = state.council.judge or ""
    return steps.AgentTurn(
        name=name,
        agent=agent,
        prompt=prompt,
        schema=council_prompts.judge_schema(),
        read=council_prompts.read_preference,
    )


def _is_unanimous(state: CouncilState) -> bool:
    """Return whether all seats agree, including seats whose last ballot does not count."""
    return len({*state.count_ballots().seats, *state.stands.values()}) == 1
