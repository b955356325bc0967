"""Sessions of the open protocol, carried out by an engine: scripts say what every call is answered.

A session ends up in a folder, as others read it.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from forum.app.planner import seat_panel
from forum.engine import Engine, RunRequest, read_run, read_run_request
from forum.features.symposium.artifact import (
    RecordedSession,
    build_session_files,
    read_recorded_session,
)
from forum.features.symposium.kinds import SYMPOSIUM_KINDS
from forum.features.symposium.provider_calls import FakeScript
from forum.features.symposium.simulator import simulate_session
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.log import Ledger, read_strand_entries
from forum.ledger.ports import EntryWrite, Store
from forum.ledger.secret_mask import SecretMask
from forum.runs.kinds import TURN_PREFIX
from forum.runs.panel import Symposium
from forum.runs.policy import Agent, Policy, Scripted
from forum.runs.session_steps import NoteBody, Session, SessionNote
from tests.engine.office import KINDS, RUN, Hands, Office, now, quick

NO_SECRETS = SecretMask.from_secrets({})
CAST = "cast"
"""The agent that speaks for everybody."""


def hall(
    store: Store,
    hands: Hands | None = None,
    append: Callable[[Sequence[EntryWrite]], None] | None = None,
    mask: SecretMask = NO_SECRETS,
) -> Office:
    """Return an office in which sessions are held."""
    office = Office(store, hands)
    office.ledger = Ledger(
        store, kinds=KINDS, clock=now, salts=lambda: os.urandom(32), append=append, mask=mask
    )
    office.engine = Engine(office.ledger, office.hands.model, office.hands.open_tools)
    return office


def scripted(
    given: dict[str, Any],
    script: FakeScript,
    selector: FakeScript | None = None,
    slow: Mapping[str, int] = MappingProxyType({}),
) -> RunRequest:
    """Return an order for a session that goes as scripts say; slow turns take milliseconds."""
    policy = Policy(agents={CAST: Scripted()}, panel=panel_of(given))
    moves = simulate_session(Session(given["problem_statement"], policy, 0), script, selector)
    timed = {
        TURN_PREFIX + turn: tuple(replace(move, milliseconds=slow.get(turn, 0)) for move in made)
        for turn, made in moves.items()
    }
    return seated(given, Scripted(timed))


def seated(given: dict[str, Any], agent: Agent) -> RunRequest:
    """Return an order for a session in which one agent speaks for everybody."""
    request = RunRequest(given["problem_statement"], None, quick(agents={CAST: agent}))
    return seat_panel(request, panel_of(given))


def panel_of(given: dict[str, Any]) -> Symposium:
    """Return a panel for which one agent speaks."""
    names = [*(one["id"] for one in given["agents"]), given["coordinator"]["id"]]
    return Symposium(given, dict.fromkeys(names, CAST))


def session_in(office: Office, run: str = RUN) -> Session:
    """Return what is deliberated on in a run."""
    request = read_run_request(office.ledger, run)
    return Session(request.request, request.policy, read_run(office.ledger, run).begun)


def kept(office: Office, run: str = RUN) -> RecordedSession:
    """Return a session as the ledger has it."""
    notes = (
        SessionNote(
            entry.step,
            entry.facts,
            tuple(NoteBody(name, office.body(entry, name)) for name in entry.bodies),
        )
        for _, entry in read_strand_entries(office.ledger, run, MAIN_STRAND)
        if entry.kind in SYMPOSIUM_KINDS
    )
    return read_recorded_session(session_in(office, run), notes)


def write_session(office: Office, folder: Path, run: str = RUN) -> Path:
    """Write the files of a session, and return the folder with them."""
    folder.mkdir(parents=True)
    for name, data in build_session_files(kept(office, run), "1.2.3").items():
        (folder / name).write_bytes(data)
    return folder
