"""No surface that a writer serves says independent by the writer's own marks."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from forum.app import Forum
from forum.features.witness.service import open_witness
from forum.ledger.body import text_content
from forum.ledger.kinds import Scope
from forum.surfaces.http.application import make_app
from forum.surfaces.http.auth import ServerConfig
from forum.surfaces.http.sign_in import OneTimeSignIn
from forum.surfaces.http.tenant import Tenant
from forum.tlog import WitnessPolicy
from forum.verify import WitnessState
from tests.e2e.project import Project
from tests.surfaces.halls import hall, open_forum
from tests.surfaces.talks import ERAS, Talk, in_process, talk
from tests.test_repository import package_sources

BY_MARKS = re.compile(r"\bread_trust\b|\bdescribe_witnessing\b|\bpolicy\.encode\b")
"""What says independent by the marks of this machine's operator, or hands them out."""
FOR_THE_OPERATOR = {
    "surfaces/cli/common_options.py", "surfaces/cli/ledger.py", "surfaces/cli/verify_bundle.py",
    # Programs of this machine: the demos, and what a program records or asks in its own process.
    "features/demo/crash.py", "features/demo/frauds.py", "features/demo/panel.py",
    "features/demo/team.py", "features/recorder/ledger_api.py", "features/recorder/run_scope.py",
    # Commands, and the witness on this machine; they write files of the operator.
    "features/archive/service.py", "features/backup/service.py", "features/tenants/service.py",
    "features/witness/local.py",
}  # fmt: skip
"""What is for the reader whose marks these are, and is not served."""


@pytest.fixture
def forum(tmp_path: Path) -> Iterator[Forum]:
    """Open a ledger whose writer has given his own witness a name from elsewhere, and marked it."""
    open_witness(tmp_path / "state/witness", "witness.example.org/own")
    with open_forum(tmp_path) as made:
        made.log.record_note(text_content("hello"))
        policy = made.policy_file
    text = policy.read_bytes().replace(b" local ", b" w\xff ").replace(b"m local", b"m w\xff")
    policy.write_bytes(text + b"independent w\xff\n")
    with open_forum(tmp_path) as marked:
        assert marked.policy.independent
        yield marked


def test_the_operator_reads_his_own_marks(forum: Forum) -> None:
    """He is the reader of his own trust file."""
    assert forum.log.verify(forum.log.read_trust()).witnessing is WitnessState.INDEPENDENT


def test_a_client_of_the_server_does_not(forum: Forum, tmp_path: Path) -> None:
    """Neither over HTTP nor over MCP: the client has marked nobody."""
    with hall(ServerConfig([Tenant(forum)]), operator=True) as client:
        over_http = client.post("/api/v1/verification").json()

    async def ask(begun: Talk) -> Any:  # noqa: ANN401  any JSON object
        assert "self-witnessed: holds" in str((await begun.call("verify")).content)
        return await begun.well("verify")

    over_mcp = talk(in_process(Project(tmp_path, {}, forum), Scope.AUDIT), ask, ERAS[0])
    for report in (over_http, over_mcp):
        assert report["ok"]
        assert report["witnessing"] == "self-witnessed"
        assert [sighting["independent"] for sighting in report["sightings"]] == [False]


def test_a_browser_that_signs_in_gets_no_marks(forum: Forum) -> None:
    """And a name that is not UTF-8 does not cost the person the code."""
    sign_in = OneTimeSignIn(lambda: "token", forum.origin, forum.log.describe_policy)
    app = make_app(ServerConfig([Tenant(forum)]), [sign_in])
    with TestClient(app, "http://localhost", client=("127.0.0.1", 40000)) as client:
        reply = client.post("/ui/sign-in", json={"code": sign_in.issue_code()})

    assert reply.status_code == 200, reply.text
    pinned = WitnessPolicy.parse(reply.json()["policy"].encode())
    assert pinned.independent == ()
    assert pinned.witness_keys == forum.policy.witness_keys


def test_what_is_served_never_reads_the_marks() -> None:
    """So it is for endpoints and tools that are added later."""
    readers = {
        path
        for path, text in package_sources().items()
        if path.startswith(("surfaces/", "features/")) and BY_MARKS.search(text)
    }
    assert readers == FOR_THE_OPERATOR
    assert BY_MARKS.search("forum.log.verify(forum.log.read_trust())")
    assert not BY_MARKS.search("forum.log.read_trust_for_others()")
