"""Who deliberates on a request, and by which rules; recorded with its policy."""

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import msgspec

from forum.ledger import Count

MAX_SEATS = 100
MAX_ROUNDS = 10
MAX_SHARE = 1000


class Seat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A place on a panel."""

    agent: str = ""
    """Who sits there, by name."""
    briefing: str = ""
    """What that agent is told about itself."""


class Council(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag="council",
    tag_field="protocol",
):
    """Sealed ballots, an anonymous exchange, and a vote that code counts."""

    seats: tuple[Seat, ...] = (Seat(),) * 5
    options: tuple[str, ...] = ()
    """The answers there are to choose from; without them any text may be one."""
    baseline: Count = 3
    """How many seats answer first; where they agree, nobody else is asked.  0: no such gate."""
    threshold: Count = 1000
    """The share of those, in thousandths, that has to agree."""
    rounds: Count = 2
    """How often ballots may be exchanged, at most."""
    peers: Count = 2
    """How many of the others each seat reads."""
    judge: str | None = None
    """Who compares open answers where the vote has no majority."""
    check: str = ""
    """The tool that tells whether an answer holds."""

    @property
    def speakers(self) -> frozenset[str]:
        """The agents that are asked."""
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
    """As the protocol has it: `forum.deliberation` reads it."""
    agents: dict[str, str] = {}
    """Which agent of the policy speaks for each id of the config."""

    @property
    def speakers(self) -> frozenset[str]:
        """The agents that are asked."""
        return frozenset(self.agents.values())


Panel = Council | Symposium


def fill_seats(council: Council, agents: Sequence[str]) -> Council:
    """Return a council whose empty seats these agents have taken, one after another."""
    if not agents:
        return council
    taken = cycle(agents)
    seats = (
        one if one.agent else msgspec.structs.replace(one, agent=next(taken))
        for one in council.seats
    )
    return msgspec.structs.replace(council, seats=tuple(seats))


def normalize_answer(answer: str) -> str:
    """Return what two answers have in common that say the same.

    Only what carries no meaning is left out: `.5` is not 5, `5!` is not 5, and `!x` is not x.
    """
    words = " ".join(answer.casefold().split()).rstrip(" .")
    # By places: whoever writes nothing but quotation marks must not have us copy all of them often.
    first, last = 0, len(words)
    while last - first > 1 and words[first] == words[last - 1] and words[first] in "\"'`":
        first, last = first + 1, last - 1
        while first < last and words[first] == " ":
            first += 1
        while first < last and words[last - 1] in " .":
            last -= 1
    return words[first:last]
