"""How far a panel agreed, and what was said against its answer."""

import msgspec

from forum.runs.council_end import Accord


class Dissent(msgspec.Struct, frozen=True):
    """A position against the answer of a panel, or an objection to it."""

    text: str
    """Another answer; of a symposium, the topic on which its agents did not agree."""
    by: tuple[str, ...]
    """Who holds it: seats of a council by number, agents of a symposium by name."""
    reason: str = ""
    """The strongest claim for it; of a symposium, what each of its agents claims."""


class CouncilOutcome(msgspec.Struct, frozen=True):
    """How far a panel agreed, a council or a symposium, and what was said against its answer."""

    accord: Accord
    dissent: tuple[Dissent, ...] = ()
    """What is held against the answer; of a council, the heaviest first."""
    blockers: tuple[Dissent, ...] = ()
    """Objections that must be answered first."""
