"""Webhooks: who is told of what, by whom, how often, and how they know that it is true."""

import importlib.util
import signal
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from json import loads
from pathlib import Path
from threading import Event as Signal
from threading import Thread
from time import time
from typing import Any

import pytest
from click.testing import CliRunner
from standardwebhooks.webhooks import Webhook as Verifier

from forum.app import Forum
from forum.engine import RunRequest
from forum.errors import BadSettings
from forum.features.webhooks.messages import Webhook, WebhookMessage, read_secrets, read_webhooks
from forum.features.webhooks.retries import (
    DeliveryResult,
    DeliveryState,
    PendingDelivery,
    draft_attempt,
    draft_outcome,
)
from forum.ledger.body import BytesContent
from forum.ledger.entry import LOG_RUN, MAIN_STRAND
from forum.ledger.kinds import NoticeFacts, Outcome
from forum.runs.kinds import AcceptedFacts
from forum.section_reader import SectionTables
from forum.surfaces.cli import cli
from forum.surfaces.http.auth import ServerConfig
from forum.surfaces.http.tenant import Tenant
from tests.docs.pages import saved
from tests.e2e.project import eventually, project
from tests.support import free_port
from tests.surfaces.halls import hall
from tests.surfaces.serving import served, serving

SECRET = f"whsec_{b64encode(bytes(range(32))).decode()}"
MODEL = '[models.default]\nkind = "scripted"\n'
GATES_ONLY = 'events = ["gate.opened"]'
SECOND = 1_000_000


# Receivers


@dataclass(frozen=True, slots=True)
class Heard:
    """A request that came."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        """What the receiver tells messages apart by."""
        return self.headers["webhook-id"]

    @property
    def said(self) -> Any:  # noqa: ANN401  it is JSON
        """What it says, having checked that it may be believed."""
        return Verifier(SECRET).verify(self.body, dict(self.headers))


Reply = Callable[[Heard], int]


@dataclass
class Receiver:
    """Somebody who is told, over real sockets."""

    reply: Reply
    port: int
    heard: list[Heard] = field(default_factory=list)

    def url(self, path: str = "/hook") -> str:
        """Return where it listens."""
        return f"http://127.0.0.1:{self.port}{path}"

    def runs(self, path: str = "/hook") -> list[str]:
        """Return the runs of which it was told at an address."""
        return [loads(one.body)["data"]["run"] for one in self.heard if one.path == path]


@contextmanager
def receiving(reply: Reply = lambda _: 204, port: int = 0) -> Iterator[Receiver]:
    """Listen, and answer as told."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            heard = Heard(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            receiver.heard.append(heard)
            self.send_response(receiver.reply(heard))
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        receiver = Receiver(reply, server.server_address[1])
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


# Projects


def section(name: str, url: str, more: str = "") -> str:
    """Return what names a receiver in the project file."""
    return f'[webhooks.{name}]\nurl = "{url}"\nsecret_file = "hook.secret"\n{more}\n'


@contextmanager
def telling(home: Path, *sections: str) -> Iterator[Forum]:
    """Serve a ledger within this process, to nobody but those who are told."""
    home.mkdir(exist_ok=True)
    (home / "hook.secret").write_text(f"{SECRET}\n")
    toml = "".join(sections)
    with project(home, None, toml) as made, hall(ServerConfig([Tenant(made.forum)])):
        yield made.forum


def end_a_run(forum: Forum, origin: AcceptedFacts | None = None) -> str:
    """Have a run accepted and closed."""
    run = forum.runs.submit(RunRequest("Name three rivers."), origin)
    ledger = forum.ledger
    ledger.close_run(ledger.open_strand_at_end(run, MAIN_STRAND), "engine", Outcome.OK)
    return run


def told(forum: Forum, name: str = "chat") -> list[NoticeFacts]:
    """Return what is on record about an endpoint."""
    data = forum.store.read_strand(LOG_RUN, f"notices/{name}")
    return [forum.ledger.kinds.read(data).facts for data in data]


