"""Plays the cases of an evaluation: every configuration, every case, in runs of their own."""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from forum.app import Forum
from forum.app.formatting import short_id
from forum.engine import RunRequest
from forum.errors import Conflict, LimitReached
from forum.features.evaluation import rules as evaluation
from forum.features.evaluation.service import EvaluationOperations
from forum.ledger.entry import MAIN_STRAND, leaf_of
from forum.ledger.kinds import Outcome
from forum.runs import kinds, run_fold
from forum.runs.plan import Plan, RunBudget, Task
from forum.runs.policy import Agent, Policy
from forum.runs.scores import Score
from forum.runs.team_settings import DEFAULT_AGENT
from forum.surfaces.cli.stop_signals import StopSignal, catch_stop_signals
from forum.tlog import Hash

_AddPlay = Callable[[kinds.EvalPlayFacts, tuple[Hash, ...]], None]
_POLL_INTERVAL_S = 0.1
_NOT_DECIDED = "it waits for approval, and nobody decides in an evaluation"
_STOPPED = "the evaluation was stopped"


@dataclass(frozen=True, slots=True)
class EvalJudge:
    """The agent that compares answers with references."""

    name: str
    agent: Agent
    budget: RunBudget
    not_independent_of: tuple[str, ...]
    """Configurations that work with the judge's own model."""


@dataclass(frozen=True, slots=True)
class EvalJob:
    """One play: a case and a configuration, with the request that is submitted for it."""

    number: int
    """The number of the case, from 1."""
    case: evaluation.EvalCase
    configuration: str
    repeat: int
    run_request: RunRequest


@dataclass(slots=True)
class _ActiveRun:
    """A run under way: the play itself, or the judging of its answer."""

    job: EvalJob
    played: str = ""
    """The run whose answer is judged; empty for the play itself."""


