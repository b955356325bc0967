"""The dashboard in a real browser, against a real `forum up`."""

import gzip
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from forum.surfaces.http.dashboard import BUILT_FILES
from tests.support import free_port
from tests.surfaces.terminal import Terminal
from tests.web.browsing import UpServer, finish, needs_browser, play, start, up
from tests.web.sample_data import write_gate_run, write_sample_runs

MAX_SCRIPT_BYTES = 120_000
"""Of all JavaScript together, compressed."""

pytestmark = [*needs_browser, pytest.mark.slow]


@dataclass(frozen=True, slots=True)
class Sample:
    """A project with the sample runs, and the port at which it is served."""

    terminal: Terminal
    runs: Mapping[str, str]
    port: int


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """Write the sample runs once."""
    terminal = Terminal(tmp_path_factory.mktemp("sample"))
    return Sample(terminal, write_sample_runs(terminal), free_port())


@pytest.fixture
def server(sample: Sample) -> Iterator[UpServer]:
    """Serve the sample."""
    with up(sample.terminal, port=sample.port) as running:
        yield running


def test_no_page_has_a_fault(sample: Sample, server: UpServer) -> None:
    """Light and dark, wide and narrow: nothing for axe, no CSP report, no request elsewhere."""
    runs = (f"#/run/{sample.runs[name]}" for name in ("gate", "council", "relayed"))

    compared = f"#/compare/{sample.runs['budget']}/{sample.runs['paid']}"

    assert play(server, "pages.mjs", "#/", "#/gates", "#/log", compared, *runs) == []


def test_a_run_is_followed_over_a_crash_of_the_server(tmp_path: Path) -> None:
    """The page connects again, goes on after its last entry, and misses none."""
    terminal, port = Terminal(tmp_path / "home"), free_port()
    run = write_gate_run(terminal)
    with ExitStack() as stack:
        first = stack.enter_context(up(terminal, port=port))
        page = stack.enter_context(start(first, "follow.mjs", run))
        assert page.stdout is not None
        assert page.stdout.readline() == "ready\n"
        first.process.kill()
        first.process.wait()
        second = stack.enter_context(up(terminal, port=port))
        approved = play(second, "approve.mjs", run)
        followed = finish(page)
        entries = second.client.get("/api/v1/entries", params={"run": run, "limit": 1000}).json()
        gate = second.client.get(f"/api/v1/runs/{run}").json()["gates"][0]

    assert followed == {"entries": len(entries["entries"]), "faults": []}
    assert approved["faults"] == []
    assert approved["digest"] == gate["digest"]
    assert gate["decided"] == "approve"
    assert gate["digest"] in approved["entry"].replace("\n", "")


def test_the_scripts_are_small() -> None:
    """A page that takes long to load is not opened."""
    files = list(Path(BUILT_FILES).rglob("*.js"))

    assert files
    assert sum(len(gzip.compress(file.read_bytes())) for file in files) < MAX_SCRIPT_BYTES
