"""What long conversations cost, where an agent sends all that was said with every call.

    python -m benchmarks history [--json] [--full]

Agents talk to a local provider through the gateway of `forum run`.  Provider, gateway and agent are
processes of their own, and the ledger is a SQLite file.  The same conversations are then tool loops
that Forum drives (`benchmarks.tool_loop`), except the one that is compacted.  The figures without a
name are of the conversation with 1,000 calls over 0.8 MB, with --full; otherwise of one with 100
calls.

NAME_stored_ratio   bytes of pieces, lists and whole bodies, against the bytes of requests and
                    replies on the wire, each message once; for each conversation
NAME_file_mb        the whole database file
NAME_entry_bytes    bytes of entries, a call
NAME_driven_...     the same for the tool loop
driven_call_ms      CPU of the workers for a call of a tool loop, in ms
takeover_read_bytes what a worker reads from the database that takes a tool loop over in the middle
takeover_seconds    from its start to its first call
bundle_ratio        the same for the bodies of the evidence bundle
bundle_mb           the whole bundle
append_cpu_ratio    CPU of the store for a call, against one that stores each body whole
verify_seconds      `forum ledger verify`, the start of the program included
show_seconds        `forum show RUN --transcript`, the start of the program included
page_seconds        a server returns the run and the last page of its messages to the dashboard
"""

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from random import Random
from time import perf_counter, process_time, sleep
from typing import Any

import httpx2

from benchmarks.gateway import free_port, make_provider, process, serve, wait_for
from benchmarks.tool_loop import Talk, drive_loop
from forum.ledger.body import Body, BytesContent
from forum.ledger.entry import Entry, leaf_of
from forum.ledger.kinds import LEDGER_KINDS, NoteFacts
from forum.ledger.ports import EntryWrite, Position
from forum.stores import sql_pieces
from forum.stores.sqlite import SqliteStore

GOALS = {
    "stored_ratio": 1.3,
    "bundle_ratio": 1.3,
    "append_cpu_ratio": 1.3,
    "verify_seconds": 2.0,
    "show_seconds": 1.0,
    "page_seconds": 1.0,
    "takeover_read_bytes": 5e6,
}
_SEARCH = {"name": "search", "description": "Look something up. " * 150, "parameters": {}}
_TOOLS = [{"type": "function", "function": _SEARCH}]


TALKS = {
    "hundred": Talk(100, 5000),
    "three_hundred": Talk(300, 2000),
    "thousand": Talk(1000, 800),
    "compacted": Talk(1000, 4000, compacted_every=100),
    "two_agents": Talk(150, 2000, agents=2),
}


