"""The dashboard and the alerts in `deploy/` ask for what is exported, and for all of it."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from forum.ledger.kinds import Scope
from forum.metrics import LEDGER_METRICS
from forum.surfaces.http.metrics import REQUEST_SECONDS, SERVER_METRICS
from tests.support import free_port
from tests.surfaces.serving import served
from tests.test_deploy import DEPLOY

EXPORTED = {
    name
    for metric in (*LEDGER_METRICS, *SERVER_METRICS)
    for name in (
        [f"{metric.name}_{part}" for part in ("bucket", "sum", "count")]
        if metric is REQUEST_SECONDS
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
    assert {name for name in shown if not any(text.startswith(name) for text in used)} == set()


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


RULES = DEPLOY / "prometheus"
RUNBOOK = DEPLOY.parent / "docs/guides/answer-alerts.md"


def promtool(*words: str, stdin: str = "") -> None:
    """Have the tool of Prometheus check something."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed: .ci/promtool.sh")
    done = subprocess.run(
        [program, *words], input=stdin, cwd=RULES, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_accepts_the_alerts() -> None:
    """And each fires when it should, and rests when it should."""
    promtool("check", "rules", "forum-alerts.yaml")
    promtool("test", "rules", "forum-alerts-test.yaml")
    tested = yaml.safe_load((RULES / "forum-alerts-test.yaml").read_text())["tests"]
    names_tested = {test["name"] for test in tested}

    assert names_tested == {
        f"{rule['alert']} {what}" for rule in rules() for what in ("fires", "rests")
    }


def test_the_configuration_is_one_of_prometheus(tmp_path: Path) -> None:
    """With the file of the key, which is only there where Prometheus runs."""
    for file in RULES.iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / "key").write_text("k")
    config = tmp_path / "prometheus.yaml"
    config.write_text(config.read_text().replace("/etc/prometheus/forum-metrics-key", "key"))

    promtool("check", "config", str(config))


def test_the_runbook_has_a_section_for_each_alert() -> None:
    """In the order of the alerts, so that none is forgotten and none is left behind."""
    sections = re.findall(r"^## (\w+)$", RUNBOOK.read_text(), re.MULTILINE)

    assert sections == [rule["alert"] for rule in rules()]


def test_alerts_and_dashboard_fit_what_a_running_server_tells(tmp_path: Path) -> None:
    """Names and labels are those of a real answer; one that is not there matches nothing."""
    port = free_port()
    with (
        served(tmp_path / "project", workers=0) as server,
        server.project.worker("--metrics-port", str(port)),
    ):
        key = server.project.forum.access.grant("prometheus", {Scope.METRICS})
        server.submit()
        urls = (f"{server.url}/metrics", f"http://127.0.0.1:{port}/metrics")
        authorization = {"Authorization": f"Bearer {key}"}
        texts = [httpx2.get(url, headers=authorization).text for url in urls]
    labels: dict[str, set[str]] = {}
    for name, inner in re.findall(r"^(\w+)(?:\{(.*)\})? ", "".join(texts), re.MULTILINE):
        labels.setdefault(name, set()).update(re.findall(r'(\w+)="', inner))
    dashboard = expressions(json.loads((DEPLOY / "grafana/forum.json").read_text()))
    queries = [*dashboard, *(rule["expr"] for rule in rules())]

    for text in texts:
        promtool("check", "metrics", stdin=text)
    assert names(queries) - labels.keys() <= NOT_TOLD_YET
    for query in queries:
        for name, selector in re.findall(r"\b(forum_\w+)\{([^}]*)\}", query):
            asked = set(re.findall(r"(\w+)\s*[=!]~?", selector)) - ADDED_BY_PROMETHEUS
            assert name not in labels or asked <= labels[name], query


NOT_TOLD_YET = {
    "forum_run_stops_total",
    "forum_takeovers_total",
    "forum_http_shares_refused_total",
    # Of calls through the gateway.
    "forum_step_calls_total",
    "forum_step_dollars_total",
    "forum_step_refusals_total",
    "forum_step_seconds_total",
    # Of tenants that have a quota.
    "forum_tenant_quota",
    "forum_tenant_quota_used",
}
"""Metrics of what the test has not."""
ADDED_BY_PROMETHEUS = {"instance", "job"}
