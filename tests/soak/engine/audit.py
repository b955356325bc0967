"""What the workers noted down by themselves, held against what the ledger says at the end."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from forum.app import Forum
from forum.engine import read_run
from forum.ledger import MAIN, Amount, Outcome, RunClose
from forum.work import Run, Source, TaskRun, Why, task_strand, total
from tests.soak.engine.bench import Bench
from tests.soak.engine.evidence import Evidence
from tests.soak.engine.orders import CANARY
from tests.soak.engine.shapes import Shape

MOST_VIOLATIONS = 50

EXPECTED_TROUBLE = frozenset({"StoreLost", "StoreFailed", "OperationalError", "DBAPIError"})
"""What may go wrong while a server is restarted, or a file is locked, and is tried again."""

Execution = tuple[str, str, str]
"""A call or an effect: run, task, and the step under which its outcome is recorded."""


@dataclass
class Audit:
    """One full look at a ledger on which nobody works any more."""

    forum: Forum
    bench: Bench
    evidence: Evidence
    shapes: Mapping[str, Shape]
    """What was asked for, by run."""
    violations: list[str] = field(default_factory=list)
    entries: int = 0
    runs: int = 0
    calls: int = 0
    lost: int = 0
    """Calls that were closed because their worker had died."""
    calls_repeated: int = 0
    effects: int = 0
    tools_repeated: int = 0
    verified: bool = False

    def run(self) -> None:
        """Check everything; what does not hold stands in `violations` afterwards."""
        self._check_ledger()
        runs = {run: read_run(self.forum.ledger, run) for run in self._all_runs()}
        self.runs = len(runs)
        for run, state in runs.items():
            self._check_run(run, state)
        self._check_calls(runs)
        self._check_effects(runs)
        self._check_alarms()
        self._check_memory()
        for event in self.evidence.all("trouble"):
            kind, what = event.details
            self._expect(kind in EXPECTED_TROUBLE, f"worker {event.life}: {what}")

    def _expect(self, holds: bool, what: str) -> None:  # noqa: FBT001  the verdict is the subject
        if not holds and len(self.violations) < MOST_VIOLATIONS:
            self.violations.append(what)

    def _all_runs(self) -> Iterable[str]:
        """Return every run, those within others too; the log's own strand is none."""
        found, after = [], ""
        while page := self.forum.store.runs(after, 1000):
            found += page
            after = page[-1]
        return [run for run in found if "accepted" in self._steps(run, MAIN)]

    def _steps(self, run: str, strand: str) -> list[str]:
        ledger = self.forum.ledger
        return [ledger.kinds.read(data).step for data in ledger.store.strand(run, strand)]

    # The ledger

    def _check_ledger(self) -> None:
        report = self.forum.verify(self.forum.trust())
        self.verified = report.ok
        self._expect(report.ok, f"the ledger does not verify: {report.findings}")
        store = self.forum.store
        self.entries = store.head().size
        self._expect(not any(store.unsequenced()), "an entry has no index")
        self._expect(store.stored() == self.entries, f"{store.stored()} are not {self.entries}")

    def _check_run(self, run: str, state: Run) -> None:
        for strand in self.forum.store.strands(run):
            for step, count in Counter(self._steps(run, strand)).items():
                self._expect(count == 1, f"{run}/{strand} records {step} {count} times")
        self._expect(state.outcome is not None, f"{run} has not ended: {state.state}")
        shape = self.shapes.get(run)
        if shape is not None and state.outcome is not None:
            holds = state.outcome in shape.ends
            self._expect(holds, f"{run} ({shape.name}) ended {state.outcome}: {state.stopped}")
        last = self.forum.store.last(run, MAIN)
        facts = self.forum.ledger.kinds.read(last).facts if last else None
        self._expect(isinstance(facts, RunClose), f"{run} goes on after its end")
        self._check_account(run, state)

    def _check_account(self, run: str, state: Run) -> None:
        account = self.forum.store.account(run)
        if account is None:
            self._expect(holds=False, what=f"{run} has no account")
            return
        spent = total(self._spent(task) for task in state.tasks.values())
        self._expect(account.used == spent, f"{run} has used {account.used}, by entries {spent}")
        within = not account.used.exceeds(account.cap)
        self._expect(within, f"{run} has used {account.used} of {account.cap}")

    def _spent(self, task: TaskRun) -> Amount:
        """Return what a task has cost; a run within reports its calls, not its one reply."""
        if task.delegated is None or not task.calls or task.calls[-1].replied is None:
            return task.spent
        account = self.forum.store.account(task.delegated.run)
        return account.used if account else Amount()

    # What was done

    def _check_calls(self, runs: Mapping[str, Run]) -> None:
        """No step is executed twice, and nothing is asked again that was answered on record."""
        begun = Counter[Execution](e.details[:3] for e in self.evidence.all("call+"))
        ended = Counter[Execution](e.details[:3] for e in self.evidence.all("call-"))
        self.calls = begun.total()
        again = {step: count for step, count in begun.items() if count > 1}
        self.calls_repeated = sum(again.values()) - len(again)
        for step, count in again.items():
            self._expect(holds=False, what=f"{step} was executed {count} times")
        answered = self._answered(runs, ended)
        for event in self.evidence.all("call+"):
            run, task, step, number = event.details
            known = answered.get((run, task, number), step)
            if known != step and self._is_later(runs[run].task(task), step, known):
                self.calls_repeated += 1
                self._expect(holds=False, what=f"{run}/{task}: {step} asks again, after {known}")

    def _answered(
        self, runs: Mapping[str, Run], ended: Counter[Execution]
    ) -> dict[tuple[str, str, int], str]:
        """Return under which step each question of a task is answered on record."""
        numbers = {e.details[:3]: e.details[3] for e in self.evidence.all("call+")}
        found = {}
        for run, state in runs.items():
            for name, task in state.tasks.items():
                steps = dict(enumerate(self._steps(run, task_strand(name))))
                for call in task.calls:
                    if call.replied is None or call.reply_at is None or task.delegated:
                        continue
                    step = steps[call.reply_at.n]
                    if call.replied.why is Why.LOST:
                        self.lost += 1
                        continue
                    self._expect_end(ended, (run, name, step), call.replied.outcome)
                    if call.replied.source is Source.LIVE and (run, name, step) in numbers:
                        found[run, name, numbers[run, name, step]] = step
        return found

    def _expect_end(self, ended: Counter[Execution], step: Execution, outcome: Outcome) -> None:
        cut = outcome in (Outcome.CANCELLED, Outcome.TIMEOUT)
        holds = ended[step] == 1 or (cut and ended[step] == 0)
        self._expect(holds, f"{step} is answered on record, and was {ended[step]} times in fact")

    def _is_later(self, task: TaskRun, step: str, known: str) -> bool:
        steps = self._steps(task.calls[0].at.run, task_strand(task.id))
        return step not in steps or steps.index(step) > steps.index(known)

    def _check_effects(self, runs: Mapping[str, Run]) -> None:
        """No effect is had twice under one key; one that is on record as had, was had."""
        had: dict[str, list[Execution]] = defaultdict(list)
        for event in self.evidence.all("tool+"):
            had[event.details[3]].append(event.details[:3])
        self.effects = sum(map(len, had.values()))
        for key, steps in had.items():
            self.tools_repeated += len(steps) - 1
            self._expect(len(steps) == 1, f"the effect {key} was had {len(steps)} times: {steps}")
        ended = {event.details[3] for event in self.evidence.all("tool-")}
        for run, state in runs.items():
            for name, task in state.tasks.items():
                for use in task.uses:
                    happened, key = use.happened, use.intended.again or use.entry.hex()
                    sure = happened is not None and happened.why is not Why.LOST
                    if sure and happened and not happened.known:
                        self._expect(key in ended, f"{run}/{name} records an effect nobody had")

    # What is left

    def _check_alarms(self) -> None:
        for alarm in self.forum.store.alarms(None, 100, due=False):
            self._expect(holds=False, what=f"{alarm} is left")

    def _check_memory(self) -> None:
        """See that DBOS keeps names: no content, and nothing that runs when it is read."""
        for place, value in self.bench.memory():
            self._expect(CANARY not in value, f"{place} holds content: {value[:200]}")
            self._expect(not value.startswith("gASV"), f"{place} is pickled: {value[:60]}")
            if place.endswith(".serialization"):
                holds = value in ("forum_json", "None")
                self._expect(holds, f"{place} is {value}")
