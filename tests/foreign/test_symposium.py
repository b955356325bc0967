"""Sessions of Forum, judged by the package that their protocol comes from; and its own, by us.

The package is asked by its own commands, in an environment of its own (see
`benchmarks.symposium`), which is made when it is missing: nothing is skipped where there is none.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from benchmarks import symposium as reference
from forum.engine import RunRequest, cancel_run, read_run
from forum.features.symposium.artifact import resolve_personas
from forum.features.symposium.artifact_rules import check_artifact
from forum.features.symposium.decoders import read_config, read_message, read_script
from forum.features.symposium.kinds import Reason
from forum.features.symposium.metrics import SymposiumMetrics, compute_metrics
from forum.features.symposium.replay import replay_transcript
from forum.features.symposium.transcript import to_json_object
from forum.features.symposium.violations import Invariant
from forum.runs.kinds import TURN_PREFIX
from tests.engine.office import PERSON, RUN, Office, until
from tests.engine.symposium import hall, scripted, write_session
from tests.features.council.sitting import config, entry, synthesis, turn, verdict
from tests.foreign_data import foreign
from tests.support import StoreFactory
from tests.surfaces.terminal import Terminal

pytestmark = pytest.mark.slow

EXAMPLES = ("walking-skeleton", "rules-selector", "llm-selector")


# RFC 8785 as its text has it, and nothing of what Forum uses for that


def canonical(value: object) -> str:
    """Write JSON in its one canonical form (RFC 8785, 3.2)."""
    match value:
        case None | bool() | str():
            # Section 3.2.2.2 escapes what Python's own writer escapes, and in the same way.
            return json.dumps(value, ensure_ascii=False)
        case int() | float():
            return _number(value)
        case list():
            return f"[{','.join(map(canonical, value))}]"
        case dict():
            # Section 3.2.3: names are sorted by their UTF-16 code units.
            names = sorted(value, key=lambda name: name.encode("utf-16-be"))
            return f"{{{','.join(f'{canonical(n)}:{canonical(value[n])}' for n in names)}}}"
        case _:
            raise TypeError(value)


def _number(value: float) -> str:
    """Write a number as ECMAScript does (section 3.2.2.3), from its shortest digits."""
    assert math.isfinite(value)
    sign, digits, exponent = Decimal(repr(float(value))).normalize().as_tuple()
    assert isinstance(exponent, int)
    if not any(digits):
        return "0"
    figures, point = "".join(map(str, digits)), len(digits) + exponent
    if len(figures) <= point <= 21:
        written = figures.ljust(point, "0")
    elif 0 < point <= 21:
        written = f"{figures[:point]}.{figures[point:]}"
    elif -6 < point <= 0:
        written = f"0.{'0' * -point}{figures}"
    else:
        rest = f".{figures[1:]}" if figures[1:] else ""
        written = f"{figures[0]}{rest}e{point - 1:+}"
    return "-" * sign + written


def digest_of(artifact: Path) -> str:
    """Return the digest of the transcript in a file."""
    transcript = json.loads(artifact.read_bytes())["canonical_transcript"]
    return sha256(canonical(transcript).encode()).hexdigest()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (1e-6, "0.000001"),
        (1.5e-7, "1.5e-7"),
        (-0.0, "0"),
        (123.25, "123.25"),
        (4.35, "4.35"),
        (9007199254740991, "9007199254740991"),
        ({"\ufb33": 1, "\U0001f600": 2, "\r": 3}, '{"\\r":3,"\U0001f600":2,"\ufb33":1}'),
        (["\u20ac$\x0f\x7f\n/"], '["\u20ac$\\u000f\x7f\\n/"]'),
    ],
)
def test_the_independent_writer_keeps_to_the_standard(value: object, written: str) -> None:
    """Examples of RFC 8785 and ECMAScript: a check that errs as we do would find nothing."""
    assert canonical(value) == written


# Sessions


@dataclass(frozen=True)
class Given:
    """What a session is held by: files, such as the reference takes them."""

    config: Path
    scripts: Mapping[str, Path]
    """By the options of the reference that take them."""

    def order(self, slow: Mapping[str, int]) -> RunRequest:
        """Return an order for the same session."""
        document = {option: read_script(file.read_bytes()) for option, file in self.scripts.items()}
        given = yaml.safe_load(self.config.read_bytes())
        return scripted(given, document["--script"], document.get("--selector-script"), slow)


@dataclass(frozen=True)
class Story:
    """A session, and how it has to end."""

    given: Callable[[Path], Given]
    """Returns its files: they are foreign data, or are written into a folder."""
    reason: Reason = Reason.NONE
    slow: Mapping[str, int] = field(default_factory=dict)
    """Turns that take milliseconds."""
    live: Callable[[Office], object] = Office.work


def example(name: str) -> Story:
    """Return one of the sessions that come with the protocol."""

    def given(_: Path) -> Given:
        folder = foreign("symposium/run-examples")
        scripts = {"--script": folder / "scripts/walking-skeleton.json"}
        if name == "llm-selector":
            scripts["--selector-script"] = folder / "scripts/llm-selector.json"
        return Given(folder / f"configs/{name}.yaml", scripts)

    return Story(given)


def story(
    config: dict[str, Any],
    *entries: dict[str, Any],
    reason: Reason = Reason.NONE,
    **more: Any,  # noqa: ANN401
) -> Story:
    """Return a session that goes as these entries say."""
    for one in (*config["agents"], config["coordinator"]):
        one |= {"provider": "fake", "model": "fake-deterministic"}

    def given(folder: Path) -> Given:
        files = folder / "config.yaml", folder / "script.json"
        # With its personas: a name means another one there, or none.
        files[0].write_bytes(
            msgspec.json.encode(to_json_object(resolve_personas(read_config(config))))
        )
        files[1].write_bytes(msgspec.json.encode({"schema_version": "1.0.0", "entries": entries}))
        return Given(files[0], {"--script": files[1]})

    return Story(given, reason, **more)


ALL = tuple(entry(turn(f"{name} speaks")) for name in ("ada", "ben", "cleo"))
END = (entry(verdict("finalize")), entry(synthesis()))
ON = entry(verdict())
NOBODY = entry(None, "auth_failure", again=False)
GOES_ON = {"on_agent_failure": "continue_without"}
DISPUTE = [{"topic": "cost", "positions": [{"agent": "ada", "claim": "high"}], "blocker": True}]

BUSY = turn(
    "ada asks everybody",
    ("ben", "now?"),
    ("ada", "myself?"),
    ("cleo", "later?"),
    ("nobody", "who?"),
    ("chair", "you?"),
    ("ben", "and you?"),
    ("cleo", "no room?"),
)
"""One request is answered at once, two are put off, one is dropped, three can be put to nobody."""

ODD = json.dumps(
    {
        "text": '\u20ac \U0001f600 \ufb33 \x7f \u2028 " \\ / \n\t\b\f\r\x01\x1f e\u0301',
        "direct_requests": [
            {
                "target": "ben",
                "type": "q",
                "content": {"\U0001f600": 1e-7, "\ufb33": None, "n": 1e22},
            },
            {"target": "ben", "type": None, "content": {"deep": [None, {"a": None}]}},
            {"target": "ben", "type": "q", "content": "x", "mood": 1.0},
            "no request",
        ],
    }
).encode()
"""Numbers, names and nothings that writers of JSON differ about."""


def cancelled(office: Office) -> None:
    """Have a person end a session while the second of the panel thinks."""

    async def stop(office: Office) -> None:
        await until(lambda: bool(read_run(office.ledger, RUN).task(f"{TURN_PREFIX}turn.2").calls))
        cancel_run(office.ledger, RUN, PERSON)

    office.work(meanwhile=stop)


STORIES: dict[str, Story] = {
    **{name: example(name) for name in EXAMPLES},
    "requests": story(
        config(runtime={"max_deferred_queue_length": 2, "max_deferred_drains_per_round": 1}),
        *(entry(BUSY), entry(turn("ben, at once", ("cleo", "a suggestion"))), *ALL[1:], ON),
        *(entry(turn("cleo, late")), *ALL, ON),
        *(entry(turn("ben, later")), *ALL, *END),
    ),
    "odd texts": story(config(), entry(ODD), entry(ODD), *ALL[1:], *END),
    "retries": story(
        config(),
        *(entry(None, "timeout"), entry(None), ALL[0], entry(None, "rate_limit"), ALL[1]),
        *(ALL[2], entry(None), END[0], entry(None, "network"), END[1]),
    ),
    "a panel that shrinks": story(
        config(runtime=GOES_ON),
        *(entry(turn("ada", ("cleo", "now?"), ("ben", "later?"))), ALL[2], NOBODY, ALL[2], ON),
        *(entry(turn("ada", ("cleo", "and now?"))), NOBODY, *END),
    ),
    "rescued": story(
        config(budget={"max_rounds": 1}, runtime={"synthesize_on_terminate": True}),
        *(*ALL, ON, END[1]),
    ),
    "rounds used up": story(
        config(budget={"max_rounds": 2}),
        *(*ALL, entry(verdict(unresolved_disagreements=DISPUTE)), *ALL, ON),
        reason=Reason.BUDGET_EXCEEDED,
    ),
    "tokens used up": story(
        config(budget={"max_total_tokens": 25}), *ALL, reason=Reason.BUDGET_EXCEEDED
    ),
    "an agent's tokens used up": story(
        config(budget={"per_agent_token_budget": {"ben": 15}}),
        *(*ALL, ON, *ALL, ON),
        reason=Reason.BUDGET_EXCEEDED,
    ),
    "no form": story(config(), ALL[0], *[entry(None)] * 3, reason=Reason.SCHEMA_ERROR),
    "nobody chosen": story(
        config(selector={"strategy": "llm", "selector_budget": {"max_tokens": 100}}),
        entry(None),
        reason=Reason.SCHEMA_ERROR,
    ),
    "no provider": story(config(), ALL[0], NOBODY, reason=Reason.PROVIDER_UNRECOVERABLE),
    "no coordinator": story(
        config(runtime=GOES_ON),
        *(*ALL, *[entry(None, "network")] * 3),
        reason=Reason.PROVIDER_UNRECOVERABLE,
    ),
    "nobody left": story(
        config(runtime=GOES_ON), *[NOBODY] * 3, reason=Reason.PROVIDER_UNRECOVERABLE
    ),
    "a question": story(
        config(),
        *(*ALL, entry(verdict("request_user_input", user_input_request={"question": "Why?"}))),
        reason=Reason.USER_INPUT_REQUIRED,
    ),
    "research": story(
        config(),
        *ALL,
        entry(verdict("request_external_research", external_research_request={"query": "age"})),
        reason=Reason.EXTERNAL_RESEARCH_REQUIRED,
    ),
    "time used up": story(
        config(budget={"max_wallclock_seconds": 1}),
        *(*ALL, *END),
        reason=Reason.TIMEOUT,
        slow={"turn.2": 4000},
    ),
    "cancelled": story(
        config(),
        *(*ALL, *END),
        reason=Reason.USER_CANCEL,
        slow={"turn.2": 20_000},
        live=cancelled,
    ),
}


def hold(told: Story, folder: Path) -> Path:
    """Have an engine carry a session out, and return the folder with its files."""
    factory = StoreFactory(folder / "ledger.db")
    office = hall(factory())
    office.accept(told.given(folder).order(told.slow))
    told.live(office)
    written = write_session(office, folder / "run")
    factory.close()
    return written


@pytest.fixture(scope="module", params=STORIES)
def held(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of one of our sessions."""
    told = STORIES[request.param]
    written = hold(told, tmp_path_factory.mktemp("ours"))
    outcome = json.loads((written / "artifact.json").read_bytes())["outcome"]
    ending = outcome.get("termination_artifact", {"reason": ""})
    assert ending["reason"] == told.reason, "that is another story"
    return written


