"""How a council ended: its accord, and what a task of a plan makes of it.

The facts are here and not with the other kinds of a council, because the state and the summary of
a run follow from them.
"""

from enum import StrEnum
from typing import assert_never

from forum.ledger.entry import Count, Facts


class End(StrEnum):
    """Why nobody was asked again."""

    GATE = "gate"
    """The first answers agreed."""
    UNANIMOUS = "unanimous"
    STABLE = "stable"
    """No seat changed its answer."""
    EXHAUSTED = "exhausted"
    """No seat made a new claim."""
    ROUNDS = "rounds"
    STOPPED = "stopped"
    """By a limit or a cancellation."""
    SILENT = "silent"
    """No seat cast a ballot."""


class Ground(StrEnum):
    """By what the answer was chosen."""

    GATE = "gate"
    VOTE = "vote"
    CHECK = "check"
    """A tool's check passed."""
    JUDGE = "judge"
    """A model preferred it in both orders."""
    NONE = "none"


class Accord(StrEnum):
    """How far the seats agree in the end."""

    AGREED = "agreed"
    MAJORITY = "majority"
    SPLIT = "split"
    BLOCKED = "blocked"
    """A seat has an objection that must be answered first."""


class CouncilCloseFacts(Facts, frozen=True):
    """How a council ended.  Body: the report, with what the minority said."""

    end: End
    ground: Ground
    accord: Accord
    rounds: Count
    ballots: Count
    changed: Count
    """Number of changes of answer."""
    conformed: Count
    """Number of changes without a reason, which do not count."""
    blockers: Count
    usd: Count
    tokens: Count


class Requirement(StrEnum):
    """How far a panel has to agree, so that its answer is accepted."""

    MAJORITY = "majority"
    AGREEMENT = "agreement"


def meets_requirement(accord: Accord, required: Requirement) -> bool:
    """Return whether an answer with this accord is accepted."""
    match required:
        case Requirement.MAJORITY:
            return accord in (Accord.AGREED, Accord.MAJORITY)
        case Requirement.AGREEMENT:
            return accord is Accord.AGREED
        case _:
            assert_never(required)


UNDECIDED = (Accord.SPLIT, Accord.BLOCKED)
"""The accords that leave the answer undecided."""


def as_undecided(accord: Accord | None) -> Accord | None:
    """Return an accord if it leaves the answer undecided (split or blocked), else None."""
    return accord if accord in UNDECIDED else None
