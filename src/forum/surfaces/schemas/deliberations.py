"""What a panel has come to, whichever protocol it follows."""

from forum.app import RunView
from forum.deliberation.council_kinds import CouncilFacts
from forum.deliberation.symposium.kinds import MessageFacts
from forum.surfaces.schemas.council import CouncilForm, council_form
from forum.surfaces.schemas.symposium import SymposiumForm, symposium_form

DeliberationForm = CouncilForm | SymposiumForm


def deliberation_form(view: RunView) -> DeliberationForm | None:
    """Return what is told of a deliberation, if the run is one."""
    facts = [note.facts for note in view.notes]
    if any(isinstance(fact, CouncilFacts) for fact in facts):
        return council_form(view)
    return symposium_form(view) if any(isinstance(fact, MessageFacts) for fact in facts) else None
