"""Whispers: heard by whoever listens now, lost without harm, and never in anybody's way."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from forum.engine import RunRequest
from forum.ledger.kinds import Outcome
from forum.runs.plan import Plan, Task
from forum.runs.policy import Policy, Scripted, ScriptStep
from forum.stores.delta_bus import DeltaBus, LocalDeltaBus
from forum.stores.postgres_delta_bus import PostgresDeltaBus, name_channel
from tests.e2e.project import project
from tests.support import fresh_origin, wait_until

SECRET = b"secret"
CALL = ("run-1", "a", "attempt/1/call/1/reply")
OTHER = ("run-1", "b", "attempt/1/call/1/reply")
END_SESSIONS = """
    SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s
"""
ARE_LEFT = "SELECT FROM pg_stat_activity WHERE pid = ANY(%s)"
SPEAKER = """
import sys
from forum.stores.postgres_delta_bus import PostgresDeltaBus
bus = PostgresDeltaBus(*sys.argv[1:3], b"secret")
for word in sys.argv[6:]:
    bus.publish(*sys.argv[3:6], word)
bus.close()
"""


class Ear:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.heard: list[tuple[tuple[str, str, str], str]] = []

    def __call__(self, run: str, task: str, step: str, text: str) -> None:
        """Be told something."""
        self.heard.append(((run, task, step), text))

    def text(self, call: tuple[str, str, str] = CALL) -> str:
        """Return all that was told of a call."""
        return "".join(text for said, text in self.heard if said == call)


class Rude(Ear):
    """Cannot bear to be told anything."""

    def __call__(self, run: str, task: str, step: str, text: str) -> None:
        """Be told something."""
        super().__call__(run, task, step, text)
        raise ValueError(text)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Return what is closed in the end."""
    with ExitStack() as stack:
        yield stack


def channel(stack: ExitStack, url: str, origin: str) -> PostgresDeltaBus:
    """Return a way from those who speak to those who listen, as another process would have it."""
    whispers = PostgresDeltaBus(url, origin, SECRET)
    stack.callback(whispers.close)
    return whispers


def listening(stack: ExitStack, url: str, origin: str) -> Ear:
    """Return somebody who listens already: until then, what is said is lost."""
    ear, whispers = Ear(), channel(stack, url, origin)
    stack.enter_context(whispers.subscribe(ear))
    heed(whispers, ear)
    return ear


def heed(whispers: DeltaBus, ear: Ear) -> None:
    """Speak until it is heard, and let that be forgotten."""
    ear.heard.clear()
    said = 0

    def is_heard() -> bool:
        nonlocal said
        said += 1
        whispers.publish("", "", "", f"{said},")
        return bool(ear.heard)

    wait_until(is_heard)
    # All that was said has come when the last of it has.
    wait_until(lambda: ear.text(("", "", "")).endswith(f"{said},"))
    ear.heard.clear()


# Within a process


def test_all_who_listen_in_a_process_are_told_at_once() -> None:
    """From when they begin to listen until they stop."""
    whispers, first = LocalDeltaBus(), Ear()
    second = Ear()
    whispers.publish(*CALL, "to nobody; ")
    with whispers.subscribe(first):
        whispers.publish(*CALL, "to one; ")
        with whispers.subscribe(second):
            whispers.publish(*CALL, "to both")
    whispers.publish(*CALL, "to nobody again")

    assert first.heard == [(CALL, "to one; "), (CALL, "to both")]
    assert second.heard == [(CALL, "to both")]


def test_one_who_cannot_listen_is_told_no_more_and_harms_nobody() -> None:
    """The one who speaks is in the midst of a call."""
    whispers, rude = LocalDeltaBus(), Rude()
    polite = Ear()
    with whispers.subscribe(rude), whispers.subscribe(polite):
        whispers.publish(*CALL, "one ")
        whispers.publish(*CALL, "two")

    assert (rude.text(), polite.text()) == ("one ", "one two")


@pytest.mark.parametrize(
    "database", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
)
def test_a_worker_is_heard_while_it_works(
    tmp_path: Path, stack: ExitStack, request: pytest.FixtureRequest, database: str
) -> None:
    """In one process with a file, and across processes with a server; call by call."""
    url = str(request.getfixturevalue("postgres_url")) if database == "postgres" else None
    home, ear = stack.enter_context(project(tmp_path, url)), Ear()
    stack.enter_context(home.forum.delta_bus.subscribe(ear))
    heed(home.forum.delta_bus, ear)
    stack.enter_context(home.worker() if url else home.forum.runs.run_worker())
    agent = Scripted({"*": (ScriptStep("Good day to you.", milliseconds=100),)})
    run_request = RunRequest("x", Plan((Task("a", "x"),)), Policy(agents={"": agent}))
    run = home.submit(run_request)
    state = home.wait(run)
    call = (run, "a", CALL[2])
    wait_until(lambda: ear.text(call).endswith("."))

    assert state.outcome is Outcome.OK
    assert {said for said, _ in ear.heard} == {call}
    assert ear.text(call) == "Good day to you."


