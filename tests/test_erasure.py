"""What is left when bodies are erased tells nothing of them.

Every flow is recorded twice with one secret in its bodies, and once with another one.  What is the
same in both records of one secret, and differs with the other, is a function of a body that no
salt protects: then whoever holds the entries can guess the body.  Chance and clocks differ in the
first two records already.  A flow may name no member here without a reason that `TELLS` gives.
"""

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from forum.app import KINDS, Approver, Forum
from forum.app.planner import load_roster
from forum.config import Settings
from forum.engine import Engine, RunRequest, accept_run
from forum.features.claims.service import find_claims
from forum.features.gateway.relayed_run import RunLimits
from forum.features.oversight.kinds import IncidentSeverity
from forum.features.oversight.service import OversightOperations
from forum.features.recorder.public import HookRules, ReportWriter, handle_event, parse_event
from forum.features.recorder.report_items import RunEnd, RunStart, StepBegin, StepReport
from forum.features.retention.service import RetentionOperations
from forum.features.telemetry.intake import IntakeRules, TelemetryIntake
from forum.features.telemetry.log_events import read_log_events
from forum.features.telemetry.spans import read_spans
from forum.ledger.body import text_content
from forum.ledger.control_key import REQUESTS_STRAND
from forum.ledger.kinds import ControlAct, ControlRequestFacts, Outcome
from forum.ledger.log import Ledger
from forum.ledger.ports import Store
from forum.ledger.sequencer import Sequencer
from forum.ledger.strand import Attachment, Draft
from forum.runs.gate_rules import GateRule
from forum.runs.kinds import AcceptedFacts, Authority, Identity
from forum.runs.panel import COUNCIL_VERSION
from forum.runs.plan import Task
from forum.runs.policy import Answer, Command, Scripted, ScriptStep, ToolCall, ToolSpec
from forum.runs.report_kinds import Operation
from forum.runs.scores import Score
from forum.runs.team_settings import TeamSettings
from tests.docs.pages import ROOT
from tests.engine.office import Office, now, plan, quick
from tests.engine.panel import panel
from tests.engine.symposium import seated
from tests.features.council.sitting import config
from tests.features.gateway.harness import harness
from tests.features.telemetry.batches import logs, span, traces
from tests.features.telemetry.desks import free_of_charge
from tests.spoken import ballot, claiming, synthesis, turn, verdict
from tests.support import StoreFactory

Flow = Callable[[Store, str], None]
"""Records something whose bodies hold a secret of four digits."""

Held = dict[str, str]
"""What entries hold, by kind, number and place."""
ReadT = TypeVar("ReadT")

_RANDOM = re.compile("[0-9a-f]{16,}")
"""Ids and commitments, which may have the digits of the secret by chance."""
_NOW = now()
FIRST, SECOND = "4711", "8293"


def ledger_of(store: Store) -> Ledger:
    """Return a ledger whose clock always shows the same times."""
    clock = count(2_000_000_000_000_000, 1000)
    return Ledger(store, KINDS, clock.__next__, lambda: secrets.token_bytes(32))


def claude_code(store: Store, secret: str) -> None:
    """Record a session of Claude Code: a prompt, and tools with and without an id and a gate."""
    writer = ReportWriter(ledger_of(store), "claude-code")
    rules = HookRules((GateRule("pay", "pay"),))

    def tell(name: str, **members: object) -> str:
        document = {"session_id": "session-1", "hook_event_name": name, **members}
        return handle_event(parse_event(json.dumps(document).encode()), writer, rules)

    pin = {"tool_name": "Bash", "tool_input": {"pin": secret}}
    tell("UserPromptSubmit", prompt=f"my PIN is {secret}")
    for use in ({}, {"tool_use_id": "toolu_1"}):
        tell("PreToolUse", **pin, **use)
        tell("PostToolUse", **pin, **use, tool_response=f"{secret} is right")
    tell("PostToolUseFailure", **pin, error=f"{secret} is wrong")
    assert "needs approval" in tell("PreToolUse", tool_name="pay", tool_input={"pin": secret})
    tell("SessionEnd")


