"""Every tool and every route, with hostile text in every place."""

import json
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote

import pytest
from mcp_types import CallToolResult, TextContent

from forum.app import Forum
from forum.config import load_settings
from forum.ledger.kinds import Scope
from forum.surfaces.http.auth import ServerConfig
from forum.surfaces.http.tenant import Tenant
from forum.surfaces.mcp.tools import all_tools
from tests.e2e.project import Project
from tests.surfaces.halls import hall
from tests.surfaces.hostile_project import HOSTILE, LINES, RUN, HostileProject, is_obeyed
from tests.surfaces.talks import Talk, in_process, talk

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> HostileProject:
    """Make the project once for all tools."""
    return HostileProject(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def forum(project: HostileProject) -> Iterator[Forum]:
    """Open the project."""
    with Forum(load_settings(project.folder, project.user.environment)) as opened:
        yield opened


def _arguments(project: HostileProject) -> dict[str, dict[str, Any]]:
    """Return arguments for every tool, most of which read what others wrote."""
    run, other = {"run": project.run}, {"run": project.other}
    gate = {**run, "subject": "task/publish"}
    plan = {"request": LINES, "tasks": [{"id": "a", "instruction": LINES}], "wait": False}
    return {
        "submit": plan,
        "deliberate": {"question": LINES, "protocol": HOSTILE},
        "deliberate_adaptive": {"question": LINES, "kind": HOSTILE},
        "generate_persona": {"about": LINES, "kind": HOSTILE},
        "list_personas": {},
        "status": run,
        "runs": {},
        "show": {"run": RUN},
        "transcript": {"run": RUN},
        "diff": {**run, "other": project.other},
        "costs": {},
        "why": {"entry": f"{RUN}/span/s1/0"},
        "route": {"text": LINES},
        "roster": {},
        "models": {},
        "plan": {"request": LINES},
        "cancel": {"run": HOSTILE},
        "resume": {"run": HOSTILE},
        "fork": {**other, "at": HOSTILE},
        "score": {**other, "name": "good", "value": 1, "comment": LINES},
        "gates": {},
        "gate": gate,
        "decide": {**gate, "answer": "approve", "digest": HOSTILE},
        "verify": {},
        "replay": other,
        "reviews": {},
        "proof": {"entry": HOSTILE},
        "bundle": other,
    }


QUOTES = {"status", "submit"}
"""The tools whose second text is that of one author, as it is."""


@pytest.mark.parametrize("tool", [tool.name for tool in all_tools()])
def test_a_tool_returns_no_text_that_a_terminal_obeys(
    tool: str, project: HostileProject, forum: Forum
) -> None:
    """The structured content has the exact text; what people read is escaped."""

    async def call(begun: Talk) -> CallToolResult:
        return await begun.client.call_tool(tool, _arguments(project)[tool])

    made = cast("Project", SimpleNamespace(forum=forum))
    result = talk(in_process(made, Scope.ADMIN), call, "2026-07-28")

    texts = [part.text for part in result.content if isinstance(part, TextContent)]
    assert texts
    for text in texts:
        assert not {c for c in text if is_obeyed(c) or c == "\t"}, ascii(text)
    for text in texts[:1] if tool in QUOTES else texts:
        assert not re.search("^\u2713 FORGED", text, re.MULTILINE), ascii(text)
    if tool == "gate":
        assert HOSTILE in (result.structured_content or {})["request"]


def test_no_route_returns_json_that_a_terminal_obeys(project: HostileProject, forum: Forum) -> None:
    """Its value is the same; only an entry by its name is byte for byte as it is hashed."""
    names = {"run": RUN, "subject": "task/publish", "entry": f"{RUN}/span/s1/0", "index": "3"}
    hidden = 0
    with hall(ServerConfig([Tenant(forum)]), operator=True) as client:
        document = client.get("/openapi.json").json()
        for template, operations in document["paths"].items():
            path = re.sub(r"\{(\w+)\}", lambda match: names.get(match[1], quote(HOSTILE)), template)
            if "get" not in operations or path.endswith("/events"):
                continue
            reply = client.get(path, headers={"Accept-Encoding": "identity"})
            if "json" in reply.headers.get("content-type", "") and "etag" not in reply.headers:
                assert not {c for c in reply.text if is_obeyed(c)}, path
                hidden += any(map(is_obeyed, json.dumps(reply.json(), ensure_ascii=False)))
                assert int(reply.headers["content-length"]) == len(reply.content)
    assert hidden > 3
