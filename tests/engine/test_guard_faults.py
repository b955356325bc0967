"""A fault at any step of a guard: the tool is not used, the call not made, the run not taken on."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from forum.app import Forum
from forum.config import Settings
from forum.engine import RunRequest
from forum.runs.gate_rules import GateRule
from forum.runs.plan import RunBudget
from forum.runs.policy import Policy, Scripted, ScriptStep
from forum.runs.run_fold import RunState
from forum.section_reader import SectionTables
from tests.engine.office import Hands, Office, chain, quick
from tests.engine.test_gate_rules import RULE, paying
from tests.faults import Fault, each_fault
from tests.support import StoreFactory

# A fault in a generator that is being closed is reported as a warning.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

GATE_MODULES = (
    "forum.runs.gate_rules",
    "forum.runs.strict_json",
    "forum.engine.gates",
    "forum.engine.tools",
)
CALL_MODULES = ("forum.runs.call_rules", "forum.engine.model_calls")
ADMISSION_MODULES = (
    "forum.app.runs",
    "forum.engine.accept",
    "forum.runs.team_settings",
    "forum.section_reader",
)


@contextmanager
def fresh_store(folder: Path) -> Iterator[StoreFactory]:
    """Open a new ledger file."""
    folder.mkdir()
    factory = StoreFactory(folder / "ledger.db")
    yield factory
    factory.close()


def work_with_fault(office: Office, request: RunRequest, fault: Fault) -> None:
    """Carry out a request while a step fails."""
    office.accept(request)
    with fault, suppress(MemoryError):
        office.work()


def test_a_fault_at_any_step_of_a_gate_rule_keeps_the_tool_from_its_use(folder: Path) -> None:
    """Neither then, nor when another process goes on: a person is asked first."""
    for number, fault in enumerate(each_fault(*GATE_MODULES)):
        with fresh_store(folder / str(number)) as factory:
            office = Office(factory(), gate_rules=(RULE,))
            work_with_fault(office, paying(gate_rules=()), fault)
            assert not office.hands.deeds, fault.place

            after = Office(factory(), gate_rules=(RULE,))
            assert after.work().state is RunState.WAITING, fault.place
            assert not after.hands.deeds, fault.place


def test_a_fault_at_any_step_of_a_call_makes_no_call_above_the_cap(folder: Path) -> None:
    """A process that goes on after the fault does not make it either."""
    moves: dict[str, tuple[ScriptStep, ...]] = {"*": (ScriptStep(""), ScriptStep("done"))}
    policy = quick(agents={"": Scripted(moves)}, retries=3)
    request = RunRequest("x", chain("a", "b", "c"), policy, RunBudget(calls=2))
    for number, fault in enumerate(each_fault(*CALL_MODULES, once_each=True)):
        with fresh_store(folder / str(number)) as factory:
            hands = Hands()
            work_with_fault(Office(factory(), hands), request, fault)
            Office(factory(), hands).work()
            assert len(hands.calls) <= 2, fault.place


def test_a_fault_at_any_step_of_admission_takes_no_run_on_without_the_rules(
    tmp_path: Path,
) -> None:
    """A run is on record with the operator's rules, or not at all."""
    for number, fault in enumerate(each_fault(*ADMISSION_MODULES)):
        home = tmp_path / str(number)
        settings = Settings(
            home / "data",
            home / "state",
            home / "data/log.key",
            sections=SectionTables({"gates": {"pay": {"tool": "pay"}}}),
        )
        with Forum(settings) as forum:
            forum.keys.initialise()
            with fault, suppress(MemoryError):
                forum.runs.submit(RunRequest("x", chain("a"), Policy()))
            for run, _ in forum.reads.recent_runs(None, 10):
                rules = forum.reads.read_run_context(run).policy.gate_rules
                assert rules == (GateRule("pay", "pay"),), fault.place
