"""Carrying out what a role has to do: one question to one agent, in a strand of its own.

What it says counts once code has found it to have its form; what is wrong with it is told once.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from forum.engine.answering import VERIFIER, Answering
from forum.engine.attention import Stop
from forum.engine.calls import Ask, Caller, Turns, World
from forum.engine.case import Case, Intake, read_request, read_run
from forum.engine.effects import Hands
from forum.engine.judges import ask_formed, end_checked, end_formed
from forum.tlog import Hash
from forum.work import (
    Plan,
    Quoted,
    Role,
    Use,
    classifier_prompt,
    classifier_schema,
    coordinator_prompt,
    coordinator_schema,
    intent_prompt,
    opening,
    opinion_schema,
    read_choice,
    read_drafted_plan,
    read_opinion,
    read_parts,
    read_revision,
    reviser_prompt,
    reviser_schema,
    synthesizer_prompt,
    synthesizer_schema,
    write_plan,
)


@dataclass(frozen=True, slots=True)
class Question:
    """What a role is asked, and how to read what it says."""

    prompt: bytes
    schema: bytes
    read: Callable[[bytes], object]
    """Raises `ValueError` where it has not the right form."""


class Verified(msgspec.Struct, frozen=True):
    """What an outside check is given."""

    request: str
    answer: str


class RoleDriver:
    """Carries out one role of one run."""

    def __init__(self, world: World, intake: Intake, task: str, stop: Stop) -> None:
        self._intake, self._policy, self._ledger = intake, intake.policy, world.ledger
        self._task, self._caller = task, Caller(world, intake, task, stop)
        self._hands = Hands(self._caller, ())

    async def drive(self) -> None:
        """Go on with the role until it has ended, or waits for somebody."""
        name, _, number = self._task.partition(".")
        if name == VERIFIER:
            await self._caller.drive(lambda: self._verify(int(number)))
        else:
            await self._caller.drive(lambda: self._play(Role(name[1:])))

    async def _play(self, role: Role) -> None:
        causes: tuple[Hash, ...] = (self._caller.allowed_by,)
        background: list[Quoted] = []
        if role is Role.COORDINATOR:
            request = await asyncio.to_thread(read_request, self._ledger, self._intake.run)
            asked = request.decode(errors="replace")
            background, causes = await self._hands.background(asked, causes)
        part = await asyncio.to_thread(self._part, role, background)
        prompt = opening("", part.prompt)
        ask = Ask(self._policy.roles[role], prompt, causes, role=role, schema=part.schema)
        said, exchange = await ask_formed(self._caller, Turns(1), ask, part.read)
        await end_formed(self._caller, said, exchange)

    def _part(self, role: Role, background: list[Quoted]) -> Question:
        policy, limit = self._policy, self._policy.input_bytes
        if role is Role.CLASSIFIER or not isinstance(self._intake, Case):
            whole = read_request(self._ledger, self._intake.run)
            request = Quoted("the request", whole[:limit], len(whole))
            if role is Role.CLASSIFIER:
                return Question(
                    classifier_prompt(request, policy.lanes),
                    classifier_schema(policy.lanes),
                    lambda said: read_choice(said, policy.lanes) or "none",
                )
            room = policy.room_of(policy.roles[role])
            return Question(
                coordinator_prompt(request, policy.lanes, background),
                coordinator_schema(policy.lanes, room),
                self._read_plan,
            )
        return self._closing_part(role, self._answering(self._intake))

    def _read_plan(self, said: bytes) -> Plan:
        """Read a plan that can be read again from the record, where secrets are masked."""
        plan = read_drafted_plan(said, self._policy)
        if self._ledger.mask.finds(write_plan(plan)):
            raise ValueError("it holds a secret")
        return plan

    def _answering(self, case: Case) -> Answering:
        # A stop that came meanwhile does not change what it was needed for: its call is closed.
        state = replace(read_run(self._ledger, case.run), stopped=None)
        return Answering(self._ledger, case, state)

    def _closing_part(self, role: Role, answering: Answering) -> Question:
        request, need = answering.request(), answering.need_of(self._task)
        words, room = need.answer.encode(), self._policy.room_of(self._policy.roles[role])
        answer = Quoted("the answer", words[: self._policy.input_bytes], len(words))
        match role:
            case Role.SYNTHESIZER:
                tasks = [result.task for result in answering.results()]
                return Question(
                    synthesizer_prompt(request, answering.quoted_results(), need.missing),
                    synthesizer_schema(tasks, room),
                    lambda said: read_parts(said, tasks),
                )
            case Role.INTENT:
                return Question(intent_prompt(request, answer), opinion_schema(), read_opinion)
            case Role.REVISER:
                return Question(
                    reviser_prompt(request, answer), reviser_schema(room), read_revision
                )
            case Role.CLASSIFIER | Role.COORDINATOR | Role.VALIDATOR:
                raise AssertionError(role)

    async def _verify(self, number: int) -> None:
        """Have the answer checked by a tool that has nothing to do with who wrote it."""
        case = self._intake
        assert isinstance(case, Case)  # noqa: S101  answers come after plans
        answering = await asyncio.to_thread(self._answering, case)
        need = await asyncio.to_thread(answering.need_of, self._task)
        whole = await asyncio.to_thread(read_request, self._ledger, case.run)
        given = Verified(whole.decode(errors="replace"), need.answer)
        use = Use(self._policy.verifiers[number - 1], msgspec.json.encode(given).decode())
        outcome, _ = await self._hands.check("check", use, (self._caller.allowed_by,))
        await end_checked(self._caller, outcome)
