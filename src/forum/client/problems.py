"""The errors of the client; each is also of a family of `forum.errors`.

`except errors.NotFound` catches an unknown run in this process, and one that a server does not
know.  The client imports nothing of Forum, so each of its classes has a subclass here that is of
both, and is raised in its place.
"""

from typing import Any

from forum import errors
from forum.client._forum_client import errors as client_errors
from forum.client._forum_client import problems as client_problems
from forum.client._forum_client.problems import *  # noqa: F403  the names for type checkers


def _substitute(kind: type[Any]) -> type[Any]:
    """Return the subclass of a class of the client that is also of its family."""
    if kind not in client_errors.SUBSTITUTES:
        bases = [_substitute(base) for base in kind.__bases__ if base is not Exception]
        # The families have the same names in both packages.
        family = getattr(errors, kind.__name__, None)
        bases += [] if family is None else [family]
        members: dict[str, object] = {"__module__": __name__, "__doc__": kind.__doc__}
        if hasattr(kind, "problem_type"):
            members["problem"] = errors.ProblemType[kind.problem_type.name]
        client_errors.SUBSTITUTES[kind] = type(kind.__name__, (kind, *bases), members)
    return client_errors.SUBSTITUTES[kind]


for _name, _kind in (vars(client_errors) | vars(client_problems)).items():
    if isinstance(_kind, type) and issubclass(_kind, client_errors.ForumError):
        globals()[_name] = _substitute(_kind)
