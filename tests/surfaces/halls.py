"""Ledgers and a server over them within this process: what it says, and to whom."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from starlette.testclient import TestClient

from forum.app import Forum
from forum.config import load_settings
from forum.ledger.access import DENIALS_STRAND, ApiKey
from forum.ledger.entry import LOG_RUN
from forum.ledger.kinds import AccessDenialFacts, Scope
from forum.surfaces.http.application import make_app
from forum.surfaces.http.auth import ServerConfig
from forum.surfaces.http.extensions import load_extensions
from forum.surfaces.http.tenant import Tenant

PROJECT = '[models.default]\nkind = "scripted"\n'
EVERYTHING = frozenset(Scope)


def open_forum(home: Path, project: str = PROJECT) -> Forum:
    """Open the ledger of a folder, making the project where there is none."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "forum.toml").write_text(project)
    own = {name: text for name, text in os.environ.items() if not name.startswith("FORUM_")}
    forum = Forum(load_settings(home, own | {"FORUM_STATE_DIR": str(home / "state")}))
    forum.keys.initialise()
    return forum


@contextmanager
def hall(
    config: ServerConfig, peer: str = "127.0.0.1", *, operator: bool = False
) -> Iterator[TestClient]:
    """Serve a house to a client that comes from an address, as the operator or as nobody."""
    with TestClient(
        make_app(config, load_extensions(config)), "http://localhost", client=(peer, 40000)
    ) as client:
        if operator:
            client.headers.update(showing(config.desks[0].forum.access.operator_token()))
        yield client


@contextmanager
def lone_hall(home: Path, *, operator: bool = False) -> Iterator[tuple[Forum, TestClient]]:
    """Serve one ledger."""
    with (
        open_forum(home) as forum,
        hall(ServerConfig([Tenant(forum)]), operator=operator) as client,
    ):
        yield forum, client


def showing(key: ApiKey | str) -> Mapping[str, str]:
    """Return the headers by which a client shows a key or a token."""
    return {"Authorization": f"Bearer {key}"}


@dataclass(frozen=True, slots=True)
class Turned:
    """Somebody who was turned away, as the ledger has it."""

    actor: str
    facts: AccessDenialFacts


def turned_away(forum: Forum) -> list[Turned]:
    """Return everybody who was turned away."""
    entries = map(forum.ledger.kinds.read, forum.store.read_strand(LOG_RUN, DENIALS_STRAND))
    return [Turned(entry.actor, entry.facts) for entry in entries]
