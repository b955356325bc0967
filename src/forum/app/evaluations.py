"""The record of an evaluation: a run of its own, from the cases to the report."""

import msgspec

from forum import tlog
from forum.app.environment import OPERATOR, new_run_id
from forum.app.project import ProjectContext
from forum.app.reads import RunReads
from forum.errors import BodyGone, NoSuchEvaluation
from forum.ledger.body import BytesContent
from forum.ledger.entry import MAIN_STRAND
from forum.ledger.kinds import Outcome
from forum.ledger.log import read_body, read_strand_entries
from forum.ledger.strand import Attachment, Draft, Strand
from forum.work import evaluation, kinds

_report_decoder = msgspec.json.Decoder(evaluation.EvalReport)


class EvaluationRecord:
    """An evaluation that is being recorded; only one thread may use it."""

    def __init__(self, project: ProjectContext, run: str, main: Strand) -> None:
        self._project, self.run, self._main = project, run, main
        self._plays = 0

    def add_play(self, facts: kinds.EvalPlayFacts, causes: tuple[tlog.Hash, ...]) -> None:
        """Record that a case was played; the causes are the close of its run and its scores."""
        self._plays += 1
        self._main.append(Draft(f"play/{self._plays}", OPERATOR, facts, causes))

    def close(self, report: evaluation.EvalReport, outcome: Outcome) -> None:
        """Record the report and end the evaluation."""
        body = Attachment("report", BytesContent(msgspec.json.encode(report)), "application/json")
        facts = kinds.EvalReportFacts(len(report.plays), len(report.unplayed))
        self._main.append(Draft("report", OPERATOR, facts, (), (body,)))
        self._project.ledger.close_run(self._main, OPERATOR, outcome)


class EvaluationOperations:
    """Records evaluations, and reads them."""

    def __init__(self, project: ProjectContext, reads: RunReads) -> None:
        self._project, self._reads = project, reads

    def begin(self, cases: bytes, facts: kinds.EvalOpenFacts) -> EvaluationRecord:
        """Open the run of an evaluation with its cases, before any of them is played.

        An evaluation that is given up later stays visible as an open run.
        """
        run = new_run_id()
        body = Attachment("cases", BytesContent(cases), "application/x-ndjson")
        opening = Draft("eval", OPERATOR, facts, (), (body,))
        main = self._project.ledger.open_run(run, OPERATOR, opening, new=True)
        return EvaluationRecord(self._project, run, main)

    def is_evaluation(self, run: str) -> bool:
        """Return whether a run records an evaluation."""
        entries = read_strand_entries(self._project.ledger, run, MAIN_STRAND, 1)
        _, entry = next(entries, (None, None))
        return entry is not None and isinstance(entry.facts, kinds.EvalOpenFacts)

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

    def recompute_report(self, run: str) -> evaluation.EvalReport:
        """Return the report that follows from the recorded plays and their runs.

        What no play shows is taken from the recorded report: unplayed cases and the judge.
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
                state = self._reads.read_run(entry.facts.run)
                lane = cases[entry.facts.case - 1].lane
                plays.append(evaluation.describe_play(entry.facts, state, lane))
        return evaluation.build_report(run, opened, plays, recorded.unplayed, recorded.judge)
