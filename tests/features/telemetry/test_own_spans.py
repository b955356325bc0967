"""Spans of Forum itself: of requests, runs, tasks and the database, and of no content."""

from itertools import count
from pathlib import Path

import pytest

from forum.errors import BadSettings
from forum.features.telemetry.own_spans import (
    MAX_WAITING_SPANS,
    SpanSender,
    make_span,
    sending_own_spans,
)
from forum.features.telemetry.trace_push import PushTarget
from forum.tracing import FinishedSpan, SpanAttribute, SpanName, begin_span, receive_spans
from tests.e2e.project import eventually
from tests.features.telemetry.test_push import receiving
from tests.surfaces.halls import open_forum
from tests.surfaces.serving import served

CANARY = "the-launch-code-is-1234"
SETTINGS = """
[models.default]
kind = "scripted"

[otel]
endpoint = "{url}"
trace_forum = {on}
"""


def test_spans_nest_and_end_with_their_block() -> None:
    """A span within another belongs to its trace; an error is told by its class only."""
    spans: list[FinishedSpan] = []
    clock = count(1_700_000_000_000_000)
    with receive_spans(spans.append, lambda: next(clock)):
        with begin_span(SpanName.REQUEST, "runs.create") as request:
            with begin_span(SpanName.STORE, "appending"):
                pass
            request.set(SpanAttribute.STATUS, 202)
        with pytest.raises(ValueError, match=CANARY), begin_span(SpanName.RUN, run="r"):
            raise ValueError(CANARY)
    with begin_span(SpanName.RUN):
        pass
    store, request_span, run = spans

    assert store.parent_id == request_span.span_id
    assert store.trace_id == request_span.trace_id != run.trace_id
    assert request_span.attributes == {
        "forum.operation": "runs.create",
        "http.response.status_code": "202",
    }
    assert run.error == "ValueError"
    assert CANARY not in str(spans)


@pytest.mark.parametrize("text", ["a\nb", "x" * 101, "naïve", '{"a":1}'])
def test_a_value_that_is_no_identifier_is_left_out(text: str) -> None:
    """Whatever a caller passes by mistake."""
    spans: list[FinishedSpan] = []
    with receive_spans(spans.append, lambda: 1), begin_span(SpanName.STORE, text):
        pass

    assert spans[0].attributes == {"forum.operation": "-"}


def test_an_endpoint_that_is_away_costs_spans_only(caplog: pytest.LogCaptureFixture) -> None:
    """They are dropped beyond a number, and the log says so once."""
    sender = SpanSender("log", PushTarget("http://127.0.0.1:9"))
    span = FinishedSpan(
        SpanName.RUN,
        trace_id=b"t" * 16,
        span_id=b"s" * 8,
        parent_id=b"",
        begun=1,
        ended=2,
        attributes={},
        error="",
    )
    for _ in range(MAX_WAITING_SPANS + 10):
        sender.add(span)
    with sender.running():
        sender.add(span)

    assert caplog.text.count("spans of this process are dropped") == 1
    assert make_span(span).end_time_unix_nano == 2


def test_an_endpoint_is_needed(tmp_path: Path) -> None:
    """To ask for spans without a place for them is a mistake."""
    with (
        open_forum(tmp_path, "[otel]\ntrace_forum = true\n") as forum,
        pytest.raises(BadSettings, match="needs an endpoint"),
        sending_own_spans(forum),
    ):
        pass


@pytest.mark.parametrize("is_on", [True, False])
def test_server_and_worker_send_what_they_do(tmp_path: Path, *, is_on: bool) -> None:
    """Off by default; no text of a request or an answer, and no key, is in any span."""
    with receiving() as receiver:
        settings = SETTINGS.format(url=receiver.url, on=str(is_on).lower())
        with served(tmp_path / "project", settings=settings) as server:
            run = server.submit(f"Say {CANARY}.")
            if is_on:
                wanted = {str(name) for name in SpanName}
                eventually(lambda: wanted <= {span.name for span in receiver.spans}, 60)
            key = server.client.headers["Authorization"].split()[1]
    own = [span for span in receiver.spans if span.name in set(SpanName)]
    text = str(own)

    assert bool(own) is is_on
    assert receiver.problems == []
    assert CANARY not in text
    assert key not in text
    assert (run in text) is is_on
    assert {pair.key for span in own for pair in span.attributes} <= {
        *map(str, SpanAttribute),
        "error.type",
    }
