"""The Python client against a real server: every form, lost connections, retries, problems."""

import asyncio
import logging
import random
import re
import traceback
from collections.abc import Iterator
from contextlib import aclosing
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

import forum
from forum import errors, verify
from forum.app import KINDS
from forum.client import ReplyUnreadable, RequestTimeout, ServerUnreachable, problems
from forum.client.forms import GateAsk, Message, PanelAsk, TaskAsk
from forum.ledger.kinds import Scope
from forum.surfaces.http.application import all_endpoints
from forum.surfaces.http.openapi import build_document
from forum_client import api_request
from tests.client.proxy import cutting
from tests.surfaces.serving import Served, served, serving

pytestmark = pytest.mark.slow

SLOW = """
[models.default]
kind = "scripted"

[models.default.moves]
"*" = [{ say = "done, word by word", milliseconds = 100 }]
"""
CHAIN = tuple(
    TaskAsk(id=f"t{n}", instruction="Go on.", after=[f"t{n - 1}"] if n else []) for n in range(6)
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a project."""
    with served(tmp_path_factory.mktemp("client"), settings=SLOW) as found:
        yield found


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    """Serve a project on each database."""
    if request.param == "sqlite":
        yield request.getfixturevalue("server")
        return
    with served(tmp_path, request.getfixturevalue("postgres_url"), settings=SLOW) as found:
        yield found


@pytest.fixture
def key(server: Served) -> str:
    """Return the operator's token: it opens everything."""
    return server.project.forum.access.operator_token()


@pytest.fixture
def client(server: Served, key: str) -> Iterator[forum.Client]:
    """Return the operator's client."""
    with forum.Client(server.url, key) as opened:
        yield opened


def port_of(found: Served) -> int:
    """Return where a server listens."""
    return int(found.url.rpartition(":")[2])


def test_a_run_from_its_request_to_its_evidence(both: Served) -> None:
    """What a user does first, on both databases; and what comes back can be checked offline."""
    key = both.project.forum.access.operator_token()
    with forum.Client(both.url, key) as client:
        taken = client.runs.create("Name three rivers.", route=False)
        events = list(client.runs.follow(taken.run))
        run = client.runs.get(taken.run)
        listed = [line.run for line in client.runs.list_all()]
        entries = list(client.ledger.list_all_entries(run=taken.run))
        bundle = client.runs.bundle(taken.run)
        report = client.ledger.verify()

    assert (run.state, run.outcome, run.answer) == ("ended", "ok", "done, word by word")
    assert [event.index for event in events] == [entry.index for entry in entries]
    assert [bytes(event.entry) for event in events] == [bytes(entry.entry) for entry in entries]
    assert events[-1].is_last
    assert events[0].decode()["run"] == taken.run
    assert taken.run in listed
    assert sha256(b"\0" + bytes(events[0].entry)).hexdigest() == events[0].id
    assert verify.verify_bundle(bundle, KINDS, both.project.forum.log.read_trust()).ok
    assert report.ok


def test_a_client_is_awaited(server: Served, key: str) -> None:
    """The asynchronous client does the same, and many calls at once."""

    async def talk() -> tuple[list[str], list[int], list[int], set[str]]:
        async with forum.AsyncClient(server.url, key) as client:
            asked = [client.runs.create(f"Count to {n}.", route=False) for n in range(3)]
            runs = [taken.run for taken in await asyncio.gather(*asked)]
            first = [event.index async for event in client.runs.follow(runs[0])]
            entries = [e.index async for e in client.ledger.list_all_entries(run=runs[0])]
            listed = {line.run async for line in client.runs.list_all()}
            async with aclosing(client.runs.follow(runs[1])) as events:
                async for _ in events:
                    break
            with pytest.raises(errors.NotFound):
                await client.runs.get("no-such-run")
            return runs, first, [index for index in entries if index is not None], listed

    runs, first, entries, listed = asyncio.run(talk())

    assert first == entries
    assert set(runs) <= listed


def test_a_form_of_the_client_loses_nothing(server: Served, client: forum.Client) -> None:
    """A reply that is decoded and encoded again is the reply: every member has its place."""
    run = client.runs.create("Sum up.", tasks=CHAIN[:2], route=False).run
    panel = client.runs.create("Yes or no?", panel=PanelAsk(options=["yes", "no"], seats=3)).run
    for each in (run, panel):
        last = list(client.runs.follow(each))[-1].index
    score = client.runs.create_score(run, name="correct", value=0.5)
    replies = {
        f"/api/v1/runs/{run}": client.runs.get(run),
        f"/api/v1/runs/{panel}": client.runs.get(panel),
        "/api/v1/runs": client.runs.list(),
        f"/api/v1/runs/{run}/scores": client.runs.list_scores(run),
        "/api/v1/gates": client.gates.list(),
        "/api/v1/keys": client.keys.list(),
        f"/api/v1/entries/{last}": client.ledger.get_entry(last),
        f"/api/v1/entries/{last}/proof": client.ledger.get_proof(last),
        f"/api/v1/entries/{last}/causes": client.ledger.get_causes(last),
        "/api/v1/checkpoint": client.ledger.get_checkpoint(),
        "/api/v1/models": client.work.list_models(),
        "/api/v1/roster": client.work.list_lanes(),
        "/api/v1/budgets": client.work.list_budgets(),
        "/api/v1/costs": client.work.get_costs(),
        "/v1/models": client.openai.models(),
    }

    assert score.name == "correct"
    for path, reply in replies.items():
        sent = server.client.get(path).content  # once more: a log grows meanwhile
        again = msgspec.json.encode(msgspec.json.decode(sent, type=type(reply)))
        assert msgspec.json.decode(again) == msgspec.json.decode(sent), path


def test_a_body_comes_with_its_salt(client: forum.Client) -> None:
    """Whoever has both can check the commitment of the entry."""
    run = client.runs.create("Name a river.", route=False).run
    events = [event.decode() for event in client.runs.follow(run)]
    entries = [entry.index for entry in client.ledger.list_all_entries(run=run)]
    at, name = next((i, name) for i, e in enumerate(events) for name in e["bodies"])
    index = entries[at]
    assert index is not None
    body = client.ledger.get_body(index, name)

    assert len(bytes.fromhex(body.salt)) == 32
    assert len(body.data) == events[at]["bodies"][name]["size"]


def test_a_person_decides_at_a_gate(client: forum.Client) -> None:
    """About what was shown: a decision about other content is a problem of its own."""
    run = client.runs.create("Pay.", route=False, gates=GateAsk(what=["plan"])).run
    waiting: tuple[str, ...] = ()
    while run not in waiting:
        waiting = tuple(gate.run for gate in client.gates.list().gates)
    gate = client.gates.show(run, "plan")
    with pytest.raises(problems.GateMovedProblem):
        client.gates.decide(run, subject="plan", answer="approve", digest="0" * 64)
    decision = client.gates.decide(run, subject="plan", answer="reject", digest=gate.digest)
    *_, last = client.runs.follow(run)
    with pytest.raises(problems.GateDecidedProblem):
        client.gates.decide(run, subject="plan", answer="approve", digest=gate.digest)

    assert decision.answer == "reject"
    assert last.is_last


def test_a_follower_goes_on_where_the_connection_was_cut(
    server: Served, key: str, client: forum.Client
) -> None:
    """Cut anywhere, in the headers or within an event: nothing is missed, nothing comes twice."""
    run = client.runs.create("Count.", tasks=CHAIN, route=False).run
    cuts = random.Random(7)

    def budget(number: int) -> int | None:
        return cuts.randrange(1, 3000) if number % 4 else cuts.randrange(2000, 5000)

    with cutting(port_of(server), budget) as proxy, forum.Client(proxy.url, key) as cut:
        live = [event.index for event in cut.runs.follow(run)]
        again = [event.index for event in cut.runs.follow(run, after=live[4])]
    whole = [entry.index for entry in client.ledger.list_all_entries(run=run)]

    assert live == whole
    assert again == whole[5:]
    assert proxy.cuts >= 4


def test_a_follower_survives_the_death_of_the_server(server: Served, key: str) -> None:
    """Killed in the middle, with another in its place: the follower has each entry once."""
    with (
        serving(server.project) as first,
        cutting(port_of(first), lambda _: None) as proxy,
        forum.Client(proxy.url, key) as client,
    ):
        run = client.runs.create("Count.", tasks=CHAIN, route=False).run
        events = client.runs.follow(run)
        seen = [next(events).index, next(events).index]
        first.server.kill()
        first.server.wait()
        proxy.target = port_of(server)
        seen += [event.index for event in events]
        whole = [entry.index for entry in client.ledger.list_all_entries(run=run)]

    assert seen == whole


def test_a_follower_of_the_log_survives_the_death_of_the_server(server: Served, key: str) -> None:
    """It has every entry of all runs once, and the end of a run is not the end of the log."""
    with (
        serving(server.project) as first,
        cutting(port_of(first), lambda _: None) as proxy,
        forum.Client(proxy.url, key) as client,
    ):
        runs = {client.runs.create("Count.", tasks=CHAIN[:2], route=False).run for _ in range(2)}
        events = client.ledger.follow_log()
        seen = [next(events).index]
        first.server.kill()
        first.server.wait()
        proxy.target = port_of(server)
        while runs:
            event = next(events)
            seen.append(event.index)
            runs -= {event.decode()["run"]} if event.is_last else set()

    assert seen == list(range(len(seen)))


def test_a_lost_reply_begins_no_second_run(server: Served, key: str, client: forum.Client) -> None:
    """The request arrived, the reply did not: under the same key the server gives the same run."""
    before = len(list(client.runs.list_all()))

    with (
        cutting(port_of(server), lambda number: 1 if number < 2 else None) as proxy,
        forum.Client(proxy.url, key) as cut,
    ):
        run = cut.runs.create("Pay once.", route=False).run

    listed = [line.run for line in client.runs.list_all()]
    assert proxy.connections == 3
    assert len(listed) == before + 1
    assert run in listed


def test_what_is_not_safe_is_sent_once(server: Served, key: str, client: forum.Client) -> None:
    """Without an idempotency key a second key could come to be; the user decides."""
    with (
        cutting(port_of(server), lambda _: 1) as proxy,
        forum.Client(proxy.url, key) as cut,
        pytest.raises(ServerUnreachable, match="cannot be reached"),
    ):
        cut.keys.create(name="once", scopes=["read"])

    assert proxy.connections == 1
    assert [k.name for k in client.keys.list().keys].count("once") == 1


def test_a_server_that_is_gone_and_one_that_is_slow(
    server: Served, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are typed; the request may have arrived, and the error says so."""
    monkeypatch.setattr(api_request, "RETRY_DELAYS_S", (0.01, 0.01))
    with cutting(port_of(server), lambda _: 0) as proxy:
        gone, tries = proxy.url, proxy.connections
    with forum.Client(gone, key) as client, pytest.raises(ServerUnreachable) as refused:
        client.runs.list()
    with forum.Client(gone, key) as client, pytest.raises(ServerUnreachable):
        list(client.runs.follow("some-run"))
    with forum.Client(server.url, key, timeout=0.001) as client, pytest.raises(RequestTimeout):
        client.ledger.verify()

    assert tries == 0
    assert isinstance(refused.value, errors.Unavailable)


def test_a_problem_is_an_exception_by_its_type(server: Served, client: forum.Client) -> None:
    """A program decides by the class, and by its family; people read the text."""
    reader = str(server.project.forum.access.grant("reader", {Scope.READ}))
    run = client.runs.create("Go.", route=False, idempotency_key="used").run
    list(client.runs.follow(run))
    with forum.Client(server.url, reader) as mere, pytest.raises(problems.ForbiddenProblem):
        mere.runs.create("Go.")
    with forum.Client(server.url, "no-key") as nobody, pytest.raises(problems.NoKeyProblem):
        nobody.runs.list()
    with pytest.raises(problems.KeyReusedProblem):
        client.runs.create("Go elsewhere.", route=False, idempotency_key="used")
    with pytest.raises(problems.RunEndedProblem) as ended:
        client.runs.cancel(run)
    with pytest.raises(problems.UnprocessableProblem, match="not in the plan"):
        client.runs.create("Go.", tasks=[TaskAsk(id="a", instruction="Go.", needs=["b"])])
    with pytest.raises(problems.BadRequestProblem):
        client.runs.list(limit=1000)
    with pytest.raises(problems.NotFoundProblem):
        list(client.runs.follow("no-such-run"))
    with pytest.raises(problems.NotFoundProblem, match="no-such-model"):
        client.openai.chat(model="no-such-model", messages=[Message(role="user", content="Hi.")])

    assert isinstance(ended.value, errors.Conflict)
    assert ended.value.status == 409
    assert ended.value.type == errors.ProblemType.ENDED.type


def test_the_key_is_shown_nowhere(
    server: Served, key: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in a `repr`, an error, what an error refers to, or a log at its most talkative."""
    monkeypatch.setattr(api_request, "RETRY_DELAYS_S", ())
    caplog.set_level(logging.DEBUG)
    shown, caught = [], []
    with (
        cutting(port_of(server), lambda _: 1) as proxy,
        forum.Client(proxy.url, key) as client,
    ):
        shown += [repr(client), str(client), repr(client.runs), repr(vars(client))]
        for call in (client.runs.list, client.ledger.verify, lambda: client.runs.get("..")):
            try:
                call()
            except errors.ForumError as error:
                caught.append(error)
    for bad in (f"{key}\nX: y", f"{key} {key}", f"{key}ü"):
        with pytest.raises(errors.Malformed) as malformed:
            forum.Client(server.url, bad)
        caught.append(malformed.value)

    assert len(caught) == 6
    shown += ["".join(traceback.format_exception(error)) for error in caught]
    assert [text for text in [*shown, caplog.text] if key in text] == []
    # Tools that report errors look into them: neither a cause nor a context holds the request.
    assert [error for error in caught if error.__context__ or error.__cause__] == []


def test_every_operation_has_a_method() -> None:
    """Of the OpenAPI document, in both clients."""
    document = build_document(all_endpoints())
    operations = {
        f"{method.upper()} {path}" for path, by_method in document["paths"].items()
        for method in by_method
    }  # fmt: skip
    for client in (forum.Client("http://x", "k"), forum.AsyncClient("http://x", "k")):
        groups = [group for name, group in vars(client).items() if not name.startswith("_")]
        texts = [method.__doc__ or "" for group in groups for method in _public(group)]
        routes = [
            found
            for text in texts
            for found in re.findall(r"^\s*`(\w+ /[^`]*)`", text, re.MULTILINE)
        ]

        assert sorted(re.sub(r":path}", "}", route) for route in routes) == sorted(operations)


def _public(group: object) -> list[object]:
    return [found for name, found in vars(type(group)).items() if not name.startswith("_")]


def test_a_url_must_be_one(key: str) -> None:
    """A password in it would end up in errors."""
    for url in ("", "localhost:8808", "ftp://localhost", "http://me:secret@localhost"):
        with pytest.raises(errors.Malformed) as malformed:
            forum.Client(url, key)
        assert "secret" not in str(malformed.value)


@pytest.mark.parametrize("head", ["200 OK", "307 Go on\r\nLocation: /elsewhere"])
def test_what_is_no_reply_of_forum_is_told(head: str) -> None:
    """A page of a proxy is not decoded, and a redirection not followed: it would get the key."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(f"HTTP/1.1 {head}\r\nContent-Length: 6\r\n\r\n<html>".encode())
        await writer.drain()
        writer.close()

    async def ask() -> None:
        other = await asyncio.start_server(answer, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}"
        async with forum.AsyncClient(url, "k") as client:
            with pytest.raises(ReplyUnreadable):
                await client.runs.list()
        other.close()

    asyncio.run(ask())

    assert len(asked) == 1
