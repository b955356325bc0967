"""Tools of MCP servers: the good ones of the SDK, and the worst that we could think of."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

import forum.models.mcp_client  # noqa: F401  # before the clocks of the tests run
from forum.engine import CallReply, ToolInvocation
from forum.errors import MissingExtra, ServerUnusable
from forum.ledger.body import BytesContent, Content
from forum.ledger.kinds import Outcome
from forum.models import mcp_tools, open_tools
from forum.models.mcp_tools import list_tools, unique_tool_names
from forum.runs.kinds import Why
from forum.runs.policy import McpServer, ToolSpec
from tests.models.mcp_servers.address import serving
from tests.models.mcp_servers.friendly import TOKEN
from tests.support import wait_until

SERVERS = Path(__file__).with_name("mcp_servers")
FRIENDLY = McpServer((sys.executable, str(SERVERS / "friendly.py")))
CANARY = "CANARY_OF_THE_WORKER"


def hostile(how: str, *more: str) -> McpServer:
    """Return a server that behaves in this way."""
    return McpServer((sys.executable, "-I", str(SERVERS / "hostile.py"), how, *more))


def use(
    server: McpServer, name: str = "any", arguments: bytes = b"{}", seconds: int = 30
) -> CallReply:
    """Use a tool; nothing of it may be left in the event loop."""

    async def used() -> CallReply:
        async with open_tools() as make_tool:
            tool = make_tool(ToolSpec(server=server, name=name, seconds=seconds))
            reply = await tool.invoke(deed(name, arguments))
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return reply

    return asyncio.run(used())


def deed(name: str, arguments: bytes) -> ToolInvocation:
    """Return an effect that is about to happen."""
    return ToolInvocation(
        "run-1",
        task="task-1",
        step="use/1/outcome",
        tool=name,
        arguments=BytesContent(arguments),
        key="key-1",
    )


def use_in_task(server: McpServer, *calls: tuple[str, bytes]) -> list[str]:
    """Make these calls in one task, and return their outputs, or the outcomes without output."""

    async def use_tools() -> list[CallReply]:
        async with open_tools() as make_tool:
            replies = [
                await make_tool(ToolSpec(server=server, name=name)).invoke(deed(name, arguments))
                for name, arguments in calls
            ]
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return replies

    return [read(reply.output) or reply.outcome.value for reply in asyncio.run(use_tools())]


def read(content: Content) -> str:
    """Return all of a content."""
    return b"".join(content.chunks()).decode()


def lives(pid: int) -> bool:
    """Tell whether a process runs; one that is dead but not yet reaped does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def gone(pids: Path) -> None:
    """Wait until neither the server nor its child is left."""
    both = [int(pid) for pid in pids.read_text().split()]
    assert len(both) == 2
    wait_until(lambda: not any(map(lives, both)))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the friendly tools at an address that wants a token."""
    file = tmp_path_factory.mktemp("mcp") / "address"
    with subprocess.Popen([*FRIENDLY.argv, str(file)]) as process:
        try:
            wait_until(lambda: file.exists() and _answers(file.read_text()))
            yield file.read_text()
        finally:
            process.terminate()


def _answers(url: str) -> bool:
    return use(McpServer(url=url), seconds=5).code.startswith("http")


# What goes right

LONG = json.dumps({"text": 'Zürich 日本 \u2028 \U0001f6f6 \\ " ' + "x" * 1_000_000})


@pytest.mark.usefixtures("each_platform")
@pytest.mark.slow
def test_arguments_and_key_arrive_through_pipes() -> None:
    """An argument that was changed on the way is another effect than the recorded one."""
    reply = use(FRIENDLY, "echo", LONG.encode())

    assert reply.outcome is Outcome.OK, read(reply.error)
    assert read(reply.output) == f"key-1 {json.loads(LONG)['text']}"


@pytest.mark.slow
def test_arguments_and_key_arrive_at_an_address(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same over HTTP, with a token that is read when it is needed."""
    monkeypatch.setenv("FRIENDLY_TOKEN", TOKEN)
    reply = use(McpServer(url=address, key_env="FRIENDLY_TOKEN"), "echo", LONG.encode())

    assert reply.outcome is Outcome.OK, read(reply.error)
    assert read(reply.output) == f"key-1 {json.loads(LONG)['text']}"


