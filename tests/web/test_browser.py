"""The dashboard in a real browser, against a real `forum up`."""

import gzip
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from forum.features.dashboard.http import BUILT_FILES
from tests.support import free_port
from tests.surfaces.serving import stop
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
    """The page shows its key to no other process; signed in again, it misses no entry."""
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


def test_a_page_shows_no_key_to_another_program_at_its_address(tmp_path: Path) -> None:
    """It holds a session of one process, and asks which process answers before it shows the key.

    Names of members that every object has are no pages.
    """
    terminal, port = Terminal(tmp_path / "home"), free_port()
    with ExitStack() as stack:
        server = stack.enter_context(up(terminal, port=port))
        page = stack.enter_context(start(server, "foreign.mjs"))
        assert page.stdout is not None
        assert page.stdout.readline() == "ready\n"
        stop(server.process)
        shown = stack.enter_context(foreign_program(port))
        said = finish(page)

    assert server.key not in said["kept"]
    assert said["kept"].count("forum-session_") == 1
    assert "Another process answers at this address" in said["said"]
    assert "forum" not in said["left"]
    assert set(shown) == {None}
    assert all("There is no such page" in text for text in said["pages"].values())
    assert said["faults"] == []


@contextmanager
def foreign_program(port: int) -> Iterator[list[str | None]]:
    """Listen at a port, agree to everything, and yield the credentials that requests show."""
    shown: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            shown.append(self.headers.get("Authorization"))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(b"{}")

        do_POST = do_DELETE = do_GET  # noqa: N815  names of the base class

        def log_message(self, *_: object, **__: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as listener:
        thread = Thread(target=listener.serve_forever)
        thread.start()
        try:
            yield shown
        finally:
            listener.shutdown()
            thread.join()


def test_the_scripts_are_small() -> None:
    """A page that takes long to load is not opened."""
    files = list(Path(BUILT_FILES).rglob("*.js"))

    assert files
    assert sum(len(gzip.compress(file.read_bytes())) for file in files) < MAX_SCRIPT_BYTES
