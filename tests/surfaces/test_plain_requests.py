"""Paths and parameters that another program could read in another way are refused, on any route."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from forum.surfaces.http.problems import ProblemType
from tests.surfaces.halls import lone_hall

CONTROLS = ("\0", "a\0b", "\x1b", "\n", "\x7f")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """Serve a ledger to its operator."""
    with lone_hall(tmp_path_factory.mktemp("plain"), operator=True) as (_, served):
        yield served


def operations(client: TestClient) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield each operation of the API, from its own document."""
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_a_control_character_in_any_parameter_is_a_bad_request(client: TestClient) -> None:
    """A store refuses a NUL, and then a client would be told to try again for ever."""
    tried = 0
    for (method, path, operation), text in product(operations(client), CONTROLS):
        for parameter in operation.get("parameters", ()):
            name, place = parameter["name"], parameter["in"]
            if place not in ("path", "query"):
                continue
            parts = {p["name"]: "x" for p in operation["parameters"] if p["in"] == "path"}
            query: dict[str, str] = {}
            (parts if place == "path" else query)[name] = text
            target = path
            for part, value in parts.items():
                target = target.replace(f"{{{part}}}", quote(value, safe=""))
            reply = client.request(method, target, params=query)
            tried += 1
            assert reply.status_code == 400, (method, path, name, reply.text)
            problem = reply.json()  # or the form of the provider, for its clients
            kind = problem.get("type") or problem["error"]["code"]
            assert kind in (ProblemType.BAD_REQUEST.type, "bad_request"), (method, path, name)
    assert tried > 200


@pytest.mark.parametrize("escape", ["%2F", "%2f", "%5C"])
def test_an_escaped_slash_is_refused_on_every_route(client: TestClient, escape: str) -> None:
    """A proxy in front that has a rule for a path must see the path that is served."""
    paths = {path for _, path, _ in operations(client)} | {"/ui/index.html", "/mcp", "/livez"}
    for path in paths:
        plain = path.replace("{", "").replace("}", "")
        for at in (i for i, character in enumerate(plain) if character == "/" and i):
            reply = client.get(plain[:at] + escape + plain[at + 1 :])
            assert reply.status_code == 400, plain


def test_files_of_exports_are_written_for_their_owner_only() -> None:
    """Whoever else uses the machine must not read what agents have said: one function writes it."""
    allowed = {
        "surfaces/cli/setup.py": 1,  # forum.toml of a new project, without a secret
        "features/evidence/verify_cli.py": 1,  # the page of the verifier, the same for everybody
        "features/dashboard/browser.py": 1,  # a page in a private folder
        "features/tenants/service.py": 1,  # forum.toml of a new tenant, without a secret
        "features/backup/service.py": 1,  # a copy of the settings, in the folder of the backup
    }
    source = Path(__file__).parents[2] / "src/forum"
    document = {
        file.relative_to(source).as_posix(): n
        for folder in ("surfaces/cli", "features")
        for file in (source / folder).rglob("*.py")
        if (n := sum(file.read_text().count(word) for word in (".write_bytes(", ".write_text(")))
    }
    assert document == allowed
