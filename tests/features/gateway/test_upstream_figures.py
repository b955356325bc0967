"""How upstreams answered: calls, failures, latency and refusals, in bounded work."""

from pathlib import Path

import httpx2
import pytest

from forum.app import Forum, upstream_figures
from forum.app.upstream_figures import UpstreamCalls
from forum.config import load_settings
from tests.features.gateway.running import local_provider
from tests.features.gateway.test_server import post_chat, serve
from tests.support import wait_until
from tests.surfaces.terminal import Terminal

ROUTE = """
[gateway.routes]
gpt-4o-mini = ["away/gpt-4o-mini", "openai/gpt-4o-mini"]

[upstreams.away]
url = "http://127.0.0.1:9/v1"
prices = { gpt-4o-mini = { input = 0.15, output = 0.60 } }

[budgets.keys]
per = "day"
key = "small"
usd = 0.0002
"""


def test_calls_failures_and_refusals_are_counted_by_upstream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a route each attempt; what was not read is not claimed."""
    terminal = Terminal(tmp_path)
    (terminal.folder / "forum.toml").write_text(ROUTE)
    assert terminal.call("init").exit_code == 0
    keys = {
        name: terminal.ask("keys", "create", "--name", name, "--scope", scope)["secret"]
        for name, scope in (("big", "report"), ("small", "report"), ("reader", "read"))
    }
    shown = {name: {"authorization": f"Bearer {key}"} for name, key in keys.items()}
    with local_provider(tmp_path / "provider.log") as url, serve(terminal, url) as root:
        first = [post_chat(root, "a", shown["big"]).status_code for _ in range(2)]
        capped = [post_chat(root, "b", shown["small"]).status_code for _ in range(4)]
        path = f"{root}/api/v1/upstreams"
        with Forum(load_settings(terminal.folder, terminal.environment)) as forum:
            wait_until(lambda: forum.store.backlog() == 0)  # entries have an index then
        everything = httpx2.get(path, headers=shown["reader"]).json()
        later = {"since": "2099-01-01T00:00:00Z"}
        nothing = httpx2.get(path, params=later, headers=shown["reader"]).json()
    with Forum(load_settings(terminal.folder, terminal.environment)) as forum:
        monkeypatch.setattr(upstream_figures, "_PAGE_SIZE", 1)
        whole = forum.reads.count_upstream_calls(0, 2**63)
        monkeypatch.setattr(upstream_figures, "MAX_ENTRIES", 3)
        newest = forum.reads.count_upstream_calls(0, 2**63)

    made = (first + capped).count(200)
    upstreams = {line["name"]: line for line in everything["upstreams"]}
    assert set(first) == {200}
    assert upstreams["openai"]["calls"] == made
    assert upstreams["openai"]["failed"] == 0
    assert upstreams["openai"]["p95_ms"] >= upstreams["openai"]["p50_ms"] > 0
    assert 0 < upstreams["away"]["calls"] == upstreams["away"]["failed"]
    assert everything["refused"] == [{"reason": "budget", "calls": capped.count(402)}]
    assert capped.count(402) > 0
    assert everything["since"] is None
    assert nothing == {"upstreams": [], "refused": [], "since": None}
    assert whole.by_provider["openai"].calls == made
    assert newest.since > 0
    assert sum(u.calls for u in newest.by_provider.values()) < made


def test_a_percentile_is_a_duration_that_was_measured() -> None:
    """The least one within which so many calls ended."""
    calls = UpstreamCalls(durations=list(range(1, 21)))

    assert [calls.percentile(percent) for percent in (50, 95, 100)] == [10, 19, 20]
    assert UpstreamCalls().percentile(95) == 0
