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
from forum.engine.answer_assembly import AnswerAssembler, RoleNeed
from forum.engine.child_run_calls import ChildRunCaller
from forum.engine.prompt_fit import (
    NO_TEXT,
    PromptFitter,
    SourceText,
    asks_tokens,
    excerpt,
    read_request_source,
    source_of,
)
from forum.engine.signals import CancelToken
from forum.engine.structured_output import ask_structured, record_check_verdict, record_form_verdict
from forum.engine.tools import ToolRunner
from forum.ledger.kinds import Outcome
from forum.runs.answer_form import describe_faults
from forum.runs.judging import MAX_READ_BYTES
from forum.runs.kinds import VERIFIER
from forum.runs.plan import Plan, Task, write_plan
from forum.runs.policy import Role, ToolCall
from forum.runs.prompt import Prompt, Quotation, quote_whole
from forum.runs.roles import (
    classifier,
    coordinator,
    intent,
    prompt_parts,
    reviser,
    synthesizer,
)
from forum.runs.text_fit import estimate_tokens
from forum.tlog import Hash


@dataclass(frozen=True, slots=True)
class RoleQuestion:
    """The prompt for a role, and the function that parses its reply."""

    agent: str
    prompt: Prompt
    schema: bytes
    parse: Callable[[bytes], object]
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
        self._run_input, self._policy = run_input, run_input.policy
        self._ledger = services.ledger
        self._task, self._caller = task, model_calls.ModelCaller(services, run_input, task, stop)
        self._tools = ToolRunner(self._caller, ())

    async def drive(self) -> None:
        """Drive the role until it has ended or waits for a decision."""
        name, _, number = self._task.partition(".")
        async with self._caller.open_task() as goes_on:
            if not goes_on:
                return
            if name == VERIFIER:
                await self._run_verifier(int(number))
            else:
                await self._run_role(Role(name[1:]))

    async def _run_role(self, role: Role) -> None:
        turns = model_calls.StepNames(1)
        request = await asyncio.to_thread(read_request_source, self._ledger, self._run_input.run)
        judge = await self._find_judging_panel(role)
        if judge is not None:
            await self._ask_panel(turns, role, judge, request)
            return
        question, causes = await self._role_question(role, turns, request)
        spec = model_calls.CallSpec(
            agent=question.agent,
            prompt=question.prompt,
            causes=causes,
            role=role,
            schema=question.schema,
        )
        parsed, result = await ask_structured(self._caller, turns, spec, question.parse)
        await record_form_verdict(self._caller, parsed, result)

    async def _find_judging_panel(self, role: Role) -> RoleNeed | None:
        """Return what is to be judged if a panel plays the role, else None."""
        if self._policy.roles.get(role) not in self._policy.panels:
            return None
        answering = await asyncio.to_thread(self._answering, self._case)
        return await asyncio.to_thread(answering.need_of, self._task)

    @property
    def _case(self) -> context.RunContext:
        assert isinstance(self._run_input, context.RunContext)  # noqa: S101  answers follow plans
        return self._run_input

    async def _ask_panel(
        self, turns: model_calls.StepNames, role: Role, need: RoleNeed, request: SourceText
    ) -> None:
        """Have a panel judge the answer; its accord is recorded with its reply."""
        fitter = PromptFitter(self._caller, (self._caller.allowed_by,))
        shown, answer = await self._fit_answer(turns, fitter, request, need, agent=need.agent)
        prompt = intent.build_prompt(shown, answer, for_panel=True)
        children = ChildRunCaller(self._caller, self._case, Task(self._task, need.answer))
        decided = await children.ask_judge(turns, need.agent, role, prompt, causes=fitter.causes)
        is_usable = decided.call_result.replied.outcome is Outcome.OK
        await record_form_verdict(self._caller, is_usable or None, decided.call_result)

    async def _fit_answer(
        self,
        turns: model_calls.StepNames,
        fitter: PromptFitter,
        request: SourceText,
        need: RoleNeed,
        agent: str,
    ) -> tuple[Quotation, Quotation]:
        """Return the request and the answer so that they fit into the prompt of their judge."""
        words = need.answer.encode()
        fitted = await fitter.fit(
            turns,
            agent,
            request,
            [SourceText("the answer", words[:MAX_READ_BYTES], len(words))],
            purpose=need.answer,
            fixed=intent.build_prompt(NO_TEXT, NO_TEXT).text,
            reserved=self._repair_tokens(agent),
        )
        return fitted.request, fitted.texts[0]

    async def _role_question(
        self, role: Role, turns: model_calls.StepNames, request: SourceText
    ) -> tuple[RoleQuestion, tuple[Hash, ...]]:
        """Return the question to a role, and the causes that its first call has to name."""
        causes: tuple[Hash, ...] = (self._caller.allowed_by,)
        if role is Role.CLASSIFIER:
            return self._classifier_question(request), causes
        if role is Role.COORDINATOR:
            text = request.text.decode(errors="replace")
            background, causes = await self._tools.gather_context(text, causes)
            fitter = PromptFitter(self._caller, causes)
            question = await self._coordinator_question(turns, fitter, request, background)
            return question, fitter.causes
        answering = await asyncio.to_thread(self._answering, self._case)
        need = await asyncio.to_thread(answering.need_of, self._task)
        fitter = PromptFitter(self._caller, causes)
        question = await self._closing_question(
            role, turns, fitter, request, answering=answering, need=need
        )
        return question, fitter.causes

    def _classifier_question(self, request: SourceText) -> RoleQuestion:
        agent, lanes = self._policy.roles[Role.CLASSIFIER], self._policy.ranked_lanes()
        fixed = classifier.build_prompt(NO_TEXT, lanes)
        return RoleQuestion(
            agent=agent,
            prompt=classifier.build_prompt(self._excerpt(agent, request, "", fixed), lanes),
            schema=classifier.build_schema(lanes),
            parse=lambda reply: classifier.parse_choice(reply, lanes) or prompt_parts.NO_LANE,
        )

    async def _coordinator_question(
        self,
        turns: model_calls.StepNames,
        fitter: PromptFitter,
        request: SourceText,
        background: list[Quotation],
    ) -> RoleQuestion:
        agent, ordered = self._policy.roles[Role.COORDINATOR], self._run_input.ordered_lane
        room, text = self._policy.max_reply_chars(agent), request.text.decode(errors="replace")
        lanes = coordinator.offered_lanes(
            self._policy.ranked_lanes(), room, ordered, self._run_input.lane
        )
        decides = self._policy.can_decide
        fixed = coordinator.build_prompt(NO_TEXT, lanes, (), ordered, decides=decides)
        fitted = await fitter.fit(
            turns,
            agent,
            request,
            [source_of(quotation) for quotation in background],
            purpose=text,
            fixed=fixed.text,
            reserved=self._repair_tokens(agent),
        )
        return RoleQuestion(
            agent=agent,
            prompt=coordinator.build_prompt(
                fitted.request, lanes, fitted.texts, ordered, decides=decides
            ),
            schema=coordinator.build_schema(lanes, room, ordered, decides=decides),
            parse=_PlanParser(self, text).parse,
        )

    def _repair_tokens(self, agent: str) -> int:
        """Return the room that is kept for a repair: the reply and what is wrong with it."""
        return self._policy.prompt_tokens(agent) // 8

    def _excerpt(self, agent: str, request: SourceText, purpose: str, fixed: Prompt) -> Quotation:
        """Return the request as far as it fits into a prompt of this agent."""
        room = self._policy.prompt_tokens(agent) - estimate_tokens(fixed.text)
        return excerpt(request, purpose, room - self._repair_tokens(agent))

    def parse_plan(self, reply: bytes, request: str) -> Plan:
        """Parse a drafted plan.  Raises `ValueError` if it is unusable or contains a secret.

        Secrets are masked in the record, so another plan would be read from there.
        """
        plan = coordinator.parse_plan(reply, self._policy, self._run_input.ordered_lane, request)
        if self._ledger.mask.has_secret(write_plan(plan)):
            raise ValueError("it holds a secret")
        return plan

    def _answering(self, case: context.RunContext) -> AnswerAssembler:
        # Ignore a stop of the run: it would make the assembler need no role, but a role that has
        # begun still needs its question to close its open call.
        state = replace(context.read_run(self._ledger, case.run), stopped=None)
        return AnswerAssembler(self._ledger, case, state)

    async def _closing_question(
        self,
        role: Role,
        turns: model_calls.StepNames,
        fitter: PromptFitter,
        request: SourceText,
        answering: AnswerAssembler,
        need: RoleNeed,
    ) -> RoleQuestion:
        """Return the question to a role that works on the answer."""
        agent = need.agent or self._policy.roles[role]
        room = self._policy.max_reply_chars(agent)
        words = need.answer.encode()
        answer = SourceText("the answer", words[:MAX_READ_BYTES], len(words))
        match role:
            case Role.SYNTHESIZER:
                return await self._synthesizer_question(
                    agent, turns, fitter, request, answering=answering, need=need
                )
            case Role.INTENT:
                shown, judged = await self._fit_answer(turns, fitter, request, need, agent=agent)
                return RoleQuestion(
                    agent=agent,
                    prompt=intent.build_prompt(shown, judged),
                    schema=intent.build_schema(room),
                    parse=intent.parse_opinion,
                )
            case Role.REVISER:
                fixed = reviser.build_prompt(NO_TEXT, answer.quote())
                shown = self._excerpt(agent, request, need.answer, fixed)
                return RoleQuestion(
                    agent=agent,
                    prompt=reviser.build_prompt(shown, answer.quote()),
                    schema=reviser.build_schema(room),
                    parse=reviser.parse_revision,
                )
            case Role.CLASSIFIER | Role.COORDINATOR | Role.VALIDATOR | Role.SUMMARIZER:
                raise AssertionError(role)

    async def _synthesizer_question(
        self,
        agent: str,
        turns: model_calls.StepNames,
        fitter: PromptFitter,
        request: SourceText,
        answering: AnswerAssembler,
        need: RoleNeed,
    ) -> RoleQuestion:
        if need.is_correction:
            return self._correction_question(agent, request, need)
        texts, absent = await asyncio.to_thread(answering.synthesis_sources)
        missing = "\n".join(part for part in (need.missing, describe_faults(need.faults)) if part)
        fixed = synthesizer.build_prompt(NO_TEXT, (), absent=absent, missing=missing)
        asks, limit = request.text.decode(errors="replace"), None
        if self._policy.shows_excerpts:
            # The results carry the material: of a long request, what the tasks ask for is enough.
            asks = "\n".join(task.instruction for task in self._case.plan.tasks)
            limit = asks_tokens(request)
        fitted = await fitter.fit(
            turns,
            agent,
            request,
            texts,
            purpose=f"{asks}\n{missing}",
            fixed=fixed.text,
            reserved=self._repair_tokens(agent),
            request_tokens=limit,
        )
        tasks = [text.source.removeprefix("task ") for text in texts]
        longest = max((len(text.text.decode(errors="replace")) for text in texts), default=0)
        return RoleQuestion(
            agent=agent,
            prompt=synthesizer.build_prompt(
                fitted.request, fitted.texts, absent=absent, missing=missing
            ),
            schema=synthesizer.build_schema(
                tasks,
                self._policy.max_reply_chars(agent),
                longest if self._policy.checks_coverage else 0,
            ),
            parse=lambda reply: synthesizer.parse_parts(reply, tasks),
        )

    def _correction_question(self, agent: str, request: SourceText, need: RoleNeed) -> RoleQuestion:
        assert isinstance(self._run_input, context.RunContext)  # noqa: S101  answers follow plans
        lane = self._policy.lanes.get(self._run_input.plan.tasks[0].lane)
        prompt = synthesizer.build_correction(
            lane.instructions if lane else "",
            request.text,
            quote_whole("the answer", need.answer),
            faults=need.faults,
            missing=need.missing,
            room=self._policy.max_reply_chars(agent),
        )
        return RoleQuestion(agent, prompt, b"", synthesizer.parse_correction)

    async def _run_verifier(self, number: int) -> None:
        """Check the answer with an external tool, independent of the agents that wrote it."""
        case = self._case
        answering = await asyncio.to_thread(self._answering, case)
        need = await asyncio.to_thread(answering.need_of, self._task)
        whole = await asyncio.to_thread(context.read_request, self._ledger, case.run)
        arguments = VerifierInput(whole.decode(errors="replace"), need.answer)
        use = ToolCall(self._policy.verifiers[number - 1], msgspec.json.encode(arguments).decode())
        outcome, _ = await self._tools.run_check("check", use, (self._caller.allowed_by,))
        await record_check_verdict(self._caller, outcome)


class _PlanParser:
    """Parses the plans of one Coordinator, and asks once for a revision of a plan with holes.

    A plan that covers most is better than none, and the check of the answer finds what is missing.
    So a second plan is taken with its holes, and if it is unusable, the first one is.
    """

    def __init__(self, driver: RoleDriver, request: str) -> None:
        self._driver, self._request = driver, request
        self._first: Plan | None = None
        self._is_first = True

    def parse(self, reply: bytes) -> Plan:
        """Return the plan.  Raises `ValueError` if it is unusable, or the first one and has holes.

        A crash does not reset this: the recorded replies are parsed again in their order.
        """
        is_first, self._is_first = self._is_first, False
        try:
            plan = self._driver.parse_plan(reply, self._request)
        except ValueError:
            if self._first is None:
                raise
            return self._first
        holes = coordinator.find_holes(reply, self._request) if is_first else ()
        if holes:
            self._first = plan
            raise ValueError("the plan has holes: " + "; ".join(holes))
        return plan
