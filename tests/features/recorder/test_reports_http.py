"""Reports to a server: recorded once each, by keys that can do nothing else, and added up."""

import itertools
import random
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import forum
from forum.app import KINDS, new_salt, now
from forum.errors import BudgetExceeded, GateNameUsed, StoreFailed
from forum.features.recorder.public import ReportWriter
from forum.features.recorder.report_items import (
    ReportItem,
    ReportResult,
    RunEnd,
    RunStart,
    StepBegin,
    StepReport,
)
from forum.ledger.kinds import Outcome, RunCloseFacts, Scope
from forum.ledger.log import Ledger
from forum.runs.kinds import StopFacts
from forum.runs.policy import Answer
from forum.runs.report_kinds import GapReason, Operation, ReportGapFacts, ReportStepFacts
from forum.stores.sqlite import SqliteStore
from tests.features.recorder.recording import open_forum, same
from tests.support import fresh_origin
from tests.surfaces.serving import Served, served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a project, without a worker."""
    with served(tmp_path_factory.mktemp("served"), workers=0) as running:
        yield running


def grant(server: Served, *scopes: Scope) -> str:
    """Return a key with these scopes."""
    name = "-".join(["sdk", *scopes])
    return str(server.project.forum.access.grant(name, set(scopes)))


def recorded(server: Served, run: str) -> list[Any]:
    """Return the facts of a run's entries."""
    store = server.project.forum.store
    return [KINDS.read(data).facts for _, data in store.entries_of_run(run)]


@pytest.mark.slow
def test_a_program_records_on_a_server(server: Served, tmp_path: Path) -> None:
    """Runs, steps, effects, budgets and gates work as in the process, over one endpoint."""
    key = grant(server, Scope.REPORT, Scope.APPROVE)
    with forum.open(tmp_path, url=server.url, key=key) as recorder:
        step, effect = (
            recorder.step(same, name="step"),
            recorder.effect(partial(same, key), name="pay"),
        )
        with recorder.run("remote", usd=0.001) as run:
            for number in range(700):
                step(number)
            effect()
            with pytest.raises(BudgetExceeded, match=run.id):  # noqa: SIM117  in this order
                with recorder.budget("gpt-4o-mini", input="hello", max_tokens=10**6):
                    pass
            assert run.gate("go on?", default="approve", seconds=0.01) is True

    facts = recorded(server, run.id)
    steps = [fact for fact in facts if isinstance(fact, ReportStepFacts)]
    assert len(steps) == 702
    assert [fact for fact in facts if isinstance(fact, ReportGapFacts)] == []
    bodies = [b"".join(b.read()) for *_, b in server.project.forum.store.bodies_of_run(run.id)]
    # The key is a secret of the program, and was returned by one of its functions.
    assert not any(key.encode() in body for body in bodies)
    assert Answer.APPROVE in {getattr(fact, "answer", None) for fact in facts}


@pytest.mark.slow
@pytest.mark.parametrize("place", ["process", "server"])
def test_an_approval_is_of_the_text_that_was_shown(
    server: Served, project: Path, place: str
) -> None:
    """A program that asks again under the same name, with another text, has no approval."""
    with ExitStack() as stack:
        if place == "server":
            asked, key = server.project.forum, grant(server, Scope.REPORT)
            recorder = stack.enter_context(forum.open(project, url=server.url, key=key))
        else:
            recorder = stack.enter_context(forum.open(project))
            asked = stack.enter_context(open_forum(project))
        run = stack.enter_context(recorder.run("payments"))
        question = run._question("pay 1 EUR", "reject", 3600.0)  # noqa: SLF001  asked twice
        other = replace(question, shown="pay 1000000 EUR")
        ask = recorder.sink.ask_gate
        assert ask(question) is None
        with pytest.raises(GateNameUsed, match="ask under another name"):
            ask(other)
        ((_, gate),) = asked.reads.waiting_gates()
        asked.runs.decide_gate(run.id, gate.opened.subject, Answer.APPROVE, gate.digest)
        assert ask(question) is Answer.APPROVE
        with pytest.raises(GateNameUsed):
            ask(other)
        assert ask(replace(other, subject="other")) is None


