"""How a council ended, and what was said against its answer, from the view of its run."""

from forum.app import RunView
from forum.app.formatting import note_body
from forum.features.council.kinds import CouncilCloseFacts
from forum.features.council.report import CouncilReport, read_report
from forum.runs.panel_outcome import CouncilOutcome, Dissent


def read_outcome(view: RunView) -> CouncilOutcome | None:
    """Return how far a council agreed; None before its end."""
    close = find_close(view)
    if close is None:
        return None
    report = read_view_report(view)
    return _report_outcome(report) if report else CouncilOutcome(close.accord)


def find_close(view: RunView) -> CouncilCloseFacts | None:
    """Return how a council ended; None before its end."""
    facts = (note.facts for note in view.notes)
    return next((fact for fact in facts if isinstance(fact, CouncilCloseFacts)), None)


def read_view_report(view: RunView) -> CouncilReport | None:
    """Return the report of a council; None before its end, and if it was erased."""
    closes = (note for note in view.notes if isinstance(note.facts, CouncilCloseFacts))
    body = next((note_body(note, "report") for note in closes), b"")
    return read_report(body) if body else None


def _report_outcome(report: CouncilReport) -> CouncilOutcome:
    return CouncilOutcome(
        report.accord,
        tuple(
            Dissent(
                position.answer,
                tuple(map(str, position.seats)),
                position.argument.claim if position.argument else "",
            )
            for position in report.minority
        ),
        tuple(Dissent(blocker.text, (str(blocker.seat),)) for blocker in report.blockers),
    )
