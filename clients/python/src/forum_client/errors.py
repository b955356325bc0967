"""Families of errors, with the names of those of Forum.

    ForumError
    ├── NotFound        the log has no such thing, or a short name fits several
    ├── Conflict        the request does not fit the state that the log is in now
    ├── Invalid         the request could never be carried out
    ├── Unavailable     not possible now; the operator has to act, or the caller tries again
    ├── Untrusted       a key, or a reply, is not accepted
    └── LimitReached    a budget or a cap does not allow it

`problems` has the errors themselves.  Where Forum is installed, too, `forum.client` has subclasses
of all of them that are also of the families of `forum.errors`, and `SUBSTITUTES` names them.
"""

from typing import Any, Self

SUBSTITUTES: dict[type[Any], type[Any]] = {}
"""Subclasses that are raised in the place of the classes themselves."""


class ForumError(Exception):
    """Base class of all errors that the client raises on purpose."""

    text = ""
    """A template over the attributes."""

    def __new__(cls, *facts: object, **_: object) -> Self:
        """Make an error, of the substitute of its class if there is one."""
        kind: type[Self] = SUBSTITUTES.get(cls, cls)
        return super().__new__(kind, *facts)

    def __str__(self) -> str:
        return self.text.format_map(vars(self))


class NotFound(ForumError):
    """The log has no such thing, or a short name fits several."""


class Conflict(ForumError):
    """The request does not fit the state that the log is in now."""


class Invalid(ForumError):
    """The request could never be carried out."""


class Unavailable(ForumError):
    """It is not possible now: the operator has to act, or the caller tries again."""


class Untrusted(ForumError):
    """A key, or a reply, is not accepted."""


class LimitReached(ForumError):
    """A budget or a cap does not allow it; nothing was recorded."""


class Malformed(Invalid):
    """An argument is not in the one form that it can have."""

    text = "malformed {what}: {why}"

    def __init__(self, what: str, why: str) -> None:
        super().__init__(what, why)
        self.what, self.why = what, why
