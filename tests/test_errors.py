"""Errors: each belongs to a family, and its text and remedy are whole sentences over its facts."""

import inspect

import pytest

from forum import errors
from forum.surfaces.http.problems import problem_from_exception

FAMILIES = (
    errors.NotFound,
    errors.Conflict,
    errors.Invalid,
    errors.Unavailable,
    errors.Untrusted,
    errors.LimitReached,
    errors.SetupError,
)
CLASSES = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.ForumError) and kind not in (errors.ForumError, *FAMILIES)
]
OUTSIDE_FAMILIES = {"PositionTaken", "StepMismatch", "ReplayMiss"}
"""Errors of a program that does not follow its own record: a fault of Forum, not of its caller."""
STATUS: dict[type, set[int]] = {
    errors.NotFound: {404},
    errors.Conflict: {409, 410},
    errors.Invalid: {422},
    errors.Unavailable: {503},
    errors.LimitReached: {429, 500},
}


def example(kind: type[errors.ForumError]) -> errors.ForumError:
    """Return an error of a class, with a fact of the right type for each parameter."""
    if kind is errors.CapReached:
        return errors.CapReached("key a", per="day", limit="usd", amounts=(1, 2, 3), seconds=90)
    if kind is errors.AmbiguousRun:
        return errors.AmbiguousRun("r", ["r1", "r2"], more=True)
    names = [
        name for c in reversed(kind.__mro__[:-1]) for name in vars(c).get("__annotations__", ())
    ]
    if issubclass(kind, errors.StoreFailed):
        names = list(inspect.signature(kind).parameters)
    kinds = {
        name: t for c in kind.__mro__ for name, t in vars(c).get("__annotations__", {}).items()
    }
    names = [name for name in names if name not in vars(errors.ForumError)]
    return kind(*(7 if kinds.get(name, str) in (int, float) else f"<{name}>" for name in names))


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_error_has_a_family_a_text_and_a_remedy(kind: type[errors.ForumError]) -> None:
    """Without a family, clients would get a 500; without a text, users an empty line."""
    error = example(kind)

    assert issubclass(kind, FAMILIES) or kind.__name__ in OUTSIDE_FAMILIES
    assert str(error)
    assert "{" not in str(error).replace("{ input", "")
    assert error.next_step
    assert "{" not in error.next_step
    assert error.exit_code in {1, 3, 5, 7}


@pytest.mark.parametrize(
    "kind", [k for k in CLASSES if k.__mro__[1] in STATUS], ids=lambda k: k.__name__
)
def test_a_problem_has_the_status_of_its_family(kind: type[errors.ForumError]) -> None:
    """A client decides by the status whether to correct its request, to wait, or to give up."""
    status = problem_from_exception(example(kind)).problem.status

    assert status in STATUS[kind.__mro__[1]]


def test_a_budget_is_told_in_dollars() -> None:
    """Money is counted in nano-dollars, which nobody reads."""
    error = errors.BudgetExceeded("r", "usd", 607_650, 510_000, 1_000_000)

    assert str(error) == (
        "run r: $0.00060765 more would pass its cap: $0.00051 of $0.001 spent or reserved"
    )
