"""Which protocol a session follows."""

from typing import assert_never

from forum.deliberation.council import council
from forum.deliberation.steps import Session, Steps
from forum.deliberation.symposium.protocol import symposium
from forum.work import Council, Symposium


def deliberate(session: Session) -> Steps:
    """Begin a session, by the rules of its panel."""
    match session.policy.panel:
        case Council():
            return council(session)
        case Symposium():
            return symposium(session)
        case None:
            raise ValueError("nobody sits on this panel")
        case _:
            assert_never(session.policy.panel)
