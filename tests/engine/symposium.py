"""Sessions of the open protocol, carried out by an engine: scripts say what every call is answered.

A session ends up in a folder, as others read it.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from forum.deliberation import (
    SYMPOSIUM_KINDS,
    Body,
    FakeScript,
    Note,
    Session,
    files_of,
    record_of,
    rehearse,
)
from forum.deliberation.symposium.artifact import Kept
from forum.engine import Engine, Order, order_of, read_run
from forum.ledger import MAIN, Ledger, Mask, Record, Store, entries_of
from forum.staff import seat_order
from forum.work import TURN, Agent, Policy, Scripted, Symposium
from tests.engine.office import KINDS, RUN, Hands, Office, now, quick

NO_SECRETS = Mask.of({})
CAST = "cast"
"""The agent that speaks for everybody."""


def hall(
    store: Store,
    hands: Hands | None = None,
    append: Callable[[Sequence[Record]], None] | None = None,
    mask: Mask = NO_SECRETS,
) -> Office:
    """Return an office in which sessions are held."""
    office = Office(store, hands)
    office.ledger = Ledger(store, KINDS, now, lambda: os.urandom(32), append, mask=mask)
    office.engine = Engine(office.ledger, office.hands.model, office.hands.tool)
    return office


def scripted(
    given: dict[str, Any],
    script: FakeScript,
    selector: FakeScript | None = None,
    slow: Mapping[str, int] = MappingProxyType({}),
) -> Order:
    """Return an order for a session that goes as scripts say; slow turns take milliseconds."""
    policy = Policy(agents={CAST: Scripted()}, panel=panel_of(given))
    moves = rehearse(Session(given["problem_statement"], policy, 0), script, selector)
    timed = {
        TURN + turn: tuple(replace(move, milliseconds=slow.get(turn, 0)) for move in made)
        for turn, made in moves.items()
    }
    return seated(given, Scripted(timed))


def seated(given: dict[str, Any], agent: Agent) -> Order:
    """Return an order for a session in which one agent speaks for everybody."""
    order = Order(given["problem_statement"], None, quick(agents={CAST: agent}))
    return seat_order(order, panel_of(given))


def panel_of(given: dict[str, Any]) -> Symposium:
    """Return a panel for which one agent speaks."""
    names = [*(one["id"] for one in given["agents"]), given["coordinator"]["id"]]
    return Symposium(given, dict.fromkeys(names, CAST))


def session_in(office: Office, run: str = RUN) -> Session:
    """Return what is deliberated on in a run."""
    order = order_of(office.ledger, run)
    return Session(order.request, order.policy, read_run(office.ledger, run).begun)


def kept(office: Office, run: str = RUN) -> Kept:
    """Return a session as the ledger has it."""
    notes = (
        Note(
            entry.step,
            entry.facts,
            tuple(Body(name, office.body(entry, name)) for name in entry.bodies),
        )
        for _, entry in entries_of(office.ledger, run, MAIN)
        if entry.kind in SYMPOSIUM_KINDS
    )
    return record_of(session_in(office, run), notes)


def write_session(office: Office, folder: Path, run: str = RUN) -> Path:
    """Write the files of a session, and return the folder with them."""
    folder.mkdir(parents=True)
    for name, data in files_of(kept(office, run), "1.2.3").items():
        (folder / name).write_bytes(data)
    return folder