@pytest.mark.slow
def test_a_server_knows_only_what_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker's environment is full of secrets, and a server is somebody else's program."""
    for name in (CANARY, "GIVEN", "PGPASSWORD"):
        monkeypatch.setenv(name, name.lower())
    server = McpServer(FRIENDLY.argv, env=("GIVEN", "PGPASSWORD", "NOT_THERE"))
    document = json.loads(read(use(server, "environment").output))

    # No FORUM_KEY: the server has many calls, and a key of an earlier one would be wrong.
    own = {"FORUM_RUN": "run-1", "FORUM_TASK": "task-1"}
    assert document.keys() - {"PATH", "HOME", "LANG", "LC_CTYPE"} == {"GIVEN", *own}
    assert document.items() >= own.items()


@pytest.mark.slow
def test_what_a_tool_says_becomes_text() -> None:
    """An agent reads text; of what is not, it is told what there was."""
    picture = use(FRIENDLY, "picture")
    refused = use(FRIENDLY, "refuse")

    assert read(picture.output) == "[image, image/png, 1000 bytes]"
    assert (refused.outcome, refused.code) == (Outcome.FAILED, "tool-error")
    assert "refuse" in read(refused.output)


@pytest.mark.parametrize("arguments", [b"{", b"[1]", b"1", b'{"a": NaN}', b'{"a":' * 5000])
def test_what_is_not_an_object_is_not_sent(arguments: bytes) -> None:
    """A model that writes bad JSON is told so, and no server is even started."""
    reply = use(McpServer(("/nonexistent",)), arguments=arguments)

    assert (reply.outcome, reply.code) == (Outcome.FAILED, "arguments")
    assert "takes a JSON object" in read(reply.output)


def test_without_the_sdk_a_tool_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was not used: there is nothing that a person would have to find out."""
    monkeypatch.setattr(mcp_tools, "find_spec", lambda _: None)
    reply = use(hostile("well"))

    assert (reply.outcome, reply.code) == (Outcome.FAILED, "missing-extra")
    assert "[mcp]" in read(reply.error)
    with pytest.raises(MissingExtra):
        asyncio.run(list_tools({"a": hostile("well")}))


# How long a server lives


@pytest.mark.slow
def test_a_server_keeps_its_state_as_long_as_the_task() -> None:
    """Browsers, shells and databases are of use only if the second call finds the first one's."""
    first = use_in_task(FRIENDLY, ("note", b'{"text": "a"}'), ("note", b'{"text": "b"}'))
    second = use_in_task(FRIENDLY, ("note", b'{"text": "c"}'))

    pids = {reply.split(":")[0] for reply in first + second}
    assert [reply.split(": ")[1] for reply in first + second] == ["a", "a b", "c"]
    assert len(pids) == 2
    assert not any(lives(int(pid)) for pid in pids)


@pytest.mark.slow
def test_a_failed_call_does_not_end_a_server_but_a_missing_answer_does() -> None:
    """After a crash the next call finds a new server, which knows nothing."""
    note = ("note", b'{"text": "a"}')
    replies = use_in_task(FRIENDLY, note, ("refuse", b"{}"), note, ("crash", b"{}"), note)

    assert [reply.split(": ")[-1] for reply in replies] == [
        "a", "Error executing tool refuse", "a a", "indeterminate", "a",
    ]  # fmt: skip
    assert replies[0].split(":")[0] != replies[-1].split(":")[0]


@pytest.mark.usefixtures("each_platform")
@pytest.mark.slow
def test_a_server_that_died_between_two_calls_is_started_again() -> None:
    """It was not asked for anything since, so no person is asked what it has done."""

    async def use_twice() -> CallReply:
        async with open_tools() as make_tool:
            tool = make_tool(ToolSpec(server=FRIENDLY, name="note"))
            first = await tool.invoke(deed("note", b'{"text": "a"}'))
            os.kill(pid := int(read(first.output).split(":")[0]), 9)
            while lives(pid):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            return await tool.invoke(deed("note", b'{"text": "b"}'))

    second = asyncio.run(use_twice())

    assert second.outcome is Outcome.OK, read(second.error)
    assert read(second.output).endswith(": b")


