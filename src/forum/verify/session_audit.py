"""Auditing a session: replay its replies through its protocol and compare with the record.

A protocol depends on nothing but the replies, so any auditor that replays the replies of a session
computes the same prompts, notes and answer, byte for byte. A holder of the log's keys can write
anything into the log, but cannot make a vote follow from ballots that were not cast.

Erased bodies cannot be compared. They are reported as not checked, never as correct.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from forum.errors import ProtocolMissing
from forum.ledger.entry import MAIN_STRAND, MAX_PARENTS, Entry
from forum.ledger.kinds import JoinFacts, Kinds, Outcome
from forum.ledger.ports import Position
from forum.runs import answer_similarity, kinds, record_comparison, run_fold, session_steps
from forum.runs.about import check_subject
from forum.runs.claims import count_unverified, read_claims
from forum.runs.panel_protocol import start_protocol
from forum.runs.policy import Policy, read_policy
from forum.runs.session_flags import flag_notes
from forum.runs.turn_results import build_turn_result
from forum.tlog import Hash
from forum.verify.cost_audit import SpendBounds
from forum.verify.run_audit import SINGLE_ENTRY_FACTS, RunAuditor
from forum.verify.turn_audit import TurnAuditor

ReadRun = Callable[[str], record_comparison.SessionEntries]
"""Returns the entries of another run; none if it is not there."""


def _read_no_run(run: str) -> record_comparison.SessionEntries:
    return record_comparison.SessionEntries(run, (), lambda _where, _name: None)


class SessionAudit(msgspec.Struct, frozen=True):
    """The result of auditing a session."""

    is_session: bool
    """Whether the run has a panel at all."""
    faults: tuple[record_comparison.AuditFault, ...]
    not_checked: tuple[str, ...]


def audit_session(
    minutes: record_comparison.SessionEntries, known_kinds: Kinds, read_run: ReadRun = _read_no_run
) -> SessionAudit:
    """Replay a session through its protocol and compare every step with its record.

    `read_run` reads the run that the session is about. Raises nothing: a record that cannot be
    replayed is reported as a fault, and one whose protocol is not there as not checked.
    """
    look = record_comparison.RecordComparer(minutes)
    is_session = True
    try:
        is_session = _SessionAuditor(look, known_kinds).check()
        check_subject(look, read_run)
    except record_comparison.RecordDiverged:
        pass  # the fault was reported where it was raised
    except record_comparison.BodyMissing as error:
        look.report_unchecked(f"from {error} on, which is not there")
    except ProtocolMissing as error:
        look.report_unchecked(str(error))
    except Exception as error:  # noqa: BLE001  reported: a forged record may have any form
        look.report_fault(
            record_comparison.Breach.COURSE, f"it cannot be played: {type(error).__name__}"
        )
    return SessionAudit(is_session, tuple(look.faults), tuple(look.not_checked))


def is_turn_strand(strand: str) -> bool:
    """Return whether a strand belongs to a turn; a run with such a strand is a session."""
    return strand.startswith(kinds.task_strand(kinds.TURN_PREFIX))


def is_session_entry(entry: Entry[Any], known_kinds: Kinds) -> bool:
    """Return whether only sessions record such entries: readers then treat the run as one."""
    return (
        isinstance(entry.facts, kinds.AboutFacts)
        or entry.kind.encode() in known_kinds.session_kinds
    )


def may_have_panel(policy: bytes) -> bool:
    """Return whether the recorded form of a policy may contain a panel.

    JSON escapes can spell the member's name in other ways, so a policy with escapes counts as a
    possible session and is parsed in full.
    """
    return b'"panel"' in policy or b"\\u" in policy


class _SessionAuditor:
    """The state of one audit."""

    def __init__(self, look: record_comparison.RecordComparer, known_kinds: Kinds) -> None:
        entries = look.minutes.entries
        self._comparer, self._kinds = look, known_kinds
        self._state = run_fold.fold((item.leaf, item.entry) for item in entries)
        self._strands: dict[str, list[record_comparison.IndexedEntry]] = {}
        for item in entries:
            self._strands.setdefault(item.entry.strand, []).append(item)
        self._places = {(item.entry.strand, item.entry.n): item for item in entries}
        main = self._main = self._strands.get(MAIN_STRAND, [])
        self._joins = {
            o.entry.step: o for o in reversed(main) if isinstance(o.entry.facts, JoinFacts)
        }
        joins = {item.leaf for item in self._joins.values()}
        self._pauses = [
            o
            for o in main
            if isinstance(o.entry.facts, kinds.InterruptionFacts | kinds.ResumptionFacts)
        ]
        self._notes = [
            o
            for o in main
            if o.leaf not in joins
            and not isinstance(
                o.entry.facts, (*SINGLE_ENTRY_FACTS, kinds.InterruptionFacts, kinds.ResumptionFacts)
            )
        ]
        self._frame = RunAuditor(look, self._strands, self._state)
        self._expected_strands = {MAIN_STRAND, kinds.CONTROL}
        self._accepted = self._state.accepted or kinds.AcceptedFacts()
        self._spending = SpendBounds(self._accepted.cap)
        self._last_index = -1
        """Index in the log after which all entries of the next step must lie."""

    def check(self) -> bool:
        """Run the audit and return whether the run is a session."""
        requests = [
            item for item in self._main if isinstance(item.entry.facts, kinds.AcceptedFacts)
        ]
        accepted = requests[0] if requests else None
        if accepted is None or not {"policy", "request"} <= accepted.entry.bodies.keys():
            self._comparer.report_fault(
                record_comparison.Breach.MISSING,
                "nobody has asked for it, or not said how",
                accepted,
            )
            return True
        policy = read_policy(self._read_whole(accepted, "policy"))
        if policy.panel is None:
            for item in requests[1:]:  # a reader may use the last one and see a session
                self._comparer.report_fault(
                    record_comparison.Breach.SURPLUS,
                    f"{item.entry.step}: it was asked for already",
                    item,
                )
            self._check_strands(filter(is_turn_strand, self._strands))
            self._check_no_session_facts()
            return False
        policy.check(None)
        routes = [item for item in self._main if isinstance(item.entry.facts, kinds.RouteFacts)]
        subjects = [item for item in self._main if isinstance(item.entry.facts, kinds.AboutFacts)]
        self._cause = [accepted, *routes, *subjects][-1].leaf
        problem = self._read_whole(accepted, "request").decode(errors="replace")
        session = session_steps.Session(problem, policy, accepted.entry.ts)
        for item in self._comparer.minutes.entries:
            self._comparer.compare_media_types(
                record_comparison.Breach.COURSE,
                item,
                record_comparison.BODY_MEDIA_TYPES.get(type(item.entry.facts), {}),
            )
        self._frame.check()
        closing = self._replay_protocol(start_protocol(self._kinds, session), policy)
        if closing is not None:
            self._check_answer(session, closing)
        else:
            self._comparer.report_unchecked("how it goes on, for it is not over")
        self._frame.check_stop_position()
        self._check_main()
        self._check_strands(self._strands)
        return True

    def _read_whole(self, where: record_comparison.IndexedEntry, name: str) -> bytes:
        return self._comparer.read_body(where, name, where.entry.bodies[name].size)

    def _replay_protocol(
        self, steps: session_steps.ProtocolSteps, policy: Policy
    ) -> session_steps.SessionResult | None:
        """Replay what is recorded; return the result, or None if the session is not over."""
        result: session_steps.BatchResult | None = None
        while True:
            step = session_steps.advance_protocol(steps, result)
            if isinstance(step, session_steps.SessionResult):
                return step
            if isinstance(step, session_steps.SessionNote):
                result = self._check_note(step)
            elif isinstance(step, answer_similarity.SimilarityRequest):
                result = self._check_similarity(step)
            else:
                result = self._check_turns(step, policy)
            if result is None:
                return None

    def _report_missing(self, what: str) -> None:
        """Report a missing entry, unless the run is still open and may yet record it."""
        if self._is_over():
            self._comparer.report_fault(record_comparison.Breach.MISSING, what, self._main[-1])
            raise record_comparison.RecordDiverged

    def _is_over(self) -> bool:
        """Return whether the session has ended: the answer follows from all of it."""
        return self._state.outcome is not None or self._state.answered is not None

    def _check_similarity(
        self, request: answer_similarity.SimilarityRequest
    ) -> session_steps.BatchResult | None:
        """Take the verdicts of the encoder from the record, and check all else of their entry.

        Vectors are not computed here, so a verdict that the encoder never gave cannot be found.
        """
        entries = [item for item in self._notes if item.entry.step == request.step]
        reading = answer_similarity.SimilarityReading()
        if entries:
            facts = entries[0].entry.facts
            try:
                body = self._comparer.read_body(
                    entries[0], "scores", answer_similarity.MAX_SCORES_BYTES
                )
                reading = answer_similarity.read_similarity(request, facts, body)
            except (ValueError, AttributeError):  # facts of another kind have no such members
                self._comparer.report_fault(
                    record_comparison.Breach.COUNTED,
                    f"{request.step}: it does not compare the answers that were given",
                    entries[0],
                )
                raise record_comparison.RecordDiverged from None
        checked = self._check_note(session_steps.similarity_note(request, reading))
        if checked is None:
            return None
        if reading.verdicts:
            self._comparer.report_unchecked(
                f"the similarity of answers in {request.step}, which is taken from the record"
            )
        return session_steps.BatchResult(similarity=reading)

    def _check_note(self, note: session_steps.SessionNote) -> session_steps.BatchResult | None:
        steps = [item.entry.step for item in self._notes]
        if note.step not in steps:
            self._report_missing(f"{note.step}: there is no such entry")
            self._take_joins(note.causes, f"{note.step}/join")
            return None
        for item in self._notes[: steps.index(note.step)]:
            self._comparer.report_fault(
                record_comparison.Breach.SURPLUS, f"{item.entry.step}: not what comes next", item
            )
        recorded = self._notes[steps.index(note.step)]
        self._notes = self._notes[steps.index(note.step) + 1 :]
        self._comparer.compare_note(
            record_comparison.Breach.COUNTED, recorded, note, record_comparison.WRITER
        )
        self._compare_causes(recorded, note.causes, f"{note.step}/join")
        self._check_order([recorded])
        self._cause = recorded.leaf
        self._frame.record_note(recorded)
        return session_steps.BatchResult()

    def _compare_causes(
        self, where: record_comparison.IndexedEntry, causes: Sequence[Hash], place: str
    ) -> None:
        """Compare the parents of an entry with its causes, or the joins for them."""
        self._comparer.compare_parents(where, self._take_joins(causes, place))

    def _take_joins(self, causes: Sequence[Hash], place: str) -> list[Hash]:
        """Return the parents for causes; more than `MAX_PARENTS` are grouped by join entries.

        Joins are committed one by one before the entry that they are for, so the last ones may
        still be missing in an open run.
        """
        left, number = list(dict.fromkeys(causes)), 0
        while len(left) > MAX_PARENTS:
            number += 1
            joined = self._joins.pop(f"{place}/{number}", None)
            if joined is None:
                break
            self._comparer.compare_step(record_comparison.Breach.ORDER, joined, joined.entry.step)
            if joined.entry.n < self._frame.last_note:
                detail = f"{joined.entry.step}: it is for a later note"
                self._comparer.report_fault(record_comparison.Breach.ORDER, detail, joined)
            self._comparer.compare_parents(joined, left[:MAX_PARENTS])
            left = [*left[MAX_PARENTS:], joined.leaf]
        return left

    def _check_order(self, entries: Sequence[record_comparison.IndexedEntry]) -> None:
        """Check that entries come later in the log than everything that they follow from."""
        early = [item for item in entries if item.index <= self._last_index]
        if early:
            detail = f"{early[0].entry.step}: it came before what it follows from was there"
            self._comparer.report_fault(record_comparison.Breach.ORDER, detail, early[0])
        self._last_index = max([self._last_index, *(item.index for item in entries)])

    def _check_turns(
        self, step: session_steps.TurnBatch, policy: Policy
    ) -> session_steps.BatchResult | None:
        strands = {
            turn.name: kinds.task_strand(kinds.TURN_PREFIX + turn.name) for turn in step.turns
        }
        self._expected_strands.update(strands.values())
        self._check_order([o for name in strands.values() for o in self._strands.get(name, ())])
        tasks = [self._state.task(kinds.TURN_PREFIX + turn.name) for turn in step.turns]
        self._frame.record_turns(tasks)
        over = []
        for turn in step.turns:
            entries = self._strands.get(strands[turn.name], [])
            TurnAuditor(
                look=self._comparer,
                entries=entries,
                policy=policy,
                accepted=self._accepted,
                cause=self._cause,
            ).check(turn)
            result = self._read_turn_result(turn.name)
            if result is None:
                self._report_missing(f"turn {turn.name}: it has no end")
            else:
                over.append(result)
        if len(over) < len(step.turns):
            return None
        self._check_spending(tasks)
        cut = [result.turn for result in over if result.fate is session_steps.TurnStatus.CUT]
        if cut and self._state.stopped is None and self._is_over():
            detail = f"turn {cut[0]}: it was cut off, and nothing has stopped the run"
            self._comparer.report_fault(record_comparison.Breach.COURSE, detail, self._main[-1])
        return session_steps.collect_results(
            over, self._state.stopped.reason if self._state.stopped else None
        )

    def _check_spending(self, turns: Sequence[run_fold.TaskRun]) -> None:
        """Check that no turn was refused budget that was available, and that the cap held."""
        for turn in self._spending.find_wrong_refusals(turns):
            where = self._strands[kinds.task_strand(turn.id)][-1]
            self._comparer.report_fault(
                record_comparison.Breach.COURSE,
                f"turn {turn.id}: the budget was not used up",
                where,
            )
        self._spending.add_turns(turns)
        if self._spending.is_exceeded():
            self._comparer.report_fault(
                record_comparison.Breach.COURSE, "more was used than there was", self._main[-1]
            )

    def _read_turn_result(self, turn: str) -> session_steps.TurnResult | None:
        def read(at: Position, name: str) -> bytes:
            return self._comparer.read_body(self._places[at.strand, at.n], name)

        return build_turn_result(self._state.task(kinds.TURN_PREFIX + turn), read)

    def _check_answer(
        self, session: session_steps.Session, closing: session_steps.SessionResult
    ) -> None:
        """Compare the recorded answer with the result of the session."""
        answers = [item for item in self._main if isinstance(item.entry.facts, kinds.AnswerFacts)]
        if not answers:
            self._report_missing("there is no answer")
            self._take_joins(closing.causes, "join")
            return
        recorded, stopped = answers[0], self._state.stopped
        outcome = run_fold.outcome_of_stop(stopped) if stopped else closing.outcome
        for flag in flag_notes(session, msgspec.structs.replace(closing, outcome=outcome)):
            self._check_note(flag)
        self._frame.record_answer(recorded)
        facts: kinds.AnswerFacts = recorded.entry.facts
        if (facts.outcome, facts.parts) != (outcome, len(closing.causes)):
            detail = f"it ended {facts.outcome.value}, and comes to {outcome.value}"
            self._comparer.report_fault(record_comparison.Breach.ANSWER, detail, recorded)
        answer = closing.answer.encode(errors="replace")
        self._comparer.compare_body(record_comparison.Breach.ANSWER, recorded, "answer", answer)
        self._compare_causes(recorded, closing.causes, "join")
        self._check_claims(recorded)
        self._check_order([recorded])
        if self._state.outcome not in (None, outcome):
            self._comparer.report_fault(
                record_comparison.Breach.ANSWER,
                f"the run does not end {outcome.value}",
                self._main[-1],
            )

    def _check_claims(self, answer: record_comparison.IndexedEntry) -> None:
        """Check the answer's claims: each receipt must be a successful effect of this run."""
        listed = self._comparer.read_body_or_skip(answer, "claims")
        if listed is None:
            return
        claims = read_claims(listed)
        uses = [use for task in self._state.tasks.values() for use in task.uses]
        done = {u.outcome.hex() for u in uses if u.outcome and _has_succeeded(u)}
        facts: kinds.AnswerFacts = answer.entry.facts
        stated = facts.claims, facts.unverified, "claims" in answer.entry.bodies
        counted = len(claims), count_unverified(claims), bool(claims)
        if stated != counted or {c.receipt for c in claims} - {"", *done}:
            self._comparer.report_fault(
                record_comparison.Breach.ANSWER, "what it claims is shown by nothing", answer
            )

    def _check_main(self) -> None:
        """Report leftover and duplicate entries in the main strand and the control strand."""
        plumbing = [item for item in self._main if isinstance(item.entry.facts, SINGLE_ENTRY_FACTS)]
        first = {type(item.entry.facts): item for item in reversed(plumbing)}
        again = (item for item in plumbing if first[type(item.entry.facts)] is not item)
        control = self._strands.get(kinds.CONTROL, [])
        wishes = (kinds.CancelFacts, kinds.ControlCloseFacts)
        # A run is cancelled or closed only once, so one such entry is all that the control strand
        # may hold.
        beside = [o for n, o in enumerate(control) if n or not isinstance(o.entry.facts, wishes)]
        # Only a run that is not interrupted can be interrupted, and only an interrupted one
        # resumed.  So these entries must alternate, beginning with an interruption.
        pauses = [
            item
            for n, item in enumerate(self._pauses)
            if isinstance(
                item.entry.facts, kinds.ResumptionFacts if n % 2 == 0 else kinds.InterruptionFacts
            )
        ]
        for item in [*self._notes, *self._joins.values(), *again, *beside, *pauses]:
            self._comparer.report_fault(
                record_comparison.Breach.SURPLUS, f"{item.entry.step}: nothing leads to it", item
            )

    def _check_no_session_facts(self) -> None:
        """Report entries of a session in a run that is none."""
        for item in self._comparer.minutes.entries:
            entry = item.entry
            if is_session_entry(entry, self._kinds) and not is_turn_strand(entry.strand):
                self._comparer.report_fault(
                    record_comparison.Breach.SURPLUS,
                    f"{item.entry.step}: nobody has deliberated",
                    item,
                )

    def _check_strands(self, strands: Iterable[str]) -> None:
        """Report strands that no step of the protocol asked for."""
        for name in sorted(set(strands) - self._expected_strands):
            self._comparer.report_fault(
                record_comparison.Breach.SURPLUS,
                f"{name}: nothing leads to it",
                self._strands[name][0],
            )


def _has_succeeded(use: run_fold.ToolUseRecord) -> bool:
    return use.happened is not None and use.happened.outcome is Outcome.OK
