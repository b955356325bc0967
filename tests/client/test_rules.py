"""What the client decides without a server: retries, events, problems, and what it imports."""

import subprocess
import sys
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum_client import forms, problems
from forum_client.api_request import MAX_RETRY_AFTER_S, ApiRequest, fill_path, retry_delay
from forum_client.errors import Invalid, Malformed
from forum_client.problem_types import ProblemType
from forum_client.run_events import EventParser
from tests.docs.client_code import modules
from tests.docs.pages import ROOT

GET = ApiRequest(method="GET", path="/")
POST = ApiRequest(method="POST", path="/")
KEYED = ApiRequest(method="POST", path="/", idempotency_key="k")
LOST = problems.ServerUnreachable("http://x", "gone")


def refusal(problem: ProblemType, retry_after: float | None = None) -> problems.ServerProblem:
    """Return a problem as a server tells it."""
    return problems.CLASSES[problem](
        problem.type, problem.title, problem.status, "", retry_after=retry_after
    )


def test_what_is_generated_is_up_to_date() -> None:
    """`just client` writes it anew."""
    for path, text in modules().items():
        assert path.read_text() == text, path


def test_only_what_is_safe_is_sent_again() -> None:
    """A request that is lost may have been carried out."""
    again = [LOST, refusal(ProblemType.UNAVAILABLE), refusal(ProblemType.TOO_SLOW)]
    again += [refusal(ProblemType.TOO_FAST, 1.0), refusal(ProblemType.NOT_SIGNED)]
    again += [refusal(ProblemType.SHARE_IN_USE, 1.0)]
    sent_again = {type(failure) for failure in again}
    refused = [refusal(problem) for problem in ProblemType]
    never = [failure for failure in refused if type(failure) not in sent_again]
    never += [refusal(ProblemType.CAPPED, 1.0), refusal(ProblemType.TOO_FAST, 3600.0)]

    for request in (GET, KEYED):
        assert all(retry_delay(request, failure, 0) for failure in again)
        assert not any(retry_delay(request, failure, 0) for failure in never)
    assert not any(retry_delay(POST, failure, 0) for failure in [*again, *never])
    assert retry_delay(GET, LOST, 100) is None
    assert (
        retry_delay(GET, refusal(ProblemType.TOO_FAST, MAX_RETRY_AFTER_S), 0) == MAX_RETRY_AFTER_S
    )


@pytest.mark.parametrize("problem", ProblemType, ids=lambda problem: problem.name)
def test_every_problem_has_a_class(problem: ProblemType) -> None:
    """Of its own, chosen by the type."""
    content = msgspec.json.encode({"type": problem.type, "title": "T", "detail": "d"})
    error = problems.problem_from_reply(problem.status, content, "7")

    assert type(error).__name__ == problems.CLASSES[problem].__name__
    assert (error.status, error.detail, error.retry_after) == (problem.status, "d", 7.0)
    assert str(error) == "T: d"
    assert error.problem_type is problem


def test_a_problem_that_is_not_known_goes_by_its_status() -> None:
    """A newer server has new types, and a proxy has none."""
    new = msgspec.json.encode({"type": "urn:forum:problem:new", "title": "New", "status": 409})
    proxy = problems.problem_from_reply(502, b"<html>Bad gateway</html>", None)
    teapot = problems.problem_from_reply(418, b"", "Wed, 21 Oct 2015 07:28:00 GMT")

    assert isinstance(problems.problem_from_reply(409, new, None), problems.ConflictProblem)
    assert isinstance(proxy, problems.UnavailableProblem)
    assert "<html>" not in str(proxy)
    assert (teapot.status, teapot.retry_after) == (418, None)
    assert isinstance(teapot, Invalid)


STREAM = (
    b': still here\n\nevent: delta\ndata: {"text":"a"}\n\n'
    + b"".join(
        b'id: %d\nevent: note/1\ndata: {"id":"%02d","index":%d,"entry":%s}\n\n' % (n, n, n, entry)
        for n, entry in enumerate(
            [b"{}", '{"a":"\u2028\x85\u2029"}'.encode(), b'{"b":"\\n\\n"}', b'{"c": "id: 9"}']
        )
    )
    + b"id: 9\nevent: cut"
)


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_a_stream_is_read_alike_however_it_is_cut(cuts: list[int]) -> None:
    """A network cuts anywhere, and a text may hold any character that is no line feed."""
    edges = [0, *sorted(cuts), len(STREAM)]
    parser = EventParser("http://x")
    events = [e for start, end in pairwise(edges) for e in parser.feed(STREAM[start:end])]

    assert [event.index for event in events] == [0, 1, 2, 3]
    assert events[1].decode() == {"a": "\u2028\x85\u2029"}
    assert events[2].decode() == {"b": "\n\n"}


def test_a_newer_server_is_understood() -> None:
    """Formats are only added to: a new member or a new value must not break an older client."""
    sent = b'{"run":"r","subject":"plan","answer":"postpone","digest":"d","new":[1]}'
    decision = msgspec.json.decode(sent, type=forms.DecisionForm)

    assert str(decision.answer) == "postpone"


def test_a_name_cannot_lead_to_another_operation() -> None:
    """A proxy resolves dots: the revocation of `..` would be sent to all keys."""
    assert fill_path("/k/{key}", key="a/b c?#") == "/k/a%2Fb%20c%3F%23"
    assert fill_path("/t/{path:path}", path="x001/067") == "/t/x001/067"
    for name in ("", ".", ".."):
        with pytest.raises(Malformed):
            fill_path("/k/{key}", key=name)
    with pytest.raises(Malformed):
        fill_path("/t/{path:path}", path="x/../../y")


def run_python(code: str) -> str:
    """Return what a program prints, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout.strip()


def test_importing_forum_is_cheap() -> None:
    """Every command and every program that is recorded pays for it."""
    code = "import time; t = time.process_time(); import forum; print(time.process_time() - t)"

    assert min(float(run_python(code)) for _ in range(3)) < 0.03


def test_the_client_imports_nothing_of_the_server() -> None:
    """It runs where neither a database nor a web framework is installed, and without Forum."""
    code = (
        "import sys, {0}; {0}.Client('http://x', 'k'); {0}.AsyncClient('http://x', 'k');"
        "print(*sorted(m for m in sys.modules if m.startswith('forum.')), sep='\\n');"
        "print(*({{'forum', 'starlette', 'dbos', 'cryptography', 'click'}} & set(sys.modules)))"
    )
    loaded = run_python(code.format("forum")).split()

    parts = {name.split(".")[1] for name in loaded if name != "forum"}
    assert parts == {"client", "errors", "units"}
    assert run_python(code.format("forum_client")) == ""


def test_a_name_that_does_not_exist_is_an_error() -> None:
    """As of any module."""
    with pytest.raises(subprocess.CalledProcessError):
        run_python("import forum; forum.NoSuchThing")
