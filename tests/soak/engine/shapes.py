"""Runs of every shape, and how each may end.

What a lost worker may change is which calls are paid twice; never whether a run ends, and how only
where its budget or its time was short to begin with.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

import msgspec

from forum.engine import RunRequest
from forum.ledger.kinds import Outcome
from forum.runs.panel import Council
from forum.runs.plan import Plan, RunBudget, Task
from forum.runs.policy import ASK_TOOL, Answer, Policy, Scripted, ScriptStep, ToolCall, ToolSpec
from tests.engine.panel import DIVIDED, panel
from tests.engine.symposium import seated
from tests.features.council.sitting import config
from tests.soak.engine.orders import CANARY
from tests.spoken import synthesis, turn, verdict

Moves = Mapping[str, tuple[ScriptStep, ...]]

LONGEST_CALL = 400
BACKOFF = 100
GATE_MILLISECONDS = 1500


@dataclass(frozen=True)
class Shape:
    """What is asked for, and how it may end."""

    name: str
    order: RunRequest
    ends: frozenset[Outcome]
    cancelled: bool = False
    """Whether somebody asks it to end in the middle."""


class Shapes:
    """Makes one run after the other, of each shape in turn."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)
        self._made = 0

    def next(self) -> Shape:
        """Make the next one."""
        makers: list[Callable[[], Shape]] = [
            self._chain,
            self._fan,
            self._tools,
            self._diamond,
            self._flaky,
            self._nested,
            self._gated,
            self._ladder,
            self._failing,
            self._asking,
            self._short_of_calls,
            self._cancelled,
            self._paying,
            self._refused,
            self._short_of_time,
            self._deep,
            self._council,
            self._council_within,
            self._symposium,
        ]
        maker = makers[self._made % len(makers)]
        self._made += 1
        return maker()

    # Plans

    def _chain(self) -> Shape:
        return self._shape("chain", _chain(self._random.randint(3, 5)), self._policy())

    def _fan(self) -> Shape:
        leaves = [_task(f"leaf{i}", "root") for i in range(self._random.randint(4, 8))]
        join = _task("join", *(leaf.id for leaf in leaves))
        return self._shape("fan", (_task("root"), *leaves, join), self._policy())

    def _diamond(self) -> Shape:
        tasks = (_task("a"), _task("b", "a"), _task("c", "a"), _task("d", "b", "c"))
        return self._shape("diamond", tasks, self._policy())

    def _nested(self) -> Shape:
        within = _within("within", 100, *_chain(2))
        return self._shape("nested", (within, _task("after", "within")), self._policy())

    def _deep(self) -> Shape:
        inner = _within("inner", 100, _task("a"), _task("b", "a"))
        outer = _within("outer", 300, inner, _task("c", "inner"))
        return self._shape("deep", (outer, _task("beside")), self._policy())

    # What can go wrong

    def _flaky(self) -> Shape:
        fails = tuple(ScriptStep(fail="busy") for _ in range(self._random.randint(1, 2)))
        moves = {"t1": (*fails, self._move())}
        return self._shape("flaky", _chain(3), self._policy(moves=moves))

    def _failing(self) -> Shape:
        policy = self._policy(moves={"t1": (ScriptStep(fail="broken"),)}, retries=1)
        return self._shape("failing", _chain(4), policy, Outcome.FAILED)

    def _ladder(self) -> Shape:
        strong = Scripted({"*": (ScriptStep(say=f"strong {CANARY}", milliseconds=self._pause()),)})
        policy = Policy(
            agents={"": self._agent(), "strong": strong},
            ladder=("strong",),
            backoff_milliseconds=BACKOFF,
        )
        tasks = (Task("a", f"Do it. {CANARY}", "contains strong"), _task("b", "a"))
        return self._shape("ladder", tasks, policy)

    # Effects

    def _tools(self) -> Shape:
        uses = (ToolCall("pay", f"one {CANARY}"), ToolCall("pay", f"two {CANARY}"))
        moves = {"t1": (self._move(use=uses), self._move())}
        policy = self._policy(moves=moves, tools={"pay": ToolSpec(("cat",))})
        return self._shape("tools", _chain(3), policy)

    def _paying(self) -> Shape:
        """Let an attempt want the very payment that was made by the failed one before it."""
        pay = self._move(use=(ToolCall("pay", f"rent {CANARY}"),))
        moves = {"t0": (pay, ScriptStep(fail="forgot"), pay, self._move())}
        policy = self._policy(moves=moves, tools={"pay": ToolSpec(("cat",))})
        return self._shape("paying", _chain(2), policy)

    def _asking(self) -> Shape:
        asked = msgspec.json.encode({"agent": "other", "text": f"Well? {CANARY}"}).decode()
        first = Scripted({"*": (self._move(use=(ToolCall(ASK_TOOL, asked),)), self._move())})
        policy = Policy(agents={"": first, "other": self._agent()}, backoff_milliseconds=BACKOFF)
        return self._shape("asking", _chain(2), policy)

    # Gates

    def _gated(self) -> Shape:
        policy = self._policy(gates=self._random.choice((("plan",), ("task:t1",), ("tasks",))))
        return self._shape("gated", _chain(2), policy)

    def _refused(self) -> Shape:
        policy = self._policy(gates=("task:t1",), gate_default=Answer.REJECT)
        return self._shape("refused", _chain(3), policy, Outcome.FAILED)

    # Deliberations

    def _council(self) -> Shape:
        return self._shape("council", None, panel(*DIVIDED, milliseconds=self._pause()))

    def _council_within(self) -> Shape:
        policy = panel(*DIVIDED, milliseconds=self._pause())
        assert isinstance(policy.panel, Council)
        within = _within("within", 100)
        deciding = msgspec.structs.replace(within, needs=("before",), panel=policy.panel)
        agents = {**policy.agents, "": self._agent()}
        tasks = (_task("before"), deciding, _task("after", "within"))
        return self._shape("council within", tasks, self._policy(agents=agents))

    def _symposium(self) -> Shape:
        said = (turn("It is old."), turn("It holds."), verdict("finalize"), synthesis("Yes."))
        moves = {f"~turn.{n}": (self._move(words),) for n, words in enumerate(said, 1)}
        request = seated(config(panel=("ada", "ben")), self._agent(moves))
        return self._shape("symposium", None, request.policy)

    # Limits

    def _short_of_calls(self) -> Shape:
        budget = RunBudget(usd=10_000, calls=3)
        return self._shape(
            "short of calls", _chain(5), self._policy(), Outcome.DENIED, budget=budget
        )

    def _short_of_time(self) -> Shape:
        budget = RunBudget(milliseconds=1500)
        shape = self._shape(
            "short of time", _chain(12), self._policy(), Outcome.TIMEOUT, budget=budget
        )
        return Shape(shape.name, shape.order, shape.ends | {Outcome.OK})

    def _cancelled(self) -> Shape:
        shape = self._shape("cancelled", _chain(8), self._policy(), Outcome.CANCELLED)
        return Shape(shape.name, shape.order, shape.ends | {Outcome.OK}, cancelled=True)

    # Parts

    def _shape(
        self,
        name: str,
        tasks: tuple[Task, ...] | None,
        policy: Policy,
        ends: Outcome = Outcome.OK,
        budget: RunBudget | None = None,
    ) -> Shape:
        budget = budget or RunBudget(usd=1_000_000, tokens=1_000_000, calls=1000)
        plan = Plan(tasks) if tasks else None
        request = RunRequest(f"Do all of it. {CANARY}", plan, policy, budget)
        return Shape(name, request, frozenset({ends}))

    def _policy(
        self, moves: Mapping[str, tuple[ScriptStep, ...]] | None = None, **more: object
    ) -> Policy:
        policy = Policy(
            agents={"": self._agent(moves)},
            backoff_milliseconds=BACKOFF,
            gate_milliseconds=GATE_MILLISECONDS,
            gate_default=Answer.APPROVE,
        )
        return msgspec.structs.replace(policy, **more)

    def _agent(self, moves: Moves | None = None) -> Scripted:
        everywhere = {"*": tuple(self._move() for _ in range(2))}
        return Scripted({**everywhere, **(moves or {})}, usd=100, tokens=50)

    def _move(self, text: str = "", use: tuple[ToolCall, ...] = ()) -> ScriptStep:
        text = text or f"{CANARY} {self._random.random()}"
        return ScriptStep(text, use, milliseconds=self._pause(), usd=70, tokens=20)

    def _pause(self) -> int:
        return self._random.randint(0, LONGEST_CALL)


def _task(name: str, *needs: str) -> Task:
    return Task(name, f"Do your part. {CANARY}", needs=needs)


def _within(name: str, calls: int, *tasks: Task) -> Task:
    budget = RunBudget(usd=1000 * calls, tokens=1000 * calls, calls=calls)
    return Task(name, f"Do it. {CANARY}", tasks=tasks, budget=budget)


def _chain(length: int) -> tuple[Task, ...]:
    return tuple(_task(f"t{i}", *((f"t{i - 1}",) if i else ())) for i in range(length))
