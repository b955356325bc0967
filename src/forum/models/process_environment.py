"""What the programs that Forum starts may know of the environment of its worker."""

import os
from collections.abc import Iterable

from forum.ledger import is_secret_name

_FORUM_VARIABLES = frozenset(
    # What Forum alone may know, and what an outer Forum has said of its own runs.
    {"FORUM_DATABASE_URL", "PGPASSWORD", "FORUM_KEY_FILE", "FORUM_KEY", "FORUM_RUN", "FORUM_TASK"}
)
_COMMON_VARIABLES = ("PATH", "HOME", "LANG")
"""What nearly every program needs, and nobody keeps secret."""


def trusted_environment(**told: str) -> dict[str, str]:
    """Return the environment without Forum's own secrets, for programs that somebody trusts."""
    return {
        name: value for name, value in os.environ.items() if name not in _FORUM_VARIABLES
    } | told


def environment_without_secrets(names: Iterable[str], **told: str) -> dict[str, str]:
    """Return the environment without what looks like a secret and was not named."""
    kept = {*names}
    return {
        name: value
        for name, value in trusted_environment().items()
        if name in kept or not is_secret_name(name)
    } | told


def allowed_environment(names: Iterable[str], **told: str) -> dict[str, str]:
    """Return what was named, and what every program needs; nothing else, and no secret of ours."""
    wanted = {*_COMMON_VARIABLES, *names} - _FORUM_VARIABLES
    return {name: os.environ[name] for name in sorted(wanted) if name in os.environ} | told
