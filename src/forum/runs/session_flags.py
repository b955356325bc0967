"""The flags that code sets on the answer of a council, as it does on every other answer.

Sessions that a verifier of the first release reads have none: it would report them as surplus.
These are symposia, and councils of version 1.
"""

from forum.ledger.kinds import Outcome
from forum.runs.answer_flags import flag_answer
from forum.runs.kinds import CheckFacts
from forum.runs.panel import Council
from forum.runs.session_steps import NoteBody, Session, SessionNote, SessionResult


def flag_session(session: Session, closing: SessionResult) -> list[tuple[CheckFacts, str]]:
    """Return the flags of a session's answer, each with what was found.

    An option that a council has chosen is never flagged: it need not repeat the question.
    """
    panel = session.policy.panel
    is_due = isinstance(panel, Council) and panel.version > 1 and not panel.options
    if not is_due or closing.outcome is not Outcome.OK:
        return []
    return flag_answer(session.problem, closing.answer)


def flag_notes(session: Session, closing: SessionResult) -> list[SessionNote]:
    """Return the entries of these flags, as the engine records them before the answer."""
    return [
        SessionNote(
            step=f"check/{number}",
            facts=facts,
            bodies=(NoteBody("detail", text.encode(errors="replace"), "text/plain"),),
            causes=closing.causes[:1],
        )
        for number, (facts, text) in enumerate(flag_session(session, closing), 1)
    ]