def make_requests(talk: Talk, agent: int) -> Iterator[list[dict[str, str]]]:
    """Yield the messages of each call of an agent."""
    random = Random(agent)
    words = ["".join(random.choices("abcdefghiklmnoprst", k=5)) for _ in range(4000)]
    messages = [{"role": "system", "content": "You are careful. " * 500}]
    for number in range(1, talk.calls + 1):
        text = " ".join(random.choices(words, k=talk.message_bytes // 6))
        messages.append({"role": "user", "content": text})
        yield messages
        messages.append({"role": "assistant", "content": "word " * 20})
        if talk.compacted_every and number % talk.compacted_every == 0:
            summary = {"role": "user", "content": "What was said: " + text[:2700]}
            messages = [messages[0], summary, *messages[-10:]]


def run_agent(talk: Talk, said: Path) -> None:
    """Send all calls of a conversation, and write down how many bytes were said, each once."""
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    headers = {"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    seen: set[str] = set()
    total = 0
    turns = zip(*(make_requests(talk, agent) for agent in range(talk.agents)), strict=True)
    with httpx2.Client(timeout=120, trust_env=False) as client:
        for messages in chain.from_iterable(turns):
            body = {"model": "gpt-4o-mini", "messages": messages, "tools": _TOOLS, "max_tokens": 50}
            sent = json.dumps(body).encode()
            reply = client.post(
                url, content=sent, headers=headers | {"content-type": "application/json"}
            )
            assert reply.status_code == 200, reply.text
            for part in (json.dumps(_TOOLS), *map(json.dumps, messages)):
                total += 0 if part in seen else len(part)
                seen.add(part)
            total += len(reply.content)
    said.write_text(str(total))


def _forum(folder: Path, *words: str, **variables: str) -> str:
    here = {"PYTHONPATH": os.pathsep.join(sys.path), "OPENAI_API_KEY": "sk-benchmark"}
    done = subprocess.run(
        [sys.executable, "-m", "forum", *words],
        cwd=folder,
        env=os.environ | here | {"FORUM_STATE_DIR": str(folder / "state")} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 4), done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def record(folder: Path, name: str) -> int:
    """Record a conversation by the gateway; return the bytes that were said."""
    provider, said = f"http://127.0.0.1:{(port := free_port())}", folder / "said"
    _forum(folder, "init")
    with process(sys.executable, "-m", "benchmarks.gateway", "provider", str(port)):
        sleep(2)
        options = ["--max-usd", "100000", "--max-repeats", "0"]
        agent = [sys.executable, "-m", "benchmarks.history", "agent", name, str(said)]
        _forum(folder, "run", *options, "--", *agent, OPENAI_BASE_URL=f"{provider}/v1")
    return int(said.read_text())


def measure_file(path: Path, name: str, said: int, talk: Talk) -> dict[str, float]:
    """Return what a conversation takes in the database."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        sums = [
            "SELECT sum(length(data)) FROM piece",
            "SELECT sum(length(spans) + 8 * 4) FROM span_list",
            "SELECT sum(length(data) + length(salt)) FROM body",
        ]
        stored = sum(db.execute(query).fetchone()[0] or 0 for query in sums)
        (entries,) = db.execute("SELECT sum(length(bytes)) FROM entry").fetchone()
    return {
        f"{name}_stored_ratio": stored / said,
        f"{name}_file_mb": path.stat().st_size / 1e6,
        f"{name}_entry_bytes": entries / (talk.calls * talk.agents),
    }


def measure_reading(folder: Path, said: int) -> dict[str, float]:
    """Return what a recorded conversation takes in a bundle, and how long it takes to read."""
    times: dict[str, float] = {}
    run = json.loads(_forum(folder, "runs", "--json"))["runs"][0]["run"]
    for what, words in {
        "verify_seconds": ("ledger", "verify"),
        "show_seconds": ("show", run, "--transcript"),
    }.items():
        start = perf_counter()
        _forum(folder, *words)
        times[what] = perf_counter() - start
    times["page_seconds"] = measure_page(folder, run)
    _forum(folder, "ledger", "export", run, "--output", str(folder / "run.zip"))
    with zipfile.ZipFile(folder / "run.zip") as bundle:
        kinds = ("bodies/", "pieces/", "spans/", "salts/")
        bodies = sum(
            file.file_size for file in bundle.infolist() if file.filename.startswith(kinds)
        )
    size = (folder / "run.zip").stat().st_size
    return times | {"bundle_ratio": bodies / said, "bundle_mb": size / 1e6}


def measure_page(folder: Path, run: str) -> float:
    """Return how long a server takes for what the dashboard shows of the end of a run."""
    token = _forum(folder, "token").strip()
    url = f"http://127.0.0.1:{(port := free_port())}"
    variables = {"PYTHONPATH": os.pathsep.join(sys.path), "FORUM_STATE_DIR": str(folder / "state")}
    words = (sys.executable, "-m", "forum", "serve", "--port", str(port))
    with subprocess.Popen(words, cwd=folder, env=os.environ | variables) as server:
        try:
            wait_for(url)
            headers = {"authorization": f"Bearer {token}"}
            with httpx2.Client(base_url=f"{url}/api/v1", headers=headers, timeout=120) as client:
                path = f"/runs/{run}/transcript"
                total = client.get(path, params={"limit": 1}).json()["total"]
                start = perf_counter()
                replies = [
                    client.get(f"/runs/{run}"),
                    client.get(path, params={"after": total - 50}),
                ]
                seconds = perf_counter() - start
        finally:
            server.terminate()
    assert [reply.status_code for reply in replies] == [200, 200]
    return seconds


def measure_loop(name: str, talk: Talk) -> dict[str, float]:
    """Return what a tool loop takes in the database, and what its workers use."""
    with tempfile.TemporaryDirectory() as place:
        loop = drive_loop(Path(place), talk)
        (path,) = Path(place).rglob("ledger.db")
        return measure_file(path, f"{name}_driven", loop.said, talk) | {
            "driven_call_ms": 1000 * loop.cpu_seconds / (talk.calls * talk.agents),
            "takeover_read_bytes": loop.takeover_read_bytes,
            "takeover_seconds": loop.takeover_seconds,
        }


def measure_append(talk: Talk) -> dict[str, float]:
    """Return the CPU of the store for a call, against one that stores each body whole."""
    prompts = [json.dumps(messages).encode() for messages in make_requests(talk, 0)]
    seconds = {}
    limit = sql_pieces.MIN_BODY_BYTES
    for name, least in (("whole", sys.maxsize), ("shared", limit)) * 2:
        sql_pieces.MIN_BODY_BYTES = least
        with tempfile.TemporaryDirectory() as folder:
            seconds[name] = _append_cpu(Path(folder), prompts)
    sql_pieces.MIN_BODY_BYTES = limit
    return {
        "append_cpu_ratio": seconds["shared"] / seconds["whole"],
        "append_cpu_ms": 1000 * seconds["shared"] / len(prompts),
    }


def _append_cpu(folder: Path, prompts: list[bytes]) -> float:
    store = SqliteStore(folder / "ledger.db", "benchmark.local/log")
    try:
        before = process_time()
        for n, prompt in enumerate(prompts):
            body = Body("text", "application/json", BytesContent(prompt), bytes(32))
            store.append([_make_write(n, body)])
        return process_time() - before
    finally:
        store.close()


def _make_write(n: int, body: Body) -> EntryWrite:
    entry: Entry[Any] = Entry(
        v="forum/entry/1",
        log="benchmark.local/log",
        run="run",
        strand="main",
        n=n,
        prev="ab" * 32 if n else "",
        step=f"step/{n}",
        ts=n,
        actor="benchmark",
        kind="note/1",
        parents=(),
        facts=NoteFacts(),
        bodies={body.name: body.commitment()},
    )
    data = LEDGER_KINDS.write(entry)
    return EntryWrite(Position("run", "main", n), data, leaf_of(data), (body,))


def measure(*, full: bool) -> dict[str, float]:
    """Return all figures; with `full`, of all conversations."""
    figures: dict[str, float] = {}
    names = list(TALKS) if full else ["hundred", "two_agents"]
    for name in names:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            said = record(folder, name)
            figures |= measure_file(folder / ".forum" / "ledger.db", name, said, TALKS[name])
            if name == ("thousand" if full else "hundred"):
                figures |= measure_reading(folder, said)
    # The last one gives the figures without a name.
    for name in ("two_agents", "three_hundred", "hundred", "thousand") if full else ("hundred",):
        figures |= measure_loop(name, TALKS[name])
    return figures | measure_append(TALKS["thousand" if full else "hundred"])


def main(words: list[str]) -> None:
    """Print the figures beside their goals."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks history")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--full", action="store_true", help="all conversations; some minutes")
    options = parser.parse_args(words)
    figures = measure(full=options.full)
    if options.json:
        print(json.dumps({name: round(value, 3) for name, value in figures.items()}))
        return
    for name, value in figures.items():
        goals = [goal for suffix, goal in GOALS.items() if name.endswith(suffix)]
        goal = f"  (goal {goals[0]:g})" if goals else ""
        print(f"{name:<28} {value:9.3f}{goal}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["agent", name, path]:
            run_agent(TALKS[name], Path(path))
        case ["provider", port]:
            serve(make_provider(), int(port))
        case rest:
            main(rest)
