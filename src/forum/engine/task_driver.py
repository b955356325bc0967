"""Drive one task: attempts, calls, effects and verdicts, each recorded before the next begins.

After a crash the driver runs the same steps again.  A step that is recorded in the task's strand is
read from there and not repeated.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import msgspec

from forum.engine import child_runs, context, model_calls
from forum.engine.child_run_calls import ChildCall, ChildRunCaller
from forum.engine.conversation import Conversation
from forum.engine.gates import Decision, pass_gate
from forum.engine.ports import TaskHalted
from forum.engine.prompt_fit import (
    NO_TEXT,
    QUOTE_TOKENS,
    PromptFitter,
    SourceText,
    excerpt,
    read_findings_source,
    read_request_source,
    source_of,
    task_request_tokens,
)
from forum.engine.signals import CancelToken
from forum.engine.structured_output import independence, judge_independently
from forum.engine.tools import DIGEST_TOOL, ToolRunner, receipts_of
from forum.ledger.body import BytesContent
from forum.ledger.kinds import Outcome
from forum.ledger.log import read_strand_entries
from forum.ledger.strand import Attachment, Draft
from forum.runs import acceptance_criteria, call_rules, kinds
from forum.runs.asks import is_question_list
from forum.runs.claims import ActionClaim, count_unverified
from forum.runs.judging import (
    MARKS,
    MAX_READ_BYTES,
    NOT_ACCEPTED,
    Judgement,
    judge_accord,
    judge_output,
    judge_tool_result,
)
from forum.runs.panel import Panel
from forum.runs.policy import DISSENT_GATE, Answer, Role, ToolCall
from forum.runs.prompt import (
    Prompt,
    Quotation,
    build_prompt,
    quote,
    quote_whole,
    task_prompt,
)
from forum.runs.roles import prompt_parts, validator, worker
from forum.runs.run_fold import fold
from forum.runs.text_fit import estimate_tokens
from forum.tlog import Hash

_SHORT_OUTPUT_BYTES = 10_000
"""Outputs shorter than this are scanned for claims on the event loop, longer ones in a thread."""


@dataclass(frozen=True, slots=True)
class AttributedJudgement:
    """A judgement and, if a model made it, which agent that was and how independent it is."""

    judgement: Judgement
    judge: str = ""
    independence: kinds.Independence = kinds.Independence.NONE
    feedback: str = ""
    """Why the result was rejected; it is added to the prompt of the next attempt."""


def _keep_prompt(prompt: Prompt, _why: str) -> Prompt:
    """Return a first prompt as it is: it shows the whole request, and has room."""
    return prompt


class TaskDriver:
    """Drives one task of one run."""

    def __init__(
        self, services: model_calls.Services, case: context.RunContext, task: str, stop: CancelToken
    ) -> None:
        self._case, self._task = case, case.plan.by_id[task]
        self._caller = model_calls.ModelCaller(services, case, task, stop)
        self._policy = self._caller.policy
        self._ledger, self._reply_source = services.ledger, self._caller.reply_source
        self._find_in_text = services.find_claims
        self._tools = ToolRunner(self._caller, case.policy.tools_of(self._task), self._task.lane)
        self._agent = case.policy.worker_of(self._task)
        self._rungs = self._policy.rungs_of(self._task)
        self._children = ChildRunCaller(self._caller, case, self._task)
        self._is_unframed = False
        """Whether the prompt has no frame of a team around the words of the task."""
        self._request_tokens: int | None = None
        """How much of the request the task and its judge are shown; None: as much as fits."""
        self._purpose = ""
        """What decides which parts of the request those are."""
        self._rejections: list[str] = []
        """What was said against each attempt so far, for a person who decides about a dissent."""
        # Of the smallest context that the task may come to: an escalation sends the same prompt.
        self._prompt_tokens = min(self._policy.prompt_tokens(name) for name in self._rungs)

    async def drive(self) -> None:
        """Drive the task until it has ended or waits for a decision or a child run."""
        async with self._caller.open_task() as goes_on:
            if goes_on:
                await self._run_attempts()

    async def _run_attempts(self) -> None:
        instruction, cause = await self._approved_instruction()
        upstream = _UpstreamInputs([], [])
        if self._task.upstream:
            upstream = await asyncio.to_thread(self._read_upstream)
        causes = await context.join_causes(self._caller.strand, [cause, *upstream.causes])
        background, causes = await self._tools.gather_context(instruction, causes)
        self._fitter, turns = PromptFitter(self._caller, causes), model_calls.StepNames(1)
        prompt = await self._first_prompt(turns, instruction, background, upstream.inputs)
        if self._task.tasks:
            await self._run_inner_plan(turns, instruction, prompt)
            return
        while True:
            verdict, prompt = await self._run_attempt(turns, instruction, prompt)
            if verdict.next in (kinds.Next.ACCEPT, kinds.Next.GIVE_UP):
                return
            turns = model_calls.StepNames(turns.attempt + 1)

    async def _first_prompt(
        self,
        turns: model_calls.StepNames,
        instruction: str,
        background: list[Quotation],
        inputs: list[SourceText],
    ) -> Prompt:
        """Return the prompt of the first attempt, and keep the inputs for the judge.

        A task of a team sees the request, the plan and its inputs, fitted to its model. Other tasks
        see what their author wrote: the instruction and the inputs. So does the only task of a team
        whose instruction is the request, and a task for one question of it, if that fits.
        """
        if not self._policy.is_team:
            self._inputs = [*background, *(text.quote() for text in inputs)]
            return self._plain_prompt(instruction, self._inputs)
        self._purpose, request = instruction, await self._read_request()
        tasks = len(self._case.plan.tasks)
        if tasks > 1 and self._policy.shows_excerpts:
            # In a thread: a request may have a megabyte.
            self._request_tokens = await asyncio.to_thread(
                task_request_tokens, request, instruction, tasks
            )
        is_request = instruction.strip().encode() == request.text.strip()
        if self._has_words_of_request(request, is_request=is_request):
            # The task is the request, or a part of it in its words: a small model answers the plain
            # words better than a frame around them, and no worse than alone.
            quoted = [*background, *(text.quote() for text in inputs)]
            plain = self._plain_prompt(instruction, quoted)
            if self._free_tokens(plain) > self._prompt_tokens // 4:
                self._inputs, self._is_excerpt = quoted, False
                self._is_unframed = True
                self._fit_again = partial(_keep_prompt, plain)
                return plain
        shown = "Answer the request." if is_request else instruction
        tools = [worker.ToolName(offer.name, offer.description) for offer in self._tools.offers()]

        def build(request: Quotation, texts: Sequence[Quotation]) -> Prompt:
            split = len(background)
            material = worker.TaskMaterial(
                request=request,
                background=texts[:split],
                inputs=texts[split:],
                outline_chars=max(
                    20, min(200, self._prompt_tokens // 3 // len(self._case.plan.tasks))
                ),
                is_shared=self._request_tokens is None,
            )
            return worker.build_prompt(
                self._task,
                shown,
                self._case.plan,
                material,
                lane_instructions=self._lane_instructions,
                tools=tools,
            )

        texts = [*(source_of(quotation) for quotation in background), *inputs]
        fitted = await self._fitter.fit(
            turns,
            self._agent,
            request,
            texts,
            purpose=instruction,
            fixed=build(NO_TEXT, ()).text,
            # Outcomes of tools are added to this prompt, which must still fit then.
            reserved=(self._prompt_tokens // 4 if tools else 0)
            + self._policy.prompt_tokens(self._agent)
            - self._prompt_tokens,
            request_tokens=self._request_tokens,
        )
        self._inputs = list(fitted.texts)
        self._is_excerpt = bool(fitted.request.note)
        self._fit_again = partial(self._fit_request, request, instruction, fitted.texts, build)
        return build(fitted.request, fitted.texts)

    def _has_words_of_request(self, request: SourceText, *, is_request: bool) -> bool:
        tasks = self._case.plan.tasks
        if len(tasks) == 1 or not self._policy.splits_questions:
            return is_request and len(tasks) == 1
        return is_question_list(
            (task.instruction for task in tasks), request.text.decode(errors="replace")
        )

    def _fit_request(
        self,
        request: SourceText,
        instruction: str,
        texts: Sequence[Quotation],
        build: Callable[[Quotation, Sequence[Quotation]], Prompt],
        why: str,
    ) -> Prompt:
        """Return the first prompt with what a rejection makes relevant, and room for it.

        A task that sees a part of the request sees another part once, and then all that fits.
        """
        room = self._prompt_tokens * 7 // 8 - QUOTE_TOKENS
        room -= estimate_tokens(build(NO_TEXT, texts).text)
        if self._purpose != instruction:
            self._request_tokens = None
        self._purpose, limit = f"{instruction}\n{why}", self._request_tokens
        room, by_section = (room, False) if limit is None else (min(room, limit), True)
        return build(excerpt(request, self._purpose, room, by_section=by_section), texts)

    @cached_property
    def _request(self) -> SourceText:
        return read_request_source(self._ledger, self._case.run)

    async def _read_request(self) -> SourceText:
        """Return the request; read once, although each judge needs it."""
        return await asyncio.to_thread(lambda: self._request)

    async def _approved_instruction(self) -> tuple[str, Hash]:
        """Return the approved instruction, and the entry that allows it.

        Raises `TaskSuspended` while a decision is pending, and `TaskHalted` after a rejection.
        """
        case, subject = self._case, f"task/{self._task.id}"
        if not self._is_guarded(subject):
            return self._task.instruction, case.plan_entry
        shown = self._task.instruction.encode()
        gated = self._policy.with_gate_rules(()).is_gated(self._task)
        # Where an operator's rule requires approval, a missing decision counts as a rejection,
        # whatever default the run's own policy sets for its gates.
        ruled = not gated or any(r.holds_for_task(self._task.lane) for r in self._policy.gate_rules)
        policy = self._policy.with_reject_default() if ruled else self._policy
        decision = await pass_gate(self._ledger, case.run, subject, shown, policy, case.plan_entry)
        if decision is None:
            raise model_calls.TaskSuspended
        self._caller.allowed_by = decision.entry
        if decision.answer is Answer.REJECT:
            raise TaskHalted(kinds.StopFacts(kinds.StopReason.REJECTED, by=self._task.id))
        return decision.shown.decode(), decision.entry

    def _is_guarded(self, subject: str) -> bool:
        reply_source = self._reply_source
        return self._policy.is_gated(self._task) or (
            reply_source is not None and reply_source.has_gate(subject)
        )

    async def _run_attempt(
        self, turns: model_calls.StepNames, instruction: str, first: Prompt
    ) -> tuple[kinds.VerdictFacts, Prompt]:
        """Make one attempt; return its verdict, and the prompt of the next attempt."""
        verdicts = self._caller.progress.advance(call_rules.AttemptBegun()).verdicts
        level = call_rules.escalation_level(verdicts)
        if (panel := self._policy.panel_of(self._task, level)) is not None:
            return await self._run_panel(turns, instruction, first, panel, level=level)
        agent = self._rungs[level]
        result, outcomes = await self._call_with_tools(turns, agent, instruction, first)
        opined, result = await self._judge_result(
            turns, agent, instruction, result, outcomes=outcomes
        )
        verdict = await self._record_verdict(turns.attempt, result, opined)
        why = (opined.feedback or verdict.reason)[:_MAX_SHOWN_CHARS]
        self._rejections.append(f"The result of {agent or 'the agent'} was not accepted: {why}")
        if result.replied.outcome is not Outcome.OK or not opined.feedback:
            return verdict, first
        if verdict.reason == MARKS:
            # A small model has just repeated the frame of a team.
            self._is_unframed = True
            return verdict, self._plain_prompt(instruction, self._inputs)
        own = result.quote_output(self._policy.read_bytes)
        return verdict, self._rejected_prompt(first, own, instruction, opined)

    def _plain_prompt(self, instruction: str, quoted: Sequence[Quotation]) -> Prompt:
        """Return a prompt without the frame of a team."""
        text = task_prompt(instruction, self._task.done_when, quoted)
        return build_prompt(self._lane_instructions, text)

    @property
    def _lane_instructions(self) -> str:
        lane = self._policy.lanes.get(self._task.lane)
        return lane.instructions if lane else ""

    async def _call_with_tools(
        self, turns: model_calls.StepNames, agent: str, instruction: str, prompt: Prompt
    ) -> tuple[model_calls.CallResult, list[Quotation]]:
        """Call the agent until it requests no more tools; return its result and their outcomes."""
        question, offers = b"", self._tools.offers()
        outcomes, first = list[Quotation](), prompt
        conversation = Conversation(
            self._caller, self._fitter, agent=agent, purpose=instruction, first=first, offers=offers
        )
        # A required output schema would leave the agent no way to ask for tools.
        schema = b"" if offers else acceptance_criteria.result_schema(self._task.done_when)
        while True:
            spec = model_calls.CallSpec(
                agent=agent,
                prompt=prompt,
                causes=self._fitter.causes,
                question=question,
                schema=schema,
                offers=offers,
            )
            result = await self._caller.make_call(turns, spec)
            step = turns.last_call
            self._fitter.causes = ()
            if result.replied.outcome is not Outcome.OK or not result.uses:
                return result, outcomes
            # Record the reply before its tools are used: after a crash, the worker that takes over
            # finds the same tool calls in it, with their recorded intents.
            await self._caller.record_reply(result)
            results = [
                await self._tools.use_tool(turns, use, self._agent or context.ENGINE)
                for use in result.uses
            ]
            outcomes += results
            question = b"".join(quote(quotation) for quotation in results)
            own = result.quote_output(self._policy.read_bytes)
            # What is too much together is left out of the conversation, and not cut to nothing.
            free = self._free_tokens(first if self._policy.compacts else prompt)
            own = self._shorten(own, instruction, free // 4)
            share = free // (len(results) + 1)
            shown = [self._shorten(quotation, instruction, share) for quotation in results]
            conversation.add(f"{step}/reply", own, result.uses, shown)
            prompt = await conversation.next_prompt(turns)

    def _rejected_prompt(
        self, prompt: Prompt, own: Quotation, purpose: str, opined: AttributedJudgement
    ) -> Prompt:
        """Return the prompt of the next attempt: the reason is kept, of the result what fits.

        A judge may refer to a part of the request that the author was not shown. So a request that
        is not shown whole, or leaves no room, is fitted again. A prompt without a frame goes on
        without one, because small models repeat frames.
        """
        why = opined.feedback
        if not self._policy.is_team:
            return prompt.with_rejection(own, why)
        is_crowded = self._free_tokens(prompt) < self._prompt_tokens // 8
        if is_crowded or self._is_excerpt:
            prompt = self._fit_again(why)
        free = self._free_tokens(prompt) - estimate_tokens(why.encode())
        own = self._shorten(own, purpose, free)
        if self._is_unframed:
            return prompt.with_plain_rejection(own, why, is_quoted=bool(opined.judge))
        return prompt.with_rejection(own, why)

    def _free_tokens(self, prompt: Prompt) -> int:
        """Return how many tokens can be added to a prompt of this task."""
        used = estimate_tokens(prompt.text)
        return max(0, self._prompt_tokens - used)

    def _shorten(self, quotation: Quotation, purpose: str, max_tokens: int) -> Quotation:
        """Return a text that was just produced, shortened so that the prompt can take it.

        No text takes more than a quarter of the prompt: others follow it.
        """
        if not self._policy.is_team:
            return quotation
        share = self._prompt_tokens // 4
        return excerpt(source_of(quotation), purpose, min(share, max_tokens - QUOTE_TOKENS))

    async def _judge_result(
        self,
        turns: model_calls.StepNames,
        agent: str,
        instruction: str,
        result: model_calls.CallResult,
        outcomes: list[Quotation],
        *,
        asks_model: bool = True,
    ) -> tuple[AttributedJudgement, model_calls.CallResult]:
        """Judge a result by code, then by tools, then by a model for criteria that need one.

        Return the judgement, and the call with its reply, which is recorded by then if a tool or a
        model was asked.
        """
        outcome, demands = (
            result.replied.outcome,
            acceptance_criteria.parse_criteria(self._task.done_when),
        )
        judgement = await self._judge_by_code(outcome, result.output)
        checks = [demand for demand in demands if demand.check in acceptance_criteria.TOOL_CHECKS]
        words = [
            demand.what for demand in demands if demand.check is acceptance_criteria.Check.MODEL
        ]
        needs_model = asks_model and (bool(words) or not demands)
        judge = self._policy.judge_of(Role.VALIDATOR, [agent]) if needs_model else None
        if judgement.passed and (checks or judge is not None):
            # Checks record entries of their own, and the reply must precede them in the strand.
            # Without checks the reply waits for the verdict, which saves a commit.
            await self._caller.record_reply(result)
            result = replace(result, unrecorded=())
        for number, demand in enumerate(checks, 1):
            if judgement.passed:
                judgement = await self._check_by_tool(turns, number, demand, result)
        if not judgement.passed or judge is None:
            return AttributedJudgement(judgement, feedback=self._explain(judgement)), result
        prompt = await self._judge_prompt(
            turns, judge, instruction, words, call_result=result, outcomes=outcomes
        )
        if judge in self._policy.panels:
            decided = await self._children.ask_judge(turns, judge, Role.VALIDATOR, prompt)
            await self._caller.record_reply(decided.call_result)
            judgement, feedback = decided.judgement, decided.why
            model = decided.call_result.model
        else:
            verdict = await judge_independently(self._caller, turns, judge, prompt)
            passed, feedback = verdict.opinion.passed, verdict.opinion.feedback
            judgement = Judgement(
                passed=passed,
                check=acceptance_criteria.Check.MODEL,
                reason="" if passed else NOT_ACCEPTED,
            )
            model = verdict.model
        opined = AttributedJudgement(
            judgement=judgement,
            judge=judge,
            independence=independence(model, result.model),
            feedback="" if judgement.passed else feedback,
        )
        return opined, result

    def _explain(self, judgement: Judgement) -> str:
        """Return what the author of a result is told that a check by code or a tool rejected."""
        if judgement.passed or not self._policy.is_team:
            return ""
        demanded = f" The criteria are:\n{self._task.done_when}" if self._task.done_when else ""
        return f"The check {judgement.check.value!r} failed: {judgement.reason}.{demanded}"

    async def _judge_prompt(
        self,
        turns: model_calls.StepNames,
        judge: str,
        instruction: str,
        criteria: list[str],
        call_result: model_calls.CallResult,
        outcomes: list[Quotation],
    ) -> Prompt:
        """Return the prompt for the judge of a result, fitted to the judge's model."""
        task = quote_whole("the instruction", instruction)
        listed = prompt_parts.quote_text("criteria", "\n".join(criteria))
        sources = [*map(source_of, (*self._inputs, *_join_outcomes(outcomes)))]
        sources.append(
            SourceText("the result", call_result.output[:MAX_READ_BYTES], call_result.size)
        )
        split = len(self._inputs)
        # The judge of a task that sees a part of the request is shown that part: the words of the
        # result do not lead to what its author has left out.
        limit, purpose = self._request_tokens, self._purpose
        if limit is None:
            purpose = f"{instruction}\n{call_result.output[:4000].decode(errors='replace')}"

        def build(request: Quotation, texts: Sequence[Quotation]) -> Prompt:
            *before, result = texts
            return validator.build_prompt(
                request,
                task,
                listed,
                inputs=before[:split],
                outcomes=before[split:],
                result=result,
                for_panel=judge in self._policy.panels,
                is_shared=limit is None and len(self._case.plan.tasks) > 1,
            )

        fitted = await self._fitter.fit(
            turns,
            judge,
            await self._read_request(),
            sources,
            purpose=purpose,
            fixed=build(NO_TEXT, [NO_TEXT]).text,
            request_tokens=limit,
        )
        return build(fitted.request, fitted.texts)

    async def _judge_by_code(self, outcome: Outcome, output: bytes) -> Judgement:
        """Judge by code, in a thread: many criteria may take a second and block the event loop."""
        demanded = self._task.done_when
        judge = partial(
            judge_output, demanded, outcome, output, refuses_marks=self._policy.refuses_marks
        )
        return await asyncio.to_thread(judge) if demanded else judge()

    async def _check_by_tool(
        self,
        turns: model_calls.StepNames,
        number: int,
        demand: acceptance_criteria.Criterion,
        result: model_calls.CallResult,
    ) -> Judgement:
        """Check one criterion with a tool that is given the result."""
        step = f"attempt/{turns.attempt}/check/{number}"
        if demand.check is acceptance_criteria.Check.FILE:
            use = ToolCall(DIGEST_TOOL, acceptance_criteria.parse_file_criterion(demand.what)[0])
        else:
            use = ToolCall(demand.what, result.output.decode(errors="replace"))
        outcome, output = await self._tools.run_check(step, use)
        return judge_tool_result(demand, outcome, output)

    async def _record_verdict(  # noqa: PLR0913  the last four have a default
        self,
        number: int,
        result: model_calls.CallResult,
        opined: AttributedJudgement,
        *,
        final: bool = False,
        rungs: tuple[str, ...] = (),
        overruled: str = "",
        causes: tuple[Hash, ...] = (),
    ) -> kinds.VerdictFacts:
        """Record the verdict on an attempt, and wait before the next if it says so.

        `overruled` is what a person has accepted although the panel did not agree; `causes` has
        the decision.
        """
        step = f"attempt/{number}/verdict"
        recorded = self._caller.strand.replay_step(step)
        state = self._caller.progress.advance(
            call_rules.AttemptJudged(
                opined.judgement,
                result.replied.outcome,
                self._agent,
                final=final,
                rungs=rungs,
                recorded=recorded.entry.facts if recorded else None,
            )
        )
        if recorded is None:
            verdict = state.verdicts[-1]
            if verdict.next is kinds.Next.ACCEPT:
                verdict = msgspec.structs.replace(verdict, reason=overruled)
            draft = await self._verdict_draft(step, result, opined, verdict)
            draft = msgspec.structs.replace(draft, parents=causes)
            recorded = (await self._caller.append_with_retry(*result.unrecorded, draft))[-1]
        judged: kinds.VerdictFacts = recorded.entry.facts
        # Counted from the recorded time, so that a restart does not begin the pause again.
        await self._caller.wait_before_retry(recorded.entry.ts, 1000 * judged.pause)
        return judged

    async def _verdict_draft(
        self,
        step: str,
        result: model_calls.CallResult,
        opined: AttributedJudgement,
        verdict: kinds.VerdictFacts,
    ) -> Draft:
        claims = await self._find_claims(result.output)
        verdict = msgspec.structs.replace(
            verdict,
            judge=opined.judge,
            independence=opined.independence,
            claims=len(claims),
            unverified=count_unverified(claims),
        )
        bodies: tuple[Attachment, ...] = ()
        if claims:
            listed = BytesContent(msgspec.json.encode(claims))
            bodies = (Attachment("claims", listed, "application/json"),)
        # In the commit of the verdict: a crash after it cannot lose the wake-up of the run.
        ends = verdict.next in (kinds.Next.ACCEPT, kinds.Next.GIVE_UP)
        effects = self._caller.wake_run_effects() if ends else ()
        return Draft(
            step=step,
            actor=context.ENGINE,
            facts=verdict,
            parents=(),
            bodies=bodies,
            effects=effects,
        )

    async def _find_claims(self, output: bytes) -> tuple[ActionClaim, ...]:
        """Return the actions that a result claims, with this task's effects that prove them."""
        if len(output) < _SHORT_OUTPUT_BYTES and not self._find_in_text(output, ()):
            return ()
        return await asyncio.to_thread(self._find_backed_claims, output)

    def _find_backed_claims(self, output: bytes) -> tuple[ActionClaim, ...]:
        task = fold(
            read_strand_entries(self._ledger, self._case.run, kinds.task_strand(self._task.id))
        )
        return self._find_in_text(output, receipts_of(self._ledger, task))

    async def _run_inner_plan(
        self, turns: model_calls.StepNames, instruction: str, prompt: Prompt
    ) -> None:
        """Carry out the task's own plan in a child run, and judge the child's answer, once."""
        result, _ = await self._call_child_run(turns, prompt, None)
        opined, result = await self._judge_result(
            turns, self._agent, instruction, result, outcomes=[]
        )
        await self._record_verdict(1, result, opined, final=True)

    async def _run_panel(
        self,
        turns: model_calls.StepNames,
        instruction: str,
        first: Prompt,
        panel: Panel,
        level: int,
    ) -> tuple[kinds.VerdictFacts, Prompt]:
        """Have a panel make one attempt; return its verdict, and the prompt of the next attempt.

        Its answer is accepted only if the seats agree as far as they have to. Otherwise the next
        panel of the ladder is asked, or a person if the policy has a gate for that.
        """
        result, findings = await self._call_child_run(turns, first, panel)
        decision, judgement = None, Judgement(passed=True, check=acceptance_criteria.Check.OUTCOME)
        if self._policy.counts_accord and result.replied.outcome is Outcome.OK:
            accord = findings.facts.accord if findings else None
            judgement = judge_accord(accord, panel.require)
            if findings and not judgement.passed and level + 1 == len(self._rungs):
                result, decision = await self._decide_dissent(result, findings)
            if decision is not None and decision.answer is Answer.APPROVE:
                judgement = msgspec.structs.replace(judgement, passed=True)
        why = f"The panel did not agree as far as it has to: {judgement.reason}."
        opined = AttributedJudgement(judgement, feedback=why)
        if judgement.passed:
            shown = [_quote_findings(self._task.id, findings)] if findings else []
            # On the ladder, the panel decides what the judge has rejected before.
            opined, result = await self._judge_result(
                turns, self._agent, instruction, result, outcomes=shown, asks_model=level == 0
            )
        verdict = await self._record_verdict(
            turns.attempt,
            result,
            opined,
            rungs=self._rungs,
            overruled=judgement.reason if judgement.passed else "",
            causes=(decision.entry,) if decision else (),
        )
        own = Quotation("the panel", result.output[: self._policy.read_bytes], result.size)
        if findings is not None:
            quoted = _quote_findings(self._task.id, findings)
            own = Quotation(
                "the panel", own.text + b"\n\n" + quoted.text, own.size + 2 + quoted.size
            )
        return verdict, self._rejected_prompt(first, own, instruction, opined)

    async def _decide_dissent(
        self, result: model_calls.CallResult, findings: child_runs.PanelFindings
    ) -> tuple[model_calls.CallResult, Decision | None]:
        """Return what a person decides about the answer of a panel that does not agree.

        Return no decision without such a gate. Raises `TaskSuspended` while it is pending.
        """
        subject, source = kinds.dissent_gate_subject(self._task.id), self._reply_source
        if DISSENT_GATE not in self._policy.gates and not (source and source.has_gate(subject)):
            return result, None
        # The reply is recorded first: a crash at the gate leads back to the same gate.
        recorded = await self._caller.record_reply(result)
        if recorded is not None:
            result = replace(result, unrecorded=())
        cause = self._caller.strand.head or self._case.plan_entry
        text = context.read_prefix(findings.text.chunks(), MAX_READ_BYTES)
        rejections = "".join(f"{rejection}\n\n" for rejection in self._rejections)
        shown = rejections.encode(errors="replace") + text
        # Nobody's silence overrules a panel, whatever default the run sets for its other gates.
        policy = self._policy.with_reject_default()
        decision = await pass_gate(self._ledger, self._case.run, subject, shown, policy, cause)
        if decision is None:
            self._caller.check_time()
            raise model_calls.TaskSuspended
        return result, decision

    async def _call_child_run(
        self, turns: model_calls.StepNames, prompt: Prompt, panel: Panel | None
    ) -> tuple[model_calls.CallResult, child_runs.PanelFindings | None]:
        """Have a child run do the task; return its reply, and what a panel found."""
        result = await self._children.call(turns, ChildCall(prompt, panel, self._fitter.causes))
        self._fitter.causes = ()
        return result

    def _read_upstream(self) -> "_UpstreamInputs":
        """Read the results of upstream tasks, each up to `MAX_READ_BYTES`.

        Every upstream task is a cause; only the results that this task needs are inputs.
        """
        inputs, causes = [], []
        for name in self._task.upstream:
            task = fold(
                read_strand_entries(self._ledger, self._case.run, kinds.task_strand(name))
            ).task(name)
            if task.last is not None:
                causes.append(task.last)
            if name in self._task.needs and task.result and task.result.reply_at:
                at = task.result.reply_at
                entry = next(read_strand_entries(self._ledger, at.run, at.strand, at.n))[1]
                size = entry.bodies["output"].size if "output" in entry.bodies else 0
                limit = self._policy.read_bytes
                head = context.read_body(self._ledger, at, "output", limit) if size else b""
                inputs.append(SourceText(f"task {name}", head, size))
                inputs.extend(read_findings_source(self._ledger, task, limit))
        return _UpstreamInputs(inputs, causes)


@dataclass(frozen=True, slots=True)
class _UpstreamInputs:
    inputs: list[SourceText]
    causes: list[Hash]


def _quote_findings(task: str, findings: child_runs.PanelFindings) -> Quotation:
    text = context.read_prefix(findings.text.chunks(), MAX_READ_BYTES)
    return Quotation(f"the panel of task {task}", text, findings.text.size)


_MAX_SHOWN_CHARS = 2000
"""How much of each rejection is shown at a gate."""
_MAX_SEPARATE_OUTCOMES = 4


def _join_outcomes(outcomes: list[Quotation]) -> list[Quotation]:
    """Return the outcomes of tools for a judge, many of them as one text.

    Each text that does not fit is summarized by a call of its own, so many would take many calls.
    """
    if len(outcomes) <= _MAX_SEPARATE_OUTCOMES:
        return outcomes
    text = b"\n".join(quote(outcome) for outcome in outcomes)
    return [Quotation("the outcomes of tools", text, len(text))]
