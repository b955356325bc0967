"""What is told of evaluations: a list of them, and whether the report of one can be trusted."""

from enum import StrEnum

import msgspec

from forum.runs import kinds

MAX_RECOMPUTED_PLAYS = 500
"""How many plays one request of a client may have computed anew: each reads a run."""


class ReportCheck(StrEnum):
    """Whether the recorded report of an evaluation follows from the recorded runs."""

    FOLLOWS = "follows"
    """It was computed anew, and is the same."""
    DIFFERS = "differs"
    """It was computed anew, and is another one."""
    ERASED = "erased"
    """It cannot be computed: the cases, or an answer, were erased."""
    NOT_COMPUTED = "not computed"
    """It has more plays than are computed anew for one request."""


class ListedEvaluation(msgspec.Struct, frozen=True):
    """An evaluation in a list."""

    run: str
    begun: int
    ended: int
    """When it was closed; 0 while it goes on, or if it was given up."""
    facts: kinds.EvalOpenFacts
    plays: int
    unplayed: int


class EvaluationPage(msgspec.Struct, frozen=True):
    """Some evaluations, the newest first, and the run after which the next page begins, if any."""

    evaluations: tuple[ListedEvaluation, ...]
    next: str | None
