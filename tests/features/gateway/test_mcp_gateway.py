"""The MCP gateway: a real client, a real server, and each call on record before and after."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from forum.app import Forum
from forum.config import load_settings
from forum.ledger.kinds import Outcome
from forum.runs.policy import Answer
from forum.runs.report_fold import SpanRecord
from forum.runs.report_kinds import Provenance
from forum.runs.run_fold import Run
from tests.conftest import ROOT
from tests.support import wait_until
from tests.surfaces.terminal import Terminal

pytestmark = pytest.mark.slow

SERVER = ROOT / "tests/models/mcp_servers/relayed.py"


@pytest.fixture
def user(tmp_path: Path) -> Terminal:
    """Return a user with a ledger."""
    made = Terminal(tmp_path)
    assert made.call("init").exit_code == 0
    return made


def forum_of(user: Terminal) -> Forum:
    """Open the ledger of a user."""
    return Forum(load_settings(user.folder, user.environment))


def read_only_run(user: Terminal) -> tuple[str, Run]:
    """Return the only run of a ledger."""
    with forum_of(user) as forum:
        ((run, state),) = forum.reads.recent_runs(None, 10)
        return run, state


def tool_spans(state: Run) -> list[SpanRecord]:
    """Return the calls of a run, without the list of tools that the gateway asked for."""
    return [span for span in state.report.spans.values() if span.name != "tools/list"]


def argv(user: Terminal, *options: str) -> list[str]:
    """Return the arguments that start the gateway in front of the server."""
    erased = str(user.folder / "erased")
    return ["-m", "forum", "mcp", "gateway", *options, "--", sys.executable, str(SERVER), erased]


@asynccontextmanager
async def connected(user: Terminal, *options: str) -> AsyncIterator[Client]:
    """Connect a client through the gateway, as an editor would."""
    started = StdioServerParameters(
        command=sys.executable,
        args=argv(user, *options),
        cwd=user.folder,
        env=dict(user.environment),
    )
    with (user.folder / "gateway.log").open("a") as log:
        async with Client(stdio_client(started, log), cache=None) as client:
            yield client


def talk(user: Terminal, said: Callable[[Client], Awaitable[Any]], *options: str) -> Any:  # noqa: ANN401  whatever the conversation returns
    """Have a conversation through the gateway, to its end."""

    async def whole() -> Any:  # noqa: ANN401
        async with asyncio.timeout(60), connected(user, *options) as client:
            return await said(client)

    return asyncio.run(whole())


def test_everything_passes_and_each_call_is_on_record(user: Terminal) -> None:
    """Structured results, errors, progress, resources and prompts arrive as they were sent."""

    async def said(client: Client) -> dict[str, Any]:
        heard: list[tuple[float, str | None]] = []

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            assert total == 3
            heard.append((progress, message))

        tools = [tool.name for tool in (await client.list_tools()).tools]
        added = await client.call_tool("add", {"a": 2, "b": 3})
        refused = await client.call_tool("refuse", {})
        counted = await client.call_tool("count", {}, progress_callback=hear)
        together = await asyncio.gather(
            *(client.call_tool("add", {"a": n, "b": 0}) for n in range(20))
        )
        resource = (await client.read_resource("note://one")).contents[0]
        prompt = (await client.get_prompt("greet")).messages[0]
        return {
            "tools": tools,
            "sum": added.structured_content,
            "refused": (refused.is_error, str(refused.content)),
            "heard": heard,
            "counted": str(counted.content),
            "together": [
                call_tool_result.structured_content["sum"] for call_tool_result in together
            ],
            "resource": str(resource),
            "prompt": str(prompt),
        }

    answers = talk(user, said)
    run, state = read_only_run(user)
    listed, *spans = sorted(state.report.spans.values(), key=lambda span: span.begun_ts)

    assert answers["tools"] == ["add", "refuse", "count", "wait", "erase"]
    assert answers["sum"] == {"sum": 5}
    assert answers["refused"][0] is True
    assert "Error executing tool refuse" in answers["refused"][1]
    assert len(answers["heard"]) == 3
    assert "counted" in answers["counted"]
    assert answers["together"] == list(range(20))
    assert "a note" in answers["resource"]
    assert "Say hello." in answers["prompt"]
    assert (state.provenance, state.outcome) == (Provenance.RELAYED, Outcome.OK)
    assert listed.name == "tools/list"
    assert [span.name for span in spans[:3]] == ["add", "refuse", "count"]
    assert len(spans) == 23
    assert all(span.begun is not None and span.ended is not None for span in spans)
    assert [span.outcome for span in spans[:3]] == [Outcome.OK, Outcome.FAILED, Outcome.OK]
    with forum_of(user) as forum:
        bodies = forum.reads.bodies_at(run, f"span/{spans[0].id}", "end")
        asked = forum.reads.bodies_at(run, f"span/{spans[0].id}", "begin")
    assert json.loads(asked["input"])["arguments"] == {"a": 2, "b": 3}
    assert json.loads(bodies["output"])["structuredContent"] == {"sum": 5}
    verified = user.call("ledger", "verify")
    assert verified.exit_code == 0, verified.output
    assert "runs: 1 relayed" in verified.output


def test_a_denied_tool_is_never_called_and_the_refusal_is_on_record(user: Terminal) -> None:
    """The server does not hear of it; the model reads why."""
    result = talk(user, lambda client: client.call_tool("erase", {"what": "all"}), "--deny", "er*")
    _, state = read_only_run(user)
    (span,) = tool_spans(state)

    assert result.is_error
    assert "denied" in str(result.content)
    assert not (user.folder / "erased").exists()
    assert (span.outcome, span.begun) == (Outcome.DENIED, None)


@pytest.mark.parametrize("answer", list(Answer))
def test_a_gated_tool_waits_for_a_person(user: Terminal, answer: Answer) -> None:
    """Other calls go on meanwhile; the gated one is made only after its approval."""

    async def said(client: Client) -> tuple[Any, Any]:
        call = asyncio.ensure_future(client.call_tool("erase", {"what": "all"}))
        meanwhile = await client.call_tool("add", {"a": 1, "b": 1})
        assert not (user.folder / "erased").exists()
        await asyncio.to_thread(decide)
        return await call, meanwhile

    def decide() -> None:
        wait_until(lambda: bool(user.ask("gate", "list")["gates"]))
        (gate,) = user.ask("gate", "list")["gates"]
        word = "approve" if answer is Answer.APPROVE else "reject"
        # Nobody has asked Forum for anything, so no request was erased.
        assert "erased" not in user.type("gate", "show", gate["run"], gate["subject"]).stderr
        decided = user.type("gate", word, gate["run"], gate["subject"])
        assert decided.returncode == 0, decided.stderr

    result, meanwhile = talk(user, said, "--gate", "erase")
    _, state = read_only_run(user)
    (span,) = [span for span in state.report.spans.values() if span.name == "erase"]
    approved = answer is Answer.APPROVE

    assert meanwhile.structured_content == {"sum": 2}
    assert result.is_error is not approved
    assert (user.folder / "erased").exists() is approved
    assert span.outcome is (Outcome.OK if approved else Outcome.DENIED)
    assert [gate.decided.answer for gate in state.gates.values() if gate.decided] == [answer]
    assert user.call("ledger", "verify").exit_code == 0


def start_gateway(user: Terminal, *options: str) -> "subprocess.Popen[bytes]":
    """Start the gateway, and greet the server."""
    process = subprocess.Popen(
        [sys.executable, *argv(user, *options)],
        cwd=user.folder,
        env=user.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "0"},
    }
    say(process, {"id": 0, "method": "initialize", "params": hello})
    assert process.stdout is not None
    assert b'"id":0' in process.stdout.readline()
    say(process, {"method": "notifications/initialized"})
    return process


def say(process: "subprocess.Popen[bytes]", message: dict[str, Any]) -> None:
    """Send a message."""
    assert process.stdin is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    process.stdin.flush()


ERASE = '{"name":"erase","arguments":{"what":"all"}}'
SECOND_READINGS = [
    '{"jsonrpc":"2.0","id":1,"Method":"tools/call","params":%s}',
    '{"jsonrpc":"2.0","id":1,"method":"ping","m\\u0045thod":"tools/call","params":%s}',
    '{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":%s}',
    '{"jsonrpc":"2.0","id":1,"method":"Tools/Call","params":%s}',
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","Name":"erase"}}',
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","name":"erase"}}',
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":["erase"]}}',
    '{"jsonrpc":"2.0","id":[1],"method":"tools/call","params":%s}',
    '{"id":1,"method":"ping"} {"id":2,"method":"tools/call","params":%s}',
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%s',
    '[[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%s}]]',
]


def test_no_second_reading_of_a_message_reaches_a_denied_tool(user: Terminal) -> None:
    """What a server could read in another way is refused and on record; the rest goes on."""
    heard = user.folder / "heard"
    server = f"import sys\nfor line in sys.stdin: open({str(heard)!r}, 'a').write(line)"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "forum", "mcp", "gateway", "--deny", "erase", "--"),
            *(sys.executable, "-uc", server),
        ],
        cwd=user.folder,
        env=user.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    hidden = f'{{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{ERASE}}}'
    lines = [line.replace("%s", ERASE) for line in SECOND_READINGS]
    lines += [
        f'{{"jsonrpc":"2.0","method":"tools/call","params":{ERASE}}}',  # no id, so no answer
        # Servers that end lines at a carriage return, or at U+2028, must not find a message.
        f'{{"jsonrpc":"2.0","id":"cr","method":"x","params":{{"a":\r{hidden}\r}}}}',
        '{"jsonrpc":"2.0","id":"ls","method":"x","params":{"a":"\u2028 \\ud800 \u00e4"}}',
    ]
    answers, _ = process.communicate("\n".join(lines), timeout=60)
    _, state = read_only_run(user)
    denied = [span.ended.code for span in state.report.spans.values() if span.ended]
    relayed = [json.loads(line) for line in heard.read_text().splitlines()]

    assert [message["id"] for message in relayed] == ["cr", "ls"]
    assert relayed[0]["params"]["a"] == json.loads(hidden)
    assert relayed[1]["params"]["a"] == "\u2028 \ud800 \u00e4"
    assert all("error" in json.loads(answer) for answer in answers.splitlines())
    assert len(answers.splitlines()) == len(SECOND_READINGS)
    assert sorted(denied) == ["malformed"] * len(SECOND_READINGS) + ["no-id"]
    assert {span.outcome for span in state.report.spans.values()} == {Outcome.DENIED}


CRASHING = """
import json, os
id = json.loads(input())["id"]
print(json.dumps({"jsonrpc": "2.0", "id": id, "result": {"tools": [{"name": "add"}]}}))
input()
os._exit(3)
"""


def test_a_server_that_crashes_in_a_call_fails_the_run(user: Terminal) -> None:
    """The client gets an error for its call, and the gateway exits with a failure."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "forum", "mcp", "gateway", "--"),
            *(sys.executable, "-uc", CRASHING),
        ],
        cwd=user.folder,
        env=user.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    say(process, {"id": 7, "method": "tools/call", "params": {"name": "add"}})
    assert process.stdout is not None
    answer = json.loads(process.stdout.readline())
    _, printed = process.communicate(timeout=60)
    _, state = read_only_run(user)

    assert (answer["id"], "error" in answer) == (7, True)
    assert process.returncode == 1
    assert b"ended with status 3" in printed
    assert state.outcome is Outcome.FAILED
    assert [span.outcome for span in tool_spans(state)] == [Outcome.INDETERMINATE]


