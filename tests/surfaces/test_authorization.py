"""Every operation x every scope x every state of a key x every ledger, from what is declared."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

from forum.app import Forum
from forum.features.dashboard.http import DashboardExtension, dashboard_routes
from forum.ledger.access import ApiKey, has_scope
from forum.ledger.body import compute_commitment, text_content
from forum.ledger.kinds import Scope
from forum.ledger.ports import Timer
from forum.ledger.strand import Attachment, Draft
from forum.runs.kinds import GateOpenFacts
from forum.runs.policy import Answer
from forum.surfaces.http.application import all_endpoints, make_app
from forum.surfaces.http.auth import Authenticator, ServerConfig
from forum.surfaces.http.openapi import build_document
from forum.surfaces.http.sign_in import session_endpoints
from forum.surfaces.http.tenant import Tenant
from tests.e2e.project import eventually
from tests.surfaces.halls import EVERYTHING, hall, open_forum, showing

MARK = "heliotrope"
"""A word that is in one ledger only."""

ENDPOINTS = {endpoint.name: endpoint for endpoint in all_endpoints()}
PUBLIC = {"livez", "readyz", "readyz_read", "readyz_sign", "openapi"}
ENDLESS = {"follow_log"}
"""Operations whose reply has no end: their heads are asked for."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation as the OpenAPI document has it."""

    name: str
    method: str
    path: str
    scopes: frozenset[Scope]
    has_body: bool

    @property
    def asked_method(self) -> str:
        """The method by which a test asks for it."""
        return "HEAD" if self.name in ENDLESS else self.method

    def address(self, **names: str) -> str:
        """Return an address of it, where things have these names, or a name of nothing."""
        return re.sub(r"{(\w+)(:\w+)?}", lambda part: names.get(part[1], "nothing"), self.path)


def operations() -> list[Operation]:
    """Read the document."""
    paths: dict[str, dict[str, Any]] = build_document(all_endpoints())["paths"]
    return [
        Operation(
            told["operationId"],
            method=method.upper(),
            path=path,
            scopes=frozenset(map(Scope, told["x-forum-scopes"])),
            has_body="requestBody" in told,
        )
        for path, methods in paths.items()
        for method, told in methods.items()
    ]


each_operation = pytest.mark.parametrize("operation", operations(), ids=lambda o: o.name)


@dataclass(frozen=True, slots=True)
class World:
    """A server with two ledgers, and those who come to it."""

    client: TestClient
    first: Forum
    second: Forum
    by_scope: Mapping[Scope, ApiKey]
    bad: Mapping[str, ApiKey | str]
    """What opens nothing, by what is wrong with it."""
    stranger: ApiKey
    """A key of the second ledger with every scope."""
    run: str
    """A run of the first ledger, with the word that nobody else may see."""

    def entries(self) -> list[Any]:
        """Return the entries of the run, as its own people see them."""
        response = self.client.get(
            "/api/v1/entries", params={"run": self.run}, headers=showing(self.by_scope[Scope.READ])
        )
        return list(response.json()["entries"])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Serve two ledgers, and make keys of every sort, of these and of a third one."""
    homes: list[Path] = [tmp_path_factory.mktemp(name) for name in ("first", "second", "third")]
    with open_forum(homes[0]) as first, open_forum(homes[1]) as second:
        by_scope = {scope: first.access.grant(scope, {scope}) for scope in Scope}
        stranger = second.access.grant("stranger", EVERYTHING)
        revoked = first.access.grant("gone", EVERYTHING)
        first.access.revoke(revoked.id)
        with open_forum(homes[2]) as third:
            bad: dict[str, ApiKey | str] = {
                "expired": first.access.grant("old", EVERYTHING, seconds=-1),
                "revoked": revoked,
                "forged": ApiKey(first.access.tenant, by_scope[Scope.ADMIN].id, "0" * 64),
                "of a key that was never made": ApiKey(first.access.tenant, "0" * 12, "0" * 64),
                "under another ledger's name": ApiKey(second.access.tenant, *_parts(by_scope)),
                "of a ledger that is not served": third.access.grant("far", EVERYTHING),
                "no key at all": "open sesame",
            }
        config = ServerConfig([Tenant(first), Tenant(second)])
        with hall(config) as client:
            asked = client.post(
                "/api/v1/runs",
                headers=showing(by_scope[Scope.SUBMIT]),
                json={"request": f"Describe the {MARK}.", "gates": {"what": ["plan"]}},
            )
            run = asked.json()["run"]
            eventually(lambda: first.store.backlog() == 0)
            eventually(lambda: client.get("/readyz").status_code == 200)
            yield World(client, first, second, by_scope, bad=bad, stranger=stranger, run=run)


def _parts(by_scope: Mapping[Scope, ApiKey]) -> tuple[str, str]:
    admin = by_scope[Scope.ADMIN]
    return admin.id, admin.secret


def status(world: World, operation: Operation, key: ApiKey | str | None) -> int:
    """Return what comes of an operation on nothing, with a body that nobody takes."""
    headers = {} if key is None else showing(key)
    content = b"not JSON" if operation.has_body else None
    return world.client.request(
        operation.asked_method, operation.address(), headers=headers, content=content
    ).status_code


@each_operation
def test_an_operation_opens_for_its_scopes_and_for_no_other(
    world: World, operation: Operation
) -> None:
    """A key with one scope too few or too many would be found here, at whatever operation."""
    document = {scope: status(world, operation, key) for scope, key in world.by_scope.items()}

    opened = {scope for scope in Scope if document[scope] not in (401, 403)}
    assert opened == {s for s in Scope if not operation.scopes or has_scope({s}, operation.scopes)}
    assert {document[scope] for scope in set(Scope) - opened} <= {403}


@each_operation
def test_what_is_no_good_key_opens_nothing(world: World, operation: Operation) -> None:
    """Without a key, with one that is over, and with one of another ledger, it is the same."""
    document = {what: status(world, operation, key) for what, key in world.bad.items()}
    document["none"] = status(world, operation, None)

    if operation.name in PUBLIC:
        assert set(document.values()) == {200}
    else:
        assert set(document.values()) == {401}, document


@each_operation
def test_nothing_of_another_ledger_is_seen_or_changed(world: World, operation: Operation) -> None:
    """A good key of one ledger, with all scopes, is a stranger's in every other."""
    before = world.entries()
    accepted = next(found for found in before if "request" in found["entry"]["bodies"])
    names = {"run": world.run, "entry": accepted["id"], "name": "request"}
    names["key"] = world.by_scope[Scope.READ].id
    example = ENDPOINTS[operation.name].example if "{" in operation.path else None
    query = {"subject": "plan"} if operation.name == "show_gate" else None
    answer = world.client.request(
        operation.asked_method,
        operation.address(**names),
        headers=showing(world.stranger),
        json=example,
        params=query,
    )

    about_another = re.search(r"{(run|entry|key)}", operation.path)
    assert answer.status_code in (404, 422) if about_another else answer.status_code < 500
    assert MARK not in answer.text
    assert world.first.origin not in answer.text
    assert about_another or world.run not in answer.text
    assert world.entries() == before


