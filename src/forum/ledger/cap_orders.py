"""Caps that are set while processes run: entries of one strand of the log's own run.

They are control entries, which only the machine that signs can write: a process that may spend
cannot allow itself more.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from forum.errors import CapsUnsigned
from forum.ledger import ports
from forum.ledger.entry import LOG_RUN, Entry
from forum.ledger.kinds import (
    CapChange,
    CapFacts,
    CapSubject,
    CapUnit,
    FreezeAct,
    FreezeFacts,
    Kinds,
    Period,
    TeamFacts,
)

BUDGETS_STRAND = "budgets"


def alert_strand(*name: str) -> str:
    """Return the strand of the log's own run for an alert: of a scope, period, unit and share."""
    return f"alerts/{sha256('/'.join(name).encode()).hexdigest()[:32]}"


class CapName(NamedTuple):
    """What tells one cap from another."""

    subject: CapSubject
    name: str
    per: Period
    unit: CapUnit


class CapOrders(msgspec.Struct, frozen=True):
    """The caps and teams that were set, and whether spending is frozen."""

    caps: Mapping[CapName, int] = {}
    teams: Mapping[str, TeamFacts] = {}
    is_frozen: bool = False
    length: int = 0
    """The number of entries of the strand folded so far."""


def fold_cap_orders(entries: Iterable[Entry[Any]], state: CapOrders) -> CapOrders:
    """Return the state after these further entries of the strand."""
    caps, teams = dict(state.caps), dict(state.teams)
    is_frozen, length = state.is_frozen, state.length
    for entry in entries:
        length = entry.n + 1
        match entry.facts:
            case CapFacts() as facts:
                name = CapName(facts.subject, facts.name, facts.per, facts.unit)
                if facts.act is CapChange.SET:
                    caps[name] = facts.most
                else:
                    caps.pop(name, None)
            case TeamFacts() as facts:
                teams[facts.team] = facts
            case FreezeFacts() as facts:
                is_frozen = facts.act is FreezeAct.FREEZE
            case _:
                pass  # of a later release
    return CapOrders(caps, teams, is_frozen=is_frozen, length=length)


def read_cap_orders(reader: ports.EntryReader, kinds: Kinds, state: CapOrders) -> CapOrders:
    """Return the state with the entries that were recorded since.

    Raises `CapsUnsigned` where an entry waits for its signature, which tells this machine who wrote
    it, and `TamperDetected`.
    """
    waiting = list(reader.strand_rows(LOG_RUN, BUDGETS_STRAND, state.length))
    if not waiting:  # one statement, most of the time
        return state
    added = list(reader.read_strand(LOG_RUN, BUDGETS_STRAND, state.length))
    if len(added) < len(waiting):
        raise CapsUnsigned(reader.origin)
    return fold_cap_orders(map(kinds.read, added), state)
