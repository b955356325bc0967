"""A fault at any step of the rules for calls: the provider gets nothing."""

import sys
from pathlib import Path

import pytest

from tests.faults import each_fault
from tests.features.gateway.harness import harness
from tests.features.gateway.test_relay import CENT, dollars

RULE_MODULES = (
    "forum.features.gateway.call_plan",
    "forum.features.gateway.call_reader",
    "forum.features.gateway.relay",
    "forum.features.gateway.relayed_run",
    "forum.features.gateway.request_reader",
    "forum.features.gateway.reservations",
    "forum.features.gateway.run_app",
)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_fault_at_any_step_sends_no_call_that_the_rules_refuse(tmp_path: Path) -> None:
    """A model without a price may not be called under a cap of dollars, whatever fails."""
    with harness(tmp_path, dollars(CENT)) as gateway:
        for fault in each_fault(*RULE_MODULES, once_each=True):
            gateway.loop.call_soon_threadsafe(sys.settrace, fault.trace)
            reply = gateway.chat(model="a-model-without-a-price", max_tokens=5)
            gateway.loop.call_soon_threadsafe(sys.settrace, None)

            assert reply.status_code >= 400, fault.place
            assert gateway.provider.requests == [], fault.place
