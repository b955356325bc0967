"""Selection of the protocol that a session follows."""

from typing import assert_never

from forum.deliberation.council import run_council
from forum.deliberation.steps import ProtocolSteps, Session
from forum.deliberation.symposium.protocol import run_symposium
from forum.work.panel import Council, Symposium


def start_protocol(session: Session) -> ProtocolSteps:
    """Start the protocol of a session's panel. Raises `ValueError` if the policy has no panel."""
    match session.policy.panel:
        case Council():
            return run_council(session)
        case Symposium():
            return run_symposium(session)
        case None:
            raise ValueError("nobody sits on this panel")
        case _:
            assert_never(session.policy.panel)
