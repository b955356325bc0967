"""Checking one turn: calls and their replies, what is recorded of them, and the verdict."""

from collections.abc import Sequence

from msgspec.structs import replace

from forum.deliberation.comparing import WRITER, Breach, Indexed, Look, Parted
from forum.deliberation.steps import CUTS, NOTHING, Asked, Fate, Probe, Said
from forum.ledger import Amount, Facts, Outcome
from forum.tlog import Hash
from forum.work import (
    MOST_LOOKS,
    MOST_LOST,
    MOST_THROTTLED,
    STOP,
    Accepted,
    Called,
    Check,
    Happened,
    Intended,
    Judged,
    Next,
    Policy,
    Quoted,
    Replied,
    Skipped,
    Source,
    Stopped,
    StopReason,
    Why,
    find_loop,
    opening,
    repair_prompt,
    task_of,
)

_VERDICT = "attempt/1/verdict"
_ENDS = (Stopped, Skipped)
"""By what a turn ends without a verdict."""


class Course:
    """One turn while it is checked: calls and their replies, what is recorded of it, a verdict."""

    def __init__(
        self,
        look: Look,
        entries: Sequence[Indexed],
        policy: Policy,
        accepted: Accepted,
        cause: Hash,
    ) -> None:
        self._look, self._left = look, list(entries)
        self._policy, self._accepted = policy, accepted
        self._causes: tuple[Hash, ...] = (cause,)
        self._named: tuple[Hash, ...] = self._causes
        """What the next call names as its cause."""
        self._failed = 0
        """How often it was asked in vain."""
        self._spent = NOTHING
        self._lost = self._throttled = 0
        """How often in a row a call was lost, or turned away."""
        self._calls = 0
        self._said: list[tuple[str, bytes]] = []
        """What was said by whom, in vain."""

    def check(self, turn: Asked | Probe) -> None:
        """Check the turn as far as it has come."""
        if isinstance(turn, Probe):
            self._check_probe(turn)
        else:
            self._check_asked(turn)
        for one in self._left:
            detail = f"{one.entry.step}: it is not what comes next in turn {turn.name}"
            self._look.find(Breach.COURSE, detail, one)

    def _next(self, *kinds: type[Facts]) -> Indexed | None:
        """Take the next entry, if it is of one of these kinds."""
        if self._left and isinstance(self._left[0].entry.facts, kinds):
            return self._left.pop(0)
        return None

    def _is_cut(self) -> bool:
        """Tell whether the turn ended here, or goes on later."""
        return self._take_end() or not self._left

    def _take_end(self) -> bool:
        """Take what ends the turn without a verdict, if that is what comes next."""
        end = self._next(*_ENDS)
        if end is None:
            return False
        begun, stops = end.entry.n > 0, isinstance(end.entry.facts, Stopped)
        self._check_step(end, "stop" if stops else "skip", "")
        self._look.compare_parents(end, () if begun else self._causes)
        self._look.compare_bodies(Breach.COURSE, end, ())
        if stops:
            self._check_stopped(end)
        elif begun:
            self._look.find(Breach.COURSE, f"{end.entry.step}: it had begun", end)
        else:
            self._look.compare_facts(Breach.COURSE, end, Skipped(STOP))
        return True

    def _check_stopped(self, end: Indexed) -> None:
        """Check that the turn has met the limit that has stopped it."""
        expected = self._stop_of(end.entry.facts, task_of(end.entry.strand) or "")
        if expected is None:
            detail = f"{end.entry.step}: it has met no limit of its own"
            self._look.find(Breach.COURSE, detail, end)
        else:
            self._look.compare_facts(Breach.COURSE, end, expected)

    def _stop_of(self, stopped: Stopped, by: str) -> Stopped | None:
        """Return what the stop of this turn has to say, or nothing if it could not be stopped."""
        most = self._accepted.milliseconds
        match stopped.reason:
            case StopReason.BUDGET:
                # What it says of that is checked by those who know what all turns have used.
                return replace(stopped, by=by)
            case StopReason.DEADLINE:
                return Stopped(StopReason.DEADLINE, "milliseconds", 0, most, most, by)
            case StopReason.CANCELLED:
                return Stopped(StopReason.CANCELLED, by=by)
            case StopReason.ERROR:
                return Stopped(StopReason.ERROR, stopped.limit, by=by)
            case _:
                return self._limit_met(by)

    def _limit_met(self, by: str) -> Stopped | None:
        """Return by which limit of its own a turn was stopped."""
        turns, repeats = self._policy.turns, self._policy.repeats
        if self._lost > MOST_LOST:
            return Stopped(StopReason.LOST, "calls", 1, self._lost, MOST_LOST, by)
        if self._calls >= turns:
            return Stopped(StopReason.TURNS, "turns", 1, turns, turns, by)
        if loop := find_loop(self._said, repeats):
            return Stopped(loop, "repeats", 1, repeats, repeats, by)
        return None

    def _ended(self) -> bool:
        return isinstance(self._left[0].entry.facts, _ENDS)

    def _check_asked(self, turn: Asked) -> None:
        prompt = opening(turn.briefing, turn.prompt).text
        while not self._is_cut():
            self._calls += 1
            reply = self._check_exchange(turn, prompt)
            if reply is None:
                return
            if self._is_made_again(turn, reply):
                continue
            self._lost = self._throttled = 0
            fault = self._judge(turn, reply)
            if fault is None:
                return
            if fault:
                prompt = repair_prompt(prompt, self._quoted(reply), fault[:500])
                self._causes = ()
            self._named = self._causes

    def _check_exchange(self, turn: Asked, prompt: bytes) -> Indexed | None:
        """Check a call, and return its reply."""
        call = self._next(Called)
        if call is None:
            return None
        self._check_call(call, turn, prompt)
        reply = self._next(Replied)
        if reply is None:
            self._check_unanswered()
        else:
            self._check_step(reply, f"{call.entry.step}/reply", turn.agent)
            self._look.compare_parents(reply, ())
            self._check_lost(call, reply)
            self._check_bill(call, reply)
            facts: Replied = reply.entry.facts
            self._spent = self._spent.plus(Amount(facts.usd, facts.tokens, 1))
        return reply

    def _check_unanswered(self) -> None:
        """Check a turn whose last call is open: it goes on later, or its record was unreadable."""
        end = self._left[0] if self._left else None
        if end is None or not self._take_end():
            return
        facts = end.entry.facts
        if not isinstance(facts, Stopped) or facts.reason is not StopReason.ERROR:
            detail = f"{end.entry.step}: what came of the last call was never recorded"
            self._look.find(Breach.COURSE, detail, end)

    def _check_lost(self, call: Indexed, reply: Indexed) -> None:
        """Check a call that nobody heard the end of: it has cost all of it, and said nothing."""
        called: Called = call.entry.facts
        if reply.entry.facts.why is Why.LOST:
            lost = Replied(Outcome.INDETERMINATE, Why.LOST, called.usd, called.tokens)
            self._look.compare_facts(Breach.COURSE, reply, lost)
            self._look.compare_bodies(Breach.COURSE, reply, ())

    def _check_bill(self, call: Indexed, reply: Indexed) -> None:
        """Check that what was paid in another run, or not reserved, is told apart."""
        called: Called = call.entry.facts
        facts: Replied = reply.entry.facts
        over = max(0, facts.usd - called.usd), max(0, facts.tokens - called.tokens)
        if (facts.overrun_usd, facts.overrun_tokens) != over:
            detail = f"{reply.entry.step}: it has passed what was reserved by {over}"
            self._look.find(Breach.COURSE, detail, reply)
        cost = (called.usd, called.tokens, facts.usd, facts.tokens)
        if facts.source is Source.RECORDED and (any(cost) or not self._accepted.fork_run):
            detail = f"{reply.entry.step}: no other run has paid for it"
            self._look.find(Breach.COURSE, detail, reply)

    def _is_made_again(self, turn: Asked, reply: Indexed) -> bool:
        """Tell whether a call is made again as it was: it was lost, or turned away."""
        facts: Replied = reply.entry.facts
        if self._spent.exceeds(turn.allowance):
            return False
        if facts.why is Why.LOST:
            self._lost += 1
            if self._lost > MOST_LOST and self._left and not self._ended():
                self._part("it was lost too often to be made again")
            return True
        if facts.why is not Why.THROTTLED or self._throttled == MOST_THROTTLED:
            return False
        if facts.outcome is Outcome.OK:
            # Else whoever likes another reply better says that there was none.
            self._look.find(Breach.COURSE, f"{reply.entry.step}: it was not turned away", reply)
        self._throttled += 1
        return True

    def _judge(self, turn: Asked, reply: Indexed) -> str | None:
        """Return what was wrong with a reply for which it is asked again; nothing at the end."""
        facts: Replied = reply.entry.facts
        output, fault = self._look.read(reply, "output"), ""
        self._failed += 1
        if facts.outcome is Outcome.OK:
            try:
                turn.read(output)
            except ValueError as error:
                fault = str(error)
                self._said.append((turn.agent, output + self._look.read(reply, "uses")))
            else:
                self._check_said(turn, output)
                return None
        failed = Said("", Fate.FAILED, output, facts.outcome, facts.why, facts.code)
        denied, dear = facts.outcome is Outcome.DENIED, self._spent.exceeds(turn.allowance)
        if self._failed > turn.retries or denied or dear or turn.hopeless(failed):
            # Nobody has failed who was cut off when all of the session was to end.
            if facts.why not in CUTS or not self._take_end():
                self._check_failed(facts.outcome)
            return None
        if self._ends():
            self._part(f"turn {turn.name}: it was given up too early")
        return fault

    def _quoted(self, reply: Indexed) -> Quoted:
        output = self._look.read(reply, "output")[: self._policy.input_bytes]
        committed = reply.entry.bodies.get("output")
        return Quoted("you", output, committed.size if committed else 0)

    def _ends(self) -> bool:
        return bool(self._left) and isinstance(self._left[0].entry.facts, Judged)

    def _check_call(self, call: Indexed, turn: Asked, prompt: bytes) -> None:
        facts: Called = call.entry.facts
        number = self._calls
        self._check_step(call, f"attempt/1/call/{number}", turn.agent)
        if (facts.agent, facts.role, facts.attempt, facts.turn) != (turn.agent, "", 1, number):
            detail = f"{call.entry.step}: {facts.agent!r} was asked and not {turn.agent!r}"
            self._look.find(Breach.ASKED, detail, call)
        longest = min(self._policy.call_milliseconds, self._accepted.milliseconds)
        if facts.milliseconds != longest:
            detail = f"{call.entry.step}: it may take {longest} milliseconds"
            self._look.find(Breach.COURSE, detail, call)
        told = [("prompt", prompt), *([("schema", turn.schema)] if turn.schema else [])]
        self._look.compare_bodies(Breach.ASKED, call, told)
        self._look.compare_parents(call, self._named)
        self._named = ()  # one that is made again, as it was, follows from this one

    def _check_step(self, where: Indexed, step: str, agent: str) -> None:
        self._look.compare_place(Breach.COURSE, where, step, agent or WRITER)

    def _check_said(self, turn: Asked, output: bytes) -> None:
        """Check what is recorded of a reply in the right form."""
        note = turn.note(output) if turn.note else None
        if note is not None and self._left:
            if not isinstance(self._left[0].entry.facts, type(note.facts)):
                self._part(f"turn {turn.name}: nothing is recorded of what was said")
            taken = self._left.pop(0)
            self._look.compare_note(Breach.RECORDED, taken, note, turn.agent or WRITER)
            self._look.compare_parents(taken, ())
        self._check_verdict(Judged(1, Outcome.OK, Check.FORM, Next.ACCEPT))

    def _check_failed(self, outcome: Outcome) -> None:
        """Check the end of a turn that has come to nothing."""
        if outcome is Outcome.OK:
            self._check_verdict(Judged(1, Outcome.FAILED, Check.FORM, Next.GIVE_UP, "form"))
        else:
            verdict = Judged(1, outcome, Check.OUTCOME, Next.GIVE_UP, outcome.value)
            self._check_verdict(verdict)

    def _check_verdict(self, expected: Judged) -> None:
        """Check the verdict, which is all that follows: it is in one commit with the reply."""
        if not self._left:
            return
        verdict = self._next(Judged)
        if verdict is None:
            self._part("it does not end as its last reply says")
            return
        self._check_step(verdict, _VERDICT, "")
        self._look.compare_parents(verdict, ())
        self._look.compare_facts(Breach.COURSE, verdict, expected)
        self._look.compare_bodies(Breach.COURSE, verdict, ())
        if verdict.entry.facts.next is not expected.next:
            raise Parted

    def _part(self, detail: str) -> None:
        """Tell where the record parts from all that the protocol could have led to."""
        self._look.find(Breach.COURSE, detail, self._left[0])
        raise Parted

    def _check_probe(self, probe: Probe) -> None:
        for number in range(1, MOST_LOOKS + 1):
            if self._is_cut():
                return
            facts = self._check_look(probe, "check" if number == 1 else f"check/{number}")
            if facts is None:
                return
            if facts.why is not Why.LOST or number == MOST_LOOKS:
                self._check_found(facts)
                return

    def _check_look(self, probe: Probe, step: str) -> Happened | None:
        """Check one look of a tool, and return what came of it."""
        intent = self._next(Intended)
        if intent is None:
            return None
        self._check_step(intent, step, "")
        self._look.compare_facts(Breach.ASKED, intent, Intended(probe.tool))
        self._look.compare_bodies(Breach.ASKED, intent, [("arguments", probe.given)])
        self._look.compare_parents(intent, self._named)
        self._named = ()
        happened = self._next(Happened)
        if happened is None:
            self._check_unanswered()
            return None
        self._check_step(happened, f"{step}/outcome", "")
        self._look.compare_parents(happened, ())
        facts: Happened = happened.entry.facts
        if facts.known:
            self._look.find(Breach.COURSE, f"{step}: it is looked at anew each time", happened)
        if facts.why is Why.LOST:
            lost = Happened(Outcome.INDETERMINATE, Why.LOST)
            self._look.compare_facts(Breach.COURSE, happened, lost)
            self._look.compare_bodies(Breach.COURSE, happened, ())
        return facts

    def _check_found(self, facts: Happened) -> None:
        """Check the end of a turn in which a tool was asked."""
        if facts.outcome is Outcome.INDETERMINATE and self._take_end():
            return  # cut off when all of the session was to end
        held = facts.outcome is Outcome.OK
        following = Next.ACCEPT if held else Next.GIVE_UP
        reason = "" if held else facts.outcome.value
        self._check_verdict(Judged(1, facts.outcome, Check.COMMAND, following, reason))
