"""Read the recorded steps of a run, for forks, replays and comparisons."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from typing import Any

import msgspec

from forum.engine import context, ports
from forum.engine.accept import (
    PLAN_STEP,
    AnswerReference,
    RouteDecision,
    RunRequest,
    copy_body,
)
from forum.engine.answer_similarity import read_recorded_similarity
from forum.engine.child_runs import FIRST_STEP, read_findings
from forum.errors import BodyGone, NoSuchRun, ReplayMiss
from forum.ledger import log
from forum.ledger.body import Content, StoredBody
from forum.ledger.body_follower import BodyFollower
from forum.ledger.entry import MAIN_STRAND, Entry, Facts
from forum.ledger.kinds import JoinFacts, RunCloseFacts, RunOpenFacts
from forum.ledger.ports import Position
from forum.runs import kinds
from forum.runs.answer_similarity import SimilarityReading, SimilarityRequest
from forum.runs.claims import read_claims
from forum.runs.plan import RunBudget, read_plan
from forum.runs.policy import PROMPT_VERSION, ToolCall, read_policy, write_policy
from forum.runs.prompt import remove_marks
from forum.runs.run_comparison import RunStep, comparable_facts
from forum.tlog import Hash

_tool_calls_decoder = msgspec.json.Decoder(tuple[ToolCall, ...])
_FRAME_KINDS = (
    RunOpenFacts,
    RunCloseFacts,
    JoinFacts,
    kinds.InterruptionFacts,
    kinds.ResumptionFacts,
    kinds.GateReasonFacts,
)
"""Kinds that are left out of comparisons: they frame the work, and differ between any two runs."""

_PAGE_ENTRIES = 256
"""How many entries have their bodies looked up with one query."""
_REWRITTEN_BODIES = frozenset({"policy", "prompt", "claims"})
"""Bodies of which not all bytes are compared."""


class RecordedRun:
    """The recorded steps of one run, read once per task."""

    def __init__(self, ledger: log.Ledger, run: str) -> None:
        self._ledger, self._run = ledger, run
        self._strands: dict[str, dict[str, tuple[Hash, Entry[Any]]]] = {}

    def step(self, task: str, step: str) -> tuple[Hash, Entry[Any]] | None:
        """Return the leaf and entry of a step of a task, or None."""
        return self._steps(task).get(step)

    def last(self, task: str) -> Entry[Any] | None:
        """Return the last entry of a task, or None."""
        steps = list(self._steps(task).values())
        return steps[-1][1] if steps else None

    def last_reply_at(self, task: str) -> int:
        """Return the time of a task's last reply, or 0 without one."""
        entries = (entry for _, entry in self._steps(task).values())
        return max(
            (entry.ts for entry in entries if isinstance(entry.facts, kinds.ReplyFacts)), default=0
        )

    def reply(self, entry: Entry[Any]) -> ports.CallReply:
        """Return a recorded reply as the model returned it."""
        facts: kinds.ReplyFacts = entry.facts
        uses = self._body(entry, "uses")
        return ports.CallReply(
            outcome=facts.outcome,
            output=self.content(entry, "output"),
            spent=facts.spent,
            milliseconds=facts.milliseconds,
            uses=_tool_calls_decoder.decode(uses) if uses else (),
            why=facts.why,
            code=facts.code,
            error=self.content(entry, "error"),
            retry_milliseconds=facts.pause,
            input_tokens=facts.input_tokens,
            model=facts.model,
            prices=facts.prices,
        )

    def outcome(self, entry: Entry[Any]) -> ports.CallReply:
        """Return a recorded outcome of an effect as the tool returned it."""
        facts: kinds.OutcomeFacts = entry.facts
        result, error = self.content(entry, "result"), self.content(entry, "error")
        return ports.CallReply(facts.outcome, result, why=facts.why, code=facts.code, error=error)

    def accord(self, task: str, step: str) -> tuple[kinds.AccordFacts, Content] | None:
        """Return how far a panel agreed and what it found, or None if that is not recorded."""
        recorded = self.step(task, step)
        if recorded is None:
            return None
        return recorded[1].facts, self.content(recorded[1], kinds.FINDINGS)

    def arguments(self, entry: Entry[Any]) -> tuple[str, bytes]:
        """Return the tool and the arguments of a recorded intent."""
        intended: kinds.IntentFacts = entry.facts
        return intended.tool, self._body(entry, "arguments")

    def prompt(self, entry: Entry[Any]) -> bytes:
        """Return the prompt of a recorded call."""
        return self._body(entry, "prompt")

    def schema(self, entry: Entry[Any]) -> bytes:
        """Return the reply schema of a recorded call; empty if it had none."""
        return self._body(entry, "schema") if "schema" in entry.bodies else b""

    def content(self, entry: Entry[Any], name: str) -> Content:
        """Return a recorded body, empty if the entry has none.  Raises `BodyGone` if erased."""
        if name not in entry.bodies:
            return ports.EMPTY_CONTENT
        return context.open_body(self._ledger, _position_of(entry), name)

    def _body(self, entry: Entry[Any], name: str) -> bytes:
        return b"".join(self.content(entry, name).chunks())

    def _steps(self, task: str) -> dict[str, tuple[Hash, Entry[Any]]]:
        if task not in self._strands:
            entries = log.read_strand_entries(self._ledger, self._run, kinds.task_strand(task))
            self._strands[task] = {entry.step: (leaf, entry) for leaf, entry in entries}
        return self._strands[task]


