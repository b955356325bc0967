"""Panels: the agents that deliberate on a request and their rules, recorded with the policy."""

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import msgspec

from forum.ledger.entry import Count
from forum.work.council_end import Requirement

MAX_SEATS = 100
MAX_ROUNDS = 10
MAX_SHARE = 1000
COUNCIL_VERSION = 2
"""The version of the rules that a new council follows."""


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
    recorded step compares what they mean, and the report has the claims for the answer."""
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
    """The configuration of the protocol; `forum.deliberation` reads it."""
    agents: dict[str, str] = {}
    """The agent of the policy for each id of the configuration."""

    @property
    def speakers(self) -> frozenset[str]:
        """The names of all agents that are called."""
        return frozenset(self.agents.values())


Panel = Council | Symposium


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