# Between processes


@pytest.mark.postgres
def test_what_one_process_says_is_heard_in_another(stack: ExitStack, postgres_url: str) -> None:
    """In order; by those who listen to this log, and not by those who listen to another one."""
    ours, theirs = fresh_origin(), fresh_origin()
    ear, stranger = (listening(stack, postgres_url, origin) for origin in (ours, theirs))
    words = ["So ", "sagt ", "die \N{SNOWMAN}:\n", 'ein "Wort".']
    for origin in (ours, theirs):
        argv = [sys.executable, "-c", SPEAKER, postgres_url, origin, *CALL, origin, *words]
        subprocess.run(argv, check=True)
    wait_until(lambda: ear.text().endswith('Wort".') and stranger.text().endswith('Wort".'))

    assert ear.text() == ours + "".join(words)
    assert stranger.text() == theirs + "".join(words)


@pytest.mark.postgres
@pytest.mark.parametrize(
    "text", ["a" * 65_536, "\x00\x1b" * 9000, "\N{SNAKE}" * 9001], ids=["equal", "escaped", "wide"]
)
def test_a_long_text_arrives_whole(stack: ExitStack, postgres_url: str, text: str) -> None:
    """However it is written in a notification, which is short; two equal ones are two."""
    origin = fresh_origin()
    ear, speaker = listening(stack, postgres_url, origin), channel(stack, postgres_url, origin)
    speaker.publish(*CALL, text)
    speaker.publish(*OTHER, text)
    speaker.publish(*OTHER, "!")
    wait_until(lambda: ear.text(OTHER).endswith("!") and len(ear.text()) >= len(text))

    assert ear.text() == text
    assert ear.text(OTHER) == text + "!"


@pytest.mark.postgres
def test_a_burst_is_gathered(stack: ExitStack, postgres_url: str) -> None:
    """A token is a few letters; a transaction for each would be felt by everybody."""
    origin = fresh_origin()
    ear, speaker = listening(stack, postgres_url, origin), channel(stack, postgres_url, origin)
    for number in range(2000):
        speaker.publish(*CALL, f"{number} ")
    speaker.publish(*CALL, ".")
    wait_until(lambda: ear.text().endswith("."))

    assert ear.text() == "".join(f"{number} " for number in range(2000)) + "."
    assert len(ear.heard) < 200


@pytest.mark.postgres
def test_who_has_lost_the_database_speaks_and_listens_again(
    stack: ExitStack, postgres_url: str
) -> None:
    """A restart of the server costs what was said meanwhile, and nothing else."""
    origin = fresh_origin()
    ear, whispers = (
        Ear(),
        channel(stack, make_conninfo(postgres_url, application_name=origin), origin),
    )
    stack.enter_context(whispers.subscribe(ear))
    heed(whispers, ear)
    with psycopg.connect(postgres_url, autocommit=True) as db:
        ended = db.execute(END_SESSIONS, (origin,)).fetchall()
        wait_until(lambda: not db.execute(ARE_LEFT, ([pid for pid, _ in ended],)).fetchall())
    heed(whispers, ear)
    whispers.publish(*CALL, "again")
    wait_until(lambda: bool(ear.text()))

    assert len(ended) == 2
    assert ear.text() == "again"


@pytest.mark.postgres
def test_nonsense_on_the_channel_is_not_listened_to(stack: ExitStack, postgres_url: str) -> None:
    """Whoever may connect to the database can send anything."""
    origin = fresh_origin()
    ear, speaker = listening(stack, postgres_url, origin), channel(stack, postgres_url, origin)
    with psycopg.connect(postgres_url, autocommit=True) as db:
        for payload in ("", "{}", "[1]", "[" * 7000, '["","","","",""]'):
            db.execute("SELECT pg_notify(%s, %s)", (name_channel(origin, SECRET), payload))
    speaker.publish(*CALL, "sense")
    wait_until(lambda: bool(ear.text()))

    assert ear.heard == [(CALL, "sense")]


def test_a_database_that_cannot_be_reached_holds_nobody_up() -> None:
    """Speaking is free, and what cannot be sent is lost."""
    whispers, ear = PostgresDeltaBus("postgresql://nobody@127.0.0.1:1/none", "o", SECRET), Ear()
    began = monotonic()
    with whispers.subscribe(ear):
        for _ in range(10_000):
            whispers.publish(*CALL, "x" * 1000)
        spoken = monotonic() - began
    whispers.close()

    assert spoken < 2
    assert monotonic() - began < 8
    assert ear.heard == []
