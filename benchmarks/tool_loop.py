"""A tool loop that Forum drives: tasks whose agents use a tool in many turns.

The provider is a process of its own, and so is each worker.  A worker is killed in the middle, and
another one takes over, which counts the bytes that it reads from the database until it goes on.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from time import perf_counter, sleep
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from benchmarks.gateway import free_port, process, serve
from benchmarks.serving import settings_of
from benchmarks.sides import PATIENCE_SECONDS, process_cpu_seconds
from forum.app import Forum
from forum.engine import ModelCall, RunRequest
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.kinds import RunCloseFacts
from forum.models.http_model import HttpModel
from forum.runs.plan import Plan, Task
from forum.runs.policy import Chat, Policy, ToolSpec
from forum.stores.sqlite_connections import SharedConnection

_LOOK_SECONDS = 0.02
_SYSTEM = "You are careful. " * 500
_USAGE = {"prompt_tokens": 20, "completion_tokens": 20, "total_tokens": 40}


class Talk(NamedTuple):
    """A conversation: how many calls, and how many bytes each adds."""

    calls: int
    message_bytes: int
    compacted_every: int = 0
    """After how many calls the agent replaces its history by a summary; 0 is never."""
    agents: int = 1
    """How many agents take turns in the run."""


class Loop(NamedTuple):
    """What a driven conversation was, and what it cost."""

    said: int
    """The bytes of messages and replies on the wire, each message once."""
    cpu_seconds: float
    """What both workers used, their start included."""
    takeover_read_bytes: int
    takeover_seconds: float
    """From the start of the second worker to its first call."""


def make_provider(folder: Path, calls: int, agents: int) -> Starlette:
    """Return a provider that asks for the tool until each agent has made so many calls.

    It does not answer the call in the middle: the worker that made it is killed then.  What was
    said is written down beside the ledger.
    """
    seen: set[str] = set()
    said = ends = 0
    has_waited = False

    async def answer(request: Request) -> Response:
        nonlocal said, ends, has_waited
        asked = json.loads(await request.body())
        turn = sum(message["role"] == "assistant" for message in asked["messages"])
        for part in (json.dumps(asked["tools"]), *map(json.dumps, asked["messages"])):
            said += 0 if part in seen else len(part)
            seen.add(part)
        if turn == calls // 2 and not has_waited:
            has_waited = True
            (folder / "waiting").touch()
            await request.receive()  # returns when the killed worker has hung up
        is_last = turn + 1 >= calls
        response = JSONResponse(_make_reply(turn, is_last=is_last))
        said += len(response.body)
        ends += is_last
        if ends == agents:
            (folder / "said").write_text(str(said))
        return response

    return Starlette(routes=[Route("/v1/chat/completions", answer, methods=["POST"])])


def _make_reply(turn: int, *, is_last: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": f"{turn}: " + "word " * 20}
    if not is_last:
        function = {"name": "read", "arguments": json.dumps({"part": turn})}
        message["tool_calls"] = [{"id": f"call_{turn}", "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "finish_reason": "stop" if is_last else "tool_calls"}
    reply = {"id": "c", "object": "chat.completion", "model": "m", "usage": _USAGE}
    return reply | {"choices": [choice]}


def make_request(folder: Path, url: str, talk: Talk) -> RunRequest:
    """Return the request of a run; its tool returns parts of a file, all new."""
    random = Random(0)
    words = ["".join(random.choices("abcdefghiklmnoprst", k=5)) for _ in range(4000)]
    text = folder / "text"
    text.write_text(" ".join(random.choices(words, k=(talk.calls + 1) * talk.message_bytes // 5)))
    script = f'dd if="{text}" bs={talk.message_bytes} skip="$(tr -dc 0-9)" count=1 status=none'
    tool = ToolSpec(
        ("sh", "-c", script),
        description="Read a part of the text. " * 20,
        schema={"type": "object", "properties": {"part": {"type": "integer"}}},
    )
    agent = Chat(url, "m", input_usd=0, output_usd=0, context_tokens=10_000_000)
    policy = Policy(
        agents={"": agent},
        tools={"read": tool},
        turns=talk.calls + 10,
        repeats=0,
    )
    tasks = tuple(Task(f"agent-{number}", _SYSTEM) for number in range(talk.agents))
    return RunRequest(_SYSTEM, Plan(tasks), policy)


def drive_loop(folder: Path, talk: Talk) -> Loop:
    """Drive a conversation, and kill the worker in the middle."""
    port = free_port()
    provider = ("provider", str(folder), str(talk.calls), str(talk.agents), str(port))
    with process(sys.executable, "-m", "benchmarks.tool_loop", *provider):
        sleep(2)
        settings = settings_of(folder, None)
        with Forum(settings) as forum:
            forum.keys.initialise()
            request = make_request(folder, f"http://127.0.0.1:{port}/v1", talk)
            run = forum.runs.submit(request)
            with _worker(folder, counts=False) as first:
                _wait_for(folder / "waiting")
                used = process_cpu_seconds(first.pid)
                first.kill()
            start = perf_counter()
            with _worker(folder, counts=True) as second:
                assert second.stdout
                read = int(second.stdout.readline())
                seconds = perf_counter() - start
                _wait_for(folder / "said")
                while not _has_ended(forum, run):
                    sleep(_LOOK_SECONDS)
                used += process_cpu_seconds(second.pid)
                second.kill()
            forum.log.publish()
    return Loop(int((folder / "said").read_text()), used, read, seconds)


def _has_ended(forum: Forum, run: str) -> bool:
    last = forum.store.last_entry(run, MAIN_STRAND)
    return last is not None and isinstance(forum.ledger.kinds.read(last).facts, RunCloseFacts)


def _wait_for(path: Path) -> None:
    end = perf_counter() + 10 * PATIENCE_SECONDS
    while not path.exists():
        assert perf_counter() < end, f"{path.name} is not there"
        sleep(_LOOK_SECONDS)


@contextmanager
def _worker(folder: Path, *, counts: bool) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "benchmarks.tool_loop", "counted" if counts else "work"]
    with subprocess.Popen([*command, str(folder)], stdout=subprocess.PIPE) as worker:
        try:
            yield worker
        finally:
            worker.kill()


def work(folder: Path, *, counts: bool) -> None:
    """Drive runs until killed; if asked to, print what was read before the first call."""
    if counts:
        _print_reads()
    with Forum(settings_of(folder, None)) as forum, forum.runs.run_worker(report=_print_error):
        while True:
            sleep(1)


def _print_reads() -> None:
    """Count the bytes of all rows, and print their sum before the first call."""
    read = 0
    connect, reply = SharedConnection.__init__, HttpModel.reply

    def count(_cursor: object, row: tuple[Any, ...]) -> tuple[Any, ...]:
        nonlocal read
        read += sum(len(value) if isinstance(value, bytes | str) else 8 for value in row)
        return row

    def counted(self: SharedConnection, *place: Any, **options: Any) -> None:  # noqa: ANN401
        connect(self, *place, **options)
        self.row_factory = count

    async def told(self: HttpModel, call: ModelCall) -> Any:  # noqa: ANN401
        if HttpModel.reply is told:
            HttpModel.reply = reply  # type: ignore[method-assign]
            print(read, flush=True)
        return await reply(self, call)

    SharedConnection.__init__ = counted  # type: ignore[method-assign]
    HttpModel.reply = told  # type: ignore[method-assign, assignment]


def _print_error(error: Exception) -> None:
    print(repr(error), file=sys.stderr)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["provider", folder, calls, agents, port]:
            serve(make_provider(Path(folder), int(calls), int(agents)), int(port))
        case ["work" | "counted" as how, folder]:
            work(Path(folder), counts=how == "counted")
        case _:
            raise SystemExit(__doc__)
