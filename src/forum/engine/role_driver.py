"""Drive one role of a run: one question to one agent, in a strand of its own.

A reply counts only if code can read it in the required form.  A malformed reply is returned to the
agent with its fault, at most `MAX_REPAIRS` times.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from forum.engine import context, model_calls
from forum.engine.answer_assembly import AnswerAssembler
from forum.engine.signals import CancelToken
from forum.engine.structured_output import ask_structured, record_check_verdict, record_form_verdict
from forum.engine.tools import ToolRunner
from forum.tlog import Hash
from forum.work import role_prompts
from forum.work.kinds import VERIFIER
from forum.work.plan import Plan, write_plan
from forum.work.policy import Role, ToolCall
from forum.work.prompt import Quotation, build_prompt


@dataclass(frozen=True, slots=True)
class RoleQuestion:
    """The prompt for a role, and the function that reads its reply."""

    prompt: bytes
    schema: bytes
    read: Callable[[bytes], object]
    """Parses the reply.  Raises `ValueError` if it is malformed."""


class VerifierInput(msgspec.Struct, frozen=True):
    """The arguments of an external verifier of the answer."""

    request: str
    answer: str


class RoleDriver:
    """Drives one role, or one external verifier, of one run."""

    def __init__(
        self,
        services: model_calls.Services,
        run_input: context.RunInput,
        task: str,
        stop: CancelToken,
    ) -> None:
        self._run_input, self._policy, self._ledger = run_input, run_input.policy, services.ledger
        self._task, self._caller = task, model_calls.ModelCaller(services, run_input, task, stop)
        self._tools = ToolRunner(self._caller, ())

    async def drive(self) -> None:
        """Drive the role until it has ended or waits for a decision."""
        name, _, number = self._task.partition(".")
        if name == VERIFIER:
            await self._caller.drive(lambda: self._run_verifier(int(number)))
        else:
            await self._caller.drive(lambda: self._run_role(Role(name[1:])))

    async def _run_role(self, role: Role) -> None:
        causes: tuple[Hash, ...] = (self._caller.allowed_by,)
        background: list[Quotation] = []
        if role is Role.COORDINATOR:
            request = await asyncio.to_thread(
                context.read_request, self._ledger, self._run_input.run
            )
            asked = request.decode(errors="replace")
            background, causes = await self._tools.gather_context(asked, causes)
        part = await asyncio.to_thread(self._role_question, role, background)
        prompt = build_prompt("", part.prompt)
        ask = model_calls.CallSpec(
            self._policy.roles[role], prompt, causes, role=role, schema=part.schema
        )
        said, exchange = await ask_structured(
            self._caller, model_calls.StepNames(1), ask, part.read
        )
        await record_form_verdict(self._caller, said, exchange)

    def _role_question(self, role: Role, background: list[Quotation]) -> RoleQuestion:
        policy, limit = self._policy, self._policy.input_bytes
        if role is Role.CLASSIFIER or not isinstance(self._run_input, context.RunContext):
            whole = context.read_request(self._ledger, self._run_input.run)
            request = Quotation("the request", whole[:limit], len(whole))
            if role is Role.CLASSIFIER:
                return RoleQuestion(
                    role_prompts.classifier_prompt(request, policy.lanes),
                    role_prompts.classifier_schema(policy.lanes),
                    lambda said: role_prompts.read_lane_choice(said, policy.lanes) or "none",
                )
            room = policy.max_reply_chars(policy.roles[role])
            return RoleQuestion(
                role_prompts.coordinator_prompt(request, policy.lanes, background),
                role_prompts.coordinator_schema(policy.lanes, room),
                self._read_plan,
            )
        return self._closing_question(role, self._answering(self._run_input))

    def _read_plan(self, said: bytes) -> Plan:
        """Read a drafted plan.  Raises `ValueError` if it contains a secret.

        Secrets are masked in the record, so another plan would be read from there.
        """
        plan = role_prompts.read_drafted_plan(said, self._policy)
        if self._ledger.mask.has_secret(write_plan(plan)):
            raise ValueError("it holds a secret")
        return plan

    def _answering(self, case: context.RunContext) -> AnswerAssembler:
        # Ignore a stop of the run: it would make the assembler need no role, but a role that has
        # begun still needs its question to close its open call.
        state = replace(context.read_run(self._ledger, case.run), stopped=None)
        return AnswerAssembler(self._ledger, case, state)

    def _closing_question(self, role: Role, answering: AnswerAssembler) -> RoleQuestion:
        request, need = answering.request(), answering.need_of(self._task)
        words, room = need.answer.encode(), self._policy.max_reply_chars(self._policy.roles[role])
        answer = Quotation("the answer", words[: self._policy.input_bytes], len(words))
        match role:
            case Role.SYNTHESIZER:
                tasks = [result.task for result in answering.results()]
                return RoleQuestion(
                    role_prompts.synthesizer_prompt(
                        request, answering.quoted_results(), need.missing
                    ),
                    role_prompts.synthesizer_schema(tasks, room),
                    lambda said: role_prompts.read_parts(said, tasks),
                )
            case Role.INTENT:
                return RoleQuestion(
                    role_prompts.intent_prompt(request, answer),
                    role_prompts.opinion_schema(),
                    role_prompts.read_opinion,
                )
            case Role.REVISER:
                return RoleQuestion(
                    role_prompts.reviser_prompt(request, answer),
                    role_prompts.reviser_schema(room),
                    role_prompts.read_revision,
                )
            case Role.CLASSIFIER | Role.COORDINATOR | Role.VALIDATOR:
                raise AssertionError(role)

    async def _run_verifier(self, number: int) -> None:
        """Check the answer with an external tool, independent of the agents that wrote it."""
        case = self._run_input
        assert isinstance(case, context.RunContext)  # noqa: S101  answers come after plans
        answering = await asyncio.to_thread(self._answering, case)
        need = await asyncio.to_thread(answering.need_of, self._task)
        whole = await asyncio.to_thread(context.read_request, self._ledger, case.run)
        given = VerifierInput(whole.decode(errors="replace"), need.answer)
        use = ToolCall(self._policy.verifiers[number - 1], msgspec.json.encode(given).decode())
        outcome, _ = await self._tools.run_check("check", use, (self._caller.allowed_by,))
        await record_check_verdict(self._caller, outcome)
