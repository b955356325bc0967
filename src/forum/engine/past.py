"""What a run has said, for those who do it again: forks, replays and comparisons."""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

import msgspec

from forum.engine.accepting import PLAN, Order, RouteTaken
from forum.engine.case import read_body, read_intake, read_run, stored
from forum.engine.ports import FREE, NOTHING, Call, Deed, Ending, Halt, Known, Reply
from forum.errors import BodyGone, NoSuchRun, ReplayMiss
from forum.ledger import (
    MAIN,
    Amount,
    Content,
    Entry,
    Facts,
    Join,
    Ledger,
    Position,
    RunClose,
    RunOpen,
    entries_of,
    is_before,
    stored_body,
)
from forum.tlog import Hash
from forum.work import (
    CONTROL,
    IDENTITY,
    ROLE,
    Accepted,
    Basis,
    Budget,
    Called,
    CancelAsked,
    Delegated,
    Happened,
    Intended,
    Interruption,
    Planned,
    Replied,
    Resumption,
    Routed,
    Skipped,
    Source,
    Step,
    Stopped,
    Use,
    Why,
    facts_of,
    gate_strand,
    read_claims,
    read_plan,
    task_strand,
)

_uses = msgspec.json.Decoder(tuple[Use, ...])
_FRAME = (RunOpen, RunClose, Join, Interruption, Resumption)
"""What says nothing of the work: no two runs have it alike."""


class Past:
    """The recorded steps of one run."""

    def __init__(self, ledger: Ledger, run: str) -> None:
        self._ledger, self._run = ledger, run
        self._strands: dict[str, dict[str, tuple[Hash, Entry[Any]]]] = {}

    def step(self, task: str, step: str) -> tuple[Hash, Entry[Any]] | None:
        """Return what is recorded under a step of a task."""
        return self._steps(task).get(step)

    def last(self, task: str) -> Entry[Any] | None:
        """Return what a task ended with."""
        steps = list(self._steps(task).values())
        return steps[-1][1] if steps else None

    def ended(self, task: str) -> int:
        """Return when the last reply of a task came; 0 where none did."""
        told = (entry for _, entry in self._steps(task).values())
        return max((entry.ts for entry in told if isinstance(entry.facts, Replied)), default=0)

    def reply(self, entry: Entry[Any]) -> Reply:
        """Return a recorded reply as it once came."""
        facts: Replied = entry.facts
        uses = self._body(entry, "uses")
        return Reply(
            facts.outcome,
            self.content(entry, "output"),
            Amount(facts.usd, facts.tokens, 1),
            facts.milliseconds,
            _uses.decode(uses) if uses else (),
            facts.why,
            facts.code,
            self.content(entry, "error"),
            facts.pause,
            facts.input_tokens,
            facts.model,
            facts.prices,
        )

    def outcome(self, entry: Entry[Any]) -> Reply:
        """Return a recorded outcome of an effect as it once came."""
        facts: Happened = entry.facts
        result, error = self.content(entry, "result"), self.content(entry, "error")
        return Reply(facts.outcome, result, why=facts.why, code=facts.code, error=error)

    def arguments(self, entry: Entry[Any]) -> tuple[str, bytes]:
        """Return which tool was to be used in a recorded intent, and how."""
        intended: Intended = entry.facts
        return intended.tool, self._body(entry, "arguments")

    def prompt(self, entry: Entry[Any]) -> bytes:
        """Return what was said in a recorded call."""
        return self._body(entry, "prompt")

    def content(self, entry: Entry[Any], name: str) -> Content:
        """Return a recorded body, or nothing where there was none.  Raises `BodyGone`."""
        if name not in entry.bodies:
            return NOTHING
        return stored(self._ledger, _at(entry), name)

    def _body(self, entry: Entry[Any], name: str) -> bytes:
        return b"".join(self.content(entry, name).chunks())

    def _steps(self, task: str) -> dict[str, tuple[Hash, Entry[Any]]]:
        if task not in self._strands:
            told = entries_of(self._ledger, self._run, task_strand(task))
            self._strands[task] = {entry.step: (leaf, entry) for leaf, entry in told}
        return self._strands[task]


class _Record(Past):
    """The recorded steps of a run that is played from them alone."""

    def content(self, entry: Entry[Any], name: str) -> Content:
        """Return a recorded body, or nothing where there was none.  Raises `ReplayMiss`."""
        try:
            return super().content(entry, name)
        except BodyGone:
            raise ReplayMiss(entry.strand, f"{entry.step} any more: {name} was erased") from None