def test_an_approver_reads_what_a_gate_shows_and_no_other_body(world: World) -> None:
    """The salt and the entry of a gate suffice to recompute its digest; all else stays closed."""
    approver = showing(world.by_scope[Scope.APPROVE])
    entries = "/api/v1/entries"
    with world.first.log.open_writer() as ledger:
        strand = ledger.new_strand(world.run, "gate/task/publish")
        facts = GateOpenFacts("task/publish", 3_600_000, Answer.REJECT)
        shown = (Attachment("shown", text_content("Publish it.")),)
        timer = Timer(world.run, strand.name, ledger.now() + 3_600_000_000)
        strand.append(Draft("open", "engine", facts, bodies=shown, effects=(timer,)))
    eventually(lambda: world.first.store.backlog() == 0)
    query = {"subject": "task/publish"}
    place = f"/api/v1/runs/{world.run}/gate"
    gate = world.client.get(place, params=query, headers=approver).json()
    (listed,) = world.client.get("/api/v1/gates", headers=approver).json()["gates"]
    body = world.client.get(f"{entries}/{gate['index']}/bodies/shown", headers=approver)
    others = [
        world.client.get(f"{entries}/{entry['index']}/bodies/{name}", headers=approver).status_code
        for entry in world.entries()
        for name in entry["entry"]["bodies"]
        if entry["index"] != gate["index"]
    ]
    closed = [f"{entries}?run={world.run}", f"{entries}/{gate['index']}", "/api/v1/checkpoint"]

    assert {**gate, **listed, "shown": "Publish it."} == gate
    assert body.headers["forum-salt"] == gate["salt"]
    salt = bytes.fromhex(gate["salt"])
    assert compute_commitment(salt, len(body.content), [body.content]).hex() == gate["digest"]
    assert others
    assert set(others) == {403}
    assert {world.client.get(path, headers=approver).status_code for path in closed} == {403}
    assert world.client.get("/tlog/checkpoint", headers=approver).status_code == 200


def test_every_route_was_declared_with_its_scopes(world: World) -> None:
    """Who adds a route past the declarations has added a door without a lock."""
    config = ServerConfig([Tenant(world.first)])
    app, sessions = (
        make_app(config, [DashboardExtension(config)]),
        session_endpoints(Authenticator(config)),
    )
    found = {
        (method, route.path)
        for route in app.routes
        if isinstance(route, Route)
        for method in route.methods or ()
    }

    assert all(isinstance(route, Route) for route in app.routes)
    declared = {(endpoint.method, endpoint.path) for endpoint in (*ENDPOINTS.values(), *sessions)}
    # The files of the dashboard hold nothing of a ledger.
    files = {("GET", route.path) for route in dashboard_routes()}
    assert {(method, path) for method, path in found if method != "HEAD"} == declared | files
    assert {name for name, endpoint in ENDPOINTS.items() if not endpoint.scopes} == PUBLIC


def test_the_document_leaves_no_operation_out(world: World) -> None:
    """What is not in it would not be in the matrix."""
    paths = world.client.get("/openapi.json").json()["paths"]

    listed = {
        operation["operationId"] for methods in paths.values() for operation in methods.values()
    }
    assert listed | {"openapi"} == set(ENDPOINTS)