def test_every_reason_to_terminate_has_its_session() -> None:
    """The package must have seen each of them."""
    assert {told.reason for told in STORIES.values()} == set(Reason)


def test_the_reference_accepts_what_we_write(held: Path) -> None:
    """In all three of its commands; and three programs come to one digest."""
    validated = reference.validate(held / "artifact.json")
    replayed = reference.replay(held)

    assert validated.valid, validated.errors
    assert replayed.matches
    assert replayed.stored == replayed.recomputed == digest_of(held / "artifact.json")
    assert replay_transcript((held / "artifact.json").read_bytes()).holds


def test_the_reference_counts_what_we_count(held: Path) -> None:
    """All that a session is asked for: tokens, costs, latencies, turns, failures, and its end."""
    theirs = reference.metrics(held)

    assert isinstance(theirs, SymposiumMetrics), theirs
    check_counts(compute_metrics((held / "artifact.json").read_bytes()), theirs)


def check_counts(symposium_metrics: SymposiumMetrics, other: SymposiumMetrics) -> None:
    """Check that both count the same, but for the queue.

    It takes requests that can be put to nobody for ones that wait.
    """
    ours, theirs = msgspec.to_builtins(symposium_metrics), msgspec.to_builtins(other)
    queue, latency = "deferred_queue_length_max", "latency_per_invocation"
    assert ours.pop(queue) <= theirs.pop(queue)
    # It subtracts seconds since 1970, and has no microseconds left.
    seconds = [
        [(told["message_id"], pytest.approx(told["latency_seconds"], abs=1e-6)) for told in each]
        for each in (ours.pop(latency), theirs.pop(latency))
    ]
    assert seconds[0] == seconds[1]
    assert ours == theirs