def count(forum: Forum, *outcomes: Outcome, name: str = "chat") -> int:
    """Count notices of messages with these outcomes."""
    return sum(n.outcome in outcomes and n.event != "begin" for n in told(forum, name))


# What a server does


@pytest.mark.slow
@pytest.mark.parametrize(
    "servers", [1, pytest.param(2, marks=pytest.mark.postgres)], ids=["sqlite", "two-on-postgres"]
)
def test_gates_and_ends_are_told_once(
    servers: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Each by one of the processes that serve, in words that a foreign library believes."""
    database = request.getfixturevalue("postgres_url") if servers > 1 else None
    home = tmp_path / "project"
    home.mkdir()
    (home / "hook.secret").write_text(SECRET)
    with receiving() as receiver, ExitStack() as stack:
        toml = MODEL + section("chat", receiver.url())
        first = stack.enter_context(served(home, database, settings=toml))
        for _ in range(servers - 1):
            stack.enter_context(serving(first.project))
        forum, client = first.project.forum, first.client
        asked = {"request": "Name three rivers.", "gates": {"what": ["plan"]}}
        run = client.post("/api/v1/runs", json=asked).json()["run"]
        eventually(lambda: len(receiver.heard) == 1)
        gate = receiver.heard[0].said
        shown = client.get(gate["data"]["href"]).json()
        decision = {"subject": "plan", "answer": "approve", "digest": gate["data"]["digest"]}
        assert client.post(f"/api/v1/runs/{run}/gate", json=decision).status_code == 200
        runs = {run, *(first.begin(f"Name {n} rivers.") for n in range(9))}
        eventually(lambda: count(forum, Outcome.OK) == 11, 60)
        ends = [heard.said for heard in receiver.heard[1:]]
        ledger = first.client.get(ends[0]["data"]["href"]).json()
        report = forum.log.verify(forum.log.read_trust())

    assert gate["type"] == "gate.opened"
    assert gate["data"]["run"] == run
    assert shown["digest"] == gate["data"]["digest"]
    assert [end["type"] for end in ends] == ["run.ended"] * 10
    assert {end["data"]["run"] for end in ends} == runs
    assert {end["data"]["outcome"] for end in ends} == {"ok"}
    assert len({heard.id for heard in receiver.heard}) == 11
    assert ledger["run"] == ends[0]["data"]["run"]
    assert report.ok


def test_servers_share_the_work_and_tell_nothing_twice(tmp_path: Path) -> None:
    """They see the same log at the same time: who records an attempt first is who makes it."""
    with receiving() as receiver, ExitStack() as stack:
        sections = section("chat", receiver.url())
        forum = stack.enter_context(telling(tmp_path / "p", sections))
        other = stack.enter_context(Forum(forum.settings))
        stack.enter_context(hall(ServerConfig([Tenant(other)])))
        runs = [end_a_run(forum) for _ in range(60)]
        eventually(lambda: count(forum, Outcome.OK) == len(runs), 60)

    assert sorted(receiver.runs()) == sorted(runs)


@pytest.mark.slow
def test_what_a_killed_server_was_telling_is_told_again_under_the_same_id(tmp_path: Path) -> None:
    """Between a delivery and its record a process can die: twice is recognised, never is not."""
    home, dead = tmp_path / "project", Signal()
    home.mkdir()
    (home / "hook.secret").write_text(SECRET)

    def reply(_: Heard) -> int:
        dead.wait(20)
        return 204

    with receiving(reply) as receiver:
        toml = MODEL + section("chat", receiver.url(), "timeout_seconds = 3")
        with project(home, None, toml) as made:
            with serving(made) as first:
                end_a_run(made.forum)
                eventually(lambda: len(receiver.heard) == 1)
                first.server.send_signal(signal.SIGKILL)
                first.server.wait()
                left = told(made.forum)[-1]
            dead.set()
            with serving(made):
                eventually(lambda: count(made.forum, Outcome.OK) == 1)

    assert (left.outcome, left.attempts, left.code) == (Outcome.INDETERMINATE, 1, "")
    assert [heard.id for heard in receiver.heard] == [receiver.heard[0].id] * 2
    assert receiver.heard[0].body == receiver.heard[1].body


@pytest.mark.slow
def test_a_receiver_that_was_down_hears_later_what_it_missed(tmp_path: Path) -> None:
    """An outage of theirs must not lose an event; each failure is on record with its reason."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/hook"
    with telling(tmp_path / "p", section("chat", url, "retry_seconds = [1, 1, 1, 1, 1]")) as forum:
        run = end_a_run(forum)
        eventually(lambda: told(forum)[-1].code == "no connection")
        answers = iter([503, 302, 204])
        with receiving(lambda _: next(answers), port) as receiver:
            eventually(lambda: count(forum, Outcome.OK) == 1)
        codes = [notice.code for notice in told(forum) if notice.code]

    assert codes[-4:] == ["no connection", "503", "302", "204"]
    assert len({(heard.id, heard.body) for heard in receiver.heard}) == 1
    assert receiver.heard[-1].said["data"]["run"] == run


def test_who_is_gone_is_told_nothing_more(tmp_path: Path) -> None:
    """410 is a receiver's word that nobody lives there; others are told as before."""
    with receiving(lambda heard: 410 if heard.path == "/gone" else 204) as receiver:
        sections = section("gone", receiver.url("/gone")), section("chat", receiver.url())
        with telling(tmp_path / "p", *sections) as forum:
            end_a_run(forum)
            eventually(lambda: count(forum, Outcome.DENIED, name="gone") == 1)
        with telling(tmp_path / "p", *sections) as forum:
            end_a_run(forum)
            eventually(lambda: count(forum, Outcome.OK) == 2)
            last = told(forum, "gone")[-1]

    assert len(receiver.runs("/gone")) == 1
    assert (last.outcome, last.code) == (Outcome.DENIED, "410")


def test_a_share_of_a_cap_is_told_in_its_own_units(tmp_path: Path) -> None:
    """Once, with what was used and where to read more; half of two runs is one."""
    cap = '[budgets.daily]\nper = "day"\nruns = 2\n'
    with receiving() as receiver:
        hooked = section("chat", receiver.url(), 'events = ["budget.alert"]')
        with telling(tmp_path / "project", cap, hooked) as forum:
            end_a_run(forum)
            for _ in range(2):
                forum.runs.budgets.refresh()
            eventually(lambda: count(forum, Outcome.OK) == 1)
            (alert,) = (heard.said for heard in receiver.heard)

    data = alert["data"]
    assert alert["type"] == "budget.alert"
    assert (data["scope"], data["unit"], data["percent"]) == ("ledger", "runs", 50)
    assert (data["used"], data["cap"], data["href"]) == ("1", "2", "/api/v1/budgets")
    assert date.fromisoformat(data["period"]).year >= 2026
    assert data["ledger"] == forum.ledger.origin


def test_one_message_that_hangs_holds_up_no_other(tmp_path: Path) -> None:
    """A receiver may choke on one message for as long as it is waited for."""
    seen = Signal()

    def reply(heard: Heard) -> int:
        if heard is receiver.heard[0]:
            seen.wait(20)
        return 204

    with (
        receiving(reply) as receiver,
        telling(tmp_path / "p", section("chat", receiver.url())) as forum,
    ):
        first = end_a_run(forum)
        eventually(lambda: len(receiver.heard) == 1)
        others = [end_a_run(forum) for _ in range(20)]
        eventually(lambda: count(forum, Outcome.OK) == 20)
        before = receiver.runs()
        seen.set()
        eventually(lambda: count(forum, Outcome.OK) == 21)

    assert before[0] == first
    assert sorted(before[1:]) == sorted(others)


def test_only_what_somebody_asked_for_since_then_is_told(tmp_path: Path) -> None:
    """Not what is older than the endpoint, nor runs within runs, nor remarks, nor other events."""
    with receiving() as receiver:
        sections = section("chat", receiver.url()), section("gates", receiver.url(), GATES_ONLY)
        with telling(tmp_path / "p") as forum:
            end_a_run(forum)
        with telling(tmp_path / "p", *sections) as forum:
            outer = end_a_run(forum)
            end_a_run(forum, AcceptedFacts(parent_run=outer, parent_task="t"))
            forum.log.record_note(BytesContent(b"All is well."))
            last = end_a_run(forum)
            eventually(lambda: count(forum, Outcome.OK) == 2)

    assert sorted(receiver.runs()) == [outer, last]  # one may overtake the other


@pytest.mark.slow
def test_a_message_is_given_up_after_its_last_attempt(tmp_path: Path) -> None:
    """There is an end to it, and it is on record."""
    with (
        receiving(lambda _: 500) as receiver,
        telling(tmp_path / "p", section("chat", receiver.url(), "retry_seconds = [1]")) as forum,
    ):
        end_a_run(forum)
        eventually(lambda: count(forum, Outcome.FAILED) == 1)
        last = told(forum)[-1]

    assert (last.outcome, last.attempts, last.code) == (Outcome.FAILED, 2, "500")
    assert len(receiver.heard) == 2


# What the record means


def notices(*facts: NoticeFacts) -> DeliveryState:
    """Return what entries with these facts tell, recorded a second apart."""
    delivery_state = DeliveryState()
    for n, one in enumerate(facts):
        delivery_state.apply_entry(_Entry(n, n * SECOND, one))  # type: ignore[arg-type]
    return delivery_state


@dataclass(frozen=True, slots=True)
class _Entry:
    n: int
    ts: int
    facts: NoticeFacts


def hook(section: Mapping[str, object]) -> Webhook:
    """Return a webhook whose section says this."""
    (webhook,) = read_webhooks(
        SectionTables({"webhooks": {"chat": {"url": "https://chat.example.com/", **section}}})
    )
    return webhook


HOOK = hook({"secret_env": "SECRET", "retry_seconds": [5, 300]})
ERRAND = PendingDelivery("ab" * 32, "run.ended", attempts=1)


def facts_of(errand: PendingDelivery, *answers: DeliveryResult) -> Sequence[Any]:
    """Return the facts of an attempt and what came of it."""
    drafts = [
        draft_attempt(HOOK, errand),
        *(draft_outcome(HOOK, errand, answer) for answer in answers),
    ]
    return [draft.facts for draft in drafts]


def test_a_receiver_is_left_alone_for_as_long_as_it_asked() -> None:
    """By every process, also one that was started since: the record says for how long."""
    busy = DeliveryResult(Outcome.INDETERMINATE, "429", pause=60)
    pending_delivery = notices(*facts_of(ERRAND, busy)).open[ERRAND.entry]

    assert pending_delivery.code == "429 after 60"
    assert not pending_delivery.is_due(HOOK, 60 * SECOND)
    assert pending_delivery.is_due(HOOK, 61 * SECOND)


def test_what_somebody_slow_says_does_not_reopen_what_is_settled() -> None:
    """A process that was paused may record a failure after another one has told the message."""
    again = PendingDelivery(ERRAND.entry, ERRAND.event, attempts=2)
    late = facts_of(ERRAND, DeliveryResult(Outcome.INDETERMINATE, "timeout"))[1]
    delivery_state = notices(*facts_of(ERRAND), *facts_of(again), late)
    settled = notices(*facts_of(ERRAND), *facts_of(again, DeliveryResult(Outcome.OK, "204")), late)

    assert delivery_state.open[ERRAND.entry].attempts == 2
    assert not settled.open


# Secrets and settings


def test_while_a_secret_is_replaced_both_hold(tmp_path: Path) -> None:
    """A receiver that knows the old one, and one that knows the new one, believe the message."""
    fresh = f"whsec_{b64encode(bytes(32)).decode()}"
    file = tmp_path / "hook.secret"
    file.write_text(f"{SECRET}\n{fresh}\n")
    secrets = read_secrets(hook({"secret_file": str(file)}), {})
    message = WebhookMessage("msg_1", b'{"type":"run.ended"}')
    headers = message.signed_headers(secrets, int(time()))

    for secret in (SECRET, fresh):
        assert Verifier(secret).verify(message.body, headers) == {"type": "run.ended"}


def test_the_receiver_of_the_guide_believes_us_and_nobody_else(tmp_path: Path) -> None:
    """Readers copy it: it must take what is sent, and refuse a body that was altered."""
    file = tmp_path / "receiver.py"
    file.write_text(saved("docs/guides/get-told.md")["receiver.py"])
    spec = importlib.util.spec_from_file_location("receiver", file)
    assert spec is not None
    assert spec.loader is not None
    receiver = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(receiver)
    message = WebhookMessage("msg_1", b'{"type":"run.ended"}')
    key = read_secrets(hook({"secret_env": "HOOK"}), {"HOOK": SECRET})
    headers = message.signed_headers(key, int(time()))
    old = message.signed_headers(key, int(time()) - 600)

    assert receiver.read_message(headers, message.body, SECRET) == {"type": "run.ended"}
    with pytest.raises(ValueError, match="does not hold"):
        receiver.read_message(headers, b'{"type":"run.endex"}', SECRET)
    with pytest.raises(ValueError, match="too old"):
        receiver.read_message(old, message.body, SECRET)


@pytest.mark.parametrize(
    ("name", "table", "why"),
    [
        ("chat", {"url": "http://example.com/", "secret_env": "S"}, "http is for loopback only"),
        ("chat", {"url": "https://me:pw@example.com/", "secret_env": "S"}, "url"),
        ("chat", {"url": "https://example.com/"}, "secret_env or secret_file"),
        ("chat", {"url": "https://e.com/", "secret_env": "S", "secret_file": "s"}, "secret_env or"),
        ("chat", {"url": "https://e.com/", "secret_env": "S", "events": ["run.began"]}, "events"),
        ("chat", {"url": "https://e.com/", "secret_env": "S", "retry_seconds": [0]}, "retry_sec"),
        ("chat", {"url": "https://e.com/", "secret": "whsec_x"}, "secret"),
        ("A chat", {"url": "https://e.com/", "secret_env": "S"}, "its name"),
    ],
)
def test_a_section_that_would_not_work_is_refused(
    name: str, table: dict[str, Any], why: str
) -> None:
    """When the server is started, and not when the first message is lost."""
    with pytest.raises(BadSettings, match=why):
        read_webhooks(SectionTables({"webhooks": {name: table}}))


@pytest.mark.parametrize("text", ["", "hunter2hunter2", "whsec_aHVudGVyMg==", "whsec_%%%"])
def test_what_is_no_secret_is_refused_and_not_quoted(text: str) -> None:
    """A short or mistyped secret protects nobody; what it says has no place on a screen."""
    with pytest.raises(BadSettings) as refused:
        read_secrets(hook({"secret_env": "HOOK"}), {"HOOK": text})

    assert "openssl rand" in str(refused.value)
    assert not text or text not in str(refused.value)


# The command line


def test_an_operator_can_try_a_receiver_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether address and secret fit must be known before the first run ends."""
    home = tmp_path / "p"
    answers = iter([204, 500])
    with receiving(lambda _: next(answers)) as receiver:
        with telling(home, section("chat", receiver.url())) as forum:
            origin = forum.origin
        monkeypatch.chdir(home)
        monkeypatch.setenv("FORUM_STATE_DIR", str(home / "state"))
        good, bad = (CliRunner().invoke(cli, ["webhooks", "test", "chat"]) for _ in range(2))
        listed = CliRunner().invoke(cli, ["webhooks", "list"])
        unknown = CliRunner().invoke(cli, ["webhooks", "test", "nobody"])

    assert (good.exit_code, good.output) == (0, "told  chat  204\n")
    assert (bad.exit_code, bad.output) == (1, "not told  chat  500\n")
    assert receiver.heard[0].said["data"] == {"ledger": origin}
    assert listed.output.startswith("chat  active  0 waiting  gate.opened,run.ended\n")
    assert unknown.exit_code == 2
