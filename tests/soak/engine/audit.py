"""What the workers noted down by themselves, held against what the ledger says at the end."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from forum.app import Forum
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.kinds import Outcome
from forum.ledger.log import read_strand_entries
from forum.ledger.ports import Amount
from forum.runs.kinds import Why, task_strand
from forum.runs.run_fold import Run, TaskRun, fold, sum_amounts
from tests.soak.engine.bench import Bench
from tests.soak.engine.evidence import Evidence
from tests.soak.engine.orders import CANARY
from tests.soak.engine.shapes import Shape

MAX_VIOLATIONS = 50

EXPECTED_TROUBLE = frozenset(
    {
        *("StoreConnectionLost", "StoreFailed", "StoreFull", "StoreTimedOut", "StoreLocked"),
        *("OperationalError", "DBAPIError"),
    }
)
"""What is tried again: something happens to a server, or a file is locked."""

Execution = tuple[str, str, str]
"""A call or an effect: run, task, and the step under which its outcome is recorded."""


@dataclass(frozen=True)
class Story:
    """One run as it is recorded."""

    state: Run
    steps: Mapping[str, list[str]]
    """The steps of each strand."""


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
    _stories: dict[str, Story] = field(default_factory=dict)

    def run(self) -> None:
        """Check everything; what does not hold stands in `violations` afterwards."""
        self._check_ledger()
        self._stories = {run: self._read(run) for run in self._all_runs()}
        self._stories = {r: s for r, s in self._stories.items() if s.state.accepted is not None}
        self.runs = len(self._stories)
        for run, story in self._stories.items():
            self._check_run(run, story)
        self._check_calls()
        self._check_effects()
        self._check_alarms()
        self._check_memory()
        for event in self.evidence.all("trouble"):
            kind, what = event.details
            self._expect(kind in EXPECTED_TROUBLE, f"worker {event.life}: {what}")

    def _expect(self, holds: bool, what: str) -> None:  # noqa: FBT001  the verdict is the subject
        if not holds and len(self.violations) < MAX_VIOLATIONS:
            self.violations.append(what)

    def _all_runs(self) -> Iterator[str]:
        """Yield every run, those within others too."""
        after = ""
        while page := self.forum.store.runs(after, 1000):
            yield from page
            after = page[-1]

    def _read(self, run: str) -> Story:
        ledger = self.forum.ledger
        document = {
            name: list(read_strand_entries(ledger, run, name)) for name in ledger.store.strands(run)
        }
        steps = {name: [entry.step for _, entry in strand] for name, strand in document.items()}
        return Story(fold(one for strand in document.values() for one in strand), steps)

    # The ledger

    def _check_ledger(self) -> None:
        report = self.forum.log.verify(self.forum.log.read_trust())
        self.verified = report.ok
        self._expect(report.ok, f"the ledger does not verify: {report.findings}")
        store = self.forum.store
        self.entries = store.head().size
        self._expect(not any(store.unsequenced_entries()), "an entry has no index")
        self._expect(
            store.count_entries() == self.entries, f"{store.count_entries()} are not {self.entries}"
        )

    def _check_run(self, run: str, story: Story) -> None:
        state = story.state
        for strand, steps in story.steps.items():
            for step, count in Counter(steps).items():
                self._expect(count == 1, f"{run}/{strand} records {step} {count} times")
        self._expect(state.outcome is not None, f"{run} has not ended: {state.state}")
        shape = self.shapes.get(run)
        if shape is not None and state.outcome is not None:
            holds = state.outcome in shape.ends
            self._expect(holds, f"{run} ({shape.name}) ended {state.outcome}: {state.stopped}")
        ended = story.steps[MAIN_STRAND][-1] == "run/close"
        self._expect(ended or state.outcome is None, f"{run} goes on after its end")
        self._check_account(run, state)

    def _check_account(self, run: str, state: Run) -> None:
        account = self.forum.store.account(run)
        if account is None:
            self._expect(holds=False, what=f"{run} has no account")
            return
        spent = sum_amounts(self._spent(task) for task in state.tasks.values())
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

    def _check_calls(self) -> None:
        """No step is executed twice, and nothing is asked again that was answered on record."""
        begun = Counter[Execution](e.details[:3] for e in self.evidence.all("call+"))
        ended = Counter[Execution](e.details[:3] for e in self.evidence.all("call-"))
        self.calls = begun.total()
        again = {step: count for step, count in begun.items() if count > 1}
        self.calls_repeated = sum(again.values()) - len(again)
        for step, count in again.items():
            self._expect(holds=False, what=f"{step} was executed {count} times")
        answered = self._answered(ended)
        for event in self.evidence.all("call+"):
            run, task, step, number = event.details
            known = answered.get((run, task, number), step)
            if known != step and self._is_later(run, task, step, known):
                self.calls_repeated += 1
                self._expect(holds=False, what=f"{run}/{task}: {step} asks again, after {known}")

    def _answered(self, ended: Counter[Execution]) -> dict[tuple[str, str, int], str]:
        """Return under which step each question of a task is answered on record."""
        numbers = {e.details[:3]: e.details[3] for e in self.evidence.all("call+")}
        document = {}
        for run, story in self._stories.items():
            for name, task in story.state.tasks.items():
                for call in task.calls if task.delegated is None else ():
                    if call.replied is None or call.reply_at is None:
                        continue
                    step = (run, name, story.steps[task_strand(name)][call.reply_at.n])
                    if call.replied.why is Why.LOST:
                        self.lost += 1
                        continue
                    self._expect_end(ended, step, call.replied.outcome)
                    if step in numbers:
                        document[run, name, numbers[step]] = step[2]
        return document

    def _expect_end(self, ended: Counter[Execution], step: Execution, outcome: Outcome) -> None:
        cut = outcome in (Outcome.CANCELLED, Outcome.TIMEOUT)
        holds = ended[step] == 1 or (cut and ended[step] == 0)
        self._expect(holds, f"{step} is answered on record, and was {ended[step]} times in fact")

    def _is_later(self, run: str, task: str, step: str, text: str) -> bool:
        steps = self._stories[run].steps[task_strand(task)]
        return step not in steps or steps.index(step) > steps.index(text)

    def _check_effects(self) -> None:
        """No effect is had twice under one key; one that is on record as had, was had."""
        had: dict[str, list[Execution]] = defaultdict(list)
        for event in self.evidence.all("tool+"):
            had[event.details[3]].append(event.details[:3])
        self.effects = sum(map(len, had.values()))
        for key, steps in had.items():
            self.tools_repeated += len(steps) - 1
            self._expect(len(steps) == 1, f"the effect {key} was had {len(steps)} times: {steps}")
        ended = {event.details[3] for event in self.evidence.all("tool-")}
        for run, story in self._stories.items():
            for name, task in story.state.tasks.items():
                for use in task.uses:
                    happened, key = use.happened, use.intended.again or use.entry.hex()
                    sure = happened is not None and happened.why is not Why.LOST
                    if sure and happened and not happened.known:
                        self._expect(key in ended, f"{run}/{name} records an effect nobody had")

    # What is left

    def _check_alarms(self) -> None:
        for timer in self.forum.store.timers(None, 100, due=False):
            self._expect(holds=False, what=f"{timer} is left")

    def _check_memory(self) -> None:
        """See that DBOS keeps names: no content, and nothing that runs when it is read."""
        for place, value in self.bench.memory():
            self._expect(CANARY not in value, f"{place} holds content: {value[:200]}")
            self._expect(not value.startswith("gASV"), f"{place} is pickled: {value[:60]}")
            if place.endswith(".serialization"):
                holds = value in ("portable_json", "None")
                self._expect(holds, f"{place} is {value}")
