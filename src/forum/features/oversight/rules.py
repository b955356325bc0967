"""Oversight: which entries are worth a look, what was reviewed, and which incidents are open."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from forum.features.oversight.kinds import (
    IncidentCloseFacts,
    IncidentOpenFacts,
    IncidentSeverity,
    ReviewFacts,
)
from forum.ledger.entry import Entry
from forum.ledger.kinds import AccessDenialFacts, Outcome
from forum.runs import kinds
from forum.runs.report_kinds import ReportGapFacts, ReportStepFacts
from forum.runs.run_words import is_overrun_stop

_BUDGET_CODE = "budget"
"""The code of a reported call that was refused because of a cap."""


class Concern(StrEnum):
    """Why an entry is worth a look."""

    STOP = "stop"
    """A run was stopped, for another reason than a used-up budget."""
    BUDGET_STOP = "budget-stop"
    """A run was stopped, or a call refused, because of a cap."""
    DENIAL = "denial"
    """A request, or a step of a reported run, was denied."""
    GAP = "gap"
    """Steps of a reported run are missing."""
    INDETERMINATE = "indeterminate"
    """Nobody knows whether an effect took place."""
    GATE = "gate"
    """Something waits for approval."""


REVIEWED_KINDS = frozenset(
    {b"stop/1", b"access.deny/1", b"outcome/1", b"report.step/1", b"report.gap/1"}
)
"""The kinds that `find_concern` looks at; entries of other kinds need not be decoded."""


def find_concern(entry: Entry[Any]) -> Concern | None:
    """Return why an entry is worth a look, or None if it is not.

    Gates are not found here: whether one is open follows from the entries after its opening.
    """
    facts = entry.facts
    if isinstance(facts, kinds.StopFacts):
        is_budget = facts.reason is kinds.StopReason.BUDGET and not is_overrun_stop(entry)
        return Concern.BUDGET_STOP if is_budget else Concern.STOP
    if isinstance(facts, AccessDenialFacts):
        return Concern.DENIAL
    if isinstance(facts, ReportGapFacts):
        return Concern.GAP
    if isinstance(facts, kinds.OutcomeFacts | ReportStepFacts):
        return _find_outcome_concern(facts)
    return None


def _find_outcome_concern(facts: kinds.OutcomeFacts | ReportStepFacts) -> Concern | None:
    if facts.outcome is Outcome.INDETERMINATE:
        return Concern.INDETERMINATE
    if facts.outcome is not Outcome.DENIED:
        return None
    return Concern.BUDGET_STOP if facts.code == _BUDGET_CODE else Concern.DENIAL


class ReviewScope(msgspec.Struct, frozen=True):
    """The entries that a review is about: from `since` up to `until`, of all runs or of one."""

    since: int
    until: int
    run: str = ""


def review_facts(
    scope: ReviewScope, counts: Mapping[Concern, int], by: kinds.Authority
) -> ReviewFacts:
    """Return the facts of a review that has shown so many entries with each concern."""
    return ReviewFacts(
        by=by,
        since=scope.since,
        until=scope.until,
        run=scope.run,
        stops=counts[Concern.STOP],
        budget_stops=counts[Concern.BUDGET_STOP],
        denials=counts[Concern.DENIAL],
        gaps=counts[Concern.GAP],
        indeterminate=counts[Concern.INDETERMINATE],
        gates=counts[Concern.GATE],
    )


def reviewed_until(reviews: Iterable[ReviewFacts]) -> int:
    """Return the index up to which all runs were reviewed; 0 if there was no review."""
    return max((review.until for review in reviews if not review.run), default=0)


class Incident(msgspec.Struct, frozen=True):
    """An incident, open or closed."""

    id: str
    severity: IncidentSeverity
    runs: tuple[str, ...]
    known: int
    opened: int
    """When the entry that opened it was recorded, in microseconds since 1970."""
    opened_by: str
    entry: str
    """The id of that entry, in hexadecimal."""
    closed: int | None = None
    closed_by: str = ""
    close_entry: str = ""


def fold_incidents(entries: Iterable[tuple[str, Entry[Any]]]) -> Mapping[str, Incident]:
    """Return the incidents by id, from the entries of their strand, each with its own id.

    The first opening and the first close of an incident count.
    """
    incidents: dict[str, Incident] = {}
    for leaf, entry in entries:
        facts = entry.facts
        if isinstance(facts, IncidentOpenFacts) and facts.incident not in incidents:
            incidents[facts.incident] = Incident(
                id=facts.incident,
                severity=facts.severity,
                runs=facts.runs,
                known=facts.known,
                opened=entry.ts,
                opened_by=entry.actor,
                entry=leaf,
            )
        elif isinstance(facts, IncidentCloseFacts):
            incident = incidents.get(facts.incident)
            if incident is not None and incident.closed is None:
                incidents[facts.incident] = msgspec.structs.replace(
                    incident, closed=entry.ts, closed_by=entry.actor, close_entry=leaf
                )
    return incidents