# What goes wrong


@pytest.mark.parametrize(
    ("how", "outcome", "code"),
    [
        ("well", Outcome.OK, ""),
        ("greet", Outcome.OK, ""),
        ("log", Outcome.OK, ""),
        ("die", Outcome.INDETERMINATE, "no-answer"),
        ("nonsense", Outcome.INDETERMINATE, "no-answer"),
        ("die-at-first", Outcome.FAILED, "connect"),
        ("flood", Outcome.INDETERMINATE, "oversize"),
        ("chatter", Outcome.INDETERMINATE, "oversize"),
        ("beg", Outcome.INDETERMINATE, "oversize"),
    ],
)
def test_a_server_without_manners_is_contained(how: str, outcome: Outcome, code: str) -> None:
    """Whatever it does, there is a reply; and nobody guesses what a dead server has done."""
    reply = use(hostile(how), seconds=60)

    assert (reply.outcome, reply.code) == (outcome, code), read(reply.error)
    assert (reply.why is Why.OVERSIZE) == (code == "oversize")
    assert reply.output.size <= len("done")


def test_a_server_that_cannot_be_started_has_done_nothing() -> None:
    """It is a failure, which the agent can read of."""
    reply = use(McpServer(("/nonexistent",)))

    assert (reply.outcome, reply.code) == (Outcome.FAILED, "connect")
    assert "/nonexistent" in read(reply.error)


def test_what_a_dying_server_says_is_kept() -> None:
    """Its last words are mostly the reason."""
    assert "no licence" in read(use(hostile("die-at-first")).error)


def test_a_server_that_pries_learns_nothing() -> None:
    """No model of ours answers it, no person is asked by it, and no folder is named to it."""
    assert read(use(hostile("pry")).output) == "refused refused refused"


@pytest.mark.usefixtures("each_platform")
def test_a_server_that_hangs_is_gone_with_its_children(tmp_path: Path) -> None:
    """A hung tool waited for ever elsewhere.  It was asked, so nobody knows what it has done."""
    pids, began = tmp_path / "pids", monotonic()
    reply = use(hostile("hang", str(pids)), seconds=3)
    took = monotonic() - began

    assert (reply.outcome, reply.why) == (Outcome.TIMEOUT, Why.DEADLINE)
    assert took < 20
    gone(pids)


def test_a_server_that_does_not_shake_hands_was_never_asked() -> None:
    """There is no doubt about the effect: it cannot have been had."""
    reply = use(hostile("hang-at-first"), seconds=2)

    assert (reply.outcome, reply.why, reply.code) == (Outcome.FAILED, Why.DEADLINE, "connect")


@pytest.mark.usefixtures("each_platform")
def test_a_cancelled_call_leaves_nothing_running(tmp_path: Path) -> None:
    """Who stops a run does not want its tools to go on."""
    pids = tmp_path / "pids"

    async def cancel() -> None:
        async with open_tools() as make_tool:
            tool = make_tool(ToolSpec(server=hostile("hang", str(pids)), name="any"))
            using = asyncio.create_task(tool.invoke(deed("any", b"{}")))
            while not pids.exists():  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            using.cancel()
            with pytest.raises(asyncio.CancelledError):
                await using
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(cancel())

    gone(pids)


@pytest.mark.usefixtures("each_platform")
def test_a_child_that_a_server_leaves_behind_is_gone_too() -> None:
    """It belongs to the call, and the call is over."""
    reply = use(hostile("leave-child"))

    wait_until(lambda: not lives(int(read(reply.output))))


@pytest.mark.parametrize(
    ("how", "outcome", "code"),
    [
        ("well", Outcome.OK, ""),
        ("gateway", Outcome.INDETERMINATE, "http 502"),
        ("drop", Outcome.INDETERMINATE, "no-answer"),
        ("nonsense", Outcome.INDETERMINATE, "no-answer"),
        ("flood", Outcome.INDETERMINATE, "oversize"),
        ("refuse", Outcome.FAILED, "rpc -32602"),
        ("hang", Outcome.TIMEOUT, ""),
    ],
)
def test_an_address_that_goes_wrong_is_contained(how: str, outcome: Outcome, code: str) -> None:
    """A gateway that lost an answer does not know what happened; neither do we."""
    with serving(how) as address:
        reply = use(McpServer(url=address.url), seconds=1 if how == "hang" else 30)

    assert (reply.outcome, reply.code) == (outcome, code), read(reply.error)


