"""The benchmarks run, at a size that shows nothing else; for figures there is `just bench`.

Those that start clusters, servers and workers run nightly.
"""

from pathlib import Path

import pytest

from benchmarks import (
    deliberation,
    engine,
    frauds,
    gateway,
    gateway_costs,
    http,
    ledger,
    otlp,
    recorder,
    reference,
    scale,
    sharing,
    team,
    team_requests,
)
from benchmarks.database_counts import private_cluster
from benchmarks.seats import Nature, Question, Seat
from forum.features.demo.frauds import TAMPER_CASES
from tests.soak.cluster import scratch_database, server_binaries


@pytest.mark.postgres
@pytest.mark.nightly
def test_the_ledger_benchmark_has_every_figure(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A benchmark that has rotted is noticed here, and not when somebody asks for a figure."""
    monkeypatch.setattr(ledger, "URL", postgres_url)
    monkeypatch.setattr(ledger, "ROUNDS", 1)
    figures = ledger.measure(tmp_path, ledger.Sizes(2_000, 200, 20_000, 200))

    ratios = ("append_postgres_ratio", "append_sqlite_ratio", "verify_ratio", "append_growth")
    grown = ("find_growth", "waiting_growth", "backlog_growth")
    seconds = ("open_seconds", "show_5000_seconds", "export_5000_seconds")
    assert all(figures[name] > 0 for name in (*ratios, *grown, *seconds, "open_rss_mb"))
    assert figures["append_sqlite_where"]["batch_1"]["committing"] > 0
    assert figures["open"]["entries"] >= 2_000


@pytest.mark.slow
@pytest.mark.skipif(server_binaries() is None, reason="no Postgres server is installed")
def test_the_gateway_benchmark_has_every_figure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The gateway, a step of the SDK and a reported span, each beside what it is compared with."""
    monkeypatch.setattr(otlp, "ROUNDS", 1)
    monkeypatch.setattr(otlp, "SPANS", 20)
    monkeypatch.setattr(recorder, "ROUNDS", 1)
    figures = gateway.measure_gateway(10) | recorder.step_figures(1_000) | otlp.span_figures()
    figures |= gateway_costs.served_figures(tmp_path / "served", 50, memory_calls=20)

    assert figures.keys() >= gateway.GOALS.keys()
    assert all(figures[name] > 0 for name in ("calls_ratio", "step_ratio", "otlp_span_ms"))


@pytest.mark.nightly
@pytest.mark.skipif(server_binaries() is None, reason="no Postgres server is installed")
def test_the_engine_benchmark_has_every_figure(tmp_path: Path) -> None:
    """All sides carry out the same plan to its end, in processes of their own."""
    sizes = engine.Sizes(
        depth=2,
        width=2,
        rounds=1,
        entries=2_000,
        submits=3,
        reference=(10,),
        runs=3,
        run_rounds=1,
        offered_seconds=0.5,
        idle_seconds=0.5,
        starts=2,
        kills=1,
        ended=100,
        waiting=10,
        idle_logs=3,
        due=50,
        fair_logs=2,
    )
    with private_cluster() as cluster:
        figures = engine.measure(tmp_path, cluster.url, sizes, "claims")

    ratios = ("throughput_ratio", "throughput_ratio_sqlite", "ratio_to_bare_steps", "submit_growth")
    costs = [name for group in ("cost", "scaling", "drain", "fair") for name in engine.GOALS[group]]
    assert all(figures[name] > 0 for name in (*ratios, *costs, "idle_connections"))
    assert figures["start_latency_ms"]["p99"] >= figures["start_latency_ms"]["p50"] > 0
    assert figures["takeover_seconds"]["p50"] > 0 < figures["takeover_seconds_sqlite"]["p50"]
    assert set(figures["growth_of_ended_runs"]) >= {"submit_ms", "cpu_ms_per_run"}
    assert figures["runner"] == "claims"
    assert [theirs["entries"] for theirs in figures["forum_engine"]] == [10]


@pytest.mark.postgres
@pytest.mark.slow
def test_the_workers_benchmark_has_every_figure(postgres_url: str, tmp_path: Path) -> None:
    """The same runs are carried out to their end by any number of workers."""
    with scratch_database(postgres_url) as url:
        figures = sharing.measure(tmp_path, url, runs=3, rounds=1)

    assert all(figures[f"cpu_ms_per_run_{number}"] > 0 for number in sharing.WORKERS)
    assert figures["cpu_ratio_4"] > 0


@pytest.mark.postgres
@pytest.mark.nightly
def test_the_http_benchmark_has_every_figure(postgres_url: str, tmp_path: Path) -> None:
    """All servers take requests on from the same clients, and what becomes of runs is counted."""
    with scratch_database(postgres_url) as url:
        figures = http.measure(
            tmp_path,
            url,
            http.Sizes(4, seconds=3.0, entries=1_000, reference=(10,), lane="synthesis"),
        )

    measured = ("accepted_p99_ms", "bare_ratio", "livez_p99_ms", "bytes_of_a_request")
    assert all(figures[name] > 0 for name in measured)
    assert figures["completion"]["accepted"] > 0
    assert [theirs["entries"] for theirs in figures["forum_engine"]] == [10]


@pytest.mark.nightly
@pytest.mark.skipif(server_binaries() is None, reason="no Postgres server is installed")
def test_the_scale_benchmark_has_every_figure(tmp_path: Path) -> None:
    """On a server of its own, whose CPU time is counted."""
    sizes = scale.ScaleSizes(
        runs=5, rounds=1, entries=1_000, idle_seconds=0.5, waiting=3, offered_seconds=0.5
    )
    with private_cluster() as cluster:
        coefficients, knee = scale.measure(tmp_path, cluster, sizes, "claims")

    # The sequencer adds up to two entries to each batch of runs.
    assert 9 <= coefficients.entries <= 11
    assert 3 <= coefficients.task_entries < 4
    assert min(coefficients.accept_cpu_ms, coefficients.worker_cpu_ms) > 0
    assert min(coefficients.postgres_cpu_ms, coefficients.entry_sequence_cpu_ms) > 0
    assert min(coefficients.stored_bytes, coefficients.idle_connections) > 0
    assert knee["measured_runs_per_s"] > 0


@pytest.mark.slow
def test_the_reference_is_asked_about_the_same_frauds() -> None:
    """A comparison is fair only if it is of the same things, with the reference at its best."""
    outcomes = {outcome.name: outcome.caught for outcome in reference.frauds()}

    assert set(frauds.SAME) <= {fraud.name for fraud in TAMPER_CASES}
    assert set(frauds.SAME.values()) == set(outcomes)
    assert True in outcomes.values()


def test_simulated_seats_err_as_often_as_they_are_said_to() -> None:
    """Figures about protocols mean something only where the rates of the seats are the known."""
    nature = Nature(error=0.3, alike=0.1)
    asked = [Question(number, deliberation.FOUR) for number in range(4_000)]
    seats, other = ([Seat(question, nature, place) for question in asked] for place in (1, 2))
    right = [seat.first == seat.question.right for seat in seats]
    both_wrong = sum(
        a.first == b.first != a.question.right for a, b in zip(seats, other, strict=True)
    )

    assert sum(right) / len(asked) == pytest.approx(0.7, abs=0.03)
    assert sum(seat.confidence for seat in seats) / len(asked) == pytest.approx(70, abs=2)
    # A tenth of the questions misleads both; of the others each errs in 2 of 9, in one of 3 ways.
    assert both_wrong / len(asked) == pytest.approx(0.1 + 0.9 * (2 / 9) ** 2 / 3, abs=0.02)


def test_seats_read_what_the_council_shows_them() -> None:
    """A seat that overlooks claims could not be convinced, and the figures would not show why."""
    nature = Nature(error=0.4, alike=0.0, truth=1.0, lure=0.0, conformity=0.0)
    setting = deliberation.Setting(nature)
    panel = deliberation.council_of(setting, baseline=0)
    played = [deliberation.play(setting, panel, number) for number in range(60)]

    firsts = [
        {setting.seat(setting.question(n), place).first for place in range(1, 6)} for n in range(60)
    ]
    known = [setting.question(n).right in answers for n, answers in enumerate(firsts)]
    assert [played.right for played in played] == known
    assert sum(played.exposed for played in played) > 0


@pytest.mark.slow
def test_the_deliberation_benchmark_has_every_figure(tmp_path: Path) -> None:
    """Each setting is in one of the three lists, and every protocol has its figures."""
    names = ("easy, 2 options, 1 model", "high conformity")
    figures = deliberation.measure(tmp_path, deliberation.Sizes(12, 4, 1, 5), names)

    titles = ("council_beats_vote", "vote_beats_council", "no_difference")
    assert sorted(one["setting"] for title in titles for one in figures[title]) == sorted(names)
    assert figures["schedule_ratio"] >= 1
    assert [one["seats"] for one in figures["schedule"]] == [5, 5, 50, 50]
    assert figures["crowd"]["turns_per_s"] > 0 < figures["crowd"]["peak_mb"]
    for protocols in figures["settings"].values():
        assert set(protocols) == {"council", "ungated", "symposium", "single"}
        for told in protocols.values():
            low, high = told["interval"]
            assert 0 <= low <= told["accuracy"] <= high <= 1
            assert told["tokens"] > 0
        assert protocols["council"]["gated"] > 0 == protocols["ungated"]["gated"]
        assert set(protocols["council"]["against"]) == {"vote", "weighted_vote", "gated_vote"}
    assert set(deliberation.VARIANTS) | set(deliberation.RECOUNTS) < set(figures["variants"])


@pytest.mark.slow
def test_a_team_keeps_the_facts_of_a_request_and_its_judge_sees_errors(tmp_path: Path) -> None:
    """A model can use only what stands in its prompt, so what an answer lacks Forum has lost."""
    # Long enough that the roles of a plan are shown parts of them.
    sizes = (16384, 32768)
    medium = [r for r in team_requests.generate_requests(1, 60) if r.context_tokens in sizes]
    kinds = sorted({request.kind for request in medium})
    chosen = [r for kind in kinds for r in [r for r in medium if r.kind == kind][-2:]]
    figures = team.measure(tmp_path, chosen, with_reference=False)

    assert figures["requests"] == 10
    assert figures["fact_recall"] >= 0.98
    assert figures["asks_covered"] >= 0.98
    assert figures["planted_errors_caught"] >= 0.95
    assert sum(figures["planted_errors"].values()) > 0
    assert figures["false_alarms"] <= 0.05
    assert figures["lane_obeyed"] == 1.0
    assert figures["failed_calls"] == 0
    assert set(figures["tokens_ratio"]) == set(kinds)
    assert figures["tokens_ratio_all"] <= 6, "project_template.toml and ADR 0069 state the price"


def test_requests_of_others_are_read_as_they_were_written(tmp_path: Path) -> None:
    """An outside check writes requests of its own in the documented form."""
    requests = team_requests.generate_requests(2, 5)
    team_requests.write_requests(tmp_path / "requests.jsonl", requests)

    assert team_requests.read_requests(tmp_path / "requests.jsonl") == requests
    assert {request.kind for request in requests} == {
        "comparison", "diff", "document", "questions", "tools"
    }  # fmt: skip