@pytest.mark.slow
def test_a_key_reports_to_its_own_runs_only(server: Served) -> None:
    """A key with the scope `report` reads nothing, and adds nothing to the runs of others."""
    keys = [grant(server, Scope.REPORT), grant(server, Scope.REPORT, Scope.READ)]
    start = {"type": "start", "run": "shared-run-1", "name": "mine"}
    step = {
        "type": "step", "run": "shared-run-1", "span": "a", "op": "tool", "name": "x",
        "outcome": "ok",
    }  # fmt: skip
    driven = step | {"run": server.begin()}
    with httpx2.Client(base_url=server.url) as client:

        def post(key: str, *items: dict[str, str]) -> httpx2.Response:
            headers = {"Authorization": f"Bearer {key}"}
            return client.post("/api/v1/reports", json={"items": items}, headers=headers)

        first = post(keys[0], start, step, step).json()
        again = post(keys[0], step).json()
        other = post(keys[1], step | {"span": "b"}, driven).json()
        headers = {"Authorization": f"Bearer {keys[0]}"}
        refused = client.get("/api/v1/runs", headers=headers).status_code

    assert (first["recorded"], first["known"]) == (2, 1)
    assert again == {"known": 1}
    assert [refusal["code"] for refusal in other["refused"]] == ["ReportRefused"] * 2
    assert "recorded" not in other
    assert refused == 403