def test_what_comes_compressed_is_not_unpacked() -> None:
    """A hundred kilobytes become a hundred megabytes, and nothing says where that ends."""
    with serving("bomb") as address:
        reply = use(McpServer(url=address.url))

    assert (reply.outcome, reply.code) == (Outcome.INDETERMINATE, "no-answer")
    assert "compressed" in read(reply.error)


def test_a_token_goes_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that sends us elsewhere could collect tokens there."""
    monkeypatch.setenv("SOME_TOKEN", TOKEN)
    with serving("well") as other, serving("elsewhere", other.url) as address:
        reply = use(McpServer(url=address.url, key_env="SOME_TOKEN"))

    assert (reply.outcome, reply.code) == (Outcome.FAILED, "http 307")
    assert address.seen[0]["authorization"] == f"Bearer {TOKEN}"
    assert other.seen == []


@pytest.mark.parametrize(
    ("token", "code"), [("wrong", "http 401"), ("", "no-key"), ("ä", "no-key")]
)
@pytest.mark.slow
def test_without_the_right_token_it_is_denied(
    token: str, code: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is denied did not happen, and the token is in no error."""
    monkeypatch.setenv("FRIENDLY_TOKEN", token)
    reply = use(McpServer(url=address, key_env="FRIENDLY_TOKEN"), "echo", b'{"text": "hi"}')

    assert (reply.outcome, reply.code) == (Outcome.DENIED, code)
    assert not token or token not in read(reply.error)


def test_where_nobody_serves_nothing_was_done() -> None:
    """A refused connection is a failure."""
    with serving("well") as address:
        url = address.url
    reply = use(McpServer(url=url))

    assert (reply.outcome, reply.code) == (Outcome.FAILED, "connect")


# What servers offer


def test_all_pages_of_an_offer_are_read() -> None:
    """What was offered is recorded: under names that providers take, and within bounds."""
    server = hostile("well")
    tools = asyncio.run(list_tools({"my server": server}))

    assert list(tools) == ["my_server-tool_0", "my_server-tool_1", "my_server-tool_2"]
    tool = tools["my_server-tool_1"]
    assert (tool.server, tool.name, tool.schema) == (server, "tool.1", {"type": "object"})
    assert tool.description == "ä" * 2048


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (hostile("list-for-ever"), "does not end"),
        (hostile("die-at-first"), "no licence"),
        (hostile("hang-at-first"), "too long"),
        (McpServer(("/nonexistent",)), "/nonexistent"),
        (McpServer(url="http://127.0.0.1:1/mcp"), "check its url"),
    ],
)
def test_a_server_that_cannot_be_used_is_named(server: McpServer, why: str) -> None:
    """A request that needs it is refused before anything is recorded, and says why."""
    with pytest.raises(ServerUnusable, match=f"'bad' cannot be used: .*{why}"):
        asyncio.run(list_tools({"bad": server}, seconds=3))


PAIRS = st.lists(
    st.tuples(st.text("ab.-_é", max_size=70), st.text("ab.-_é", max_size=70)), unique=True
)


@given(PAIRS, st.data())
def test_names_are_plain_and_differ(pairs: list[tuple[str, str]], data: st.DataObject) -> None:
    """Two tools under one name would be one tool; and the order of servers must not matter."""
    names = dict(zip(pairs, unique_tool_names(pairs), strict=True))
    others = data.draw(st.permutations(pairs))

    assert len(set(names.values())) == len(pairs)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names.values())
    assert [names[pair] for pair in others] == unique_tool_names(others)


def test_a_name_that_was_made_to_collide_does_not() -> None:
    """A server could call its tool what the tool of another one would be called here."""
    pairs = [("a.", "b"), ("a_", "b")]
    first = unique_tool_names(pairs)[0]
    names = unique_tool_names([*pairs, tuple(first.split("-", 1))])  # type: ignore[list-item]

    assert len(set(names)) == 3
