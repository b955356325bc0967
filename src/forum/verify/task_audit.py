"""Auditing a run without a panel: the calls, attempts and ends of its tasks and roles.

The record of each task is replayed by the version of the rules of calls that the policy names. A
retry, repair, escalation or stop that does not follow from the record is a fault. What depends on
more than the record (the words of prompts, the claims in results, what shared caps have left) is
not compared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import msgspec

from forum.errors import Malformed
from forum.ledger.entry import MAIN_STRAND, MAX_CLOCK_SKEW_US
from forum.ledger.kinds import Outcome
from forum.ledger.ports import Amount
from forum.runs import (
    acceptance_criteria,
    call_rules,
    compaction,
    judging,
    kinds,
    record_comparison,
    text_fit,
)
from forum.runs.answer_flags import flag_answer
from forum.runs.council_end import Accord
from forum.runs.panel import Panel
from forum.runs.plan import Plan, Task, read_plan
from forum.runs.policy import ASK_TOOL, TEAM_RULES, Answer, Policy, Role, ToolCall, read_policy
from forum.runs.prompt import Quotation, quote
from forum.runs.record_comparison import Breach, IndexedEntry
from forum.runs.roles import classifier, intent, opinions, prompt_parts, reviser
from forum.runs.run_fold import Run, TaskState, fold
from forum.runs.schedule import MAX_CHECK_ATTEMPTS, final_results
from forum.runs.shared_caps import read_limit_name
from forum.verify.strand_audit import StrandAuditor

_ENDS = (kinds.StopFacts, kinds.SkipFacts)
_STEPS = (
    kinds.CallFacts,
    kinds.ReplyFacts,
    kinds.CompactionFacts,
    kinds.VerdictFacts,
    *_ENDS,
)
"""The facts that the rules of calls are about. Others of a task follow from them or beside them."""
_CALL_LIMITS = frozenset(
    {
        kinds.StopReason.LOST,
        kinds.StopReason.TURNS,
        kinds.StopReason.REPEAT,
        kinds.StopReason.PING_PONG,
        kinds.StopReason.BUDGET,
        kinds.StopReason.DEPTH,
    }
)
"""Reasons that stop a task before a call, and not while one is open."""

ReadReply = Callable[[bytes], object]

_tool_calls = msgspec.json.Decoder(tuple[ToolCall, ...])


class RunAudit(msgspec.Struct, frozen=True):
    """The result of auditing the calls of a run."""

    faults: tuple[record_comparison.AuditFault, ...]
    not_checked: tuple[str, ...]


_FLAGS = {
    kinds.COVERAGE: acceptance_criteria.Check.COVERAGE,
    kinds.FORM: acceptance_criteria.Check.FORM,
}
"""The checks of an answer by code that flag it, and by what they are made."""
_FLAG_NAMES = {kinds.COVERAGE: "words", kinds.FORM: "form"}


def _is_flag(facts: object, subject: str, check: acceptance_criteria.Check) -> bool:
    return isinstance(facts, kinds.CheckFacts) and facts.subject == subject and facts.check is check


class _RecordEnds(Exception):
    """Raised where the record of a strand ends."""


def audit_calls(minutes: record_comparison.SessionEntries) -> RunAudit:
    """Replay the tasks and roles of a run by the rules that its policy names.

    Raises nothing. What cannot be read is reported as not checked, never as a fault.
    """
    comparer = record_comparison.RecordComparer(minutes)
    missing: list[str] = []
    try:
        auditor = _RunAuditor(comparer)
    except (record_comparison.BodyMissing, Malformed) as error:
        return RunAudit((), (_describe(minutes.run, str(error)),))
    for name in sorted(auditor.strands):
        try:
            auditor.check_strand(name)
        except (_RecordEnds, record_comparison.RecordDiverged):
            pass  # what is recorded was checked, or the fault was reported where it was raised
        except record_comparison.BodyMissing as error:
            missing.append(f"from {error} on, which is not there")
        except Exception as error:  # noqa: BLE001  a forged or a newer record may have any form
            missing.append(f"strand {name}, which cannot be read: {type(error).__name__}")
    if not missing:  # else what the panel decided is not known
        auditor.check_panel_checks()
    try:
        auditor.check_coverage()
    except record_comparison.BodyMissing as error:
        missing.append(f"whether the answer is about the request: {error}, which is not there")
    # Report the first strand only: what is missing often affects many strands of a run, and the
    # report would repeat itself.
    not_checked = tuple(_describe(minutes.run, what) for what in missing[:1])
    return RunAudit(tuple(comparer.faults), not_checked)


def _describe(run: str, what: str) -> str:
    return f"the calls of run {run}: {what}"


class _RunAuditor:
    """What the audits of all strands of a run share."""

    def __init__(self, comparer: record_comparison.RecordComparer) -> None:
        self._comparer = comparer
        self.strands: dict[str, list[IndexedEntry]] = {}
        for item in comparer.minutes.entries:
            self.strands.setdefault(item.entry.strand, []).append(item)
        main = self.strands.get(MAIN_STRAND, [])
        accepted = [item for item in main if isinstance(item.entry.facts, kinds.AcceptedFacts)]
        plans = [item for item in main if isinstance(item.entry.facts, kinds.PlanFacts)]
        if not accepted:
            raise Malformed("run", "its request is not there")
        self._accepted_entry = accepted[0]
        self._policy = read_policy(self._read_whole(accepted[0], "policy"))
        self._plan_entry = plans[-1] if plans else None
        self._plan: Plan | None = None
        self._panel_checks: list[kinds.CheckFacts] = []
        self._state = fold((item.leaf, item.entry) for item in comparer.minutes.entries)
        call_rules.CallTracker(self._policy)  # raises if this release lacks the version

    def _read_whole(self, where: IndexedEntry, name: str) -> bytes:
        body = where.entry.bodies.get(name)
        return self._comparer.read_body(where, name, body.size if body else 0)

    def check_strand(self, name: str) -> None:
        """Check the strand of a task or a role. Raises where its record ends or diverges."""
        task = kinds.task_of_strand(name)
        if task is None or task.startswith(kinds.TURN_PREFIX):
            return
        entries = self.strands[name]
        auditor = TaskAuditor(
            comparer=self._comparer,
            entries=entries,
            policy=self._policy,
            state=self._state,
            task=task,
        )
        auditor.check_end(entries)
        role = task.partition(".")[0]
        if role == kinds.VERIFIER:
            auditor.check_verifier()
        elif role.startswith(kinds.ROLE_PREFIX):
            try:
                auditor.check_role(Role(role[1:]), self._read_plan)
            finally:
                if auditor.panel_check is not None:
                    self._panel_checks.append(auditor.panel_check)
        else:
            auditor.check_task(self._find_task(task, entries[0]))

    def check_coverage(self) -> None:
        """Compare the flag of the answer with what its words and those of the request give.

        Raises `BodyMissing`.
        """
        main = self.strands.get(MAIN_STRAND, [])
        answers = [item for item in main if isinstance(item.entry.facts, kinds.AnswerFacts)]
        flags = {
            subject: [item for item in main if _is_flag(item.entry.facts, subject, check)]
            for subject, check in _FLAGS.items()
        }
        if not self._policy.checks_coverage or not answers:
            return
        # A run that failed may have ended before its answer was checked.
        is_due = answers[-1].entry.facts.outcome is Outcome.OK
        if not is_due and not any(flags.values()):
            return
        request, answer = (
            self._comparer.read_body(where, name).decode(errors="replace")
            for where, name in ((self._accepted_entry, "request"), (answers[-1], "answer"))
        )
        flagged = {facts.subject: facts.reason for facts, _ in flag_answer(request, answer)}
        for subject in _FLAGS:
            finding = flagged.get(subject, "")
            recorded = flags[subject][-1].entry.facts.reason if flags[subject] else ""
            if recorded != finding:
                detail = (
                    f"the check of the answer's {_FLAG_NAMES[subject]} is recorded as "
                    f"{recorded or 'without finding'}, and gives {finding or 'none'}"
                )
                self._comparer.report_fault(Breach.COURSE, detail, (flags[subject] or answers)[-1])

    def check_panel_checks(self) -> None:
        """Compare the check of an answer that a panel judges with what the panel decided.

        The answer of a run that ended well needs such a check. Of two answers one is given, with
        the check of its own panel.
        """
        judge, main = self._policy.roles.get(Role.INTENT), self.strands.get(MAIN_STRAND, [])
        answers = [item for item in main if isinstance(item.entry.facts, kinds.AnswerFacts)]
        if judge not in self._policy.panels or not answers:
            return
        has_passed = False
        for item in main:
            facts = item.entry.facts
            if not isinstance(facts, kinds.CheckFacts) or facts.judge != judge:
                continue
            recorded = msgspec.structs.replace(facts, independence=kinds.Independence.NONE)
            has_passed |= facts.outcome is Outcome.OK
            if recorded not in self._panel_checks:
                detail = f"{item.entry.step}: the panel {judge!r} did not decide so of the answer"
                self._comparer.report_fault(Breach.COURSE, detail, item)
        is_accepted = answers[-1].entry.facts.outcome is Outcome.OK
        if is_accepted and not has_passed and not self._policy.doubted:
            detail = f"the panel {judge!r} has not accepted the answer"
            self._comparer.report_fault(Breach.COURSE, detail, answers[-1])

    def _read_plan(self) -> Plan:
        if self._plan is None:
            if self._plan_entry is None:
                raise record_comparison.BodyMissing("the plan")
            self._plan = read_plan(self._read_whole(self._plan_entry, "plan"))
        return self._plan

    def _find_task(self, name: str, where: IndexedEntry) -> Task:
        plan = self._read_plan()
        if name not in plan.by_id:
            detail = f"{where.entry.step}: task {name!r} is not in the plan"
            self._comparer.report_fault(Breach.COURSE, detail, where)
            raise record_comparison.RecordDiverged
        return plan.by_id[name]


@dataclass(slots=True)
class ConversationAudit:
    """What the conversation of one attempt has come to."""

    rounds: list[compaction.Round] = field(default_factory=list)
    """With the whole replies and results."""
    first: IndexedEntry | None = None
    """The call with the first prompt."""
    compactions: int = 0
    left_out: int = 0
    summary: bytes = b""
    method: kinds.CompactionMethod = kinds.CompactionMethod.EXCERPT


class TaskAuditor(StrandAuditor):
    """The audit of one task or role, step by step as the engine drives it."""

    def __init__(
        self,
        comparer: record_comparison.RecordComparer,
        entries: Sequence[IndexedEntry],
        policy: Policy,
        state: Run,
        task: str,
    ) -> None:
        own = [item for item in entries if isinstance(item.entry.facts, _STEPS)]
        super().__init__(comparer, own, policy, state.accepted or kinds.AcceptedFacts())
        self._state, self._task = state, task
        self._by_step = {item.entry.step: item for item in reversed(entries)}
        self._attempt, self._summaries = 1, 0
        self.panel_check: kinds.CheckFacts | None = None
        """What the panel comes to that judges the answer in this role."""

    def check_end(self, entries: Sequence[IndexedEntry]) -> None:
        """Check that nothing follows the end of the task."""
        for n, item in enumerate(entries[:-1]):
            if _is_end(item):
                detail = f"{entries[n + 1].entry.step}: it follows the end of task {self._task!r}"
                self._comparer.report_fault(Breach.COURSE, detail, entries[n + 1])
                return

    def check_task(self, task: Task) -> None:
        """Check the attempts of a task, and what follows from each."""
        agent, rungs = self._policy.worker_of(task), self._policy.rungs_of(task)
        if task.tasks:
            self._check_inner_plan(task, agent)
            return
        while True:
            verdicts = self._progress.advance(call_rules.AttemptBegun()).verdicts
            self._attempt = len(verdicts) + 1
            level = call_rules.escalation_level(verdicts)
            worker = rungs[level]
            self._check_summaries(worker)
            if (panel := self._policy.panel_of(task, level)) is not None:
                self._check_panel(task, panel, rungs, level)
                continue
            reply = self._check_own_calls(worker)
            self._check_judged(task, agent, worker, reply)

    def _check_inner_plan(self, task: Task, agent: str) -> None:
        """Check a task that a plan within carries out: its answer counts like a reply."""
        self._check_summaries(agent)
        reply = self._check_child_call(task)
        self._check_judged(task, agent, agent, reply, final=True)

    def _check_child_call(self, task: Task, role: str = "") -> IndexedEntry:
        call = self._take_call(kinds.CHILD_RUN, role, delegated=task)
        reply = self._take_reply(call)
        self._count_reply(call.entry.facts, reply)
        return reply

    def _check_panel(self, task: Task, panel: Panel, rungs: tuple[str, ...], level: int) -> None:
        """Check an attempt that a panel made: its accord decides whether the answer is accepted."""
        reply = self._check_child_call(task)
        agent = self._policy.worker_of(task)
        judgement = judging.Judgement(passed=True, check=acceptance_criteria.Check.OUTCOME)
        if self._policy.counts_accord and reply.entry.facts.outcome is Outcome.OK:
            judgement = judging.judge_accord(self._read_accord(reply), panel.require)
        is_last = level + 1 == len(rungs)
        if not judgement.passed and not (is_last and self._is_dissent_approved()):
            judged = call_rules.AttemptJudged(judgement, Outcome.OK, agent, rungs=rungs)
            self._check_verdict(self._progress.advance(judged).verdicts[-1])
            return
        self._check_judged(
            task,
            agent,
            agent,
            reply,
            rungs=rungs,
            asks_model=level == 0,
            overruled=judgement.reason,
        )

    def _is_dissent_approved(self) -> bool:
        """Return whether a person accepted an answer that the panel did not agree on."""
        gate = kinds.gate_strand(kinds.dissent_gate_subject(self._task))
        return self._state.decision(gate) is Answer.APPROVE

    def _read_accord(self, reply: IndexedEntry, role: str = "") -> Accord | None:
        """Return the accord that stands beside a reply, which must be that of the panel itself."""
        step = reply.entry.step.removesuffix("/reply")
        noted = self._by_step.get(f"{step}/accord")
        if noted is None or not isinstance(noted.entry.facts, kinds.AccordFacts):
            return None
        facts: kinds.AccordFacts = noted.entry.facts
        named = self._by_step.get(f"{step}/delegate")
        if named is None and not role:
            named = self._by_step.get("delegate")
        child = named.entry.facts.run if named else ""
        # A fork that reuses an answer names the panel of the forked run, which gave it.
        if facts.run != child and not self._accepted.fork_run:
            detail = f"{noted.entry.step}: run {facts.run} is not the one that the task names"
            self._comparer.report_fault(Breach.COURSE, detail, noted)
        if facts.role != role:
            detail = (
                f"{noted.entry.step}: it is of {facts.role or 'the work'}, not {role or 'that'}"
            )
            self._comparer.report_fault(Breach.COURSE, detail, noted)
        return facts.accord

    def _check_own_calls(self, agent: str) -> IndexedEntry:
        """Check the calls of an attempt; return the reply that is its result."""
        question, used = b"", 0
        conversation = ConversationAudit()
        while True:
            reply = self._check_exchange(agent, "", question)
            step = reply.entry.step
            self._check_composed_prompt(conversation, step.removesuffix("/reply"))
            uses = self._read_uses(reply) if reply.entry.facts.outcome is Outcome.OK else ()
            if not uses:
                return reply
            results = []
            for use in uses:
                used += use.tool != ASK_TOOL
                results.append(self._check_use(use, f"attempt/{self._attempt}/use/{used}"))
            question = b"".join(quote(result) for result in results)
            if self._policy.compacts:
                own = self._comparer.read_body(reply, "output")
                quoted = Quotation("you", own, len(own))
                conversation.rounds.append(compaction.Round(step, quoted, uses, tuple(results)))
                self._check_compaction(agent, conversation)

    def _check_compaction(self, agent: str, conversation: "ConversationAudit") -> None:
        """Check the text that stands for rounds from here on, if the record has one here."""
        outputs = self._check_summaries(agent)
        noted = self._take_next(kinds.CompactionFacts)
        if noted is None:
            if outputs:
                self._check_possible_end(before_call=True)
                self._diverge(f"{self._remaining[0].entry.step}: nothing follows from a summary")
            return
        facts: kinds.CompactionFacts = noted.entry.facts
        rounds, before = conversation.rounds, conversation.left_out
        # How many are left out follows from estimates, and is believed. The last one never is.
        if not before < facts.rounds < len(rounds):
            detail = f"{noted.entry.step}: it leaves out {facts.rounds} of {len(rounds)} rounds"
            self._comparer.report_fault(Breach.COURSE, detail, noted)
            raise record_comparison.RecordDiverged
        conversation.compactions += 1
        name = f"attempt/{self._attempt}/compaction/{conversation.compactions}"
        self._check_step(noted, name)
        expected = msgspec.structs.replace(
            facts,
            attempt=self._attempt,
            first=rounds[0].step,
            last=rounds[facts.rounds - 1].step,
        )
        self._comparer.compare_facts(Breach.COURSE, noted, expected)
        gone = rounds[before : facts.rounds]
        text = self._read_whole(noted, kinds.SUMMARY)
        if facts.method is kinds.CompactionMethod.SUMMARY:
            is_told = any(outputs) and compaction.is_summary_of(text, outputs)
        else:
            description = compaction.describe_rounds(conversation.summary, gone)
            is_told = text_fit.is_excerpt_of(text, description)
        if not is_told:
            detail = f"{noted.entry.step}: its text does not follow from what was left out"
            self._comparer.report_fault(Breach.COURSE, detail, noted)
        conversation.left_out, conversation.summary = facts.rounds, text
        conversation.method = facts.method

    def _check_composed_prompt(self, conversation: "ConversationAudit", step: str) -> None:
        """Compare a prompt after a compaction with the one that follows from the record."""
        call = self._by_step[step]
        if not conversation.rounds:
            conversation.first = call
            return
        if not conversation.left_out:
            return
        fault = compaction.find_prompt_fault(
            self._read_whole(call, "prompt"),
            self._read_whole(conversation.first or call, "prompt"),
            conversation.summary,
            conversation.left_out,
            rounds=conversation.rounds[conversation.left_out :],
            is_summary=conversation.method is kinds.CompactionMethod.SUMMARY,
        )
        if fault:
            detail = f"{step}: its prompt is not the compacted conversation: {fault}"
            self._comparer.report_fault(Breach.COURSE, detail, call)

    def _read_whole(self, where: IndexedEntry, name: str) -> bytes:
        body = where.entry.bodies.get(name)
        return self._comparer.read_body(where, name, body.size if body else 0)

    def _read_uses(self, reply: IndexedEntry) -> tuple[ToolCall, ...]:
        """Return the tool calls that a reply requests."""
        body = reply.entry.bodies.get("uses")
        uses = self._comparer.read_body(reply, "uses", body.size if body else 0)
        return _tool_calls.decode(uses) if uses else ()

    def _check_use(self, use: ToolCall, step: str) -> Quotation:
        """Return what an agent was told of a tool, or of another agent that it asked."""
        if use.tool != ASK_TOOL:
            done = self._by_step.get(f"{step}/settled") or self._by_step.get(f"{step}/outcome")
            if done is None:
                self._expect_end(f"{step}: its outcome is not recorded")
            return self._quote_body(done, use.tool, "result")
        question = call_rules.read_agent_question(use, self._policy)
        if isinstance(question, Quotation):
            return question
        reply = self._check_exchange(question.agent, "", question.text.encode())
        return self._quote_body(reply, question.agent, "output")

    def _quote_body(self, where: IndexedEntry, source: str, name: str) -> Quotation:
        body = where.entry.bodies.get(name)
        head = self._comparer.read_body(where, name, self._policy.read_bytes)
        outcome: Outcome = where.entry.facts.outcome
        return Quotation(f"{source}, {outcome.value}", head, body.size if body else 0)

    def _check_judged(  # noqa: PLR0913  the last four have a default
        self,
        task: Task,
        agent: str,
        worker: str,
        reply: IndexedEntry,
        *,
        final: bool = False,
        rungs: tuple[str, ...] = (),
        asks_model: bool = True,
        overruled: str = "",
    ) -> None:
        """Check the verdict on an attempt. Raises `_RecordEnds` if the task ends with it."""
        outcome: Outcome = reply.entry.facts.outcome
        demands = acceptance_criteria.parse_criteria(task.done_when)
        output = self._comparer.read_body(reply, "output") if outcome is Outcome.OK else b""
        judgement = judging.judge_output(
            task.done_when, outcome, output, refuses_marks=self._policy.refuses_marks
        )
        checks = [demand for demand in demands if demand.check in acceptance_criteria.TOOL_CHECKS]
        for number, demand in enumerate(checks, 1):
            if judgement.passed:
                judgement = self._judge_by_tool(demand, number)
        words = any(demand.check is acceptance_criteria.Check.MODEL for demand in demands)
        needs_model = asks_model and (words or not demands)
        reader = self._policy.judge_of(Role.VALIDATOR, [worker]) if needs_model else None
        judge = ""
        if judgement.passed and reader is not None:
            self._check_summaries(reader)
            judge, judgement = reader, self._judge_by_model(reader, task)
        state = self._progress.advance(
            call_rules.AttemptJudged(judgement, outcome, agent, final=final, rungs=rungs)
        )
        verdict = msgspec.structs.replace(state.verdicts[-1], judge=judge)
        if verdict.next is kinds.Next.ACCEPT:
            verdict = msgspec.structs.replace(verdict, reason=overruled)
        self._check_verdict(verdict)

    def _judge_by_tool(
        self, demand: acceptance_criteria.Criterion, number: int
    ) -> judging.Judgement:
        done = self._check_look(f"attempt/{self._attempt}/check/{number}")
        result = self._comparer.read_body(done, "result", self._policy.read_bytes)
        return judging.judge_tool_result(demand, done.entry.facts.outcome, result)

    def _check_look(self, step: str) -> IndexedEntry:
        """Return the last outcome of a read-only tool, which is used again if its worker died."""
        names = [step, *(f"{step}/{number}" for number in range(2, MAX_CHECK_ATTEMPTS + 1))]
        for name in names:
            done = self._by_step.get(f"{name}/outcome")
            if done is None:
                self._expect_end(f"{name}: its outcome is not recorded")
            if done.entry.facts.why is not kinds.Why.LOST or name == names[-1]:
                return done
        raise AssertionError

    def _judge_by_model(self, reader: str, task: Task) -> judging.Judgement:
        if reader in self._policy.panels:
            return self._judge_by_panel(reader, Role.VALIDATOR, task)[1]
        reply = self._check_question(reader, Role.VALIDATOR, opinions.parse_opinion)
        passed = False
        if self._progress.state.move is call_rules.Move.ACCEPT:
            passed = opinions.parse_opinion(self._comparer.read_body(reply, "output")).passed
        reason = "" if passed else judging.NOT_ACCEPTED
        return judging.Judgement(
            passed=passed, check=acceptance_criteria.Check.MODEL, reason=reason
        )

    def _judge_by_panel(
        self, name: str, role: Role, task: Task
    ) -> tuple[IndexedEntry, judging.Judgement]:
        """Check the call of a panel that judges; return its reply, and what follows from that."""
        reply = self._check_child_call(task, role.value)
        outcome: Outcome = reply.entry.facts.outcome
        decision = self._comparer.read_body(reply, "output") if outcome is Outcome.OK else b""
        accord = self._read_accord(reply, role.value)
        required = self._policy.judging_panel(name).require
        return reply, judging.judge_by_panel(accord, required, outcome, decision)

    def _check_verdict(self, expected: kinds.VerdictFacts) -> None:
        """Compare a verdict with the one that the rules lead to; raise `_RecordEnds` at the end."""
        self._check_possible_end()
        verdict = self._take_next(kinds.VerdictFacts)
        if verdict is None:
            self._diverge(f"{self._remaining[0].entry.step}: a verdict follows, and not this")
        facts: kinds.VerdictFacts = verdict.entry.facts
        # The rules of calls do not determine these three members, so the recorded values are
        # accepted unchecked.
        expected = msgspec.structs.replace(
            expected,
            claims=facts.claims,
            unverified=facts.unverified,
            independence=facts.independence,
        )
        self._comparer.compare_facts(Breach.COURSE, verdict, expected)
        self._check_step(verdict, f"attempt/{self._attempt}/verdict")
        if facts.next is not expected.next:
            raise record_comparison.RecordDiverged
        if facts.next in (kinds.Next.ACCEPT, kinds.Next.GIVE_UP):
            raise _RecordEnds

    def check_role(self, role: Role, read_plan: Callable[[], Plan]) -> None:
        """Check the question to a role, its repairs and retries, and the verdict."""
        readers: dict[Role, ReadReply] = {
            Role.CLASSIFIER: lambda reply: classifier.parse_choice(reply, self._policy.lanes),
            Role.INTENT: intent.parse_opinion,
            Role.REVISER: reviser.parse_revision,
        }
        # The other roles have no reader: whether a plan or a combined answer can be used depends on
        # more than the reply, so the recorded verdict is believed.
        agent = self._agent_of_role(role, read_plan)
        if agent is None:
            self._check_possible_end()
            self._diverge(f"{self._remaining[0].entry.step}: nobody plays the role {role.value!r}")
        self._check_summaries(agent)
        if agent in self._policy.panels:
            reply, judgement = self._judge_by_panel(agent, role, Task(self._task, ""))
            outcome: Outcome = reply.entry.facts.outcome
            self.panel_check = intent.check_by_panel(agent, judgement)
            self._check_verdict(call_rules.form_verdict(outcome, usable=outcome is Outcome.OK))
            return
        reply = self._check_question(agent, role, readers.get(role))
        usable = self._progress.state.move is call_rules.Move.ACCEPT
        self._check_verdict(call_rules.form_verdict(reply.entry.facts.outcome, usable=usable))

    def _agent_of_role(self, role: Role, read_plan: Callable[[], Plan]) -> str | None:
        """Return the agent that plays a role; a judge depends on who wrote the answer."""
        if role is not Role.INTENT:
            return self._policy.roles.get(role)
        number = self._task.partition(".")[2]
        synthesis = f"{prompt_parts.task_of_role(Role.SYNTHESIZER)}{number and f'.{number}'}"
        # A Synthesizer that failed wrote nothing: the results were judged as they are.
        if self._state.task(synthesis).state is TaskState.PASSED:
            return self._policy.judge_of(role, [self._policy.roles.get(Role.SYNTHESIZER, "")])
        if self._policy.rules < TEAM_RULES:
            return self._policy.roles.get(role)
        return self._policy.judge_of(role, self._agents_of_results(read_plan()))

    def _agents_of_results(self, plan: Plan) -> list[str]:
        """Return the agents whose results are the answer: those that no passed task has used."""
        results = [self._state.task(name).result for name in final_results(plan, self._state)]
        return [call.called.agent for call in results if call]

    def _check_summaries(self, agent: str) -> list[bytes]:
        """Check the calls that summarize texts for an agent, as many as there are.

        How many there are depends on the sizes of the texts, which are not read again here. Return
        what they said, which is nothing for those that failed.
        """
        summarizer = self._policy.summarizer_of(agent)
        outputs = []
        while (self._policy.is_team or self._policy.compacts) and self._is_summary_next():
            self._summaries += 1
            question = call_rules.summary_question(self._summaries)
            reply = self._check_exchange(summarizer, Role.SUMMARIZER.value, question)
            is_ok = reply.entry.facts.outcome is Outcome.OK
            outputs.append(self._comparer.read_body(reply, "output").strip() if is_ok else b"")
        return outputs

    def _is_summary_next(self) -> bool:
        following = self._remaining[0].entry.facts if self._remaining else None
        return isinstance(following, kinds.CallFacts) and following.role == Role.SUMMARIZER.value

    def check_verifier(self) -> None:
        """Check the verdict of a tool that checks the answer."""
        done = self._check_look("check")
        self._check_verdict(call_rules.tool_verdict(done.entry.facts.outcome))

    def _check_question(self, agent: str, role: Role, read: ReadReply | None) -> IndexedEntry:
        """Check a question whose reply must have a form; return the last reply."""
        limits = call_rules.QuestionLimits(prompt_parts.MAX_REPAIRS, self._policy.retries)
        self._progress.advance(call_rules.QuestionAsked(limits))
        while True:
            reply = self._check_exchange(agent, role.value)
            outcome: Outcome = reply.entry.facts.outcome
            usable = outcome is Outcome.OK and self._is_usable(reply, read)
            move = self._progress.advance(call_rules.ReplyRead(outcome, usable=usable)).move
            if move in (call_rules.Move.ACCEPT, call_rules.Move.GIVE_UP):
                return reply

    def _is_usable(self, reply: IndexedEntry, read: ReadReply | None) -> bool:
        if read is None:
            following = self._remaining[0].entry.facts if self._remaining else None
            accepts = isinstance(following, kinds.VerdictFacts) and (
                following.next is kinds.Next.ACCEPT
            )
            return accepts or following is None
        try:
            read(self._comparer.read_body(reply, "output"))
        except ValueError:
            return False
        return True

    def _check_exchange(self, agent: str, role: str, question: bytes = b"") -> IndexedEntry:
        """Check a call and those that repeat it; return the reply that counts."""
        while True:
            call = self._take_call(agent, role)
            reply = self._take_reply(call)
            self._check_lost(call, reply)
            self._check_bill(call, reply)
            if self._count_reply(call.entry.facts, reply, question) is not call_rules.Move.REPEAT:
                return reply

    def _take_call(self, agent: str, role: str, delegated: Task | None = None) -> IndexedEntry:
        """Take the call that is due. Raises `_RecordEnds` if the record ends before it."""
        self._check_possible_end(delegated=delegated, before_call=True)
        call = self._take_next(kinds.CallFacts)
        if call is None:
            self._diverge(f"{self._remaining[0].entry.step}: a call of {agent!r} follows, not this")
        facts: kinds.CallFacts = call.entry.facts
        limit = self._progress.state.limit
        # A fork takes over recorded replies without checking them against its own limits.
        if limit is not None and not self._accepted.fork_run:
            detail = f"{call.entry.step}: the limit {limit.limit!r} was reached before it"
            self._comparer.report_fault(Breach.COURSE, detail, call)
        expected = (agent, role, self._attempt, self._progress.state.calls + 1)
        if (facts.agent, facts.role, facts.attempt, facts.turn) != expected:
            detail = (
                f"{call.entry.step}: call {facts.turn} of attempt {facts.attempt} to "
                f"{facts.agent!r}{_as_role(facts.role)}; the rules lead to call {expected[3]} of "
                f"attempt {self._attempt} to {agent!r}{_as_role(role)}"
            )
            self._comparer.report_fault(Breach.COURSE, detail, call)
            raise record_comparison.RecordDiverged
        self._check_step(call, f"attempt/{self._attempt}/call/{facts.turn}")
        if agent != kinds.CHILD_RUN:
            self._check_call_count(call)
        return call

    def _take_reply(self, call: IndexedEntry) -> IndexedEntry:
        reply = self._take_next(kinds.ReplyFacts)
        if reply is None:
            # A call stays open for ever if a body that its task needs was erased.
            self._expect_end("the call before it has no reply")
        self._check_step(reply, f"{call.entry.step}/reply")
        return reply

    def _check_step(self, where: IndexedEntry, step: str) -> None:
        if where.entry.step != step:
            detail = f"{where.entry.step}: by the rules its step is {step}"
            self._comparer.report_fault(Breach.COURSE, detail, where)

    def _expect_end(self, detail: str) -> NoReturn:
        """Raise `_RecordEnds`, or report the step that cannot follow."""
        self._check_possible_end()
        self._diverge(f"{self._remaining[0].entry.step}: it follows too early. {detail}")

    def _check_possible_end(
        self, *, delegated: Task | None = None, before_call: bool = False
    ) -> None:
        """Raise `_RecordEnds` if the record ends here, after checking the stop that ends it."""
        if not self._remaining:
            raise _RecordEnds
        end = self._remaining[0]
        stopped = end.entry.facts
        if not isinstance(stopped, _ENDS):
            return
        if isinstance(stopped, kinds.StopFacts):
            self._check_stop(end, delegated, before_call=before_call)
        raise _RecordEnds

    def _check_stop(self, end: IndexedEntry, delegated: Task | None, *, before_call: bool) -> None:
        stopped: kinds.StopFacts = end.entry.facts
        expected: kinds.StopFacts | None
        match stopped.reason:
            case kinds.StopReason.REJECTED:
                expected = kinds.StopFacts(kinds.StopReason.REJECTED, by=self._task)
            case kinds.StopReason.DEPTH:
                depth = kinds.StopFacts(
                    reason=kinds.StopReason.DEPTH,
                    limit="depth",
                    asked=1,
                    used=0,
                    cap=0,
                    by=self._task,
                )
                expected = depth if delegated and not self._accepted.depth else None
            case _:
                expected = self._expected_stop(stopped, self._task)
        if stopped.reason in _CALL_LIMITS and not before_call:
            expected = None
        if expected is None or not self._is_due(end):
            detail = f"{end.entry.step}: {stopped.reason.value} could not stop task {self._task!r}"
            self._comparer.report_fault(Breach.COURSE, detail, end)
        else:
            self._comparer.compare_facts(Breach.COURSE, end, expected)

    def _is_due(self, end: IndexedEntry) -> bool:
        """Return whether the rest of the record has a reason for a stop."""
        stopped: kinds.StopFacts = end.entry.facts
        deadline = self._state.deadline
        # While the run is open, entries of other strands may not have reached the signed tree.
        open_run = self._state.outcome is None
        match stopped.reason:
            case kinds.StopReason.DEADLINE:
                return deadline is not None and end.entry.ts + MAX_CLOCK_SKEW_US >= deadline
            case kinds.StopReason.CANCELLED:
                return open_run or self._state.cancelled or self._state.stopped is not None
            case kinds.StopReason.REJECTED:
                gate = kinds.gate_strand(kinds.task_strand(self._task))
                return open_run or self._state.decision(gate) is Answer.REJECT
            case kinds.StopReason.BUDGET:
                return self._is_over_budget(stopped)
            case _:
                return True

    def _is_over_budget(self, stopped: kinds.StopFacts) -> bool:
        if stopped.used + stopped.asked <= stopped.cap:
            return False
        if read_limit_name(stopped.limit) is not None:
            return True  # a shared cap: the spending of other runs is not in this record
        return stopped.limit in Amount._fields and stopped.cap == getattr(
            self._accepted.cap, stopped.limit
        )


def _is_end(item: IndexedEntry) -> bool:
    facts = item.entry.facts
    ends = (kinds.Next.ACCEPT, kinds.Next.GIVE_UP)
    return isinstance(facts, _ENDS) or (
        isinstance(facts, kinds.VerdictFacts) and facts.next in ends
    )


def _as_role(role: str) -> str:
    return f" as {role}" if role else ""
