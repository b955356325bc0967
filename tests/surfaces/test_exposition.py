"""What Prometheus reads is what was counted, in each of its formats, whatever its request says."""

from collections.abc import Callable, Iterable
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from forum.metrics import CALLS, LEDGER_METRICS, WITNESS_AGE, Sample
from forum.surfaces.exposition import write_exposition

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores"
READERS: dict[str, Callable[[str], Iterable[Metric]]] = {
    "": read_text,
    "application/openmetrics-text; version=1.0.0": read_openmetrics,
}
COUNTERS = {
    "forum_runs_accepted_total",
    "forum_runs_ended_total",
    "forum_run_stops_total",
    "forum_calls_total",
    "forum_tokens_total",
    "forum_dollars_total",
    "forum_step_calls_total",
    "forum_step_dollars_total",
    "forum_step_seconds_total",
    "forum_step_refusals_total",
    "forum_takeovers_total",
}
"""The others are gauges."""


def read(accept: str, *samples: Sample) -> list[tuple[str, dict[str, str], float]]:
    """Return the samples that a reader of a format finds."""
    body, _ = write_exposition({sample.metric for sample in samples}, samples, accept)
    families = READERS[accept](body.decode())
    return [(s.name, s.labels, s.value) for family in families for s in family.samples]


@pytest.mark.parametrize("accept", READERS)
@given(value=st.text(st.characters(exclude_categories=["Cs"])))
def test_a_label_can_hold_anything(accept: str, value: str) -> None:
    """A name with a quote or a line end must not become another line."""
    sample = Sample(CALLS, 2, (("model", value), ("outcome", "ok")))

    assert read(accept, sample) == [(CALLS.name, {"model": value, "outcome": "ok"}, 2.0)]


@pytest.mark.parametrize("accept", READERS)
def test_a_witness_that_never_cosigned_is_infinitely_old(accept: str) -> None:
    """An alert compares its age with a number."""
    told = read(accept, Sample(WITNESS_AGE, inf, (("witness", "w"),)))

    assert told == [("forum_witness_age_seconds", {"witness": "w"}, inf)]


def test_metrics_without_samples_have_their_type_and_help() -> None:
    """Names and types are what dashboards are made of."""
    body, _ = write_exposition(LEDGER_METRICS, (), "")
    types = {m.name: "counter" if m.name in COUNTERS else "gauge" for m in LEDGER_METRICS}

    assert body.decode().splitlines() == [
        line
        for metric in LEDGER_METRICS
        for line in (
            f"# HELP {metric.name} {metric.help}",
            f"# TYPE {metric.name} {types[metric.name]}",
        )
    ]
    assert types.keys() >= COUNTERS


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/plain;version=1.0.0", TEXT),
        ("application/openmetrics-text;version=0.0.1,text/plain;version=0.0.4;q=0.5", TEXT),
        ("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,*/*", OPENMETRICS),
        ("text/plain;q=0.1, application/openmetrics-text ; version=1.0.0", OPENMETRICS),
        # The library fails for these, or repeats what they say in its media type.
        ("application/openmetrics-text;version=x", TEXT),
        ("application/openmetrics-text;version=1.x", TEXT),
        ("application/openmetrics-text;version=2.0\r\n x: y", TEXT),
        ("application/openmetrics-text;version=1.0.01", TEXT),
        ("text/plain;version=x", TEXT),
    ],
)
def test_the_request_chooses_between_two_formats(accept: str, media_type: str) -> None:
    """Whatever else it says, it gets the one that every reader knows."""
    body, text = write_exposition((CALLS,), (), accept)

    assert text == media_type
    assert body.endswith(b"# EOF\n") is (media_type == OPENMETRICS)
