"""The one word for the state of a run; every surface shows this word and no other.

The members `state`, `outcome` and `stopped` of released formats keep their values: a run whose
budget was used up has the outcome `denied` there, and the word `budget` here.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, assert_never

from forum.ledger.entry import Entry
from forum.ledger.kinds import Outcome
from forum.runs import kinds, run_fold
from forum.runs.council_end import Accord
from forum.runs.report_drafts import OVERRUN
from forum.runs.report_kinds import ReportStepFacts


class RunOutcome(StrEnum):
    """How a run ended, for those who look for runs: an outcome, or what a council left of it."""

    OK = "ok"
    FAILED = "failed"
    DENIED = "denied"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    INDETERMINATE = "indeterminate"
    SPLIT = "split"
    BLOCKED = "blocked"


CAP_REFUSALS = frozenset({"budget", "stopped", "unpriced"})
"""The codes of steps that a cap refused: it is used up, passed, or the cost has no bound."""

OVERRUN_ACTORS = frozenset({"gateway", "recorder"})
"""Who stops a run because of its budget only at an overrun; they refuse what a cap does not allow.
"""

RUN_WORDS: Mapping[str, str] = {
    "accepted": "nobody works at it yet",
    "running": "it goes on",
    "waiting": "it waits for a decision",
    "interrupted": "it can be resumed",
    "stopped": "it was stopped, and is about to end",
    "ended": "its outcome is not known",
    "ok": "it was answered, or its program ended with status 0",
    "failed": "it was not answered, or its program failed",
    "denied": "somebody or a rule refused it",
    "timeout": "its time was over",
    "cancelled": "somebody cancelled it",
    "indeterminate": "nobody knows how it ended",
    "budget": "its budget, or a cap over many runs, was used up",
    "overrun": "a provider billed more than the bound of a call, so it was stopped",
    "depth": "runs within runs were nested too deeply",
    "repeat": "the same call gave the same reply too often",
    "ping-pong": "two agents repeated themselves",
    "turns": "a task took too many calls",
    "lost": "workers died at the same step",
    "rejected": "a person rejected it",
    "error": "a needed part of the record could not be read",
    "role": "a role did not do its part",
    "split": "a council did not agree, so nothing was decided",
    "blocked": "a seat of a council has an objection that must be answered first",
}
"""All words, each with its meaning."""


def choose_run_word(
    state: run_fold.RunState,
    outcome: Outcome | None,
    stopped: kinds.StopReason | None,
    *,
    waits: bool = False,
    has_overrun: bool = False,
    accord: Accord | None = None,
) -> str:
    """Return the word for a run; `accord` is that of a council that left it undecided."""
    if outcome is not None and accord is not None:
        return accord.value
    if outcome is Outcome.OK:
        return "ok"
    if outcome is not None:
        return _ended_word(outcome, stopped, has_overrun=has_overrun)
    match state:
        case run_fold.RunState.INTERRUPTED:
            return "interrupted"
        case run_fold.RunState.ACCEPTED | run_fold.RunState.RUNNING | run_fold.RunState.WAITING:
            return "waiting" if waits else state.value
        case run_fold.RunState.STOPPED | run_fold.RunState.ENDED:
            return state.value
        case _:
            assert_never(state)


def _ended_word(outcome: Outcome, stopped: kinds.StopReason | None, *, has_overrun: bool) -> str:
    if stopped is None:
        return outcome.value
    if stopped is kinds.StopReason.DEADLINE:
        return Outcome.TIMEOUT.value
    if stopped is kinds.StopReason.BUDGET and has_overrun:
        return OVERRUN
    return stopped.value


def is_cap_refusal(facts: Any) -> bool:  # noqa: ANN401  facts of any kind
    """Return whether a step is a call that a cap refused."""
    return (
        isinstance(facts, ReportStepFacts)
        and facts.outcome is Outcome.DENIED
        and facts.code in CAP_REFUSALS
    )


def count_cap_refusals(state: run_fold.Run) -> int:
    """Return how many calls of a recorded run a cap refused."""
    return sum(is_cap_refusal(span.ended) for span in state.report.spans.values())


def is_overrun_stop(entry: Entry[Any]) -> bool:
    """Return whether an entry stops a run because a call cost more than its bound.

    Its fact says `budget`, as that of a run whose budget is used up.
    """
    facts = entry.facts
    return (
        isinstance(facts, kinds.StopFacts)
        and facts.reason is kinds.StopReason.BUDGET
        and entry.actor in OVERRUN_ACTORS
    )


def find_overruns(state: run_fold.Run) -> Iterable[str]:
    """Yield the ids of the steps of a recorded run that cost more than their bound."""
    for span in state.report.spans.values():
        if span.ended is not None and span.ended.code == OVERRUN:
            yield span.id


def describe_run_word(state: run_fold.Run, *, waits: bool = False) -> str:
    """Return the word for a run as its entries tell it."""
    return choose_run_word(
        state.state,
        state.outcome,
        state.stopped.reason if state.stopped else None,
        waits=waits or bool(state.open_gates),
        has_overrun=any(True for _ in find_overruns(state)),
        accord=run_fold.undecided_accord(state),
    )
