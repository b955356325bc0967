"""The benchmarks run, at a size that shows nothing else; for figures there is `just bench`."""

from pathlib import Path

import pytest

from benchmarks import engine, frauds, http, ledger, reference
from forum.surfaces.cli.cheat import FRAUDS
from tests.soak.cluster import scratch_database


@pytest.mark.postgres
@pytest.mark.slow
def test_the_ledger_benchmark_has_every_figure(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A benchmark that has rotted is noticed here, and not when somebody asks for a figure."""
    monkeypatch.setattr(ledger, "URL", postgres_url)
    monkeypatch.setattr(ledger, "ROUNDS", 1)
    figures = ledger.measure(tmp_path, ledger.Sizes(2_000, 200, 20_000, 200))

    ratios = ("append_postgres_ratio", "append_sqlite_ratio", "verify_ratio", "append_growth")
    assert all(figures[name] > 0 for name in (*ratios, "open_seconds", "open_rss_mb"))
    assert figures["open"]["entries"] >= 2_000


@pytest.mark.postgres
@pytest.mark.slow
def test_the_engine_benchmark_has_every_figure(postgres_url: str, tmp_path: Path) -> None:
    """All sides carry out the same plan to its end, in processes of their own."""
    sizes = engine.Sizes(2, 2, 1, 2_000, 3, 2, 1, (10,))
    with scratch_database(postgres_url) as url:
        figures = engine.measure(tmp_path, url, sizes)

    ratios = ("throughput_ratio", "throughput_ratio_sqlite", "submit_growth")
    assert all(figures[name] > 0 for name in ratios)
    assert figures["workers"]["runs_per_s_2"] > 0
    assert [theirs["entries"] for theirs in figures["forum_engine"]] == [10]


@pytest.mark.postgres
@pytest.mark.slow
def test_the_http_benchmark_has_every_figure(postgres_url: str, tmp_path: Path) -> None:
    """All servers take requests on from the same clients, and what becomes of runs is counted."""
    with scratch_database(postgres_url) as url:
        figures = http.measure(tmp_path, url, http.Sizes(4, 3.0, 1_000, (10,), "synthesis"))

    measured = ("accepted_p99_ms", "bare_ratio", "livez_p99_ms", "bytes_of_a_request")
    assert all(figures[name] > 0 for name in measured)
    assert figures["completion"]["accepted"] > 0
    assert [theirs["entries"] for theirs in figures["forum_engine"]] == [10]


@pytest.mark.slow
def test_the_reference_is_asked_about_the_same_frauds() -> None:
    """A comparison is fair only if it is of the same things, with the reference at its best."""
    outcomes = {outcome.name: outcome.caught for outcome in reference.frauds()}

    assert set(frauds.SAME) <= {fraud.name for fraud in FRAUDS}
    assert set(frauds.SAME.values()) == set(outcomes)
    assert True in outcomes.values()