# The other way round


UNPAID = frozenset({"retries", "a panel that shrinks", "no provider"})
"""Sessions in which calls fail that cost something: it puts that into the sum and no message."""
IN_BOTH = (
    *(*EXAMPLES, "requests", "rescued", "rounds used up", "tokens used up"),
    *("an agent's tokens used up", "a question", "research", *sorted(UNPAID)),
)


@dataclass(frozen=True)
class Theirs:
    """A session that the reference has held."""

    name: str
    folder: Path

    @property
    def artifact(self) -> bytes:
        """What it has kept of it."""
        return (self.folder / "artifact.json").read_bytes()


@pytest.fixture(scope="module", params=IN_BOTH)
def theirs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Theirs:
    """Return a session that the reference has held."""
    name, folder = str(request.param), tmp_path_factory.mktemp("theirs")
    given = STORIES[name].given(folder)
    return Theirs(name, reference.carry_out(given.config, given.scripts, folder / "runs"))


def test_we_accept_what_the_reference_writes(theirs: Theirs) -> None:
    """It breaks no law but the one that it is known to break, and has the digest that it says."""
    broken = {Invariant.USAGE} if theirs.name in UNPAID else set()
    replayed = replay_transcript(theirs.artifact)

    assert {fault.law for fault in check_artifact(theirs.artifact)} == broken
    assert replayed.stored == replayed.digest == digest_of(theirs.folder / "artifact.json")
    assert replayed.holds == (not broken)


