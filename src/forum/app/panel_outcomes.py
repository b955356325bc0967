"""How the panel of a run ended; what reads it from the view is a part of its protocol's feature."""

from forum.app.records import RunView
from forum.feature import load_parts
from forum.features import FEATURES
from forum.runs.panel_outcome import CouncilOutcome


def read_panel_outcome(view: RunView) -> CouncilOutcome | None:
    """Return how the panel of a session ended; None if there was none, or its end is not known."""
    readers = load_parts(FEATURES, "panel_outcome") if view.notes else iter(())
    outcomes = (read(view) for read in readers)
    return next((outcome for outcome in outcomes if outcome is not None), None)