def telemetry(store: Store, secret: str) -> None:
    """Record log events of Claude Code, and spans with what was said."""
    intake = TelemetryIntake(ledger_of(store), IntakeRules())
    document = {"session.id": "session-1", "prompt": f"my PIN is {secret}"}
    events = logs(
        {"event.name": "user_prompt", **document}, {"event.name": "tool_result", **document}
    )
    intake.record(read_log_events(events, free_of_charge), "key/test")
    given = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1", "note": secret}
    named = dict.fromkeys(
        ("gen_ai.request.model", "gen_ai.provider.name", "error.type"), document["prompt"]
    )
    spans = traces(
        span(2, "tool", given, parent=1),
        span(3, "chat", given | named, parent=1),
        span(1, "chat", given),
    )
    intake.record(read_spans(spans, free_of_charge), "key/test")


def office_of(store: Store) -> Office:
    """Return an office whose clock stands still: times are in what a symposium says."""
    office = Office(store)
    office.ledger = Ledger(store, KINDS, lambda: _NOW, lambda: secrets.token_bytes(32))
    office.engine = Engine(
        office.ledger, office.hands.model, office.hands.open_tools, find_claims=find_claims
    )
    return office


def driven(store: Store, secret: str) -> None:
    """Record a run with a tool that waits for approval, its answer, and a fork of it."""
    office = office_of(store)
    text = f"my PIN is {secret}"
    pay = ScriptStep("", use=(ToolCall("pay", json.dumps({"amount": 1200, "pin": secret})),))
    policy = quick(
        agents={"": Scripted({"a": (pay, ScriptStep(f"I paid with {secret}."))})},
        tools={"pay": ToolSpec(("pay",))},
        gate_rules=(GateRule("big", "pay", argument="amount", above="1000"),),
    )
    request = RunRequest(text, plan(Task("a", text)), policy)
    office.do(request)
    office.decide("use/a/1", Answer.APPROVE, reason=f"{secret} is right")
    assert office.work().outcome is Outcome.OK
    office.told()
    forked = AcceptedFacts(fork_run="run-1", fork_index=1 << 40)
    accept_run(office.ledger, "fork", request, "ann", origin=forked)
    office.work("fork")


def council(store: Store, secret: str) -> None:
    """Record a council that is divided, so that its ballots are revealed and exchanged."""
    texts = [claiming("no", f"my PIN is {secret}"), claiming("yes", secret), ballot("no")]
    ways = tuple((first, ballot(f"no {secret}")) for first in texts)
    office = office_of(store)
    run = office.do(
        RunRequest(
            f"Is {secret} a PIN?",
            None,
            panel(*ways, version=COUNCIL_VERSION, policy={"parallel": 1}),
        )
    )
    assert run.outcome is not None


def open_protocol(store: Store, secret: str) -> None:
    """Record a symposium with an answer, and one without."""
    for number, closing in enumerate((synthesis(f"It is {secret}."), "no JSON")):
        said = turn(f"my PIN is {secret}")
        agents = {"cast": Scripted({"~turn.1": (ScriptStep(said),)})}
        script = [said, said, verdict("finalize", rationale=secret), closing, closing, closing]
        agents["cast"] = Scripted(
            {f"~turn.{n}": (ScriptStep(text),) for n, text in enumerate(script, 1)}
        )
        given = {**config(), "problem_statement": f"Is {secret} a PIN?"}
        office_of(store).do(seated(given, agents["cast"]), f"run-{number}")


def names(store: Store, secret: str) -> None:
    """Report a run whose free-text names hold the secret."""
    writer = ReportWriter(ledger_of(store), "key/test")
    name, agent = f"my PIN is {secret}", f"Ann {secret}"
    run = writer.open_run(RunStart(run="session-1", name=name, framework=name))
    step = StepReport(
        run=run.run,
        span="a",
        op=Operation.TOOL,
        name=name,
        agent=agent,
        outcome=Outcome.FAILED,
        model=name,
        provider=name,
        code=name,
    )
    writer.record_steps([(run, step)])
    begin = StepBegin(run=run.run, span="b", op=Operation.STEP, name=name, agent=agent)
    writer.begin_step(run, begin)
    end = {"span": "b", "op": Operation.STEP, "begun": True}
    writer.finish_step(run, msgspec.structs.replace(step, **end))
    writer.end_run(RunEnd(run=run.run, name=name, outcome=Outcome.OK, handed_in=2))


