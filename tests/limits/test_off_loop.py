"""Bytes of clients are read beside the event loop, large ones in processes that can be killed."""

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from forum.errors import BodyTooExpensive, WorkerLost
from forum.limits import off_loop, worker_processes
from forum.limits.json_values import check_json, has_more_values
from forum.limits.off_loop import MAX_INLINE_BYTES, MAX_THREAD_BYTES, read_by_size, run_by_size
from forum.limits.worker_processes import WorkerProcesses
from tests.e2e.project import eventually
from tests.limits.readers import Place, find_place, misbehave


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerProcesses]:
    """Give each test processes of its own."""
    made = WorkerProcesses()
    # The processes find the functions of this file.
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setattr(off_loop, "_processes", made)
    yield made
    made.end_all()


def _read(size: int) -> Place:
    return asyncio.run(read_by_size(find_place, bytes(size), "é"))


def test_the_size_decides_where_bytes_are_read(
    processes: WorkerProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, in a thread, in another process; and the process knows no secret of this one."""
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    inline, thread, process = map(
        _read, (MAX_INLINE_BYTES, MAX_INLINE_BYTES + 1, MAX_THREAD_BYTES + 1)
    )

    assert inline.thread == threading.current_thread().name
    assert thread.process == os.getpid()
    assert thread.thread.startswith("forum-bodies")
    assert process.process != os.getpid()
    assert process.size == MAX_THREAD_BYTES + 1
    assert "OPENAI_API_KEY" not in process.variables


def test_a_process_is_used_again_and_ends_when_it_is_idle(
    processes: WorkerProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Starting one takes a while; keeping one takes memory."""
    first, second = _read(MAX_THREAD_BYTES + 1), _read(MAX_THREAD_BYTES + 1)
    assert first.process == second.process
    monkeypatch.setattr(worker_processes, "IDLE_SECONDS", 0.01)
    third = _read(MAX_THREAD_BYTES + 1)
    eventually(lambda: not Path(f"/proc/{third.process}").exists())


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("compute", BodyTooExpensive),
        ("allocate", BodyTooExpensive),
        ("recurse", BodyTooExpensive),
        ("crash", WorkerLost),
        ("raise", WorkerLost),
    ],
)
def test_a_reader_that_fails_fails_for_one_request(
    processes: WorkerProcesses,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    error: type[Exception],
) -> None:
    """The error is typed, tells nothing of the body, and the next request is served."""
    if how == "compute":
        monkeypatch.setattr(worker_processes, "MAX_SECONDS", 5.0)

    async def play() -> int:
        body = b"secret" * MAX_THREAD_BYTES
        with pytest.raises(error) as caught:
            await read_by_size(misbehave, body, how)
        assert "secret" not in str(caught.value)
        return await read_by_size(misbehave, body, "nothing")

    assert asyncio.run(play()) != os.getpid()


def test_an_exception_in_a_thread_reaches_its_request() -> None:
    """The same function fails in the same way at every size, as far as its caller can tell."""
    with pytest.raises(ValueError, match="x"):
        asyncio.run(run_by_size(MAX_INLINE_BYTES + 1, lambda: misbehave(b"x", "raise")))


@pytest.mark.parametrize(
    ("data", "values"),
    [
        (b"1", 1),
        (b'{"a,[{": "b,\\",["}', 2),
        (b"[1,2,3]", 4),
        (b"[[],[]]", 5),
        (b'["\\\\", 1]', 3),
    ],
)
def test_values_are_counted_without_what_strings_contain(data: bytes, values: int) -> None:
    """A text with many commas is one value."""
    assert not has_more_values(data, values)
    assert has_more_values(data, values - 1) == (values > 1)


def test_large_json_is_checked_with_little_memory(processes: WorkerProcesses) -> None:
    """Whatever its values are; what a decoder would make of it is many times as large."""
    for body in (b"[" + b'"","",' * 2_000_000 + b"1]", b"[" * 12_000_000):
        assert asyncio.run(read_by_size(check_json, body, 1000)) == "more than 1000 values"
    assert asyncio.run(read_by_size(check_json, b'"' * 12_000_000, 1000)).startswith("no valid")
    assert asyncio.run(read_by_size(check_json, b'"' + b"a," * 9_000_000 + b'"', 1000)) == ""
