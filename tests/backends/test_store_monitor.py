"""A store that hangs is noticed by the clock, and what a store does is told once."""

import logging
from threading import Event
from time import monotonic

import pytest

from forum.backends import store_monitor as module
from forum.backends.store_monitor import StoreMonitor
from forum.errors import StoreConnectionLost
from tests.support import StoreFactory, Wrapped, wait_until


def test_a_store_that_never_answers_is_noticed(
    store_factory: StoreFactory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A driver may wait for minutes for a server that is cut off: nobody waits with it."""
    monkeypatch.setattr(module, "LOST_AFTER_S", 0.3)
    caplog.set_level(logging.INFO, "forum")
    store, cut_off, back = store_factory(), Event(), Event()

    def head() -> object:
        if cut_off.is_set():
            back.wait(30)
        return store.head()

    watched = StoreMonitor(Wrapped(store, head=head))
    with watched.run_in_background():
        wait_until(lambda: watched.is_available)
        cut_off.set()
        begun = monotonic()
        wait_until(lambda: not watched.is_available)
        noticed = monotonic() - begun
        wait_until(lambda: "is away" in caplog.text)
        cut_off.clear()
        back.set()
        wait_until(lambda: "is back" in caplog.text)
        answers = watched.is_available

    assert noticed < 1.5
    assert answers
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]


def test_a_connection_that_broke_is_told_though_the_store_answers(
    store_factory: StoreFactory, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that restarts within a moment leaves a line, and nobody is turned away."""
    watched = StoreMonitor(store_factory())
    with watched.run_in_background():
        watched.report_failure(StoreConnectionLost("appending", "the connection broke"))
        wait_until(lambda: bool(caplog.records))
        answers = watched.is_available

    assert answers
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "the connection broke" in caplog.text