def remark(forum: Forum, secret: str) -> None:
    """Record what people say of a log and its runs, and how identity providers name them."""
    text = f"my PIN is {secret}"
    by = Approver("oidc/person", Authority.PERSON, Identity(text, f"https://{secret}.example"))
    run = forum.log.append_note(text_content(text), f"key {now()}")
    writer = ReportWriter(forum.ledger, "key/test")
    reported = writer.open_run(RunStart(run="session-1", name="it")).run
    writer.end_run(RunEnd(run=reported, name="it", outcome=Outcome.OK, handed_in=0))
    forum.scores.record(reported, Score("useful", 500, comment=text))
    RetentionOperations(forum).place_hold("case", (run,), reason=text)
    RetentionOperations(forum).release_hold("case", reason=text)
    asked = ControlRequestFacts(ControlAct.PLACE, hold="case")
    reason = Attachment("reason", text_content(text))
    draft = Draft("ask/hold/case", "worker", asked, bodies=(reason,))
    request = forum.ledger.append_log_entry(draft, REQUESTS_STRAND)
    forum.log.publish()  # only what is signed is granted
    RetentionOperations(forum).grant_request(request.leaf.hex())
    opened = OversightOperations(forum).open_incident(
        IncidentSeverity.LOW, text, (reported,), by=by
    )
    OversightOperations(forum).close_incident(opened.id, text, by=by)
    team = TeamSettings(
        agents={"own": Command(("agent", f"pin-{secret}"))},
        tools={"pay": ToolSpec(("pay", secret))},
    )
    OversightOperations(forum).record_configuration(team, load_roster())
    forum.log.publish()
    OversightOperations(forum).record_review(OversightOperations(forum).view_review(), text, by=by)
    forum.log.publish()


def relay(folder: Path, secret: str, read: Callable[[Store], ReadT]) -> ReadT:
    """Return what is read of calls through a gateway: the secret is in texts, a model, a path."""
    folder.mkdir()
    text = f"my PIN is {secret}"
    with harness(folder, RunLimits()) as gateway:
        for call in (
            partial(gateway.chat, text, max_tokens=5),
            partial(gateway.chat, "hi", model=text, max_tokens=5),
            partial(gateway.post, f"/openai/v1/files/Ann~Smith,{secret}", {"purpose": secret}),
        ):
            call()
            gateway.entries("report.step/1")  # waits for the one of the call
        Sequencer(gateway.ledger.store).drain()
        return read(gateway.ledger.store)


SEQUENCED = frozenset({"runs.open/1", "witnessed/1"})
"""Kinds of the sequencer, which names runs and trees, and sees no body."""

NOT_PLAYED = {
    "facts without a text, beside what a person or a program says": (
        ("budget.freeze/1", "reason"),
        ("gate.decision/2", "identity"),
        ("gate.edit/1", "shown"),
        ("log.epoch/1", "reason"),
        ("request.void/1", "request"),
        ("reply/1", "error"),
        ("compaction/1", "summary"),
        ("outcome/1", "error"),
        ("report.gap/1", "spans"),
        ("about/1", "answer"),
        ("about/1", "request"),
    ),
    "what code has counted or compared, with the flags and scores of the list": (
        ("accord/1", "findings"),
        ("check/1", "detail"),
        ("council.similarity/1", "scores"),
        ("eval.open/1", "cases"),
        ("eval.report/1", "report"),
        ("route/1", "evidence"),
        ("stop/1", "spent"),
        ("symposium.close/1", "termination"),
    ),
}
"""Bodies that no flow records, by what stands beside them instead."""

FLOWS: tuple[Flow, ...] = (claude_code, telemetry, names, driven, council, open_protocol)


