"""Panels of scripted agents: every seat goes its way from round to round."""

import json
from typing import Any

import msgspec

from forum.engine import RunRequest
from forum.features.council.report import CouncilReport, read_report
from forum.ledger.entry import Entry
from forum.runs.kinds import CallFacts, DelegationFacts, IntentFacts, OutcomeFacts, ReplyFacts, Why
from forum.runs.panel import Council, Seat, Symposium
from forum.runs.policy import Agent, Policy, Scripted, ScriptStep, ToolSpec, read_policy
from forum.runs.prompt import remove_marks
from tests.engine.office import RUN, Office, quick
from tests.features.council.sitting import CHAIR, config
from tests.spoken import ballot, claiming, synthesis, turn, verdict

QUESTION = "Is the bridge safe?"
PRICE = 1000
"""What each call may cost; the scripts of seats bill all of it."""
JUDGE = "judge"


Way = tuple[str | ScriptStep, ...]
"""What a seat says, or does, round by round."""


def seat(*way: str | ScriptStep, number: int = 1, milliseconds: int = 0) -> Scripted:
    """Return the agent of a seat that says this, round by round."""
    moves = (text if isinstance(text, ScriptStep) else _move(text, milliseconds) for text in way)
    turns: dict[str, tuple[ScriptStep, ...]] = {
        f"~ballot.{turn}.{number}": (move,) for turn, move in enumerate(moves)
    }
    return Scripted(turns, usd=PRICE, tokens=100)


def _move(text: str, milliseconds: int) -> ScriptStep:
    return ScriptStep(text, tokens=60, input_tokens=40, milliseconds=milliseconds)


def judge(first: str, second: str, number: int = 1) -> Scripted:
    """Return a judge who says this of a pair, and that of the same pair in the other order."""
    document = {"1": first, "2": second}
    moves: dict[str, tuple[ScriptStep, ...]] = {
        f"~judge.{number}.{turn}": (ScriptStep(json.dumps({"better": better})),)
        for turn, better in document.items()
    }
    return Scripted(moves, usd=PRICE, tokens=100)


def panel(
    *ways: Way,
    milliseconds: int = 0,
    policy: dict[str, Any] | None = None,
    **rules: Any,  # noqa: ANN401
) -> Policy:
    """Return a policy in which each seat goes its way."""
    agents: dict[str, Agent] = {"": Scripted()}
    for number, way in enumerate(ways, 1):
        agents[f"seat-{number}"] = seat(*way, number=number, milliseconds=milliseconds)
    usual: dict[str, Any] = {"agents": agents, **(policy or {})}
    usual["agents"] = {**agents, **usual["agents"]}
    seats = tuple(Seat(f"seat-{number}") for number in range(1, len(ways) + 1))
    return quick(panel=Council(seats, **{"rounds": 1, **rules}), **usual)


DIVIDED: tuple[Way, ...] = (
    (claiming("no", "it is old"), ballot("yes", because=["c1", "c2", "c3"])),
    (claiming("yes", "it was tested"), ballot("yes")),
    (claiming("no", "it is rusty"), claiming("yes", "the rust is paint")),
    (ballot("yes"), ballot("yes")),
    (ballot("no"), ballot("no", question="who tested it?")),
)
"""Five seats: the first is convinced, the third conforms, the last stays alone."""

THREE_TEXTS: tuple[Way, ...] = (
    (ballot("Keep it.", 70),),
    (ballot("Paint it.", 60),),
    (ballot("Close it.", 50),),
)
"""Open answers of which none has a majority."""


def split(milliseconds: int = 0, **members: Any) -> RunRequest:  # noqa: ANN401
    """Ask a council of five that is divided."""
    return RunRequest(QUESTION, None, panel(*DIVIDED, milliseconds=milliseconds, **members))


def judged(first: str = "second", second: str = "first") -> RunRequest:
    """Ask a council whose open answers a judge compares."""
    agents = {JUDGE: _both(judge(first, second), judge("first", "second", number=2))}
    council = panel(*THREE_TEXTS, judge=JUDGE, rounds=0, policy={"agents": agents})
    return RunRequest(QUESTION, None, council)


def _both(scripted: Scripted, other: Scripted) -> Scripted:
    return Scripted({**scripted.moves, **other.moves}, usd=scripted.usd, tokens=scripted.tokens)


def checked(**members: Any) -> RunRequest:  # noqa: ANN401
    """Ask a council of five whose answer a tool checks."""
    tools = {"test": ToolSpec(("test",))}
    return RunRequest(
        QUESTION, None, panel(*DIVIDED, check="test", policy={"tools": tools}, **members)
    )