@dataclass(slots=True)
class EvalPlayer:
    """Submits runs, a few at a time, and records scores and plays when they have ended."""

    forum: Forum
    evaluation_facts: kinds.EvalOpenFacts
    cases: bytes
    jobs: Sequence[EvalJob]
    parallel: int
    judge: EvalJudge | None
    tell: Callable[[str], None]
    _active: dict[str, _ActiveRun] = field(default_factory=dict)
    _plays: list[evaluation.Play] = field(default_factory=list)
    _unplayed: list[evaluation.UnplayedCase] = field(default_factory=list)
    _judged: int = 0
    _unjudged: int = 0
    _judging_usd: int = 0

    def play(self) -> tuple[evaluation.EvalReport, int | None]:
        """Play everything, and return the report and the signal that stopped it, if any."""
        record = EvaluationOperations(self.forum).begin(self.cases, self.evaluation_facts)
        self.tell(f"evaluation {record.run}")
        with catch_stop_signals() as stop:
            self._play_jobs(record.add_play, stop)
        report = evaluation.build_report(
            record.run, self.evaluation_facts, self._plays, self._unplayed, judge=self._judge_use()
        )
        record.close(report, Outcome.OK if stop.number is None else Outcome.CANCELLED)
        return report, stop.number

    def _play_jobs(
        self,
        add_play: _AddPlay,
        stop: StopSignal,
    ) -> None:
        waiting = deque(self.jobs)
        while waiting or self._active:
            while waiting and len(self._active) < self.parallel:
                self._submit(waiting.popleft())
            for run in list(self._active):
                state = self.forum.reads.read_run(run)
                if state.outcome is not None:
                    self._end_run(run, state, add_play)
                elif state.interrupted or state.open_gates:
                    self._give_up(run, _NOT_DECIDED)
            if self._active and stop.wait(_POLL_INTERVAL_S) is not None:
                for run in list(self._active):
                    self._give_up(run, _STOPPED)
                self._unplayed += [_unplayed(job, _STOPPED) for job in waiting]
                return

    def _submit(self, job: EvalJob) -> None:
        try:
            run = self.forum.runs.submit(job.run_request)
        except LimitReached as error:
            self._skip(job, str(error))
            return
        self._active[run] = _ActiveRun(job)

    def _give_up(self, run: str, reason: str) -> None:
        """Cancel a run that does not end by itself; it stays on record."""
        active = self._active.pop(run)
        with suppress(Conflict):  # it has just ended
            self.forum.runs.cancel(run)
        self._skip(active.job, reason)

    def _skip(self, job: EvalJob, reason: str) -> None:
        self._unplayed.append(_unplayed(job, reason))
        self.tell(f"case {job.number}, {job.configuration}: not played: {reason}")

    def _end_run(self, run: str, state: run_fold.Run, add_play: _AddPlay) -> None:
        """Record a play that has ended, or have its answer judged first."""
        active = self._active.pop(run)
        job = active.job
        if active.played:
            reply = self._read_judge_reply(run, state)
            self._record_play(job, active.played, reply, run, add_play=add_play)
            return
        answer = EvaluationOperations(self.forum).read_answer(run, state)
        if not (answer and job.case.reference and self._ask_judge(job, run, answer)):
            self._record_play(job, run, None, "", add_play=add_play)

    def _read_judge_reply(self, run: str, state: run_fold.Run) -> evaluation.JudgeReply | None:
        self._judging_usd += state.spent.usd
        reply = evaluation.read_judge_reply(self.forum.reads.view_run(run).answer)
        self._judged += reply is not None
        self._unjudged += reply is None
        return reply

    def _record_play(
        self,
        job: EvalJob,
        run: str,
        reply: evaluation.JudgeReply | None,
        judging: str,
        add_play: _AddPlay,
    ) -> None:
        """Record the scores of a play, then the play; `judging` is the run of the judge."""
        state = self.forum.reads.read_run(run)
        answer = EvaluationOperations(self.forum).read_answer(run, state)
        judged = None if reply is None else round(reply.score * kinds.MAX_SCORE)
        grades = evaluation.grade_answer(job.case, answer, judged)
        causes = [
            self._record_score(run, score, judging if score.by is kinds.Scorer.JUDGE else "")
            for score in self._make_scores(job, grades, reply)
        ]
        facts = kinds.EvalPlayFacts(
            case=job.number,
            configuration=job.configuration,
            repeat=job.repeat,
            run=run,
            quality=grades.quality,
        )
        add_play(facts, (self._last_entry(run), *causes))
        self._plays.append(evaluation.describe_play(facts, state, job.case.lane))
        self._tell_progress(job, facts)

    def _ask_judge(self, job: EvalJob, played: str, answer: str) -> bool:
        """Submit the run in which the judge compares; return False if there is no judge for it."""
        if self.judge is None:
            return False
        try:
            run = self.forum.runs.submit(_judging_request(job.case, answer, self.judge))
        except LimitReached as error:
            self._unjudged += 1
            self.tell(f"case {job.number}, {job.configuration}: not judged: {error}")
            return False
        self._active[run] = _ActiveRun(job, played)
        return True

    def _tell_progress(self, job: EvalJob, facts: kinds.EvalPlayFacts) -> None:
        done = f"{len(self._plays)} of {len(self.jobs)}"
        quality = f"quality {facts.quality / kinds.MAX_SCORE:.2f}"
        self.tell(
            f"{done}: case {job.number}, {job.configuration}: {quality}, run {short_id(facts.run)}"
        )

    def _make_scores(
        self, job: EvalJob, grades: evaluation.PlayGrades, reply: evaluation.JudgeReply | None
    ) -> list[Score]:
        """Return the scores of a play; the last one is its quality."""
        scores = []
        if grades.checks is not None:
            scores.append(_score(evaluation.CHECKS, grades.checks))
        if grades.reference is not None:
            score = _score(evaluation.REFERENCE, grades.reference)
            scores.append(score if reply is None else self._as_judged(job, score, reply))
        return [*scores, _score(evaluation.QUALITY, grades.quality)]

    def _as_judged(self, job: EvalJob, score: Score, reply: evaluation.JudgeReply) -> Score:
        """Return a score with the judge that gave it, and its reason."""
        assert self.judge is not None  # noqa: S101  it has replied
        is_same_model = job.configuration in self.judge.not_independent_of
        return msgspec.structs.replace(
            score,
            by=kinds.Scorer.JUDGE,
            comment=reply.reason,
            judge=self.judge.name or DEFAULT_AGENT,
            independence=kinds.Independence.NO if is_same_model else kinds.Independence.YES,
        )

    def _record_score(self, run: str, score: Score, judging: str) -> Hash:
        evidence = (self._last_entry(judging),) if judging else ()
        return Hash.from_hex(self.forum.scores.record(run, score, evidence=evidence).entry)

    def _last_entry(self, run: str) -> Hash:
        """Return the close of an ended run."""
        return leaf_of(self.forum.store.last_entry(run, MAIN_STRAND) or b"")

    def _judge_use(self) -> evaluation.JudgeUse | None:
        if self.judge is None or not self._judged + self._unjudged:
            return None
        return evaluation.JudgeUse(
            agent=self.judge.name or DEFAULT_AGENT,
            judged=self._judged,
            unjudged=self._unjudged,
            spent_usd=evaluation.format_dollars(self._judging_usd),
            not_independent_of=self.judge.not_independent_of,
        )


def _score(name: str, value: int) -> Score:
    return Score(name=name, value=value, by=kinds.Scorer.PROGRAM)


def _unplayed(job: EvalJob, reason: str) -> evaluation.UnplayedCase:
    return evaluation.UnplayedCase(job.number, job.configuration, job.repeat, reason)


def _judging_request(case: evaluation.EvalCase, answer: str, judge: EvalJudge) -> RunRequest:
    """Return the run in which the judge compares an answer with the reference."""
    instruction = evaluation.build_judge_prompt(case, answer)
    task = Task("judge", instruction, done_when=f"json {evaluation.JUDGE_SCHEMA}")
    policy = msgspec.structs.replace(Policy(), agents={"": judge.agent})
    return RunRequest(instruction, Plan((task,)), policy, judge.budget)