class Fork:
    """Takes replies from the run that is forked, up to an index, and leaves the rest to be made.

    They were paid there.  A call whose prompt is another one than it was then is another call.
    Where a body was erased since the fork was accepted, `BodyGone` ends the task.
    """

    def __init__(self, ledger: Ledger, run: str, most: int) -> None:
        self._ledger, self._past, self._most = ledger, Past(ledger, run), most

    def answer(self, call: Call) -> Known | None:
        """Return the reply of the forked run, where it had one in time."""
        reply = self._past.step(call.task, call.step)
        made = self._past.step(call.task, call.step.removesuffix("/reply"))
        if reply is None or made is None or not self._in_time(reply[0]):
            return None
        if self._past.prompt(made[1]) != b"".join(call.prompt.chunks()):
            return None
        if reply[1].facts.why is Why.CANCELLED:
            return None  # the other run was to end, and not this one
        paid_there = replace(self._past.reply(reply[1]), spent=FREE)
        return Known(paid_there, FREE, Source.RECORDED, made[1].facts.model)

    def outcome(self, deed: Deed) -> Reply | None:
        """Return what became of the very same effect in the forked run: it is not had again."""
        found = self._past.step(deed.task, deed.step)
        intent = self._past.step(deed.task, deed.step.removesuffix("/outcome"))
        if found is None or intent is None or not self._in_time(found[0]):
            return None
        if self._past.arguments(intent[1]) != (deed.tool, b"".join(deed.arguments.chunks())):
            return None
        return self._past.outcome(found[1])

    def has_gate(self, subject: str) -> bool:  # noqa: ARG002
        """Leave it to be decided: what was approved there is not approved here."""
        return False

    def allotment(self, task: str) -> Delegated | None:  # noqa: ARG002
        """Leave it to be decided."""
        return None

    def reach(self, task: str, step: str) -> None:
        """Leave it to be decided."""

    def ending(self) -> Ending | None:
        """Leave it to be decided."""
        return None

    def begun(self) -> int | None:
        """Leave it to the clock."""
        return None

    def ended(self, task: str) -> int | None:  # noqa: ARG002
        """Leave it to the clock."""
        return None

    def _in_time(self, leaf: Hash) -> bool:
        return is_before(self._ledger.store, leaf, self._most)


class Replay:
    """Takes everything from the record: what is not there is an error, and nothing is done."""

    def __init__(self, ledger: Ledger, run: str) -> None:
        self._ledger, self._run, self._past = ledger, run, _Record(ledger, run)
        self.over = False
        """Whether everything was played that came before the end."""

    def begun(self) -> int:
        """Return when the run was taken on, in microseconds since 1970."""
        return read_intake(self._ledger, self._run).begun

    def ended(self, task: str) -> int:
        """Return when the last reply of a task came; 0 where none did."""
        return self._past.ended(task)

    def allotment(self, task: str) -> Delegated | None:
        """Return what the run within was given."""
        found = self._past.step(task, "delegate")
        return found[1].facts if found else None

    def ending(self) -> Ending:
        """Return how the record ends."""
        stopped, spent, asked, steps = None, b"", "", set()
        for _, entry in entries_of(self._ledger, self._run, MAIN):
            steps.add(entry.step)
            if isinstance(entry.facts, Stopped):
                stopped = entry.facts
                spent = read_body(self._ledger, _at(entry), "spent")
        for _, entry in entries_of(self._ledger, self._run, CONTROL):
            asked = entry.actor if isinstance(entry.facts, CancelAsked) else asked
        tasks = read_run(self._ledger, self._run).tasks
        skipped = {task.id: task.skipped for task in tasks.values() if task.skipped}
        roles = frozenset(name for name in tasks if name.startswith(ROLE))
        return Ending(stopped, spent, asked, skipped, roles, frozenset(steps), self.over)

    def reach(self, task: str, step: str) -> None:
        """Stop where the record was stopped before it came to this step."""
        last = self._past.last(task)
        stopped = last is not None and isinstance(last.facts, Stopped | Skipped)
        if last is not None and stopped and self._past.step(task, step) is None:
            raise Halt(last.facts)

    def answer(self, call: Call) -> Known:
        """Return the recorded reply; where the record was stopped instead, stop."""
        step = call.step.removesuffix("/reply")
        self.reach(call.task, step)
        made, reply = self._past.step(call.task, step), self._past.step(call.task, call.step)
        if made is None:
            raise ReplayMiss(call.task, step)
        if reply is None:
            raise ReplayMiss(call.task, call.step)
        called: Called = made[1].facts
        source = reply[1].facts.source
        return Known(self._past.reply(reply[1]), called.reserved, source, called.model)

    def has_gate(self, subject: str) -> bool:
        """Tell whether a person was asked: by a rule of a worker, the policy may not say so."""
        return self._ledger.store.last(self._run, gate_strand(subject)) is not None

    def outcome(self, deed: Deed) -> Reply:
        """Return the recorded outcome of an effect."""
        found = self._past.step(deed.task, deed.step)
        if found is None:
            raise ReplayMiss(deed.task, deed.step)
        return self._past.outcome(found[1])