class _ReplayedRun(RecordedRun):
    """The recorded steps of a run that is replayed from them alone."""

    def content(self, entry: Entry[Any], name: str) -> Content:
        """Return a recorded body, empty if the entry has none.  Raises `ReplayMiss` if erased."""
        try:
            return super().content(entry, name)
        except BodyGone:
            raise ReplayMiss(entry.strand, f"{entry.step} any more: {name} was erased") from None


class ForkSource:
    """Reuses the replies and outcomes of a forked run, up to an index of the log.

    Reused replies cost the fork nothing.  A reply is reused only if its call has the same prompt;
    all other calls are made.  If a body was erased since the fork was accepted, `BodyGone` ends the
    task.
    """

    def __init__(self, ledger: log.Ledger, run: str, most: int) -> None:
        self._ledger, self._past = ledger, RecordedRun(ledger, run)
        self._most = most

    def find_reply(self, call: ports.ModelCall) -> ports.RecordedReply | None:
        """Return the forked run's reply to the same prompt up to the fork index, or None."""
        reply = self._past.step(call.task, call.step)
        recorded = self._past.step(call.task, call.step.removesuffix("/reply"))
        if reply is None or recorded is None or not self._is_before_fork(reply[0]):
            return None
        # Another release may have derived other marks from the same texts.
        prompt = remove_marks(self._past.prompt(recorded[1]))
        if prompt != remove_marks(b"".join(call.prompt.chunks())):
            return None
        if reply[1].facts.why is kinds.Why.CANCELLED:
            return None  # the forked run was cancelled, this one is not
        paid_there = replace(self._past.reply(reply[1]), spent=ports.NO_COST)
        return ports.RecordedReply(
            paid_there, ports.NO_COST, kinds.ReplyOrigin.RECORDED, recorded[1].facts.model
        )

    def find_outcome(self, call: ports.ToolInvocation) -> ports.CallReply | None:
        """Return the outcome of the same effect in the forked run, or None.

        A fork does not repeat an effect of the forked run.
        """
        outcome = self._past.step(call.task, call.step)
        intent = self._past.step(call.task, call.step.removesuffix("/outcome"))
        if outcome is None or intent is None or not self._is_before_fork(outcome[0]):
            return None
        if self._past.arguments(intent[1]) != (call.tool, b"".join(call.arguments.chunks())):
            return None
        return self._past.outcome(outcome[1])

    def has_gate(self, subject: str) -> bool:  # noqa: ARG002
        """Return False: only the policy decides, and approvals are not inherited by a fork."""
        return False

    def find_call(self, task: str, step: str) -> kinds.CallFacts | None:  # noqa: ARG002
        """Return None: a fork has a budget of its own for each call."""
        return None

    def allotment(self, task: str, step: str) -> kinds.DelegationFacts | None:  # noqa: ARG002
        """Return None: a fork computes the allotments of its child runs."""
        return None

    def find_accord(self, task: str, step: str) -> tuple[kinds.AccordFacts, Content] | None:
        """Return how far the panel agreed whose recorded answer is reused, or None.

        Earlier releases did not record it in the forked run: the run of the panel says it.
        """
        recorded, named = self._past.accord(task, step), self._past.step(task, FIRST_STEP)
        if recorded is not None or named is None:
            return recorded
        findings = read_findings(self._ledger, named[1].facts.run)
        return (findings.facts, findings.text) if findings else None

    def raise_if_stopped_before(self, task: str, step: str) -> None:
        """Do nothing: a fork does not inherit stops."""

    def recorded_end(self) -> ports.RecordedEnd | None:
        """Return None: a fork comes to its own end."""
        return None

    def find_similarity(self, request: SimilarityRequest) -> SimilarityReading | None:  # noqa: ARG002
        """Return None: a fork compares answers itself, for some of them may be other ones."""
        return None

    def accepted_at(self) -> int | None:
        """Return None: a fork uses its own acceptance time."""
        return None

    def last_reply_at(self, task: str) -> int | None:  # noqa: ARG002
        """Return None: a fork uses the times of its own entries."""
        return None

    def _is_before_fork(self, leaf: Hash) -> bool:
        return log.is_before(self._ledger.store, leaf, self._most)