# The open protocol

SPEAKERS = ("ada", "ben", "cleo", "dan")


def symposium(*turns: tuple[ScriptStep, ...], seconds: int = 600) -> Policy:
    """Return a policy in which all of a symposium is said by one agent, turn by turn."""
    moves = {f"~turn.{number}": way for number, way in enumerate(turns, 1)}
    given = config(
        panel=SPEAKERS,
        session_id="bridge-1",
        problem_statement=QUESTION,
        budget={"max_wallclock_seconds": seconds},
        runtime={"on_agent_failure": "continue_without"},
    )
    agents = {"": Scripted(), "model": Scripted(moves, usd=PRICE, tokens=100)}
    return quick(agents=agents, panel=Symposium(given, dict.fromkeys((*SPEAKERS, CHAIR), "model")))


def symposiast(milliseconds: int = 0) -> RunRequest:
    """Ask a symposium with a branch, a request that is put off, and one who has to leave."""
    opening = turn("It is old.", ("ben", "How old?"), ("cleo", "Who tested it?"))
    said = (
        (opening,),
        (turn("Forty years."),),  # the branch
        ("hm", turn("It is rusty.")),
        (turn("It was tested."),),
        (),  # dan leaves
        (verdict("continue"),),
        (turn("The city."),),  # what was put off
        (turn("Then it is safe."),),
        (turn("The rust is paint."),),
        (turn("I agree."),),
        (verdict("finalize"),),
        (synthesis("Yes."),),
    )
    moves = (tuple(_move(words, milliseconds) for words in way) for way in said)
    return RunRequest(
        QUESTION, None, symposium(*(way or (ScriptStep(fail="auth_failure"),) for way in moves))
    )


# Looking


def closing(office: Office, run: str = RUN) -> Entry[Any]:
    """Return the entry with which a council has closed."""
    (closed,) = [entry for entry in office.entries(run) if entry.kind == "council.close/1"]
    return closed


def report_of(office: Office, run: str = RUN) -> CouncilReport:
    """Return the report of a council."""
    return read_report(office.body(closing(office, run), "report"))


def asked(office: Office) -> list[str]:
    """Return whose turns were taken, in their order."""
    return [call.task.removeprefix("~") for call in office.hands.calls]


def transcript(office: Office, run: str = RUN) -> dict[str, list[object]]:
    """Return what was said and noted in a session, strand by strand.

    What calls have cost and taken is left out, and calls that were lost: a crash adds to both.
    """
    document: dict[str, list[object]] = {}
    for entry in office.entries(run):
        said = document.setdefault(entry.strand, [])
        if isinstance(entry.facts, ReplyFacts | OutcomeFacts) and entry.facts.why is Why.LOST:
            said.pop()
        elif not isinstance(entry.facts, DelegationFacts):
            said.append((entry.kind, _step(entry), _facts(entry), _bodies(office, entry)))
    return document


def _step(entry: Entry[Any]) -> str:
    # After a call that was lost, the next one has another number.
    return (
        ""
        if isinstance(entry.facts, CallFacts | ReplyFacts | IntentFacts | OutcomeFacts)
        else entry.step
    )


def _facts(entry: Entry[Any]) -> dict[str, Any]:
    facts: dict[str, Any] = msgspec.to_builtins(entry.facts)
    return {name: value for name, value in facts.items() if name not in _BILLED}


_BILLED = frozenset({"calls", "usd", "tokens", "turn", "milliseconds", "ended", "digest"})
_OWN = frozenset({"spent", "strands", "result"})
"""Bodies that tell of prices, of hashes, and of how many effects the hands had before."""


def _bodies(office: Office, entry: Entry[Any]) -> dict[str, object]:
    names = (name for name in entry.bodies if name not in _OWN)
    bodies: dict[str, object] = {name: office.body(entry, name) for name in names}
    if "policy" in bodies:  # each run draws its own secret
        bodies["policy"] = read_policy(office.body(entry, "policy")).with_secret(b"")
    if "prompt" in bodies:
        bodies["prompt"] = remove_marks(office.body(entry, "prompt"))
    if "report" in bodies:
        report = msgspec.to_builtins(read_report(office.body(entry, "report")))
        report["spent"] = report["baseline"]["spent"] = None
        bodies["report"] = report
    if "message" in bodies:
        message = json.loads(office.body(entry, "message"))
        bodies["message"] = {**message, "usage": None, "timestamp": None}
    return bodies


def was_asked(entry: Entry[Any]) -> bool:
    """Tell whether this entry is a call."""
    return isinstance(entry.facts, CallFacts)