def test_the_command_line_takes_the_folders_of_the_reference(
    theirs: Theirs, tmp_path: Path
) -> None:
    """Whoever has only files of others asks the same commands, without any ledger."""
    user = Terminal(tmp_path)
    done = [
        user.call("deliberate", command, str(theirs.folder)).exit_code
        for command in ("metrics", "validate", "replay")
    ]

    assert [status == 0 for status in done] == [True, *[theirs.name not in UNPAID] * 2]


def test_both_hold_the_same_session_by_the_same_script(theirs: Theirs, tmp_path: Path) -> None:
    """Who speaks when, what is said and how it ends is the same, message by message."""
    ours, paid = hold(STORIES[theirs.name], tmp_path), theirs.name not in UNPAID

    assert _told(ours, paid=paid) == _told(theirs.folder, paid=paid)


def _told(folder: Path, *, paid: bool) -> tuple[object, ...]:
    """Return what a session came to: all but names, times and the words of notes.

    By its journal.  Where the target of a request has left meanwhile, the reference goes back and
    notes that in the turn; here a message that was recorded stays as it is.
    """
    journal = (folder / "transcript.jsonl").read_bytes().splitlines()
    said = [to_json_object(read_message(line)) for line in journal]
    for message in said:
        for name in ("id", "timestamp", "parent_id", *(() if paid else ("usage",))):
            message.pop(name, None)
        for note in message.get("schema_failure", ()):
            del note["reason"]
    metrics = compute_metrics((folder / "artifact.json").read_bytes())
    return said, metrics.outcome_kind, metrics.termination_reason


def test_we_count_what_the_reference_counts(theirs: Theirs) -> None:
    """In its own sessions too; it refuses to count those that do not add up."""
    counted = reference.metrics(theirs.folder)

    if theirs.name in UNPAID:
        assert isinstance(counted, reference.Inconsistent)
    else:
        assert isinstance(counted, SymposiumMetrics)
        check_counts(compute_metrics(theirs.artifact), counted)
