"""What tests cost: seconds of CPU by test, file and fixture, of the process and its children.

And the memory that the process has more of afterwards.

`just test-costs tests/runs` measures, and prints the dearest.  Seconds on the clock say more about
what else the machine does.  Each step is appended to a file as it ends, so a run that is stopped
has told what it got to, and runs of several folders add up.  Of children, those are counted that
have ended; a server that is shared by a session is counted where the session ends.
"""

import json
import os
import resource
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.surfaces.command_server import command_server

SHOWN = 25
"""How many of the dearest tests, files and fixtures are printed."""


@cache
def costs_file() -> Path:
    """Return the file that costs are appended to, also for a test that goes elsewhere."""
    return Path(os.environ.get("FORUM_TEST_COSTS", "build/test-costs.jsonl")).absolute()


def _cpu(who: int) -> float:
    used = resource.getrusage(who)
    seconds = used.ru_utime + used.ru_stime
    if who == resource.RUSAGE_CHILDREN and command_server.cache_info().currsize:
        seconds += command_server().cpu_seconds
    return seconds


def _resident() -> float:
    """Return the memory of this process in MiB, where the system tells."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * 4096 / 2**20 if pages.exists() else 0.0


@contextmanager
def _measured(**step: str) -> Iterator[None]:
    before = _cpu(resource.RUSAGE_SELF), _cpu(resource.RUSAGE_CHILDREN), monotonic()
    resident = _resident()
    try:
        yield
    finally:
        _append(
            own=_cpu(resource.RUSAGE_SELF) - before[0],
            children=_cpu(resource.RUSAGE_CHILDREN) - before[1],
            wall=monotonic() - before[2],
            kept=_resident() - resident,
            **step,
        )


def _append(**record: Any) -> None:  # noqa: ANN401  numbers and names
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    line = json.dumps(record | {"peak_mib": peak}) + "\n"
    with costs_file().open("a") as file:  # one write: processes append side by side
        file.write(line)


def pytest_configure() -> None:
    """Make the folder of the file."""
    costs_file().parent.mkdir(parents=True, exist_ok=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Measure what it costs to start and to import all tests."""
    result = yield
    who = os.environ.get("PYTEST_XDIST_WORKER", "main")
    if session.testscollected:
        own, children = _cpu(resource.RUSAGE_SELF), _cpu(resource.RUSAGE_CHILDREN)
        _append(
            test=f"collection::{who}", phase="call", own=own, children=children, wall=0.0, kept=0.0
        )
    return result


def _measured_step(item: pytest.Item, phase: str) -> Generator[None, object, object]:
    with _measured(test=item.nodeid, phase=phase):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Measure the set-up of a test."""
    return (yield from _measured_step(item, "setup"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Measure a test."""
    return (yield from _measured_step(item, "call"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Measure the end of a test, and of what it was the last to share."""
    return (yield from _measured_step(item, "teardown"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Measure the set-up of a fixture, without those that it asks for."""
    where = fixturedef.baseid or "tests"
    name = f"{where}::{fixturedef.argname} ({fixturedef.scope})"
    with _measured(fixture=name, phase="fixture", test=request.node.nodeid):
        return (yield)


def _read() -> list[dict[str, Any]]:
    """Return the last record of each step."""
    last: dict[tuple[str, str, str], dict[str, Any]] = {}
    for line in costs_file().read_text().splitlines():
        record = json.loads(line)
        last[record["test"], record["phase"], record.get("fixture", "")] = record
    return list(last.values())


def _sums(records: list[dict[str, Any]], key: str) -> Mapping[str, list[float]]:
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0] * 5)
    for record in records:
        numbers = sums[record[key]]
        for at, name in enumerate(("own", "children", "wall", "kept")):
            numbers[at] += record[name]
        numbers[4] += 1
    return sums


def _table(title: str, sums: Mapping[str, list[float]]) -> Iterator[str]:
    dearest = sorted(sums.items(), key=lambda item: -item[1][0] - item[1][1])[:SHOWN]
    yield ""
    yield f"{'CPU s':>8} {'children':>8} {'wall s':>8} {'kept MiB':>8} {'steps':>6}  {title}"
    for name, (own, children, wall, kept, steps) in dearest:
        figures = f"{own + children:8.1f} {children:8.1f} {wall:8.1f} {kept:8.1f} {steps:6.0f}"
        yield f"{figures}  {name}"


def report() -> Iterator[str]:
    """Yield the lines that tell what is dearest."""
    records = _read()
    tests = [record for record in records if record["phase"] != "fixture"]
    for record in tests:
        record["file"] = record["test"].partition("::")[0]
        record["function"] = record["test"].partition("[")[0]
    fixtures = [record for record in records if record["phase"] == "fixture"]
    whole = sum(record["own"] + record["children"] for record in tests)
    yield f"{whole / 60:.1f} CPU minutes, {max(record['peak_mib'] for record in tests)} MiB at most"
    yield from _table("test, all its parameters", _sums(tests, "function"))
    yield from _table("fixture", _sums(fixtures, "fixture"))
    yield from _table("file", _sums(tests, "file"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the dearest."""
    if costs_file().exists():
        terminalreporter.section("costs")
        for line in report():
            terminalreporter.line(line)
