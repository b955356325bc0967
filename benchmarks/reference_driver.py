"""What forum-engine does and says: run inside its environment, never inside Forum's.

forum-engine calls its package `forum`, as we do.  Hence a process of its own, started with
`python -I` so that neither PYTHONPATH nor this folder can put our package before it, and hence
importlib: a type checker that reads `import forum` here would look at the wrong one.

Only its public interface is used: `Ledger`, `FileStorage`, `SqliteStorage`, `Orchestrator`, its
`Daemon`, and the command line's `main`.  The frauds edit the two files that `FileStorage`
documents, as anyone with write access to the ledger could, or write a second ledger through the
same interface.

The answer is one JSON object of observations on stdout; `benchmarks.reference` judges them.
"""

import asyncio
import contextlib
import io
import json
import resource
import shutil
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

ledger_module = import_module("forum.ledger")
file_module = import_module("forum.storage")
sqlite_module = import_module("forum.sqlite_storage")
command_line = import_module("forum.cli").main
engine_module = import_module("forum.engine")
plan_module = import_module("forum.plan")
roster_class = import_module("forum.roster").Roster
policy_class = import_module("forum.policy").Policy
executor_module = import_module("forum.executor")
echo_class = executor_module.EchoExecutor
daemon_module = import_module("forum.daemon")

Row: TypeAlias = dict[str, Any]

MONDAY = 1_760_000_000.0
A_MONTH = 30 * 24 * 3600.0
NOWHERE = 9999  # a position which no ledger of ours reaches
WINDOW = 1000  # appends in each of the two windows that are compared
PAYLOAD_BYTES = 500
REPEATS = 3  # how often a plan is carried out


@dataclass(frozen=True, slots=True)
class Event:
    """One call of `Ledger.append`, with the time that its clock will tell."""

    actor: str
    kind: str
    payload: dict[str, Any]
    parent: int | None
    at: float


def run_of(request: str, finding: str, start: int) -> list[Event]:
    """Return one agent run in the kinds that forum-engine itself writes, from position `start`."""
    at = MONDAY + 60.0 * start
    return [
        Event("user", kind="request", payload={"text": request}, parent=None, at=at),
        Event(
            "coordinator",
            kind="plan",
            payload={"request": request, "waves": [["T1"]]},
            parent=start,
            at=at + 1,
        ),
        Event(
            "dispatch",
            kind="task",
            payload={"id": "T1", "instruction": request},
            parent=start + 1,
            at=at + 2,
        ),
        Event(
            "auditor",
            kind="result",
            payload={"id": "T1", "output": finding},
            parent=start + 2,
            at=at + 9,
        ),
        # The root is filled in when it is written, as `submit --checkpoint-each-wave` does.
        Event("dispatch", kind="checkpoint", payload={"wave": 0}, parent=start + 1, at=at + 10),
        Event(
            "validator",
            kind="verdict",
            payload={"id": "T1", "ok": True},
            parent=start + 3,
            at=at + 12,
        ),
        Event(
            "synthesizer", kind="result", payload={"answer": finding}, parent=start + 1, at=at + 15
        ),
    ]


HISTORY = [
    *run_of("Review the payments of March.", "Invoice 17 was paid twice.", 0),
    *run_of("Review the payments of April.", "Invoice 23 was approved by its payee.", 7),
    *run_of("Review the payments of May.", "Nothing to report.", 14),
]
DAMNING = 10  # the result that names the payee, in the second run


def write(directory: Path, events: list[Event]) -> None:
    """Write a file ledger through the public interface, every hash the package's own."""
    times: Iterator[float] = iter([event.at for event in events])
    ledger = ledger_module.Ledger(
        file_module.FileStorage(str(directory)), clock=lambda: next(times)
    )
    for event in events:
        payload = event.payload
        if event.kind == "checkpoint":
            payload = payload | {"root": ledger.checkpoint()}
        ledger.append(
            actor=event.actor, kind=event.kind, payload=payload, causal_parent=event.parent
        )


def read_rows(path: Path) -> list[Row]:
    """Read one of the two files of a file ledger."""
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def write_rows(path: Path, rows: list[Row]) -> None:
    """Write one of the two files of a file ledger, past the package."""
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            json.dump(row, file, ensure_ascii=False)
            file.write("\n")


def with_entries(change: Callable[[list[Row]], list[Row]]) -> Callable[[Path], None]:
    """Return the fraud that passes the stored entries through `change`."""

    def fraud(directory: Path) -> None:
        path = directory / "entries.jsonl"
        write_rows(path, change(read_rows(path)))

    return fraud


def with_history(change: Callable[[list[Event]], list[Event]]) -> Callable[[Path], None]:
    """Return the fraud that writes the whole ledger anew from a changed history."""

    def fraud(directory: Path) -> None:
        shutil.rmtree(directory)
        write(directory, change(list(HISTORY)))

    return fraud


