"""Panels: the agents that deliberate on a request and their rules, recorded with the policy."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import cycle
from typing import Any, NamedTuple

import msgspec

from forum.errors import BadPlan
from forum.ledger.entry import Count
from forum.runs.council_end import Requirement

MAX_SEATS = 100
MAX_ROUNDS = 10
MAX_SHARE = 1000
MIN_OPTIONS = 2
"""How many options a decision needs."""
COUNCIL_VERSION = 3
"""The version of the rules that a new council follows."""
SYMPOSIUM_VERSION = 2
"""The version of the record that a new symposium leaves."""


_TURN = re.compile(r"ballot\.(\d+)\.(\d+)").fullmatch


class Protocol(StrEnum):
    """By which rules a panel sits."""

    COUNCIL = "council"
    SYMPOSIUM = "symposium"


class Seat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A seat on a panel."""

    agent: str = ""
    """The name of the agent in this seat."""
    briefing: str = ""
    """Instructions about the role of that agent."""


class Council(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag="council",
    tag_field="protocol",
):
    """A council: sealed ballots, an anonymous exchange, and a vote counted by code."""

    seats: tuple[Seat, ...] = (Seat(),) * 5
    options: tuple[str, ...] = ()
    """The possible answers; without them any text may be one."""
    baseline: Count = 3
    """How many seats answer first; if they agree, no other seat is asked. 0: no such shortcut."""
    threshold: Count = 1000
    """The share of the baseline that has to agree, in thousandths."""
    rounds: Count = 2
    """Limit of rounds in which ballots are exchanged."""
    peers: Count = 2
    """How many other ballots each seat reads."""
    judge: str | None = None
    """The agent that compares open answers if the vote has no majority."""
    check: str = ""
    """The tool that checks an answer."""
    version: Count = 1
    """The rules: in 1, free texts are the same only if they have the same words; since 2, a
    recorded step compares what they mean, and the report has the claims for the answer; since 3,
    the seed of a round is computed from commitments, and not from the ballots."""
    require: Requirement = Requirement.MAJORITY
    """How far the seats have to agree, so that a task with this panel passes."""

    @property
    def speakers(self) -> frozenset[str]:
        """The names of all agents that are called."""
        judges = () if self.judge is None else (self.judge,)
        return frozenset([*(seat.agent for seat in self.seats), *judges])


class Symposium(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag="symposium",
    tag_field="protocol",
):
    """The open protocol of that name, version 1.0.0, whose artifacts other programs read."""

    config: dict[str, Any]
    """The configuration of the protocol, which reads it."""
    agents: dict[str, str] = {}
    """The agent of the policy for each id of the configuration."""
    require: Requirement = Requirement.MAJORITY
    """How far the panel has to agree, so that a task with it passes."""
    version: Count = 1
    """The record: in 1, its last entry has a digest of the transcript; since 2, it has none."""

    @property
    def speakers(self) -> frozenset[str]:
        """The names of all agents that are called."""
        return frozenset(self.agents.values())


Panel = Council | Symposium

ACCEPTED, REJECTED = "accept", "reject"
"""The answers between which a panel chooses that judges the work of others."""


def as_judge(panel: Council) -> Council:
    """Return a panel that judges: it accepts or rejects, whatever it decides on otherwise."""
    return msgspec.structs.replace(panel, options=(ACCEPTED, REJECTED), check="")


def draft_decision(options: Sequence[str]) -> Council:
    """Return a council that chooses one of these options, whose seats are to be filled.

    Raises `BadPlan` for fewer than two options.
    """
    if len(options) < MIN_OPTIONS:
        raise BadPlan(f"decide: {len(options)} options; a decision is between two or more")
    lines = tuple(" ".join(option.split()) for option in options)
    return Council(seats=(), options=lines, version=COUNCIL_VERSION)


def seat_decision(draft: Council, panels: Mapping[str, Panel], name: str = "") -> Council:
    """Return the council of this name with the options of a decision; without a name, the first.

    Raises `BadPlan`.
    """
    councils = {each: panel for each, panel in panels.items() if isinstance(panel, Council)}
    if not councils:
        raise BadPlan("decide: no panel is configured; write [panels.NAME] in forum.toml")
    if name and name not in councils:
        raise BadPlan(f"decide: no panel is called {name!r}; known: {', '.join(sorted(councils))}")
    # By name, because that is how the recorded policy sorts them.
    return msgspec.structs.replace(councils[name or min(councils)], options=draft.options)


def count_seats(asked: int | None, *, models: int, personas: int = 0) -> int:
    """Return how many sit on a panel: as many as asked for, or as personas, or as models, or five.

    One model takes as many seats as usual.
    """
    return asked or personas or (models if models > 1 else len(Council().seats))


def fill_seats(council: Council, agents: Sequence[str]) -> Council:
    """Return a council whose empty seats are filled with these agents in turn."""
    if not agents:
        return council
    names = cycle(agents)
    seats = (
        seat if seat.agent else msgspec.structs.replace(seat, agent=next(names))
        for seat in council.seats
    )
    return msgspec.structs.replace(council, seats=tuple(seats))


class TurnId(NamedTuple):
    """Where a ballot is cast."""

    round: int
    seat: int

    @property
    def turn(self) -> str:
        """The name of the turn."""
        return f"ballot.{self.round}.{self.seat}"


def parse_ballot_turn(turn: str) -> TurnId | None:
    """Return the round and seat of a ballot turn, or None if the name is that of another turn."""
    match = _TURN(turn)
    return TurnId(int(match[1]), int(match[2])) if match else None


def normalize_answer(answer: str) -> str:
    """Return a normalised answer, equal for answers that mean the same.

    Only characters without meaning are removed: `.5` is not 5, `5!` is not 5, and `!x` is not x.
    """
    words = " ".join(answer.casefold().split()).rstrip(" .")
    # Move indexes instead of slicing: an answer of nothing but quotation marks would otherwise be
    # copied once per pair, in quadratic time.
    first, last = 0, len(words)
    while last - first > 1 and words[first] == words[last - 1] and words[first] in "\"'`":
        first, last = first + 1, last - 1
        while first < last and words[first] == " ":
            first += 1
        while first < last and words[last - 1] in " .":
            last -= 1
    return words[first:last]
