"""The dashboard and the alerts in `deploy/` ask for what is exported, and for all of it."""

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from forum.metrics import LEDGER_METRICS, MetricType
from forum.surfaces.http.metrics import SERVER_METRICS
from tests.test_deploy import DEPLOY

EXPORTED = {
    name
    for metric in (*LEDGER_METRICS, *SERVER_METRICS)
    for name in (
        [f"{metric.name}_{part}" for part in ("bucket", "sum", "count")]
        if metric.type is MetricType.HISTOGRAM
        else [metric.name]
    )
}


def rules() -> list[dict[str, Any]]:
    """Return the alerts."""
    loaded = yaml.safe_load((DEPLOY / "prometheus/forum-alerts.yaml").read_text())
    return [rule for group in loaded["groups"] for rule in group["rules"]]


def expressions(value: object) -> Iterator[str]:
    """Yield every query of a dashboard."""
    if isinstance(value, dict):
        yield from (text for name in ("expr", "query") if isinstance(text := value.get(name), str))
        for inner in value.values():
            yield from expressions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from expressions(inner)


def names(queries: Iterator[str] | list[str]) -> set[str]:
    """Return the metrics of ours that queries name."""
    return {name for query in queries for name in re.findall(r"\bforum_\w+", query)}


def test_the_dashboard_shows_what_is_exported() -> None:
    """A panel over a metric that nobody exports is empty, and looks as if all were well."""
    used = names(expressions(json.loads((DEPLOY / "grafana/forum.json").read_text())))

    assert used - EXPORTED == set()
    shown = {metric.name for metric in (*LEDGER_METRICS, *SERVER_METRICS)}
    assert {name for name in shown if not any(one.startswith(name) for one in used)} == set()


def test_the_alerts_ask_for_what_is_exported() -> None:
    """An alert over a metric that nobody exports never fires; each says what to do."""
    used = names([rule["expr"] for rule in rules()])

    assert used - EXPORTED == set()
    assert len({rule["alert"] for rule in rules()}) == len(rules())
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) == {"summary", "action"}


def test_prometheus_is_told_which_rules_there_are() -> None:
    """The file of rules is found by the name that stands in the configuration."""
    loaded = yaml.safe_load((DEPLOY / "prometheus/prometheus.yaml").read_text())

    assert [(DEPLOY / "prometheus" / name).exists() for name in loaded["rule_files"]] == [True]
    assert all("credentials_file" in job["authorization"] for job in loaded["scrape_configs"])
