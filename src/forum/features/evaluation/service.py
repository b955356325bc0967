"""The record of an evaluation: a run of its own, from the cases to the report."""

import msgspec

from forum import tlog
from forum.app import Forum
from forum.app.clock_ids_and_kinds import OPERATOR, new_run_id
from forum.app.project import ProjectContext
from forum.app.run_list import MAX_SCANNED_RUNS, RunQuery
from forum.errors import BodyGone, NoSuchEvaluation, NotFound, TamperDetected
from forum.features.evaluation import rules as evaluation
from forum.features.evaluation.evaluation_list import EvaluationPage, ListedEvaluation, ReportCheck
from forum.ledger.body import BytesContent
from forum.ledger.entry import MAIN_STRAND, Entry
from forum.ledger.kinds import Outcome
from forum.ledger.log import read_body, read_strand_entries
from forum.ledger.strand import Attachment, Draft, Strand
from forum.runs import kinds, run_fold

_report_decoder = msgspec.json.Decoder(evaluation.EvalReport)


class EvaluationRecord:
    """An evaluation that is being recorded; only one thread may use it."""

    def __init__(self, project: ProjectContext, run: str, main: Strand) -> None:
        self._project, self.run = project, run
        self._main = main
        self._plays = 0

    def add_play(self, facts: kinds.EvalPlayFacts, causes: tuple[tlog.Hash, ...]) -> None:
        """Record that a case was played; the causes are the close of its run and its scores."""
        self._plays += 1
        self._main.append(Draft(f"play/{self._plays}", OPERATOR, facts, causes))

    def close(self, report: evaluation.EvalReport, outcome: Outcome) -> None:
        """Record the report and end the evaluation."""
        body = Attachment("report", BytesContent(msgspec.json.encode(report)), "application/json")
        facts = kinds.EvalReportFacts(len(report.plays), len(report.unplayed))
        self._main.append(Draft("report", actor=OPERATOR, facts=facts, parents=(), bodies=(body,)))
        self._project.ledger.close_run(self._main, OPERATOR, outcome)


