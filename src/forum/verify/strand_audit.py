"""What the audits of a turn and of a task share: its calls, replayed by the rules of calls."""

from collections.abc import Sequence
from typing import NoReturn

from msgspec.structs import replace

from forum.ledger.entry import Facts
from forum.ledger.kinds import Outcome
from forum.runs import call_rules, kinds, record_comparison
from forum.runs.policy import Policy


class StrandAuditor:
    """The audit of the entries of one strand, in their order."""

    def __init__(
        self,
        comparer: record_comparison.RecordComparer,
        entries: Sequence[record_comparison.IndexedEntry],
        policy: Policy,
        accepted: kinds.AcceptedFacts,
    ) -> None:
        self._comparer, self._remaining = comparer, list(entries)
        self._policy, self._accepted = policy, accepted
        self._progress = call_rules.CallTracker(policy)

    def _take_next(self, *types: type[Facts]) -> record_comparison.IndexedEntry | None:
        """Take the next entry if its facts have one of these types, else return None."""
        if self._remaining and isinstance(self._remaining[0].entry.facts, types):
            return self._remaining.pop(0)
        return None

    def _diverge(self, detail: str) -> NoReturn:
        """Report the next entry as impossible under the rules. Raises `RecordDiverged`."""
        self._comparer.report_fault(record_comparison.Breach.COURSE, detail, self._remaining[0])
        raise record_comparison.RecordDiverged

    def _count_reply(
        self, called: kinds.CallFacts, reply: record_comparison.IndexedEntry, question: bytes = b""
    ) -> call_rules.Move:
        """Count a call with its reply, and return what follows by the rules."""
        facts: kinds.ReplyFacts = reply.entry.facts
        digest = b""
        if facts.outcome is Outcome.OK:
            output, uses = (self._comparer.read_body(reply, name) for name in ("output", "uses"))
            digest = call_rules.digest_reply(question, output, uses)
        received = call_rules.ReplyReceived(facts, f"{called.agent} {called.role}", digest)
        return self._progress.advance(received).move

    def _check_lost(
        self, call: record_comparison.IndexedEntry, reply: record_comparison.IndexedEntry
    ) -> None:
        """Check a lost call: its whole reservation counts as spent, and it has no output."""
        called: kinds.CallFacts = call.entry.facts
        if reply.entry.facts.why is kinds.Why.LOST:
            lost = kinds.ReplyFacts(
                Outcome.INDETERMINATE, kinds.Why.LOST, called.usd, called.tokens
            )
            self._comparer.compare_facts(record_comparison.Breach.COURSE, reply, lost)
            self._comparer.compare_bodies(record_comparison.Breach.COURSE, reply, ())

    def _check_call_count(self, where: record_comparison.IndexedEntry) -> None:
        """Check that a call of a model, or its reply, counts as one; only inner runs make more."""
        if where.entry.facts.calls != 1:
            detail = f"{where.entry.step}: it is one call, and not {where.entry.facts.calls}"
            self._comparer.report_fault(record_comparison.Breach.COURSE, detail, where)

    def _check_bill(
        self, call: record_comparison.IndexedEntry, reply: record_comparison.IndexedEntry
    ) -> None:
        """Check that overruns are recorded, and that only a fork has replies for free."""
        called: kinds.CallFacts = call.entry.facts
        facts: kinds.ReplyFacts = reply.entry.facts
        self._check_call_count(reply)
        over = max(0, facts.usd - called.usd), max(0, facts.tokens - called.tokens)
        if (facts.overrun_usd, facts.overrun_tokens) != over:
            detail = f"{reply.entry.step}: it has passed what was reserved by {over}"
            self._comparer.report_fault(record_comparison.Breach.COURSE, detail, reply)
        cost = (called.usd, called.tokens, facts.usd, facts.tokens)
        # Only a fork takes over replies, and then reserves and pays nothing.
        recorded = facts.source is kinds.ReplyOrigin.RECORDED
        if recorded and (any(cost) or not self._accepted.fork_run):
            detail = f"{reply.entry.step}: no other run has paid for it"
            self._comparer.report_fault(record_comparison.Breach.COURSE, detail, reply)

    def _expected_stop(self, stopped: kinds.StopFacts, by: str) -> kinds.StopFacts | None:
        """Return the facts that a stop must have, or None if no stop was possible."""
        most = self._accepted.milliseconds
        match stopped.reason:
            case kinds.StopReason.BUDGET:
                # The amounts cannot be checked here: they depend on the spending of other strands.
                return replace(stopped, by=by)
            case kinds.StopReason.DEADLINE:
                reason = kinds.StopReason.DEADLINE
                return kinds.StopFacts(
                    reason=reason, limit="milliseconds", asked=0, used=most, cap=most, by=by
                )
            case kinds.StopReason.CANCELLED:
                return kinds.StopFacts(kinds.StopReason.CANCELLED, by=by)
            case kinds.StopReason.ERROR:
                return kinds.StopFacts(kinds.StopReason.ERROR, stopped.limit, by=by)
            case _:
                limit = self._progress.state.limit
                return replace(limit, by=by) if limit else None
