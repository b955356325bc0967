"""The errors of `forum.client`: those of the client, and each also of a family of Forum."""

import pickle

import msgspec
import pytest

import forum.client.problems
from forum import errors
from forum.client import _forum_client as forum_client
from forum.client._forum_client import problems
from forum.errors import ForumError, ProblemType

FAMILIES: dict[str, type[ForumError]] = {
    "BadRequestProblem": errors.Invalid,
    "BodyGoneProblem": errors.Conflict,
    "CapReachedProblem": errors.LimitReached,
    "ConflictProblem": errors.Conflict,
    "ForbiddenProblem": ForumError,
    "GateDecidedProblem": errors.Conflict,
    "GateMovedProblem": errors.Conflict,
    "InternalProblem": ForumError,
    "KeyReusedProblem": errors.Conflict,
    "MediaTypeProblem": errors.Invalid,
    "MethodNotAllowedProblem": errors.Invalid,
    "NoKeyProblem": errors.Untrusted,
    "NotFoundProblem": errors.NotFound,
    "NotSignedProblem": errors.Conflict,
    "RateLimitProblem": errors.Unavailable,
    "RunEndedProblem": errors.Conflict,
    "ShareInUseProblem": errors.LimitReached,
    "SlowRequestProblem": errors.Unavailable,
    "TooLargeProblem": errors.Invalid,
    "UnavailableProblem": errors.Unavailable,
    "UnprocessableProblem": errors.Invalid,
    "WrongHostProblem": ForumError,
}


@pytest.mark.parametrize("problem", ProblemType, ids=lambda problem: problem.name)
def test_a_problem_is_of_a_family(problem: ProblemType) -> None:
    """`except errors.NotFound` catches what this process and what a server does not know."""
    content = msgspec.json.encode({"type": problem.type, "detail": "d"})
    error = problems.problem_from_reply(problem.status, content, "7")
    kind = getattr(forum.client.problems, type(error).__name__)

    assert type(error) is kind
    assert isinstance(error, FAMILIES[kind.__name__])
    assert isinstance(error, forum.client.ServerProblem)
    assert isinstance(error, forum_client.ServerProblem)
    assert error.problem is problem
    assert (str(error), error.retry_after) == (f"{problem.title}: d", 7.0)
    assert repr(pickle.loads(pickle.dumps(error))) == repr(error)  # noqa: S301  its own


def test_a_special_problem_is_also_the_general_one() -> None:
    """The classes are related as those of `forum_client`."""
    found = forum.client.problems

    assert issubclass(found.RunEndedProblem, found.ConflictProblem)
    assert issubclass(found.SlowRequestProblem, found.UnavailableProblem)
    assert issubclass(found.RequestTimeout, found.ServerUnreachable)
    assert issubclass(found.ServerUnreachable, errors.Unavailable)
    assert issubclass(found.ReplyUnreadable, errors.Untrusted)


def test_an_argument_that_is_malformed_is_so_for_both() -> None:
    """The error has the facts and the text of the one of Forum."""
    with pytest.raises(errors.Malformed) as malformed:
        forum_client.Client("localhost:8808", "k")

    assert malformed.value.what == "url"
    assert str(malformed.value).startswith("malformed url: write http://")
    assert malformed.value.next_step == "forum config show"