class ReplaySource:
    """Takes every reply, outcome and stop from the record; `ReplayMiss` if one is missing."""

    def __init__(self, ledger: log.Ledger, run: str) -> None:
        self._ledger, self._run = ledger, run
        self._past = _ReplayedRun(ledger, run)
        self.is_played_out = False
        """Whether everything that was recorded before the end has been replayed."""

    def find_similarity(self, request: SimilarityRequest) -> SimilarityReading:
        """Return the recorded verdicts on answers.  Raises `ReplayMiss`."""
        reading = read_recorded_similarity(self._ledger, self._run, request)
        if reading is None:
            raise ReplayMiss(MAIN_STRAND, request.step)
        return reading

    def accepted_at(self) -> int:
        """Return when the recorded run was accepted, in microseconds since 1970."""
        return context.read_run_input(self._ledger, self._run).begun

    def last_reply_at(self, task: str) -> int:
        """Return the recorded time of a task's last reply, or 0 without one."""
        return self._past.last_reply_at(task)

    def find_call(self, task: str, step: str) -> kinds.CallFacts | None:
        """Return the recorded call of this step, or None."""
        recorded = self._past.step(task, step)
        return recorded[1].facts if recorded else None

    def allotment(self, task: str, step: str) -> kinds.DelegationFacts | None:
        """Return the recorded allotment of a child run, or None."""
        recorded = self._past.step(task, step)
        return recorded[1].facts if recorded else None

    def find_accord(self, task: str, step: str) -> tuple[kinds.AccordFacts, Content] | None:
        """Return the recorded accord of a panel and its findings, or None."""
        return self._past.accord(task, step)

    def recorded_end(self) -> ports.RecordedEnd:
        """Return the end of the recorded run."""
        stopped, spent = None, b""
        canceller, steps = "", set()
        for _, entry in log.read_strand_entries(self._ledger, self._run, MAIN_STRAND):
            steps.add(entry.step)
            if isinstance(entry.facts, kinds.StopFacts):
                stopped = entry.facts
                spent = context.read_body(self._ledger, _position_of(entry), "spent")
        for _, entry in log.read_strand_entries(self._ledger, self._run, kinds.CONTROL):
            canceller = entry.actor if isinstance(entry.facts, kinds.CancelFacts) else canceller
        tasks = context.read_run(self._ledger, self._run).tasks
        skipped = {task.id: task.skipped for task in tasks.values() if task.skipped}
        roles = frozenset(name for name in tasks if name.startswith(kinds.ROLE_PREFIX))
        return ports.RecordedEnd(
            stopped=stopped,
            spent=spent,
            cancelled_by=canceller,
            skipped=skipped,
            roles=roles,
            steps=frozenset(steps),
            over=self.is_played_out,
        )

    def raise_if_stopped_before(self, task: str, step: str) -> None:
        """Raise `TaskHalted` if the recorded task was stopped before it reached this step."""
        last = self._past.last(task)
        stopped = last is not None and isinstance(last.facts, kinds.StopFacts | kinds.SkipFacts)
        if last is not None and stopped and self._past.step(task, step) is None:
            raise ports.TaskHalted(last.facts)

    def find_reply(self, call: ports.ModelCall) -> ports.RecordedReply:
        """Return the recorded reply.  Raises `TaskHalted` if the record was stopped instead."""
        step = call.step.removesuffix("/reply")
        self.raise_if_stopped_before(call.task, step)
        recorded, reply = self._past.step(call.task, step), self._past.step(call.task, call.step)
        if recorded is None:
            raise ReplayMiss(call.task, step)
        if reply is None:
            raise ReplayMiss(call.task, call.step)
        called: kinds.CallFacts = recorded[1].facts
        source = reply[1].facts.source
        prompt, schema = None, b""
        if self._has_other_prompts:
            prompt = self._past.prompt(recorded[1])
            schema = self._past.schema(recorded[1])
        return ports.RecordedReply(
            reply=self._past.reply(reply[1]),
            bound=called.reserved,
            source=source,
            model=called.model,
            prompt=prompt,
            schema=schema,
        )

    @cached_property
    def _has_other_prompts(self) -> bool:
        """Whether the prompts of the run's roles are of another version than those made here.

        They are taken from the record then. Sessions have no such version: their prompts are part
        of the protocol, and are always made again and compared.
        """
        policy = context.read_run_input(self._ledger, self._run).policy
        is_session = policy.panel is not None
        return bool(policy.roles) and not is_session and policy.prompts != PROMPT_VERSION

    def has_gate(self, subject: str) -> bool:
        """Return whether the record has this gate.

        A rule of the operator may have required it, and such rules are not in the policy.
        """
        return self._ledger.store.last_entry(self._run, kinds.gate_strand(subject)) is not None

    def find_outcome(self, call: ports.ToolInvocation) -> ports.CallReply:
        """Return the recorded outcome of an effect.  Raises `ReplayMiss`."""
        outcome = self._past.step(call.task, call.step)
        if outcome is None:
            raise ReplayMiss(call.task, call.step)
        return self._past.outcome(outcome[1])


