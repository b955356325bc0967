"""`forum doctor` on every kind of machine, with every fault: the remedy fits the machine."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest

from forum.app import Forum, clock_ids_and_kinds, log, project, upgrade_database
from forum.config import Settings
from forum.ledger.body import text_content
from forum.section_reader import SectionTables
from forum.surfaces.cli import doctor
from forum.surfaces.cli.doctor import DoctorFinding, DoctorState, MachineRole, all_checks
from tests.soak.cluster import scratch_database

pytestmark = pytest.mark.postgres

GATEWAY = {"gateway": {"openai_key_env": "PATH"}}
"""A section whose key is in a variable that is always set."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine that uses a log: its settings, and the database of the log."""

    settings: Settings
    role: MachineRole

    def examine(self) -> list[DoctorFinding]:
        """Return what the command finds."""
        return list(doctor.run_doctor_checks(lambda: self.settings))

    def find(self, check: str) -> DoctorFinding:
        """Return the worst finding of a check."""
        doctor_states = list(DoctorState)
        findings = [finding for finding in self.examine() if finding.check == check]
        return max(findings, key=lambda finding: doctor_states.index(finding.state))


def copy_keys(signer: Settings, folder: Path, *names: str) -> Settings:
    """Make another machine of the log, with some of the files of the one that signs."""
    data, state = folder / "data", folder / "state"
    for made in (data, state):
        made.mkdir(parents=True, mode=0o700)
    for name in names:
        shutil.copy(signer.data / name, data / name)
    return replace(signer, data=data, state=state, key_file=data / "log.key")


@pytest.fixture(params=["new", "signer", "worker", "server", "gateway", "reader"])
def machine(request: pytest.FixtureRequest, postgres_url: str, tmp_path: Path) -> Iterator[Machine]:
    """Return a machine of each kind, beside the one that signs."""
    with scratch_database(postgres_url) as url:
        home = tmp_path / "signer"
        signer = Settings(home / "d", home / "s", home / "d/log.key", database=url)
        upgrade_database(signer)
        with Forum(signer) as forum:
            forum.keys.initialise()
            forum.access.operator_token()
            forum.log.record_note(text_content("hello"))
            (signer.data / "log.pub").write_text(f"{forum.verifier}\n")
        elsewhere = tmp_path / "elsewhere"
        keys = ("log.pub", "write.key")
        match request.param:
            case "signer":
                yield Machine(signer, MachineRole.SIGNER)
            case "new":
                yield Machine(copy_keys(signer, elsewhere), MachineRole.NEW)
            case "reader":
                yield Machine(copy_keys(signer, elsewhere, "log.pub"), MachineRole.READER)
            case "gateway":
                other = replace(
                    copy_keys(signer, elsewhere, *keys), sections=SectionTables(GATEWAY)
                )
                yield Machine(other, MachineRole.WRITER)
            case _:
                yield Machine(copy_keys(signer, elsewhere, *keys), MachineRole.WRITER)


def test_a_machine_that_is_well_has_no_problem(machine: Machine) -> None:
    """It says which kind it is, and asks for nothing that belongs on another."""
    findings = machine.examine()
    doctor_finding = next(finding for finding in findings if finding.check == "machine")

    assert machine.role in doctor_finding.found
    assert ("gateway" in doctor_finding.found) == bool("gateway" in machine.settings.sections)
    assert [finding for finding in findings if finding.state is DoctorState.PROBLEM] == []
    if machine.role is not MachineRole.NEW:
        assert machine.find("database").state is DoctorState.OK
        assert machine.find("ledger").state is DoctorState.OK
        assert machine.find("clock").state is DoctorState.OK


def drop_log(machine: Machine) -> None:
    """Empty the database, as if its address were that of another."""
    with psycopg.connect(machine.settings.database or "") as db:
        db.execute("DROP SCHEMA forum CASCADE")
    upgrade_database(machine.settings)


def age_entry(machine: Machine) -> None:
    """Leave an entry without an index, as if nobody signed."""
    with psycopg.connect(machine.settings.database or "") as db:
        db.execute("UPDATE forum.lease SET until = 0")


def open_keys(machine: Machine) -> None:
    """Let others read the keys."""
    machine.settings.data.chmod(0o755)
    for file in machine.settings.data.glob("*.key"):
        file.chmod(0o644)


FAULTS: dict[str, Callable[[Machine], object]] = {
    "no write key": lambda m: (m.settings.data / "write.key").unlink(missing_ok=True),
    "no public key": lambda m: (m.settings.data / "log.pub").unlink(missing_ok=True),
    "no signing key": lambda m: m.settings.key_file.unlink(missing_ok=True),
    "no state": lambda m: shutil.rmtree(m.settings.state),
    "no data": lambda m: shutil.rmtree(m.settings.data),
    "open data": lambda m: m.settings.data.chmod(0o755),
    "open keys": open_keys,
    "another database": drop_log,
    "nobody works": age_entry,
    "foreign public key": lambda m: (m.settings.data / "log.pub").write_text("x\n"),
    "foreign write key": lambda m: (m.settings.data / "write.key").write_text("x\n"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_remedy_fits_the_machine(machine: Machine, fault: str) -> None:
    """Where a log is not signed, `forum init` would begin another one."""
    FAULTS[fault](machine)
    findings = machine.examine()
    remedies = [finding.next or "" for finding in findings]

    assert all(finding.next for finding in findings if finding.state is not DoctorState.OK)
    assert not any("the check failed" in finding.found for finding in findings), findings
    names = [machine.settings.public_key_file, machine.settings.write_key_file]
    knows_log = any(name.exists() for name in names)
    if machine.role in {MachineRole.WRITER, MachineRole.READER} and knows_log:
        assert [step for step in remedies if "forum init" in step] == []


def test_a_missing_file_is_named_where_it_is_needed(machine: Machine) -> None:
    """A worker without the write key cannot write, and is told where the key comes from."""
    if machine.role is not MachineRole.WRITER:
        return
    (machine.settings.data / "write.key").unlink()
    finding = machine.find("writers")

    assert finding.state is DoctorState.WARNING
    assert "copy write.key from the machine that signs" in (finding.next or "")


def test_every_check_says_for_which_machines_it_is() -> None:
    """And every kind of machine has its checks."""
    assert all(check.roles for check in all_checks())
    for role in MachineRole:
        assert [check.name for check in all_checks() if role in check.roles]
    signers = {check.name for check in all_checks() if check.roles == {MachineRole.SIGNER}}
    assert signers == {"signer", "witness"}


def test_entries_from_the_future_are_blamed_on_their_writer(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This machine's clock agrees with the database's, so it was another one."""
    if machine.role is not MachineRole.WRITER:
        return
    write_in_the_future(machine, monkeypatch)
    finding = machine.find("clock")

    assert finding.state is DoctorState.PROBLEM
    assert "the clock of the process that wrote them was ahead" in finding.found
    assert finding.next == "on the machine that wrote them: timedatectl set-ntp true"


def write_in_the_future(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Record a note as a release did that compared no clocks."""
    home = machine.settings.data.parent.parent / "signer"
    signer = replace(
        machine.settings, data=home / "d", state=home / "s", key_file=home / "d/log.key"
    )
    real = clock_ids_and_kinds.now
    with monkeypatch.context() as wrong:
        for module in (log, project):
            wrong.setattr(module, "now", lambda: real() + 1200_000_000)
        wrong.setattr(project.ProjectContext, "dating_clock", None)
        with Forum(signer, lambda _: None) as forum:
            forum.log.record_note(text_content("from the future"))
