"""Sessions of browsers: what a page shows to the API in place of a permanent credential.

A session key is known to this process alone, and only in its memory.  It ends after some hours,
when the page signs out and when the process stops, so it is of no use to another program that
listens at the same address later.  Behind it stands the credential that it was opened with: each
request is authenticated by that one, so that a revoked key, a rotated or an expired token ends its
sessions too.
"""

from dataclasses import dataclass
from hashlib import sha256
from secrets import token_hex
from time import monotonic

SESSION_TTL_S = 12 * 3600
"""How long a session lasts: a day of work."""
MAX_SESSIONS = 20
"""Sessions that one credential can have at once; the oldest one ends for a new one."""
_PREFIX = "forum-session_"


@dataclass(frozen=True, slots=True)
class _Session:
    credential: str
    ends: float


class BrowserSessions:
    """The sessions of one process.  Bound to its event loop."""

    def __init__(self) -> None:
        self.instance = token_hex(16)
        """The id of the process, which a page compares before it shows its session key."""
        self._sessions: dict[bytes, _Session] = {}
        """By the digest of the key, so that the time of a look-up tells nothing about a key."""

    def open(self, credential: str) -> str:
        """Return the key of a new session for an accepted credential."""
        at = monotonic()
        self._sessions = {
            digest: session for digest, session in self._sessions.items() if session.ends > at
        }
        own = [key for key, session in self._sessions.items() if session.credential == credential]
        for digest in own[: max(0, len(own) - MAX_SESSIONS + 1)]:
            del self._sessions[digest]
        key = f"{_PREFIX}{token_hex(32)}"
        self._sessions[_digest(key)] = _Session(credential, at + SESSION_TTL_S)
        return key

    def find_credential(self, key: str) -> str | None:
        """Return the credential behind a session key; None if the session has ended."""
        session = self._sessions.get(_digest(key))
        return session.credential if session and session.ends > monotonic() else None

    def close(self, key: str) -> None:
        """End a session."""
        self._sessions.pop(_digest(key), None)


def is_session_key(text: str) -> bool:
    """Return whether a text has the form of a session key."""
    return text.startswith(_PREFIX)


def _digest(key: str) -> bytes:
    return sha256(key.encode()).digest()