_TAKEN_OVER: dict[type[Facts], frozenset[str]] = {
    Called: frozenset({"prompt"}),
    Replied: frozenset({"output", "uses", "error"}),
    Intended: frozenset({"arguments"}),
    Happened: frozenset({"result", "error"}),
}
"""The bodies that a fork reads of the run that it forks."""


def check_fork(ledger: Ledger, run: str, most: int) -> None:
    """Raise `BodyGone` where a fork would need a body that was erased.

    Nobody could go on with such a fork: what it takes over is neither there nor to be made again.
    """
    there = {(position, name) for position, name, _ in ledger.store.bodies_of_run(run)}
    for strand in ledger.store.strands(run):
        for leaf, entry in entries_of(ledger, run, strand):
            needed = _TAKEN_OVER.get(type(entry.facts), frozenset()) & entry.bodies.keys()
            for name in sorted(needed):
                if (_at(entry), name) not in there and is_before(ledger.store, leaf, most):
                    raise BodyGone(str(_at(entry)), name)


def order_of(ledger: Ledger, run: str) -> Order:
    """Return what was asked for in a run, with the plan as it was before anybody edited it."""
    if not ledger.store.strands(run):
        raise NoSuchRun(run)
    intake, request, plan, route = read_intake(ledger, run), "", None, None
    for _, entry in entries_of(ledger, run, MAIN):
        at = _at(entry)
        match entry.facts:
            case Accepted():
                request = read_body(ledger, at, "request").decode()
            case Planned() if entry.step == PLAN:
                plan = read_plan(read_body(ledger, at, "plan"))
            case Routed() as facts if facts.basis is not Basis.CLASSIFIER:
                evidence = read_body(ledger, at, "evidence") if entry.bodies else b""
                route = RouteTaken(facts, evidence)
            case _:
                pass
    cap = intake.accepted
    budget = Budget(cap.usd, cap.tokens, cap.calls, cap.milliseconds, cap.depth)
    return Order(request, plan, intake.policy, budget, route)


def steps_of(
    ledger: Ledger, run: str, *, until: int | None = None, ignoring: frozenset[str] = frozenset()
) -> list[Step]:
    """Return what a run says, in the order in which it says so to have done it."""
    told = [
        (entry.ts, entry.strand, entry.n, leaf, entry)
        for strand in ledger.store.strands(run)
        for leaf, entry in entries_of(ledger, run, strand)
        if not isinstance(entry.facts, _FRAME)
    ]
    if until is not None:
        told = [each for each in told if is_before(ledger.store, each[3], until)]
    names = {leaf.hex(): f"{strand}/{entry.step}" for _, strand, _, leaf, entry in told}
    inorder = sorted(told, key=lambda each: each[:3])
    return [_step(ledger, each[4], ignoring, names) for each in inorder]


def _step(
    ledger: Ledger, entry: Entry[Any], ignoring: frozenset[str], names: Mapping[str, str]
) -> Step:
    # Who the person was that decided is nothing that the run says, and may be erased.
    said = (name for name in entry.bodies if name != IDENTITY)
    bodies = tuple((name, _digest(ledger, entry, name, names)) for name in said)
    facts = facts_of(entry.facts, ignoring=ignoring)
    return Step(entry.strand, entry.step, entry.kind, facts, bodies)


def _digest(ledger: Ledger, entry: Entry[Any], name: str, names: Mapping[str, str]) -> str:
    """Return the digest of a content; one that was erased is told by its commitment alone.

    Claims name entries by their ids, which no two runs share: they are told by their steps.
    """
    body = stored_body(ledger.store, entry, name)
    if body is None:
        return f"erased {entry.bodies[name].h}"
    digest = sha256()
    if name == "claims":
        for claim in read_claims(b"".join(body.read())):
            shown = names.get(claim.receipt, claim.receipt)
            digest.update(msgspec.json.encode((claim.deed, claim.text, shown)))
        return digest.hexdigest()
    for chunk in body.read():
        digest.update(chunk)
    return digest.hexdigest()


def _at(entry: Entry[Any]) -> Position:
    return Position(entry.run, entry.strand, entry.n)