def edited(rows: list[Row]) -> list[Row]:
    """Give the damning result to another actor."""
    rows[DAMNING]["actor"] = "intern"
    return rows


def edited_below_the_hash(rows: list[Row]) -> list[Row]:
    """Replace a parent's number by its text: another entry, but the hash takes `str()` of both."""
    rows[DAMNING]["causal_parent"] = str(rows[DAMNING]["causal_parent"])
    return rows


def inserted(rows: list[Row]) -> list[Row]:
    """Insert an entry that is right in itself: true hash, true link to its predecessor."""
    before = rows[DAMNING - 1]
    forged = before | {
        "seq": DAMNING,
        "actor": "validator",
        "prev_hash": before["entry_hash"],
    }
    forged["entry_hash"] = ledger_module.compute_entry_hash(
        *(forged[name] for name in ("seq", "ts", "actor", "kind", "causal_parent")),
        *(forged[name] for name in ("payload_hash", "prev_hash")),
    )
    return [*rows[:DAMNING], forged, *rows[DAMNING:]]


def reordered(rows: list[Row]) -> list[Row]:
    """Exchange two neighbours, and their numbers, so that the numbers still ascend."""
    first, second = rows[DAMNING - 1], rows[DAMNING]
    first["seq"], second["seq"] = second["seq"], first["seq"]
    return [*rows[: DAMNING - 1], second, first, *rows[DAMNING + 1 :]]


def swap_bodies(directory: Path) -> None:
    """Let the damning result and the harmless one of the next run exchange their bodies."""
    entries, path = read_rows(directory / "entries.jsonl"), directory / "payloads.jsonl"
    rows = read_rows(path)
    bodies = {row["hash"]: row for row in rows}
    first, other = (bodies[entries[at]["payload_hash"]] for at in (DAMNING, DAMNING + 7))
    first["body"], other["body"] = other["body"], first["body"]
    write_rows(path, rows)


def remove_body(directory: Path) -> None:
    """Remove the body of the damning result, and say nothing of it anywhere."""
    damning = read_rows(directory / "entries.jsonl")[DAMNING]["payload_hash"]
    path = directory / "payloads.jsonl"
    write_rows(path, [row for row in read_rows(path) if row["hash"] != damning])


def cut_tail(directory: Path) -> None:
    """Drop everything from the damning result on, the bodies too."""
    path = directory / "entries.jsonl"
    rows = read_rows(path)[:DAMNING]
    write_rows(path, rows)
    path, named = directory / "payloads.jsonl", {row["payload_hash"] for row in rows}
    write_rows(path, [row for row in read_rows(path) if row["hash"] in named])


def rewritten(events: list[Event]) -> list[Event]:
    """Tell another story in the second run, and in what was answered from it."""
    events[7:14] = run_of("Review the payments of April.", "Nothing to report.", 7)
    return events


def second_view(events: list[Event]) -> list[Event]:
    """Agree with the first reader's history up to the last run, then tell another one."""
    events[14:] = run_of("Review the payments of May.", "Invoice 31 is missing.", 14)
    return events


def backdated(events: list[Event]) -> list[Event]:
    """Date the last run a month before the runs that it follows."""
    return events[:14] + [replace(event, at=event.at - A_MONTH) for event in events[14:]]


def orphaned(events: list[Event]) -> list[Event]:
    """Name a cause that does not exist."""
    events[DAMNING] = replace(events[DAMNING], parent=NOWHERE)
    return events


FRAUDS: dict[str, Callable[[Path], None]] = {
    "edit-entry": with_entries(edited),
    "edit-below-hash": with_entries(edited_below_the_hash),
    "delete-entry": with_entries(lambda rows: rows[:DAMNING] + rows[DAMNING + 1 :]),
    "insert-entry": with_entries(inserted),
    "reorder-entries": with_entries(reordered),
    "swap-bodies": swap_bodies,
    "remove-body": remove_body,
    "cut-tail": cut_tail,
    "rewrite-and-rehash": with_history(rewritten),
    "split-view": with_history(second_view),
    "backdate": with_history(backdated),
    "bogus-parent": with_history(orphaned),
    "duplicate-position": with_entries(
        lambda rows: [
            *rows[: DAMNING + 1],
            rows[DAMNING] | {"actor": "intern"},
            *rows[DAMNING + 1 :],
        ]
    ),
}


