"""Recording scores of ended runs, their tasks and their answers."""

from forum import tlog
from forum.app.clock_ids_and_kinds import OPERATOR, new_salt
from forum.app.project import ProjectContext
from forum.app.reads import RunReads
from forum.errors import NoSuchRun, NothingToScore, ScoreTooEarly
from forum.ledger.body import text_content
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.log import read_strand_entries
from forum.ledger.strand import Attachment, Draft
from forum.runs import kinds
from forum.runs.scores import RecordedScore, Score, check_score


class ScoreOperations:
    """Records scores."""

    def __init__(self, project: ProjectContext, reads: RunReads) -> None:
        self._project, self._reads = project, reads

    def record(
        self,
        run: str,
        score: Score,
        actor: str = OPERATOR,
        evidence: tuple[tlog.Hash, ...] = (),
    ) -> RecordedScore:
        """Record a score of an ended run, and return it.

        `evidence` names entries that the score follows from, such as the answer of a judge. Raises
        `Malformed`, `NoSuchRun`, `ScoreTooEarly`, `NothingToScore`.
        """
        check_score(score)
        subject = self._find_subject(run, score)
        facts = kinds.ScoreFacts(
            run=run,
            subject=score.subject,
            name=score.name,
            value=score.value,
            by=score.by,
            task=score.task,
            judge=score.judge,
            independence=score.independence,
        )
        comment = (Attachment("comment", text_content(score.comment)),) if score.comment else ()
        # A random suffix makes each step unique: a second equal score is another entry.
        step = f"score/{new_salt()[:8].hex()}"
        draft = Draft(step, actor, facts, parents=(subject, *evidence), bodies=comment)
        leaf, entry = self._project.ledger.append_log_entry(draft, kinds.score_strand(run))
        return RecordedScore(
            leaf.hex(), at=entry.ts, actor=entry.actor, facts=facts, comment=score.comment or None
        )

    def _find_subject(self, run: str, score: Score) -> tlog.Hash:
        """Return the id of the entry that is scored."""
        state = self._reads.read_run(run)
        if state.accepted is None and not state.is_reported:
            raise NoSuchRun(run)
        if state.outcome is None:
            raise ScoreTooEarly(run)
        if score.subject is kinds.ScoreSubject.TASK:
            task = state.tasks.get(score.task)
            if task is None or task.last is None:
                raise NothingToScore(run, f"task {score.task}")
            return task.last
        if score.subject is kinds.ScoreSubject.ANSWER:
            if state.answer_at is None:
                raise NothingToScore(run, "answer")
            start = state.answer_at.n
        else:
            start = state.lengths[MAIN_STRAND] - 1
        return next(read_strand_entries(self._project.ledger, run, MAIN_STRAND, start))[0]