class EvaluationOperations:
    """Records evaluations, and reads them."""

    def __init__(self, forum: Forum) -> None:
        self._project, self._reads = forum, forum.reads

    def begin(self, cases: bytes, facts: kinds.EvalOpenFacts) -> EvaluationRecord:
        """Open the run of an evaluation with its cases, before any of them is played.

        An evaluation that is given up later stays visible as an open run.
        """
        run = new_run_id()
        body = Attachment("cases", BytesContent(cases), "application/x-ndjson")
        opening = Draft("eval", actor=OPERATOR, facts=facts, parents=(), bodies=(body,))
        main = self._project.ledger.open_run(run, OPERATOR, opening, new=True)
        return EvaluationRecord(self._project, run, main)

    def list_evaluations(self, before: str | None, limit: int) -> EvaluationPage:
        """Return evaluations, the newest first; a page may be short and still have a next one."""
        page = self._reads.list_runs(
            RunQuery(evaluations=True), before, limit, max_scanned=MAX_SCANNED_RUNS
        )
        listed = (self._list_one(run.run, run.summary.begun, run.ended) for run in page.runs)
        return EvaluationPage(tuple(item for item in listed if item is not None), page.next)

    def _list_one(self, run: str, begun: int, ended: int) -> ListedEvaluation | None:
        """Return an evaluation without reading its plays; None for any other run."""
        ledger = self._project.ledger
        _, opened = next(read_strand_entries(ledger, run, MAIN_STRAND, 1), (None, None))
        if opened is None or not isinstance(opened.facts, kinds.EvalOpenFacts):
            return None
        # The report and the close are the last two entries, and two are before the plays.
        length = self._project.store.strand_lengths(run)[MAIN_STRAND]
        plays, unplayed = length - 2, 0
        for _, entry in read_strand_entries(ledger, run, MAIN_STRAND, max(2, length - 2)):
            if isinstance(entry.facts, kinds.EvalReportFacts):
                plays, unplayed = entry.facts.plays, entry.facts.unplayed
        return ListedEvaluation(run, begun, ended, opened.facts, plays=plays, unplayed=unplayed)

    def read_cases(self, run: str) -> tuple[evaluation.EvalCase, ...]:
        """Return the recorded cases of an evaluation; none if they were erased."""
        _, entry = next(
            read_strand_entries(self._project.ledger, run, MAIN_STRAND, 1), (None, None)
        )
        if entry is None or not isinstance(entry.facts, kinds.EvalOpenFacts):
            raise NoSuchEvaluation(run)
        content = read_body(self._project.store, entry, "cases")
        return () if content is None else evaluation.read_cases(content)

    def check_report(self, recorded: evaluation.EvalReport, max_plays: int) -> ReportCheck:
        """Compute a report anew, if it has no more plays than this, and compare."""
        if len(recorded.plays) > max_plays:
            return ReportCheck.NOT_COMPUTED
        try:
            computed = self.recompute_report(recorded.evaluation)
        except BodyGone:
            return ReportCheck.ERASED
        except (NotFound, TamperDetected):
            return ReportCheck.DIFFERS  # a play names a run or a case that there is not
        return ReportCheck.FOLLOWS if computed == recorded else ReportCheck.DIFFERS

    def read_report(self, run: str) -> evaluation.EvalReport:
        """Return the recorded report of an evaluation.

        Raises `NoSuchEvaluation`, and `BodyGone` if the report was erased.
        """
        for _, entry in read_strand_entries(self._project.ledger, run, MAIN_STRAND):
            if isinstance(entry.facts, kinds.EvalReportFacts):
                report = read_body(self._project.store, entry, "report")
                if report is None:
                    raise BodyGone(f"{run}/{MAIN_STRAND}/{entry.n}", "report")
                return _report_decoder.decode(report)
        raise NoSuchEvaluation(run)

    def read_answer(self, run: str, state: run_fold.Run) -> str:
        """Return the answer of a run that ended well; empty for any other."""
        if state.outcome is not Outcome.OK:
            return ""
        return (self._reads.view_run(run).answer or b"").decode(errors="replace")

    def recompute_report(self, run: str) -> evaluation.EvalReport:
        """Return the report that follows from the recorded cases, answers, judgements and runs.

        What no play shows is taken from the recorded report: unplayed cases and the judge. Raises
        `BodyGone` if the cases or an answer were erased.
        """
        recorded, opened = self.read_report(run), kinds.EvalOpenFacts(0, 0, ())
        plays: list[evaluation.Play] = []
        cases: tuple[evaluation.EvalCase, ...] = ()
        for _, entry in read_strand_entries(self._project.ledger, run, MAIN_STRAND):
            if isinstance(entry.facts, kinds.EvalOpenFacts):
                opened = entry.facts
                content = read_body(self._project.store, entry, "cases")
                if content is None:
                    raise BodyGone(f"{run}/{MAIN_STRAND}/{entry.n}", "cases")
                cases = evaluation.read_cases(content)
            elif isinstance(entry.facts, kinds.EvalPlayFacts):
                plays.append(self._recompute_play(entry, cases))
        return evaluation.build_report(run, opened, plays, recorded.unplayed, judge=recorded.judge)

    def _recompute_play(
        self, entry: Entry[kinds.EvalPlayFacts], cases: tuple[evaluation.EvalCase, ...]
    ) -> evaluation.Play:
        """Return a play with the quality that its answer has; only a judge is believed."""
        run = entry.facts.run
        state = self._reads.read_run(run)
        if not 0 < entry.facts.case <= len(cases):
            raise TamperDetected(f"a play of run {run}", "the evaluation has no such case")
        case = cases[entry.facts.case - 1]
        if state.outcome is Outcome.OK and self._reads.view_run(run).answer is None:
            raise BodyGone(str(state.answer_at), "answer")
        judged = [
            score.facts.value
            for score in self._reads.read_scores(run)
            if score.entry in entry.parents and score.facts.by is kinds.Scorer.JUDGE
        ]
        answer = self.read_answer(run, state)
        grades = evaluation.grade_answer(case, answer, judged[0] if judged else None)
        facts = msgspec.structs.replace(entry.facts, quality=grades.quality)
        return evaluation.describe_play(facts, state, case.lane)
