"""The run of a team ends: whoever cancels it, wherever its worker died, whatever was erased."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from forum.engine import RunRequest, cancel_run, read_run
from forum.engine.answer_assembly import AnswerAssembler
from forum.engine.context import RunContext
from forum.engine.role_driver import RoleDriver
from forum.errors import RunAlreadyEnded
from forum.ledger.kinds import Outcome
from forum.ledger.ports import EntryWrite, Position
from forum.runs.plan import Task
from forum.runs.policy import Scripted, ScriptStep, ToolCall, ToolSpec
from tests.engine.office import (
    KINDS,
    PERSON,
    RUN,
    Cut,
    Office,
    Power,
    chain,
    plan,
    quick,
)
from tests.engine.team import CHIEF, JUDGE, PLAN, WHOLE, order, said
from tests.engine.test_replay import play
from tests.support import StoreFactory, wait_until

WRITE = (ScriptStep("", use=(ToolCall("write", "notes.md"),)), ScriptStep("fine"))
TELLING = {
    "": Scripted({"a": WRITE, "b": WRITE, "c": (ScriptStep("We wrote the file notes.md."),)})
}
RHINE = {"id": "rhine", "instruction": "How long is the Rhine?", "done_when": "matches km"}
THREE = order(
    agents={
        "": Scripted({"*": (ScriptStep("1094 km"),)}),
        "worker": Scripted({"*": (ScriptStep("1094 km"),)}),
        "judge": JUDGE,
        "chief": Scripted(
            {**CHIEF.moves, "@coordinator": (said({"tasks": [*PLAN["tasks"], RHINE]}),)}
        ),
    },
    tools=WHOLE.policy.tools,
    verifiers=WHOLE.policy.verifiers,
)
WRITING = quick(agents=TELLING, tools={"write": ToolSpec(("w",))})


@pytest.mark.slow
@pytest.mark.parametrize("persisted", [False, True], ids=["before", "after"])
def test_a_team_that_died_at_any_commit_and_is_cancelled_ends(
    folder: Path, *, persisted: bool
) -> None:
    """Whoever takes over closes what was open, of tasks and of roles, and pays for no more."""
    commits, failed = 0, True
    while failed:
        place = folder / str(commits)
        place.mkdir()
        factory = StoreFactory(place / "ledger.db")
        Office(factory()).accept(WHOLE)
        failed = _die_at(factory, commits, persisted=persisted)
        _cancel_and_check(Office(factory()), place, f"after a crash at commit {commits}")
        factory.close()
        commits += 1

    assert commits > 20


def _die_at(factory: StoreFactory, commits: int, *, persisted: bool) -> bool:
    power = Power(factory(), commits, persisted=persisted)
    try:
        Office(factory(), append=power.append).work()
    except Cut:
        return True
    return power.failed


def _cancel_and_check(office: Office, place: Path, when: str) -> None:
    expected = Outcome.CANCELLED
    try:
        cancel_run(office.ledger, RUN, PERSON)
    except RunAlreadyEnded:
        expected = Outcome.OK
    run = office.work()
    tasks = run.tasks.values()

    assert run.outcome is expected, when
    assert all(task.state.is_end for task in tasks), when
    assert all(call.replied for task in tasks for call in task.calls), when
    assert all(use.happened for task in tasks for use in task.uses), when
    assert (office.hands.calls, office.account().used.usd) == ([], run.spent.usd), when
    assert office.findings() == (), when
    assert office.alarms() == [], when
    assert play(office, place) == [], when


@pytest.mark.parametrize("role", ["@synthesizer", "@verifier.1"])
def test_a_role_that_begins_when_the_run_has_just_been_stopped_ends(
    office: Office, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    """What it was needed for is needed no more: that is for it to find out, and no error."""
    begin = RoleDriver._answering  # noqa: SLF001  the moment between two threads

    def begin_late(driver: RoleDriver, case: RunContext) -> AnswerAssembler:
        if driver._task == role and not read_run(office.ledger, RUN).stopped:  # noqa: SLF001
            cancel_run(office.ledger, RUN, PERSON)
            wait_until(lambda: read_run(office.ledger, RUN).stopped is not None)
        return begin(driver, case)

    monkeypatch.setattr(RoleDriver, "_answering", begin_late)
    run = office.do(WHOLE)

    assert run.outcome is Outcome.CANCELLED
    assert run.task(role).state.is_end


class PowerUntil:
    """What a process lives on until there is a verdict in a strand."""

    def __init__(self, office: Office, strand: str) -> None:
        self._store, self._strand = office.store, strand
        self.failed = False

    def append(self, records: Sequence[EntryWrite]) -> None:
        """Commit, as long as there is power."""
        if self.failed:
            raise Cut
        self._store.append(records)
        judged = [r for r in records if KINDS.read(r.data).kind == "verdict/1"]
        self.failed = any(record.position.strand == self._strand for record in judged)
        if self.failed:
            raise Cut


def broken_off(factory: StoreFactory, request: RunRequest, strand: str) -> Office:
    """Return who takes over from a worker that died after the verdict in a strand."""
    power = PowerUntil(Office(factory()), strand)
    first = Office(factory(), append=power.append)
    first.accept(request)
    with pytest.raises(Cut):
        first.work()
    return Office(factory(), first.hands)


def erase(office: Office, strand: str, kind: str, body: str) -> None:
    """Erase a body of all entries of a kind in a strand."""
    for entry in office.entries():
        if (entry.strand, entry.kind) == (strand, kind):
            office.store.erase_bodies([(Position(entry.run, entry.strand, entry.n), body)])


@pytest.mark.parametrize(
    ("after", "strand", "kind", "body", "outcome"),
    [
        ("synthesizer", "role/synthesizer", "reply/1", "output", Outcome.FAILED),
        ("synthesizer", "task/elbe", "reply/1", "output", Outcome.OK),
        ("synthesizer", "main", "accepted/1", "request", Outcome.FAILED),
        ("coordinator", "role/coordinator", "reply/1", "output", Outcome.FAILED),
    ],
)
def test_what_is_erased_while_a_run_goes_on_does_not_keep_it_from_its_end(
    factory: StoreFactory, after: str, strand: str, kind: str, body: str, outcome: Outcome
) -> None:
    """Whose words are gone has said nothing; without the request nobody outside can verify."""
    second = broken_off(factory, THREE, f"role/{after}")
    erase(second, strand, kind, body)

    assert second.work().outcome is outcome
    assert second.alarms() == []


def test_an_effect_whose_arguments_were_erased_is_no_receipt_and_no_error(
    factory: StoreFactory,
) -> None:
    """A claim that rests on them is unverified, and the run is answered."""
    tasks = plan(Task("a", "x"), Task("c", "x", needs=("a",)))
    second = broken_off(factory, RunRequest("x", tasks, WRITING), "task/a")
    erase(second, "task/a", "intent/1", "arguments")
    run = second.work()

    assert run.outcome is Outcome.OK
    assert run.answered is not None
    assert (run.answered.claims, run.answered.unverified) == (1, 1)


def test_whoever_takes_over_names_the_same_receipt(factory: StoreFactory, tmp_path: Path) -> None:
    """Two effects show the same; which one is named depends on nothing but the record."""
    request = RunRequest("x", chain("b", "a", "c"), WRITING)
    other = StoreFactory(tmp_path / "other.db")
    unbroken = Office(other())
    unbroken.do(request)
    second = broken_off(factory, request, "task/c")
    second.work()

    assert receipt_of(unbroken) == receipt_of(second) != ""
    other.close()


def receipt_of(office: Office) -> str:
    """Return the strand of the entry that shows the one claim of an answer."""
    (answered,) = [entry for entry in office.entries() if entry.kind == "answer/1"]
    (claim,) = json.loads(office.body(answered, "claims"))
    return next(entry.strand for leaf, entry in office.told() if leaf.hex() == claim["receipt"])
