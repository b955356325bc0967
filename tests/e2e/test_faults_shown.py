"""Each of twenty faults is told within seconds: by probes, metrics, logs and `forum doctor`."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from time import monotonic, sleep

import httpx2
import pytest

from forum.ledger.conditions import Ability, StoreCondition
from tests.conftest import IN_CI, ROOT
from tests.e2e import faults
from tests.e2e.faults import Bench, Fault, Running
from tests.e2e.project import eventually
from tests.support import flaky

GUIDE = ROOT / "docs/guides/when-it-cannot-work.md"
SHOWN_WITHIN_S = 20.0 if IN_CI else 5.0
"""In the gate, other tests run beside this one; `just shown-faults` is for a quiet machine."""
IN_GATE = frozenset(
    {
        "the database server is stopped",
        "the disk of the tables is full",
        "the database was set read-only",
    }
)
"""The faults of Postgres that are caused in the gate; `just shown-faults` causes all."""
CAUSED = [
    fault
    for fault in faults.SERVER_FAULTS
    if fault.name in IN_GATE or os.environ.get("FORUM_ALL_FAULTS")
]
HEALTHY_AGAIN_S = 60.0
PATHS = {Ability.WRITE: "/readyz", Ability.READ: "/readyz/read", Ability.SIGN: "/readyz/sign"}


@pytest.fixture(scope="module")
def server_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Return two machines with a Postgres database."""
    with faults.server_bench(tmp_path_factory.mktemp("server")) as bench:
        yield bench


@pytest.fixture(scope="module")
def file_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Return one machine with a ledger in a file."""
    with faults.file_bench(tmp_path_factory.mktemp("file")) as bench:
        yield bench


@flaky("a fault is promised to show within 5 seconds, by four processes and a command")
@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.parametrize("fault", CAUSED, ids=lambda fault: fault.name)
def test_a_fault_of_postgres_is_shown(server_bench: Bench, fault: Fault) -> None:
    """Whoever operates it learns at once what cannot be done, why, and what to do."""
    check(server_bench, fault)


@flaky("a fault is promised to show within 5 seconds, by four processes and a command")
@pytest.mark.slow
@pytest.mark.parametrize("fault", faults.FILE_FAULTS, ids=lambda fault: fault.name)
def test_a_fault_of_a_file_is_shown(file_bench: Bench, fault: Fault) -> None:
    """The same for a ledger in a file."""
    check(file_bench, fault)


def check(bench: Bench, fault: Fault) -> None:
    """Cause a fault, and look at all that shows it."""
    eventually(bench.is_healthy, HEALTHY_AGAIN_S)
    sizes = {each.log: each.log.stat().st_size for each in bench.processes.values()}
    running: dict[str, Running] = {}
    failed: AssertionError | None = None
    with fault.cause(bench):
        running |= bench.processes
        try:  # the fault has to be repaired all the same
            check_while(bench, fault)
        except AssertionError as error:
            failed = error
    if failed is not None:
        raise failed
    for name in fault.seen_by:
        check_log(running[name], fault, sizes.get(running[name].log, 0))
    if not fault.is_sticky:
        eventually(bench.is_healthy, HEALTHY_AGAIN_S)


def check_while(bench: Bench, fault: Fault) -> None:
    """Look at what shows while the fault lasts."""
    begun = monotonic()
    seen_by = [bench.processes[name] for name in fault.seen_by]
    took = max((wait_until_shown(fault, running, begun) for running in seen_by), default=0.0)
    for running in seen_by:
        check_process(bench, fault, running)
    assert took < SHOWN_WITHIN_S
    machine = bench.signing if fault.doctor_at == "signing" else bench.adding
    check_doctor(machine.examine(), fault)
    if fault.start_error:
        check_start(bench, fault)


def wait_until_shown(fault: Fault, running: Running, begun: float) -> float:
    """Wait until the probe of a process tells a fault, and return how long that took."""
    while fault.condition.label not in running.get(probe_of(fault)).text:
        assert monotonic() - begun < 2 * SHOWN_WITHIN_S, running.log.read_text()[-2000:]
        sleep(0.05)
    return monotonic() - begun


def probe_of(fault: Fault) -> str:
    """Return the probe that tells a fault."""
    return PATHS[Ability.WRITE if Ability.WRITE in fault.condition.stops else Ability.SIGN]


def check_process(bench: Bench, fault: Fault, running: Running) -> None:
    """Look at the probes and the metrics of a process."""
    statuses = {a: running.get(path).status_code for a, path in PATHS.items()}
    asked = monotonic()
    scraped = running.get("/metrics", bench.key)
    scraping = monotonic() - asked
    told = re.findall(
        r'^forum_condition\{.*condition="([a-z-]+)".*\} 1\.0$', scraped.text, re.MULTILINE
    )

    assert statuses == {a: 503 if a in fault.condition.stops else 200 for a in Ability}
    assert running.get("/livez").status_code == 200
    assert fault.condition.remedy in running.get(probe_of(fault)).text
    assert fault.condition.label in told
    assert scraping < 2.5


def check_log(running: Running, fault: Fault, size: int) -> None:
    """Look at what a process has logged since."""
    lines = running.log.read_bytes()[size:].decode().splitlines()
    mark = "is away" if fault.condition is StoreCondition.DATABASE_AWAY else fault.condition.label
    begins = [line for line in lines if " ERROR " in line and mark in line]

    assert len(begins) == 1, lines
    assert fault.condition.remedy in begins[0]


def check_doctor(printed: str, fault: Fault) -> None:
    """Look at what `forum doctor` finds."""
    pattern = rf"^[!✗] {fault.check} .*\n(?:  .*\n)*? +→ "
    assert re.search(pattern, printed, re.MULTILINE), printed


def check_start(bench: Bench, fault: Fault) -> None:
    """Look at a process that does not start."""
    begun = monotonic()
    with ExitStack() as stack:
        started = bench.adding.start(stack, "refused", "worker")
        with suppress(subprocess.TimeoutExpired):
            started.process.wait(30)
        line = started.log.read_text().splitlines()[-1]
    assert started.process.returncode == 1
    assert monotonic() - begun < 4 * SHOWN_WITHIN_S  # most of it is the start of a process
    assert line.startswith("error: ")
    assert fault.start_error in line
    with pytest.raises(httpx2.TransportError):
        started.get("/livez")


def make_table() -> str:
    """Return the table of the guide."""
    rows = ["| fault | condition | stops | `forum doctor` | remedy |", "|---|---|---|---|---|"]
    for fault in faults.FAULTS:
        stops = ", ".join(ability for ability in Ability if ability in fault.condition.stops)
        where = f"`{fault.check}`" + (" where it is signed" if fault.doctor_at == "signing" else "")
        condition = f"`{fault.condition.label}`"
        rows.append(
            f"| {fault.name} | {condition} | {stops} | {where} | {fault.condition.remedy} |"
        )
    return "\n".join(rows) + "\n"


def test_the_guide_has_the_table() -> None:
    """Each row of the guide is a fault that is caused here, and the other way round."""
    assert len(faults.FAULTS) >= 20
    assert make_table() in GUIDE.read_text()