_FORKED_BODIES: dict[type[Facts], frozenset[str]] = {
    kinds.CallFacts: frozenset({"prompt"}),
    kinds.ReplyFacts: frozenset({"output", "uses", "error"}),
    kinds.IntentFacts: frozenset({"arguments"}),
    kinds.OutcomeFacts: frozenset({"result", "error"}),
    kinds.AccordFacts: frozenset({kinds.FINDINGS}),
}
"""The bodies that a fork reads from the run that it forks, by kind of entry."""


def check_forkable(ledger: log.Ledger, run: str, most: int) -> None:
    """Raise `BodyGone` if a fork up to this index would need a body that was erased.

    Such a fork could not continue: the reply can neither be read nor be made again.
    """
    there = {(position, name) for position, name, _ in ledger.store.bodies_of_run(run)}
    for strand in ledger.store.strands(run):
        for leaf, entry in log.read_strand_entries(ledger, run, strand):
            needed = _FORKED_BODIES.get(type(entry.facts), frozenset()) & entry.bodies.keys()
            for name in sorted(needed):
                if (_position_of(entry), name) not in there and log.is_before(
                    ledger.store, leaf, most
                ):
                    raise BodyGone(str(_position_of(entry)), name)


def read_run_request(ledger: log.Ledger, run: str) -> RunRequest:
    """Return the request of a run as it was submitted, before any edit of its plan.

    Raises `NoSuchRun`.
    """
    if not ledger.store.strands(run):
        raise NoSuchRun(run)
    run_input, request = context.read_run_input(ledger, run), ""
    plan, route = None, None
    about = None
    for _, entry in log.read_strand_entries(ledger, run, MAIN_STRAND):
        at = _position_of(entry)
        # A plan that the engine made and a classifier's route are no part of the request: the new
        # run makes its own.
        match entry.facts:
            case kinds.AcceptedFacts():
                request = context.read_body(ledger, at, "request").decode()
            case kinds.PlanFacts() if entry.step == PLAN_STEP:
                plan = read_plan(context.read_body(ledger, at, "plan"))
            case kinds.RouteFacts() as facts if facts.basis is not kinds.Basis.CLASSIFIER:
                evidence = context.read_body(ledger, at, "evidence") if entry.bodies else b""
                route = RouteDecision(facts, evidence)
            case kinds.AboutFacts() as facts:
                about = AnswerReference(
                    facts, copy_body(ledger, entry, "request"), copy_body(ledger, entry, "answer")
                )
            case _:
                pass
    cap = run_input.accepted
    budget = RunBudget(
        usd=cap.usd,
        tokens=cap.tokens,
        calls=cap.calls,
        milliseconds=cap.milliseconds,
        depth=cap.depth,
    )
    return RunRequest(
        request=request,
        plan=plan,
        policy=run_input.policy,
        budget=budget,
        route=route,
        about=about,
    )