def test_a_killed_gateway_leaves_its_call_indeterminate(user: Terminal) -> None:
    """Nobody knows what the tool did; the next process that writes records exactly that."""
    begun = user.folder / "begun"
    process = start_gateway(user)
    call = {"name": "wait", "arguments": {"file": str(begun)}}
    say(process, {"id": 1, "method": "tools/call", "params": call})
    wait_until(begun.exists)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.stdout.close()
    _, before = read_only_run(user)
    with forum_of(user) as forum, forum.log.open_writer():
        again = forum.log.recover_lost_calls()
    _, state = read_only_run(user)
    (span,) = tool_spans(state)

    assert before.report.spans[span.id].ended is None
    assert again == 0  # opening the writer has done it
    assert span.ended is not None
    assert (span.outcome, span.ended.code) == (Outcome.INDETERMINATE, "lost")
    assert state.outcome is Outcome.INDETERMINATE
    assert list(user.folder.rglob("*.runs")) == []
    verified = user.call("ledger", "verify")
    assert verified.exit_code == 0, verified.output


def test_a_living_session_is_left_alone(user: Terminal) -> None:
    """Another process that opens the ledger must not record a call as lost that is under way."""
    begun = user.folder / "begun"
    process = start_gateway(user)
    call = {"name": "wait", "arguments": {"file": str(begun)}}
    say(process, {"id": "1", "method": "tools/call", "params": call})
    wait_until(begun.exists)
    with forum_of(user) as forum, forum.log.open_writer():
        _, during = read_only_run(user)
    cancelled = {"method": "notifications/cancelled", "params": {"requestId": "1"}}
    say(process, cancelled)
    wait_until(
        lambda: [span.outcome for span in tool_spans(read_only_run(user)[1])] == [Outcome.CANCELLED]
    )
    process.communicate(timeout=30)

    assert [span.ended for span in tool_spans(during)] == [None]
    assert process.returncode == 0
    assert read_only_run(user)[1].outcome is Outcome.OK