@pytest.mark.slow
def test_what_never_arrives_is_a_gap(server: Served, tmp_path: Path) -> None:
    """A killed program's next process tells the server how many steps it had handed in."""
    key = grant(server, Scope.REPORT)
    program = (
        "import forum, os, signal, sys\n"
        f"rec = forum.open(url={server.url!r}, key={key!r})\n"
        "step = rec.step(lambda n: n)\n"
        "with rec.run('killed') as run:\n"
        "    for n in range(10): step(n)\n"
        "    rec.flush()\n"
        "    print(run.id, flush=True)\n"
        "    rec.sink.write = lambda items: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    for n in range(7): step(n)\n"
        "    rec.flush()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    run = done.stdout.strip()
    with forum.open(tmp_path, url=server.url, key=key):
        pass

    facts = recorded(server, run)
    assert sum(isinstance(fact, ReportStepFacts) for fact in facts) == 10
    (gap,) = [fact for fact in facts if isinstance(fact, ReportGapFacts)]
    assert (gap.why, gap.steps) == (GapReason.SHUTDOWN, 7)


def test_an_unreachable_server_costs_no_program(tmp_path: Path) -> None:
    """Steps wait in memory up to `most`, then they are counted; the program goes on."""
    recorder = forum.open(tmp_path, url="http://127.0.0.1:9", key="k", most=50)
    with pytest.warns(RuntimeWarning, match="cannot be reached"):
        returned = record_alone(recorder)

    assert returned == list(range(200))
    assert recorder.lost > 0
    assert not recorder.close(0.1)


def record_alone(recorder: forum.Recorder) -> list[int]:
    """Make 200 steps, and wait for the warning of the writer."""
    step = recorder.step(same)
    with recorder.run("alone"):
        returned = [step(number) for number in range(200)]
    recorder.flush(1)
    return returned


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_retries_in_any_order_record_each_step_once(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """Two servers, batches sent again, batches that never arrive: each step once, and the sum."""
    chance = random.Random(seed)
    store = SqliteStore(tmp_path_factory.mktemp("retries") / "ledger.db", fresh_origin())
    ledger = Ledger(store, KINDS, now, new_salt)
    servers = [ReportWriter(ledger, "key-1") for _ in range(2)]
    count = chance.randrange(1, 30)
    steps = [
        StepReport(run="retried-run", span=f"s{n}", op=Operation.TOOL, name="x", outcome=Outcome.OK)
        for n in range(count)
    ]
    arrived = [step for step in steps if chance.random() < 0.8]
    sent: list[ReportItem] = [*arrived, *(chance.choice(arrived) for _ in arrived)]
    chance.shuffle(sent)
    start = RunStart(run="retried-run", name="retried")
    end = RunEnd(run="retried-run", name="retried", outcome=Outcome.OK, handed_in=count)
    for _ in range(2):
        chance.choice(servers).write([start])
    while sent:
        size = chance.randrange(1, 8)
        chance.choice(servers).write(sent[:size])
        sent = sent[size:]
    for _ in range(2):
        chance.choice(servers).write([end])

    facts = [KINDS.read(data).facts for _, data in store.entries_of_run("retried-run")]
    recorded = [fact.span for fact in facts if isinstance(fact, ReportStepFacts)]
    lost = sum(fact.steps for fact in facts if isinstance(fact, ReportGapFacts))
    store.close()
    assert sorted(recorded) == sorted(step.span for step in arrived)
    assert len(recorded) + lost == count


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Return an empty ledger."""
    store = SqliteStore(tmp_path / "ledger.db", fresh_origin())
    yield Ledger(store, KINDS, now, new_salt)
    store.close()


def model_step(span: str, **facts: Any) -> StepReport:  # noqa: ANN401  any fact
    """Return a call of a model in the capped run."""
    return StepReport(
        run="capped-run", span=span, op=Operation.MODEL, name="m", outcome=Outcome.OK, **facts
    )


def model_begin(span: str, **facts: Any) -> StepBegin:  # noqa: ANN401  any fact
    """Return the beginning of a call of a model in the capped run."""
    return StepBegin(run="capped-run", span=span, op=Operation.MODEL, name="m", **facts)


def codes(result: ReportResult) -> list[str]:
    """Return why items were refused."""
    return [refusal.code for refusal in result.refused]


@pytest.mark.slow
def test_a_key_cannot_claim_what_only_forum_knows(server: Served) -> None:
    """No run is relayed because a program says so, and names of other doors are not taken."""
    key, trace = grant(server, Scope.REPORT), "otel-" + "ab" * 16
    items: list[dict[str, object]] = [
        {"type": "start", "run": "forged-relayed", "name": "x", "told": "relayed"},
        {"type": "start", "run": trace, "name": "x"},
        {"type": "end", "run": trace, "name": "x", "outcome": "ok", "handed_in": 0},
        {"type": "start", "run": "claude-session-1", "name": "x"},
        {"type": "start", "run": "honest-reported", "name": "x", "told": "reported"},
    ]
    with httpx2.Client(base_url=server.url, headers={"Authorization": f"Bearer {key}"}) as client:
        document = client.post("/api/v1/reports", json={"items": items}).json()

    assert document["recorded"] == 1
    assert [refusal["item"] for refusal in document["refused"]] == [0, 1, 2, 3]
    assert all(not recorded(server, str(item["run"])) for item in items[:4])


def test_keys_with_one_long_name_are_two_reporters(ledger: Ledger) -> None:
    """What tells them apart stands behind what a label can hold."""
    mine, theirs = (ReportWriter(ledger, f"key/{'n' * 80}/{id_}") for id_ in ("k1", "k2"))
    mine.write([RunStart(run="capped-run", name="x")])
    again = ReportWriter(ledger, f"key/{'n' * 80}/k1").write([model_step("a")])

    assert codes(theirs.write([model_step("b")])) == ["ReportRefused"]
    assert again.recorded == 1


def test_a_capped_run_accounts_for_every_cost(ledger: Ledger) -> None:
    """A step that was not begun costs nothing; what passes the cap is on record and stops it."""
    writer = ReportWriter(ledger, "key-1")
    writer.write([RunStart(run="capped-run", name="x", usd=10)])
    unannounced = writer.write([model_step("a", usd=1), model_step("b"), model_begin("c")])
    writer.write([model_begin("d", calls=1), model_step("d", begun=True, usd=10**10)])
    tool = StepBegin(run="capped-run", span="e", op=Operation.TOOL, name="t")
    later = writer.write([model_begin("f", calls=1), tool])
    writer.write([model_step("d", begun=True, usd=10**10)])
    writer.write([RunEnd(run="capped-run", name="x", outcome=Outcome.OK, handed_in=1)])

    account = ledger.store.account("capped-run")
    facts = [KINDS.read(data).facts for _, data in ledger.store.entries_of_run("capped-run")]
    (stop,) = [fact for fact in facts if isinstance(fact, StopFacts)]
    assert codes(unannounced) == ["Malformed"] * 3
    assert account is not None
    assert account.used == (10**10, 0, 1)
    assert (stop.reason, stop.limit, stop.used, stop.cap) == ("budget", "usd", 10**10, 10)
    assert codes(later) == ["BudgetExceeded"] * 2
    assert [fact.span for fact in facts if isinstance(fact, ReportStepFacts)] == ["d"]
    assert any(isinstance(fact, RunCloseFacts) for fact in facts)


def test_a_bill_above_its_bound_stops_the_run(ledger: Ledger) -> None:
    """Also within the cap, and on every server: it is an overrun, and no further step begins."""
    writer, other = ReportWriter(ledger, "key-1"), ReportWriter(ledger, "key-1")
    writer.write([RunStart(run="capped-run", name="x", usd=100)])
    in_flight = model_begin("b", usd=5, calls=1)
    writer.write([model_begin("a", usd=1, calls=1), in_flight])
    bill = model_step("a", begun=True, usd=2, input_tokens=7, code="http-500")
    assert [writer.write([bill]).recorded, writer.write([bill]).known] == [1, 1]
    tool = StepBegin(run="capped-run", span="d", op=Operation.TOOL, name="t")
    later = other.write([model_begin("c", usd=1, calls=1), tool])
    settled = other.write([model_step("b", begun=True, usd=5)])
    other.write([RunEnd(run="capped-run", name="x", outcome=Outcome.OK, handed_in=2)])

    facts = [KINDS.read(data).facts for _, data in ledger.store.entries_of_run("capped-run")]
    (stop,) = [fact for fact in facts if isinstance(fact, StopFacts)]
    assert (stop.limit, stop.asked, stop.used, stop.cap, stop.by) == ("usd", 2, 7, 100, "a")
    assert codes(later) == ["ReservationOverrun"] * 2
    assert settled.recorded == 1
    steps = {fact.span: fact.code for fact in facts if isinstance(fact, ReportStepFacts)}
    assert steps == {"a": "overrun", "b": ""}


def test_only_what_is_limited_can_overrun(ledger: Ledger) -> None:
    """A run with a limit of tokens reserves no dollars, and is not stopped by their number."""
    writer = ReportWriter(ledger, "key-1")
    writer.write([RunStart(run="capped-run", name="x", tokens=100)])
    for span in ("a", "b"):
        begin = model_begin(span, tokens=9, calls=1)
        end = model_step(span, begun=True, usd=5, input_tokens=4, output_tokens=5)
        assert writer.write([begin, end]).recorded == 2


def test_a_refused_step_is_in_the_gap_as_refused(ledger: Ledger) -> None:
    """Whether it was refused in the batch of the end or before; what never came has another."""
    writer = ReportWriter(ledger, "key-1")
    writer.write([RunStart(run="capped-run", name="x", usd=10)])
    assert codes(writer.write([model_step("a", usd=1)])) == ["Malformed"]
    end = RunEnd(run="capped-run", name="x", outcome=Outcome.OK, handed_in=5, refused=1)
    writer.write([model_step("b", usd=1), model_step("c", usd=1), end])

    assert gaps_of(ledger, "capped-run") == {GapReason.REFUSED: 3, GapReason.SEQUENCE: 2}


def gaps_of(ledger: Ledger, run: str) -> dict[GapReason, int]:
    """Return how many steps of a run are in gaps, by reason."""
    facts = [KINDS.read(data).facts for _, data in ledger.store.entries_of_run(run)]
    return {fact.why: fact.steps for fact in facts if isinstance(fact, ReportGapFacts)}


@pytest.mark.slow
def test_a_recorder_tells_the_server_what_it_refused(server: Served, tmp_path: Path) -> None:
    """Also if the refusal was in an earlier request than the end of the run."""
    key = grant(server, Scope.REPORT)
    with (
        forum.open(tmp_path, url=server.url, key=key) as recorder,
        recorder.run("refused", usd=1) as run,
    ):
        unannounced = msgspec.structs.replace(model_step("a", usd=1), run=run.id)
        with warnings.catch_warnings(record=True):
            recorder.hand_in(run, unannounced)
            assert not recorder.flush()
        recorder.step(same)(1)

    facts = recorded(server, run.id)
    gaps = [(fact.why, fact.steps) for fact in facts if isinstance(fact, ReportGapFacts)]
    assert gaps == [(GapReason.REFUSED, 1)]
    assert sum(isinstance(fact, ReportStepFacts) for fact in facts) == 1


def test_a_step_that_is_written_again_counts_once(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that remembers its runs does not take a repetition for another step."""
    writer = ReportWriter(ledger, "process-1", is_only_writer=True)
    writer.write([RunStart(run="capped-run", name="x", usd=10)])
    tools = [msgspec.structs.replace(model_step(s), op=Operation.TOOL) for s in "abc"]
    group = [*tools, model_step("refused", usd=1)]
    start, calls = ledger.start_strands, itertools.count()

    def start_strands(starts: Any) -> Any:  # noqa: ANN401  as the ledger
        if next(calls) == 2:
            raise StoreFailed("writing", "disk full")
        return start(starts)

    monkeypatch.setattr(ledger, "start_strands", start_strands)
    # The group is refused for one of its steps, and each is written alone until the store fails.
    with pytest.raises(StoreFailed):
        writer.write(group)
    assert codes(writer.write(group)) == ["Malformed"]
    writer.write([RunEnd(run="capped-run", name="x", outcome=Outcome.OK, handed_in=4, refused=1)])

    assert gaps_of(ledger, "capped-run") == {GapReason.REFUSED: 1}


def test_a_span_ends_as_what_it_began(ledger: Ledger) -> None:
    """A verifier would reject another name or operation."""
    writer = ReportWriter(ledger, "key-1")
    writer.write([RunStart(run="capped-run", name="x", usd=10), model_begin("a", calls=1)])
    other = msgspec.structs.replace(model_step("a", begun=True), name="other")

    assert codes(writer.write([other])) == ["ReportRefused"]


@pytest.mark.parametrize("is_begun", [False, True])
def test_another_content_of_a_known_span_is_refused(ledger: Ledger, *, is_begun: bool) -> None:
    """The same content again is known; another cost or another body is no repetition."""
    writer = ReportWriter(ledger, "key-1")
    begin = [model_begin("a")] if is_begun else []
    step = model_step("a", usd=1, begun=is_begun, output=msgspec.Raw(b'"x"'))
    writer.write([RunStart(run="capped-run", name="x"), *begin, step])
    again = writer.write([step])
    cost = writer.write([msgspec.structs.replace(step, usd=99)])
    body = writer.write([msgspec.structs.replace(step, output=msgspec.Raw(b'"y"'))])

    assert again == ReportResult(known=1)
    assert codes(cost) == codes(body) == ["ReportRefused"]
    assert (cost.known, body.known) == (0, 0)


@pytest.mark.parametrize("why", [GapReason.FILTERED, GapReason.SAMPLED, GapReason.LIMIT])
def test_steps_that_were_handed_in_are_lost_and_not_left_out(
    ledger: Ledger, why: GapReason
) -> None:
    """A reporter cannot pass a loss off as a rule."""
    writer = ReportWriter(ledger, "key-1")
    writer.write([RunStart(run="capped-run", name="x")])
    end = RunEnd(run="capped-run", name="x", outcome=Outcome.OK, handed_in=9)
    results = [
        writer.write([msgspec.structs.replace(end, missing_why=why)]),
        writer.write([msgspec.structs.replace(end, dropped=1, dropped_why=why)]),
    ]

    assert [codes(result) for result in results] == [["Malformed"]] * 2
    assert writer.find_run("capped-run") is not None
