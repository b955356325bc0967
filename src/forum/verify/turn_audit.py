"""Auditing one turn: its calls and replies, the note of the reply, and the verdict."""

from collections.abc import Sequence

from forum.ledger.kinds import Outcome
from forum.runs import call_rules, kinds, record_comparison, schedule
from forum.runs import session_steps as steps
from forum.runs.policy import Policy
from forum.runs.prompt import Quotation, build_prompt
from forum.tlog import Hash
from forum.verify.strand_audit import StrandAuditor

_VERDICT = "attempt/1/verdict"
_END_FACTS = (kinds.StopFacts, kinds.SkipFacts)
"""Facts that end a turn without a verdict."""


class TurnAuditor(StrandAuditor):
    """The audit of one turn: calls and replies, the note of the reply, and the verdict."""

    def __init__(
        self,
        look: record_comparison.RecordComparer,
        entries: Sequence[record_comparison.IndexedEntry],
        policy: Policy,
        accepted: kinds.AcceptedFacts,
        cause: Hash,
    ) -> None:
        super().__init__(look, entries, policy, accepted)
        self._causes: tuple[Hash, ...] = (cause,)
        self._next_causes: tuple[Hash, ...] = self._causes
        """Parents that the next call must name."""

    def check(self, turn: steps.AgentTurn | steps.ToolProbe) -> None:
        """Check the turn as far as it is recorded."""
        if isinstance(turn, steps.ToolProbe):
            self._check_probe(turn)
        else:
            self._check_agent_turn(turn)
        for item in self._remaining:
            detail = f"{item.entry.step}: it is not what comes next in turn {turn.name}"
            self._comparer.report_fault(record_comparison.Breach.COURSE, detail, item)

    def _has_stopped(self) -> bool:
        """Return whether the turn ended here, or its record stops here."""
        return self._take_end() or not self._remaining

    def _take_end(self) -> bool:
        """Consume an entry that ends the turn without a verdict; return whether there was one."""
        end = self._take_next(*_END_FACTS)
        if end is None:
            return False
        started, stops = end.entry.n > 0, isinstance(end.entry.facts, kinds.StopFacts)
        self._check_step(end, "stop" if stops else "skip", "")
        self._comparer.compare_parents(end, () if started else self._causes)
        self._comparer.compare_bodies(record_comparison.Breach.COURSE, end, ())
        if stops:
            self._check_stopped(end)
        elif started:
            self._comparer.report_fault(
                record_comparison.Breach.COURSE, f"{end.entry.step}: it had begun", end
            )
        else:
            self._comparer.compare_facts(
                record_comparison.Breach.COURSE, end, kinds.SkipFacts(schedule.STOP_CAUSE)
            )
        return True

    def _check_stopped(self, end: record_comparison.IndexedEntry) -> None:
        """Check that the turn reached the limit that stopped it."""
        expected = self._expected_stop(
            end.entry.facts, kinds.task_of_strand(end.entry.strand) or ""
        )
        if expected is None:
            detail = f"{end.entry.step}: it has met no limit of its own"
            self._comparer.report_fault(record_comparison.Breach.COURSE, detail, end)
        else:
            self._comparer.compare_facts(record_comparison.Breach.COURSE, end, expected)

    def _is_end_next(self) -> bool:
        return isinstance(self._remaining[0].entry.facts, _END_FACTS)

    def _check_agent_turn(self, turn: steps.AgentTurn) -> None:
        prompt = build_prompt(turn.briefing, turn.prompt)
        self._progress.advance(call_rules.QuestionAsked(turn.limits))
        while not self._has_stopped():
            reply = self._check_exchange(turn, prompt.text)
            if reply is None:
                return
            if self._progress.state.move is call_rules.Move.REPEAT:
                self._check_repeated(reply)
                continue
            fault = self._check_reply(turn, reply)
            if fault is None:
                return
            if self._progress.state.move is call_rules.Move.REPAIR:
                prompt = prompt.with_repair(self._quoted(reply), fault[:500])
                self._causes = ()
            self._next_causes = self._causes

    def _check_exchange(
        self, turn: steps.AgentTurn, prompt: bytes
    ) -> record_comparison.IndexedEntry | None:
        """Check a call and return its reply."""
        call = self._take_next(kinds.CallFacts)
        if call is None:
            return None
        self._check_call(call, turn, prompt)
        reply = self._take_next(kinds.ReplyFacts)
        if reply is None:
            self._check_unanswered()
        else:
            self._check_step(reply, f"{call.entry.step}/reply", turn.agent)
            self._comparer.compare_parents(reply, ())
            self._check_lost(call, reply)
            self._check_bill(call, reply)
            self._count_reply(call.entry.facts, reply)
        return reply

    def _check_unanswered(self) -> None:
        """Check a turn whose last call has no reply: it is open, or ended with an error."""
        end = self._remaining[0] if self._remaining else None
        if end is None or not self._take_end():
            return
        facts = end.entry.facts
        if not isinstance(facts, kinds.StopFacts) or facts.reason is not kinds.StopReason.ERROR:
            detail = f"{end.entry.step}: what came of the last call was never recorded"
            self._comparer.report_fault(record_comparison.Breach.COURSE, detail, end)

    def _check_repeated(self, reply: record_comparison.IndexedEntry) -> None:
        """Check that a call that is made again was lost or turned away, and not too often."""
        facts: kinds.ReplyFacts = reply.entry.facts
        too_often = self._progress.state.lost > call_rules.MAX_LOST_CALLS
        if too_often and self._remaining and not self._is_end_next():
            self._diverge("it was lost too often to be made again")
        if facts.outcome is Outcome.OK:
            # Otherwise a writer could discard an unwelcome reply by calling it throttled.
            self._comparer.report_fault(
                record_comparison.Breach.COURSE,
                f"{reply.entry.step}: it was not turned away",
                reply,
            )

    def _check_reply(
        self, turn: steps.AgentTurn, reply: record_comparison.IndexedEntry
    ) -> str | None:
        """Return the fault for which the agent is asked again, or None if the turn ends here.

        The fault counts only for a repair: if the call itself failed, the same prompt is sent.
        """
        facts: kinds.ReplyFacts = reply.entry.facts
        output, fault = self._comparer.read_body(reply, "output"), ""
        if facts.outcome is Outcome.OK:
            try:
                turn.read(output)
            except ValueError as error:
                fault = str(error)
            else:
                self._check_accepted_reply(turn, output)
                return None
        failed = steps.TurnResult(
            turn="",
            fate=steps.TurnStatus.FAILED,
            output=output,
            outcome=facts.outcome,
            why=facts.why,
            code=facts.code,
        )
        read = call_rules.ReplyRead(facts.outcome, usable=False, hopeless=turn.hopeless(failed))
        if self._progress.advance(read).move is call_rules.Move.GIVE_UP:
            # A call cut off by the end of the session is not a failure of the turn.
            if facts.why not in steps.CUT_OFF_REASONS or not self._take_end():
                self._check_verdict(call_rules.form_verdict(facts.outcome, usable=False))
            return None
        if self._is_verdict_next():
            self._diverge(f"turn {turn.name}: it was given up too early")
        return fault

    def _quoted(self, reply: record_comparison.IndexedEntry) -> Quotation:
        output = self._comparer.read_body(reply, "output")[: self._policy.input_bytes]
        committed = reply.entry.bodies.get("output")
        return Quotation("you", output, committed.size if committed else 0)

    def _is_verdict_next(self) -> bool:
        return bool(self._remaining) and isinstance(
            self._remaining[0].entry.facts, kinds.VerdictFacts
        )

    def _check_call(
        self, call: record_comparison.IndexedEntry, turn: steps.AgentTurn, prompt: bytes
    ) -> None:
        facts: kinds.CallFacts = call.entry.facts
        number = self._progress.state.calls + 1
        self._check_step(call, f"attempt/1/call/{number}", turn.agent)
        if (facts.agent, facts.role, facts.attempt, facts.turn) != (turn.agent, "", 1, number):
            detail = f"{call.entry.step}: {facts.agent!r} was asked and not {turn.agent!r}"
            self._comparer.report_fault(record_comparison.Breach.ASKED, detail, call)
        self._check_call_count(call)
        longest = min(self._policy.call_milliseconds, self._accepted.milliseconds)
        if facts.milliseconds != longest:
            detail = f"{call.entry.step}: it may take {longest} milliseconds"
            self._comparer.report_fault(record_comparison.Breach.COURSE, detail, call)
        bodies = [("prompt", prompt), *([("schema", turn.schema)] if turn.schema else [])]
        self._comparer.compare_bodies(record_comparison.Breach.ASKED, call, bodies)
        self._comparer.compare_parents(call, self._next_causes)
        self._next_causes = ()  # a repeated call follows its predecessor in the strand

    def _check_step(self, where: record_comparison.IndexedEntry, step: str, agent: str) -> None:
        self._comparer.compare_step(
            record_comparison.Breach.COURSE, where, step, agent or record_comparison.WRITER
        )

    def _check_accepted_reply(self, turn: steps.AgentTurn, output: bytes) -> None:
        """Check the note and the verdict that follow a valid reply."""
        note = turn.note(output) if turn.note else None
        if note is not None and self._remaining:
            if not isinstance(self._remaining[0].entry.facts, type(note.facts)):
                self._diverge(f"turn {turn.name}: nothing is recorded of what was said")
            recorded = self._remaining.pop(0)
            self._comparer.compare_note(
                record_comparison.Breach.RECORDED,
                recorded,
                note,
                turn.agent or record_comparison.WRITER,
            )
            self._comparer.compare_parents(recorded, ())
        self._check_verdict(call_rules.form_verdict(Outcome.OK, usable=True))

    def _check_verdict(self, expected: kinds.VerdictFacts) -> None:
        """Check the verdict, which must be the last entry of the turn.

        It is committed in one transaction with the reply.
        """
        if not self._remaining:
            return
        verdict = self._take_next(kinds.VerdictFacts)
        if verdict is None:
            self._diverge("it does not end as its last reply says")
        self._check_step(verdict, _VERDICT, "")
        self._comparer.compare_parents(verdict, ())
        self._comparer.compare_facts(record_comparison.Breach.COURSE, verdict, expected)
        self._comparer.compare_bodies(record_comparison.Breach.COURSE, verdict, ())
        if verdict.entry.facts.next is not expected.next:
            raise record_comparison.RecordDiverged

    def _check_probe(self, probe: steps.ToolProbe) -> None:
        for number in range(1, schedule.MAX_CHECK_ATTEMPTS + 1):
            if self._has_stopped():
                return
            facts = self._check_probe_call(probe, "check" if number == 1 else f"check/{number}")
            if facts is None:
                return
            if facts.why is not kinds.Why.LOST or number == schedule.MAX_CHECK_ATTEMPTS:
                self._check_probe_result(facts)
                return

    def _check_probe_call(self, probe: steps.ToolProbe, step: str) -> kinds.OutcomeFacts | None:
        """Check one call of the tool and return its outcome, or None if there is none."""
        intent = self._take_next(kinds.IntentFacts)
        if intent is None:
            return None
        self._check_step(intent, step, "")
        self._comparer.compare_facts(
            record_comparison.Breach.ASKED, intent, kinds.IntentFacts(probe.tool)
        )
        self._comparer.compare_bodies(
            record_comparison.Breach.ASKED, intent, [("arguments", probe.given)]
        )
        self._comparer.compare_parents(intent, self._next_causes)
        self._next_causes = ()
        happened = self._take_next(kinds.OutcomeFacts)
        if happened is None:
            self._check_unanswered()
            return None
        self._check_step(happened, f"{step}/outcome", "")
        self._comparer.compare_parents(happened, ())
        facts: kinds.OutcomeFacts = happened.entry.facts
        if facts.known:
            self._comparer.report_fault(
                record_comparison.Breach.COURSE, f"{step}: it is looked at anew each time", happened
            )
        if facts.why is kinds.Why.LOST:
            lost = kinds.OutcomeFacts(Outcome.INDETERMINATE, kinds.Why.LOST)
            self._comparer.compare_facts(record_comparison.Breach.COURSE, happened, lost)
            self._comparer.compare_bodies(record_comparison.Breach.COURSE, happened, ())
        return facts

    def _check_probe_result(self, facts: kinds.OutcomeFacts) -> None:
        """Check the end of a tool check."""
        if facts.outcome is Outcome.INDETERMINATE and self._take_end():
            return  # cut off by the end of the session
        self._check_verdict(call_rules.tool_verdict(facts.outcome))