def members(value: object, where: str = "") -> Iterator[tuple[str, str]]:
    """Yield each text and number of a JSON value, with its place."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from members(member, f"{where}.{name}")
    elif isinstance(value, list):
        yield f"{where}.length", str(len(value))
        for number, member in enumerate(value):
            yield from members(member, f"{where}.{number}")
    else:
        yield where, str(value)


def record(factory: StoreFactory, flow: Flow, secret: str) -> dict[str, str]:
    """Record a flow in a new log; return all that its entries hold, by kind, number and place."""
    store = factory.beside()()
    flow(store, secret)
    Sequencer(store).drain()
    return held_in(store)


def held_in(store: Store) -> dict[str, str]:
    """Return all that the entries of a log hold, those about the log included."""
    numbers: dict[str, Iterator[int]] = {}
    held: dict[str, str] = {}
    for data in store.entries(0, store.head().size):
        assert data is not None
        entry = msgspec.json.decode(data)
        if entry["kind"] in SEQUENCED:
            continue
        number = next(numbers.setdefault(entry["kind"], count()))
        held |= members(entry, f"{entry['kind']}#{number}")
    return held


def guesses(secret: str) -> Iterator[str]:
    """Yield the beginning of every plain digest of what a flow makes of a secret."""
    for form in ("{}", "my PIN is {}", "session-1/my PIN is {}", '{{"pin":"{}"}}'):
        text = form.format(secret).encode()
        for name in ("sha256", "sha1", "md5", "blake2b", "blake2s", "sha3_256"):
            yield hashlib.new(name, text).hexdigest()[:6]


def check_independence(held: Held, again: Held, other: Held) -> None:
    """Check that what entries hold does not follow from a secret: twice one, and another one."""
    assert held.keys() == again.keys() == other.keys()
    places = {place for place, value in held.items() if value == again[place] != other[place]}
    # By a real clock: two may be the same by chance.
    assert not {place for place in places if not place.endswith(".facts.micros")}
    texts = "\n".join(held.values())
    assert FIRST not in _RANDOM.sub("", texts)
    assert not [guess for guess in guesses(FIRST) if f"\n{guess}" in f"\n{texts}"]


LONGER = f"{FIRST} and no more than that"
TELLS = {
    "that there was one: its name, its length, its media type, and how many bytes of it were cut "
    "off": r"\.bodies\.\w+(\.size|\.type)?|\.facts\.cut",
    "amounts: tokens, dollars, calls, and how long something took": r"\.facts\.("
    r"usd|tokens|calls|(in|out)put_tokens|(over)?run_\w+|milliseconds|micros|pause|asked|used|cap)",
    "counts: of tasks, attempts, uses of tools, messages, rounds, ballots, claims, objections": (
        r"\.facts\.(tasks|attempt|turn|times|steps|spans|messages|rounds?|ballots|answers|pairs|"
        r"positions|parts|claims|unverified|blockers|changed|conformed|seats|strands)"
    ),
    "the lane of a request, and how certain it was": (
        r"\.facts\.(lane|basis|confidence|runner_up|margin)"
    ),
    "what code, a judge or a person decided: outcomes, verdicts, flags such as coverage and form, "
    "accord, scores, approvals, with a reason from a closed set": (
        r"\.facts\.(outcome|why|next|check|reason|accord|value|quality|answer|by|end|ground|passage|"
        r"agreement|text|encoder|judge|independence)"
    ),
    "codes of errors and statuses, as a provider, a program or a tool states them; of a reported "
    "step only a code of letters, digits and `._:-`": r"\.facts\.code",
    "names that plans, programs and people give to runs, tasks, steps, tools, agents, models and "
    "seats; of a reported run, step or agent only a name of letters, digits and `._:-`, of a "
    "model, provider or framework of a report such names joined by `/`, a version behind `@`, or "
    "`[1m]`": (
        r"\.(run|strand|step|actor)|\.facts\.(name|agent|model|provider|tool|subject|framework)"
    ),
    "ids that programs and providers give to sessions, traces, spans and uses of tools": (
        r"\.facts\.(trace|span|within)"
    ),
    "which parts of a configuration differ from the one before, or were erased there": (
        r"\.facts\.(changed|erased)\.\w+"
    ),
    "when each entry was recorded, and which entries it follows from": (
        r"\.ts|\.parents\.\w+|\.facts\.(began|since|until|ended)"
    ),
}
"""What tells of a body and stays, as `docs/concepts/trust.md` lists it, and its places."""


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.__name__)
def test_what_is_left_of_an_erased_body_does_not_depend_on_it(
    store_factory: StoreFactory, flow: Flow
) -> None:
    """A digest without a salt gives a short body back, and an entry can never be erased."""
    check_independence(*(record(store_factory, flow, s) for s in (FIRST, FIRST, SECOND)))


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.__name__)
def test_what_else_tells_of_a_body_is_on_a_closed_list(tmp_path: Path, flow: Flow) -> None:
    """A body of another length differs in nothing but that, amounts and the like."""
    factory = StoreFactory(tmp_path / "ledger.db")
    document, again = (record(factory, flow, FIRST) for _ in range(2))
    other = record(factory, flow, LONGER)
    factory.close()

    places = {
        place for place, value in document.items() if value == again[place] != other.get(place)
    }
    place = re.compile(f".*#[0-9]+({'|'.join(TELLS.values())})")
    assert {text for text in places if not place.fullmatch(text)} == set()
    assert places


@pytest.fixture
def forums(tmp_path: Path) -> Iterator[Callable[[], Forum]]:
    """Return a function that opens a new project."""
    opened: list[Forum] = []

    def open_project() -> Forum:
        data = tmp_path / f"{len(opened)}"
        forum = Forum(Settings(data, data / "state", data / "log.key", "test.example/log"))
        forum.keys.initialise()
        opened.append(forum)
        return forum

    yield open_project
    for forum in opened:
        forum.close()


def test_what_is_left_of_erased_remarks_does_not_depend_on_them(
    forums: Callable[[], Forum],
) -> None:
    """Entries about the log itself are no exception."""
    told = []
    for secret in (FIRST, FIRST, SECOND):
        forum = forums()
        remark(forum, secret)
        told.append(held_in(forum.store))
    check_independence(*told)


def test_what_is_left_of_erased_calls_does_not_depend_on_them(tmp_path: Path) -> None:
    """A model and a path are texts of a program, like its requests."""
    read = [
        relay(tmp_path / f"{number}", secret, held_in)
        for number, secret in enumerate((FIRST, FIRST, SECOND))
    ]
    check_independence(*read)


def bodies_of(store: Store) -> set[tuple[str, str]]:
    """Return the kinds and names of the bodies that a log has."""
    entries = map(msgspec.json.decode, filter(None, store.entries(0, store.head().size)))
    return {(entry["kind"], name) for entry in entries for name in entry["bodies"]}


def test_every_body_is_recorded_by_a_flow_or_named_with_a_reason(
    tmp_path: Path, forums: Callable[[], Forum]
) -> None:
    """Whoever adds a kind with a body decides here how it is known to tell nothing."""
    factory, played = StoreFactory(tmp_path / "ledger.db"), set()
    for flow in FLOWS:
        store = factory.beside()()
        flow(store, FIRST)
        Sequencer(store).drain()
        played |= bodies_of(store)
    factory.close()
    forum = forums()
    remark(forum, FIRST)
    played |= bodies_of(forum.store)
    played |= relay(tmp_path / "gateway", FIRST, bodies_of)
    named = [body for bodies in NOT_PLAYED.values() for body in bodies]

    assert len(named) == len(set(named))
    assert {(kind.name, body) for kind in KINDS for body in kind.bodies} == played | set(named)
    assert not played & set(named)


def test_the_closed_list_is_the_one_of_the_documentation() -> None:
    """Whoever erases something reads there what stays."""
    page = (ROOT / "docs/concepts/trust.md").read_text()
    listed = page.split("cannot be erased, is this:\n\n")[1].split("\n\n")[0]
    assert listed == "\n".join(f"- {tell}" for tell in TELLS)
