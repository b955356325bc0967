"""What becomes of calls whose cost is not bounded, or whose client does not wait."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2

from forum.features.gateway.relayed_run import RunLimits
from forum.ledger.kinds import Outcome
from forum.ledger.ports import NO_LIMIT, Amount
from tests.features.gateway.harness import TOKEN, Harness, harness
from tests.support import wait_until

CENT = 10_000_000
SEARCHED = {"prompt_tokens": 30_000, "completion_tokens": 5, "total_tokens": 30_005}


def allowing(*names: str, cap: int) -> RunLimits:
    """Return limits that allow these parts by name."""
    return RunLimits(cap=Amount(cap, NO_LIMIT, NO_LIMIT), allowed=frozenset(names))


def test_what_was_allowed_stops_the_run_only_above_the_cap(tmp_path: Path) -> None:
    """Whoever allows a search has accepted that its cost has no bound."""
    limits = allowing("web_search_options", cap=CENT)
    with harness(tmp_path, limits) as gateway:
        gateway.provider.forced_usage = SEARCHED
        statuses = [
            gateway.chat(str(n), max_tokens=5, web_search_options={}).status_code for n in range(4)
        ]
        steps = [step.facts for step in gateway.entries("report.step/1")]
        spent = sum(facts.usd for facts in steps)

        assert statuses == [200, 200, 200, 402]
        assert [facts.code for facts in steps].count("overrun") == 1
        assert CENT < spent <= CENT + 30_005 * 150


def leave(gateway: Harness) -> None:
    """Send a call, and leave before it has its reservation."""
    body = {"model": "gpt-4o-mini", "messages": [], "max_tokens": 800}
    shown = {"authorization": f"Bearer {TOKEN}"}
    base = gateway.client.base_url
    with httpx2.Client(base_url=base, timeout=0.3) as client:
        try:
            client.post("/openai/v1/chat/completions", json=body, headers=shown)
        except httpx2.TimeoutException:
            return
        raise AssertionError("it was answered")


def test_a_client_that_leaves_while_its_call_waits_costs_nothing(tmp_path: Path) -> None:
    """The cap pays one call at a time, and nobody would read the second reply."""
    limits = RunLimits(cap=Amount(1_000_000, NO_LIMIT, NO_LIMIT))
    with harness(tmp_path, limits) as gateway, ThreadPoolExecutor(1) as pool:
        gateway.provider.delay = 3.0
        first = pool.submit(gateway.chat, "slow", max_tokens=800)
        wait_until(lambda: len(gateway.provider.requests) == 1)
        leave(gateway)
        assert first.result().status_code == 200
        wait_until(lambda: len(list(gateway.entries("report.step/1"))) == 2)
        steps = {step.facts.outcome: step.facts for step in gateway.entries("report.step/1")}

        assert len(gateway.provider.requests) == 1
        assert (steps[Outcome.CANCELLED].code, steps[Outcome.CANCELLED].usd) == ("client-left", 0)