MARKS = "marks"
"""What a comparison of two runs ignores of their prompts and policies."""


def read_steps(
    ledger: log.Ledger,
    run: str,
    *,
    until: int | None = None,
    ignoring: frozenset[str] = frozenset(),
) -> list[RunStep]:
    """Return the comparable steps of a run, ordered by recorded time, strand and position.

    `until` leaves out entries after an index of the log, `ignoring` facts and bodies by name, and
    `marks` of prompts, which follow from a secret of the run.
    """
    rows = [
        (entry.ts, entry.strand, entry.n, leaf, entry)
        for strand in ledger.store.strands(run)
        for leaf, entry in log.read_strand_entries(ledger, run, strand)
        if not isinstance(entry.facts, _FRAME_KINDS)
    ]
    if until is not None:
        rows = [each for each in rows if log.is_before(ledger.store, each[3], until)]
    names = {leaf.hex(): f"{strand}/{entry.step}" for _, strand, _, leaf, entry in rows}
    inorder = [each[4] for each in sorted(rows, key=lambda each: each[:3])]
    steps: list[RunStep] = []
    follower = BodyFollower()
    for low in range(0, len(inorder), _PAGE_ENTRIES):
        page = inorder[low : low + _PAGE_ENTRIES]
        places = [(_position_of(entry), name) for entry in page for name in entry.bodies]
        stored = dict(zip(places, ledger.store.bodies_at(places), strict=True))
        for entry in page:
            bodies = {name: stored[_position_of(entry), name] for name in entry.bodies}
            reader = _DigestReader(follower, entry, bodies, names, is_unmarked=MARKS in ignoring)
            steps.append(_step(reader, ignoring))
    return steps


def _step(reader: "_DigestReader", ignoring: frozenset[str]) -> RunStep:
    entry = reader.entry
    # The identity of the person who decided is no result of the run, and may be erased.
    body_names = (name for name in entry.bodies if name not in {kinds.IDENTITY, *ignoring})
    bodies = tuple((name, reader.read_digest(name)) for name in body_names)
    facts = comparable_facts(entry.facts, ignoring=ignoring)
    return RunStep(
        strand=entry.strand, step=entry.step, kind=entry.kind, facts=facts, bodies=bodies
    )


class _DigestReader:
    """Reads digests of the bodies of an entry, for comparing them."""

    def __init__(
        self,
        follower: BodyFollower,
        entry: Entry[Any],
        bodies: Mapping[str, StoredBody | None],
        names: Mapping[str, str],
        *,
        is_unmarked: bool,
    ) -> None:
        """`names` are the steps of entries by their ids."""
        self.entry = entry
        self._follower, self._bodies = follower, bodies
        self._names, self._is_unmarked = names, is_unmarked

    def read_digest(self, name: str) -> str:
        """Return the digest of a body; for an erased one, its commitment.

        Claims name entries by leaf hashes, which no two runs share.  Their digest uses the steps of
        the entries instead.
        """
        body = self._bodies[name]
        if body is None:
            return f"erased {self.entry.bodies[name].h}"
        if body.shared is None and name not in _REWRITTEN_BODIES:
            log.check_body(self.entry, name, body)
            digest = sha256()
            for chunk in body.read():
                digest.update(chunk)
            return digest.hexdigest()
        content = self._follower.read(self.entry, name, body).content
        if self._is_unmarked and name == "policy":
            content = write_policy(read_policy(content).with_secret(b""))
        elif self._is_unmarked and name == "prompt":
            content = remove_marks(content)
        elif name == "claims":
            content = b"".join(
                msgspec.json.encode(
                    (claim.deed, claim.text, self._names.get(claim.receipt, claim.receipt))
                )
                for claim in read_claims(content)
            )
        return sha256(content).hexdigest()


def _position_of(entry: Entry[Any]) -> Position:
    return Position(entry.run, entry.strand, entry.n)
