"""What the programs that Forum starts may know of the environment of its worker."""

import os
from collections.abc import Iterable

from forum.ledger import names_a_secret

_OWN = frozenset(
    # What Forum alone may know, and what an outer Forum has said of its own runs.
    {"FORUM_DATABASE_URL", "PGPASSWORD", "FORUM_KEY_FILE", "FORUM_KEY", "FORUM_RUN", "FORUM_TASK"}
)
_PLAIN = ("PATH", "HOME", "LANG")
"""What nearly every program needs, and nobody keeps secret."""


def most_of_it(**told: str) -> dict[str, str]:
    """Return the environment without Forum's own secrets, for programs that somebody trusts."""
    return {name: value for name, value in os.environ.items() if name not in _OWN} | told


def without_secrets(names: Iterable[str], **told: str) -> dict[str, str]:
    """Return the environment without what looks like a secret and was not named."""
    kept = {*names}
    return {
        name: value
        for name, value in most_of_it().items()
        if name in kept or not names_a_secret(name)
    } | told


def named_only(names: Iterable[str], **told: str) -> dict[str, str]:
    """Return what was named, and what every program needs; nothing else, and no secret of ours."""
    wanted = {*_PLAIN, *names} - _OWN
    return {name: os.environ[name] for name in sorted(wanted) if name in os.environ} | told
