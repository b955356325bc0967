"""A fault at any step of admission over HTTP: nobody is let in."""

import sys
from pathlib import Path

import pytest

from forum.ledger.kinds import Scope
from forum.surfaces.http.auth import ServerConfig
from forum.surfaces.http.tenant import Tenant
from tests.faults import each_fault
from tests.surfaces.halls import hall, open_forum, showing
from tests.surfaces.test_auth import ASK, RUNS

ADMISSION_MODULES = (
    "forum.app.access",
    "forum.ledger.access",
    "forum.surfaces.http.auth",
    "forum.surfaces.http.known_keys",
)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_fault_at_any_step_of_admission_lets_nobody_in(tmp_path: Path) -> None:
    """Neither a client without a key, nor one whose key lacks the scope."""
    with open_forum(tmp_path) as forum:
        key = forum.access.grant("reader", {Scope.READ})
        with hall(ServerConfig([Tenant(forum)])) as client:
            assert client.portal is not None
            for fault in each_fault(*ADMISSION_MODULES, once_each=True):
                client.portal.call(sys.settrace, fault.trace)
                try:
                    status_codes = [
                        client.post(RUNS, json=ASK, headers=headers).status_code
                        for headers in ({}, showing("unknown"), showing(key))
                    ]
                except MemoryError:
                    status_codes = []  # the test client passes it on; a server answers 500
                client.portal.call(sys.settrace, None)
                assert all(status >= 400 for status in status_codes), fault.place
        assert not forum.reads.recent_runs(None, 10)