def observe(directory: Path) -> dict[str, Any]:
    """Ask for every verdict that the package has on a ledger, and what else it lets one see."""
    printed = io.StringIO()
    try:
        ledger = ledger_module.Ledger(file_module.FileStorage(str(directory)))
        chain, deep = ledger.verify(), ledger.verify(deep=True)
        with contextlib.redirect_stdout(printed):
            status = command_line(["ledger", "verify", "--ledger", str(directory)])
    except file_module.StorageCorruption as refusal:
        return {"chain": False, "deep": False, "refusal": str(refusal)}
    return {
        "chain": chain,
        "deep": deep,
        "printed": json.loads(printed.getvalue()),
        "status": status,
        "checkpoint": ledger.checkpoint(),
        "absent": sum(not has_body(ledger, entry) for entry in ledger.replay()),
        "lineage": lineage(ledger),
    }


def has_body(ledger: Any, entry: Any) -> bool:  # noqa: ANN401
    """Tell whether the body of an entry is there."""
    try:
        ledger.get_payload(entry.payload_hash)
    except KeyError:
        return False
    return True


def lineage(ledger: Any) -> str:  # noqa: ANN401
    """Return the error that `causal_chain` meets in asking why each entry happened, or nothing."""
    try:
        for entry in ledger.replay():
            ledger.causal_chain(entry.seq)
    except (KeyError, TypeError, ValueError) as error:
        return type(error).__name__
    return ""


def frauds(scratch: Path) -> dict[str, Any]:
    """Play every fraud on a copy of its own of one honest ledger."""
    honest = scratch / "honest"
    write(honest, HISTORY)
    results: dict[str, Any] = {}
    for name, fraud in FRAUDS.items():
        copy = scratch / name
        shutil.copytree(honest, copy)
        fraud(copy)
        results[name] = observe(copy)
    return {"honest": observe(honest), "frauds": results}


def storage(store: str, path: Path) -> Any:  # noqa: ANN401
    """Open a ledger's storage with its defaults, which are its safest: every append is synced."""
    if store == "sqlite":
        return sqlite_module.SqliteStorage(str(path / "ledger.db"))
    return file_module.FileStorage(str(path))


def payload(number: int) -> dict[str, str]:
    """Return a payload of 500 bytes like no other: equal ones would be stored once."""
    body = {"id": f"{number:012d}", "output": ""}
    body["output"] = "x" * (PAYLOAD_BYTES - len('{"id":"","output":""}') - 12)
    return body


