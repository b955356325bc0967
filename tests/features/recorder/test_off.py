"""The switch that turns recording off, and limits without max_tokens."""

from pathlib import Path

import pytest

import forum
from forum.errors import BudgetExceeded, UnboundedCall


def _double(number: int) -> int:
    return 2 * number


def test_nothing_is_recorded_when_forum_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Functions run, limits refuse, gates answer with their default, no file is written."""
    monkeypatch.setenv("FORUM_OFF", "1")
    monkeypatch.setenv("FORUM_STATE_DIR", str(tmp_path / "state"))
    recorder = forum.open(tmp_path)
    double = recorder.step(_double)
    with recorder.run("off", calls=1) as run:
        assert double(4) == 8
        assert run.gate("go?", default="approve")
        with recorder.budget("gpt-4o-mini", input="x", max_tokens=5) as call:
            call.tokens(1, 1)
        with (
            pytest.raises(BudgetExceeded),
            recorder.budget("gpt-4o-mini", input="x", max_tokens=5),
        ):
            pass
    recorder.close()

    assert list(tmp_path.iterdir()) == []


def test_a_call_without_a_limit_is_bounded_by_its_model(project: Path) -> None:
    """As in the gateway; a model whose maximum is not known needs max_tokens."""
    recorder = forum.open(project)
    with recorder.run("bounded", usd=1) as run:
        with recorder.span("model", "call", input="x", model="gpt-4o-mini") as call:
            assert run.left.usd is not None
            assert run.left.usd < 1
            call.tokens(1, 1)
        with (
            pytest.raises(UnboundedCall),
            recorder.span("model", "call", input="x", model="no-such-model"),
        ):
            pass
    recorder.close()
