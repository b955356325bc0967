"""Retention: how long bodies are kept, and what holds stop their erasure.

Rules and holds are entries of one strand of the log's own run, in which the redactions by these
rules stand as well.  A strand has one order: a redaction that follows a hold on its run can be seen
by everybody who reads the strand.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from forum.ledger import ports
from forum.ledger.entry import LOG_RUN, Entry, peek_kind
from forum.ledger.kinds import HoldAct, HoldFacts, Kinds, RetentionFacts

RETENTION_STRAND = "retention"
ALL_BODIES = "*"
STRUCTURAL_BODIES = frozenset({"run.close/strands"})
"""Bodies that no period ends: they hold names and hashes, and verification needs them."""
RULE_KINDS = frozenset({b"retention/1", b"hold/1"})
"""The kinds of the rules and holds."""


class BodyName(NamedTuple):
    """A body: the id of its entry in hexadecimal, and its name."""

    entry: str
    name: str


class Hold(msgspec.Struct, frozen=True):
    """A hold that is in force."""

    name: str
    runs: frozenset[str]
    """Empty: all runs."""
    since: int
    """When it was placed, in microseconds since 1970."""
    actor: str
    position: int
    """The position of its entry in the strand."""


class RetentionState(msgspec.Struct, frozen=True):
    """The rules and the holds in force, folded from their strand."""

    periods: Mapping[str, int] = {}
    """Seconds by subject."""
    holds: Mapping[str, Hold] = {}
    length: int = 0
    """The number of entries of the strand folded so far."""

    def is_held(self, run: str) -> bool:
        """Return whether a hold keeps what a run has recorded."""
        return any(not hold.runs or run in hold.runs for hold in self.holds.values())

    def find_rule(self, run: str, kind: str, body: str) -> str | None:
        """Return the subject of the rule for a body of an entry, or None if it is kept for ever.

        The most exact rule counts.  The rule for all bodies leaves out the log's own run: remarks
        and reasons there are part of the account of what was done with the others.
        """
        name = kind.partition("/")[0]
        exact = f"{name}/{body}"
        if exact in STRUCTURAL_BODIES:
            return None
        subjects = (exact, name) if run == LOG_RUN else (exact, name, ALL_BODIES)
        subject = next((subject for subject in subjects if subject in self.periods), None)
        return subject if subject is not None and self.periods[subject] else None


class HoldOrder:
    """The holds and rules in force at a place of the log; fed with its entries in their order."""

    def __init__(self) -> None:
        self._holds: dict[str, frozenset[str]] = {}
        self._periods: dict[str, int] = {}
        self.has_any = False
        """Whether a hold was placed so far."""

    def add(self, entry: Entry[Any]) -> None:
        """Follow an entry, if it sets a rule, or places or releases a hold."""
        facts = entry.facts
        if (entry.run, entry.strand) != (LOG_RUN, RETENTION_STRAND):
            return
        if isinstance(facts, RetentionFacts):
            self._periods[facts.subject] = facts.seconds
        elif isinstance(facts, HoldFacts) and facts.act is HoldAct.PLACE:
            self._holds[facts.hold], self.has_any = frozenset(facts.runs), True
        elif isinstance(facts, HoldFacts):
            self._holds.pop(facts.hold, None)

    def has_rule(self, subject: str) -> bool:
        """Return whether a rule ends the period of this subject."""
        return self._periods.get(subject, 0) > 0

    def find_hold(self, run: str) -> str | None:
        """Return the name of a hold that keeps what a run has recorded, or None."""
        names = (name for name, runs in self._holds.items() if not runs or run in runs)
        return min(names, default=None)


def fold_retention(entries: Iterable[Entry[Any]], state: RetentionState) -> RetentionState:
    """Return the rules and holds after these further entries of the strand.

    The last rule for a subject counts.  A hold that is placed again under its name is another one.
    """
    periods, holds = dict(state.periods), dict(state.holds)
    length = state.length
    for entry in entries:
        facts, length = entry.facts, entry.n + 1
        if isinstance(facts, RetentionFacts):
            periods[facts.subject] = facts.seconds
        elif isinstance(facts, HoldFacts) and facts.act is HoldAct.PLACE:
            holds[facts.hold] = Hold(
                name=facts.hold,
                runs=frozenset(facts.runs),
                since=entry.ts,
                actor=entry.actor,
                position=entry.n,
            )
        elif isinstance(facts, HoldFacts):
            holds.pop(facts.hold, None)
    return RetentionState(periods, holds, length)


def read_retention(
    reader: ports.EntryReader, kinds: Kinds, state: RetentionState | None = None
) -> RetentionState:
    """Return the rules and holds in force, folding new entries into `state`."""
    state = state or RetentionState()
    rules, length = [], state.length
    for data in reader.read_strand(LOG_RUN, RETENTION_STRAND, state.length):
        length += 1
        if peek_kind(data) in RULE_KINDS:  # most entries are redactions
            rules.append(kinds.read(data))
    return msgspec.structs.replace(fold_retention(rules, state), length=length)