def append(store: str, path: Path, entries: int) -> dict[str, Any]:
    """Append one entry after the other, each acknowledged before the next begins."""
    opened = storage(store, path)
    ledger = ledger_module.Ledger(opened)
    window = min(WINDOW, entries // 2)
    head: list[float] = []
    tail: list[float] = []
    started = time.perf_counter()
    for number in range(entries):
        start = time.perf_counter()
        ledger.append(
            actor="auditor",
            kind="result",
            payload=payload(number),
            causal_parent=number - 1 if number else None,
        )
        if number < window:
            head.append(time.perf_counter() - start)
        elif number >= entries - window:
            tail.append(time.perf_counter() - start)
    seconds = time.perf_counter() - started
    ledger.sync()
    if store == "sqlite":
        opened.close()
    size = sum(file.stat().st_size for file in path.iterdir())
    return {"seconds": seconds, "head": median(head), "tail": median(tail), "bytes": size}


def load(store: str, path: Path) -> dict[str, Any]:
    """Open a ledger in a process that has done nothing else, then verify it deeply."""
    before = time.perf_counter()
    ledger = ledger_module.Ledger(storage(store, path))
    count = ledger.count()
    opened, memory = time.perf_counter(), peak_mb()
    holds = ledger.verify(deep=True)
    verified = time.perf_counter()
    return {
        "count": count,
        "open_seconds": opened - before,
        "open_mb": memory,
        "holds": holds,
        "verify_seconds": verified - opened,
        "verify_mb": peak_mb(),
    }


def fill(path: Path, entries: int) -> None:
    """Write a ledger of this many entries, synced once at the end."""
    ledger = ledger_module.Ledger(file_module.FileStorage(str(path), fsync_each=False))
    for number in range(entries):
        parent = number - 1 if number else None
        ledger.append(actor="auditor", kind="result", payload=payload(number), causal_parent=parent)
    ledger.sync()


def carry_out(path: Path, entries: int, needs: dict[str, list[str]]) -> dict[str, Any]:
    """Carry out a plan on a ledger of this many entries, with and without its checkpoints.

    The ledger is filled without syncing; the plan is then carried out with the defaults.
    """
    fill(path, entries)
    started = time.perf_counter()
    ledger = ledger_module.Ledger(file_module.FileStorage(str(path)))
    opened = time.perf_counter() - started
    policy = policy_class(frozenset(), max_parallel=max(8, len(needs)))
    orchestrator = engine_module.Orchestrator(roster_class(()), ledger, echo_class(), policy)
    tasks = [
        plan_module.Task(task, "auditor", "Do nothing.", tuple(before))
        for task, before in needs.items()
    ]
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(REPEATS):
        for checkpoints, spent in times.items():
            plan = plan_module.Plan(tuple(tasks))
            started = time.perf_counter()
            results = asyncio.run(orchestrator.submit_plan(plan, checkpoint_each_wave=checkpoints))
            spent.append(time.perf_counter() - started)
            assert len(results) == len(needs)
            assert all(result.ok for result in results.values())
    return {
        "open_seconds": opened,
        "seconds": median(times[False]),
        "checkpointed_seconds": median(times[True]),
    }


class Stub:
    """A model that takes its time for the task; what the roles need, it says at once."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._agent = seconds, daemon_module.load_default().agents[0].name

    async def run(self, assignment: Any) -> Any:  # noqa: ANN401
        """Say what is expected of whoever is asked."""
        task = {"id": "T1", "agent": self._agent, "instruction": "Do it.", "depends_on": []}
        reply = {
            "coordinator": json.dumps({"tasks": [task]}),
            "validator": json.dumps({"ok": True, "score": 1.0, "reason": "fine"}),
            "synthesizer": "Done.",
        }.get(assignment.agent)
        if reply is None:
            await asyncio.sleep(self._seconds)
        return executor_module.Result(assignment.task_id, assignment.agent, reply or "Done.")


async def serve(path: Path, entries: int, model_seconds: float) -> None:
    """Serve a ledger of this many entries over HTTP, and tell the port, until the input ends."""
    fill(path, entries)
    built = daemon_module.build_orchestrator(str(path), executor=Stub(model_seconds))
    daemon = await daemon_module.Daemon(built, port=0).start()
    print(daemon.port, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await daemon.stop()


def play_team(file: Path) -> list[Row]:
    """Submit requests to a team of chat models, each to a ledger of its own."""
    chat_class = import_module("forum.chat_executor").ChatExecutor
    judge_class = import_module("forum.control").IntentJudge
    given = json.loads(file.read_text())
    played = []
    for request in given["requests"]:
        usage: list[int] = []
        first, stronger = (
            chat_class(
                model,
                base_url=f"{given['url']}/chat/completions",
                max_tokens=request["max_tokens"],
                opener=lambda call, usage=usage: count_usage(call, usage),
            )
            for model in (request["worker"], request["model"])
        )
        ledger = ledger_module.Ledger(ledger_module.InMemoryStorage())
        orchestrator = engine_module.Orchestrator(
            daemon_module.load_default(),
            ledger,
            first,
            policy_class(frozenset(), max_parallel=8),
            escalation_executors=[stronger],
            intent_judge=judge_class(),
        )
        try:
            answer, failure = asyncio.run(orchestrator.submit(request["request"])), ""
        except Exception as error:  # noqa: BLE001  a failed run is an observation
            answer, failure = "", repr(error)[:300]
        entries = [(e.kind, ledger.get_payload(e.payload_hash)) for e in ledger.replay()]
        played.append(
            {
                "answer": answer,
                "failure": failure,
                "tokens": sum(usage),
                "results": [body for kind, body in entries if kind == "result" and "id" in body],
                "verdicts": [body for kind, body in entries if kind == "verdict"],
                "tasks": {b["id"]: b["instruction"] for kind, b in entries if kind == "task"},
            }
        )
    return played


def count_usage(call: Any, usage: list[int]) -> bytes:  # noqa: ANN401
    """Make a call, and note the tokens that it took."""
    with urllib.request.urlopen(call, timeout=120) as response:  # noqa: S310
        body: bytes = response.read()
    usage.append(sum(json.loads(body).get("usage", {}).values()))
    return body


def peak_mb() -> float:
    """Return the most memory that this program has held at once, in MB.

    On Linux `ru_maxrss` survives exec: a child of a process of 500 MB starts with 500 MB
    (seen with CPython 3.11).  VmHWM belongs to the program alone.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text("ascii", "replace").split("\n")
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1000
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1_000_000 if sys.platform == "darwin" else 1000)


def main(words: list[str]) -> None:
    """Do what the words ask for: frauds, append, load, plan, team or serve."""
    match words:
        case ["serve", path, entries, model_seconds]:
            asyncio.run(serve(Path(path), int(entries), float(model_seconds)))
            return
        case ["frauds", path]:
            answer = frauds(Path(path))
        case ["append", store, path, entries]:
            answer = append(store, Path(path), int(entries))
        case ["load", store, path]:
            answer = load(store, Path(path))
        case ["plan", path, entries, needs]:
            answer = carry_out(Path(path), int(entries), json.loads(needs))
        case ["team", file]:
            json.dump(play_team(Path(file)), sys.stdout)
            return
        case _:
            raise SystemExit(2)
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