def test_a_call_without_an_answer_is_indeterminate_when_the_client_leaves(user: Terminal) -> None:
    """SIGTERM and a closed pipe end the gateway in order: the call and the run are closed."""
    begun = user.folder / "begun"
    process = start_gateway(user)
    call = {"name": "wait", "arguments": {"file": str(begun)}}
    say(process, {"id": 1, "method": "tools/call", "params": call})
    wait_until(begun.exists)
    started = time.monotonic()
    process.terminate()
    process.communicate(timeout=30)
    _, state = read_only_run(user)

    assert [span.outcome for span in tool_spans(state)] == [Outcome.INDETERMINATE]
    assert state.outcome is not None
    assert time.monotonic() - started < 25


def test_a_call_whose_id_is_used_again_is_indeterminate(user: Terminal) -> None:
    """Its answer cannot be told from that of the second call; no call stays open."""
    process = start_gateway(user)
    for name in ("first", "second"):
        call = {"name": "wait", "arguments": {"file": str(user.folder / name)}}
        say(process, {"id": 1, "method": "tools/call", "params": call})
    wait_until(lambda: len(tool_spans(read_only_run(user)[1])) == 2)
    process.terminate()
    process.communicate(timeout=30)
    _, state = read_only_run(user)
    ended = [span.ended for span in tool_spans(state)]

    assert state.outcome is not None
    assert [span.outcome for span in tool_spans(state)] == [Outcome.INDETERMINATE] * 2
    assert {end.code for end in ended if end is not None} == {"id-reused", "no-answer"}
