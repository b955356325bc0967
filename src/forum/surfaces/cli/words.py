"""What an entry says, in words."""

from collections.abc import Callable, Mapping
from typing import Any

from forum.app import KINDS
from forum.deliberation import (
    Balloted,
    Baselined,
    Concluded,
    Opened,
    Revealed,
    Selected,
    SessionClosed,
    Spoken,
    Voided,
)
from forum.ledger import (
    Entry,
    EpochKey,
    Export,
    Facts,
    Join,
    KeyAdd,
    KeyRotate,
    Located,
    LogEpoch,
    LogOpen,
    Outcome,
    Redact,
    Remark,
    RunClose,
    RunOpen,
)
from forum.surfaces.cli.output import entry_line
from forum.surfaces.cli.runview import judge_words, route_words
from forum.surfaces.telling import dollars, plural, stop_words, turn_name
from forum.work import (
    STOP,
    TURN,
    Accepted,
    Answered,
    Called,
    CancelAsked,
    Check,
    Checked,
    ControlClosed,
    Delegated,
    GateDecided,
    GateDecidedBy,
    GateDecision,
    GateEdited,
    GateOpened,
    Happened,
    Intended,
    Interruption,
    Judged,
    Next,
    Planned,
    Replied,
    Resumption,
    Routed,
    Skipped,
    Stopped,
)


def words(located: Located) -> str:
    """Say what an entry records, on one line; of an unknown kind, the entry itself."""
    entry = located.entry
    say = _WORDS.get(type(entry.facts))
    if say is None or entry.kind not in KINDS:
        return entry_line(located).strip()
    place, _, name = entry.strand.partition("/")
    if place == "turn":
        return f"{turn_name(TURN + name)}: {say(entry)}"
    where = f"{place} {name}: " if place in ("task", "role") else ""
    return f"{where}{say(entry)}"


def _accepted(entry: Entry[Accepted]) -> str:
    facts = entry.facts
    if facts.parent_run:
        return f"task {facts.parent_task} of run {facts.parent_run} became a run of its own"
    fork = f", forking {facts.fork_run} at entry {facts.fork_index}" if facts.fork_run else ""
    return f"{entry.actor} asked for something{fork}"


def _called(entry: Entry[Called]) -> str:
    facts = entry.facts
    name = f"{facts.agent} ({facts.model})" if facts.agent else facts.model
    name = f"{name}, as {facts.role}," if facts.role else name
    price = f", for ${dollars(facts.usd)} at most" if facts.usd else ""
    return f"{name} was called, attempt {facts.attempt}, call {facts.turn}{price}"


def _replied(entry: Entry[Replied]) -> str:
    facts = entry.facts
    why = facts.code or facts.why.value
    cost = f", ${dollars(facts.usd)}" if facts.usd else ""
    return f"the reply came: {_outcome(facts.outcome, why)} after {facts.milliseconds} ms{cost}"


def _happened(entry: Entry[Happened]) -> str:
    facts = entry.facts
    if facts.outcome is Outcome.INDETERMINATE:
        return "nobody knows whether the tool was used"
    return f"the tool was used: {_outcome(facts.outcome, facts.code or facts.why.value)}"


def _judged(entry: Entry[Judged]) -> str:
    facts = entry.facts
    checked = "that it succeeded" if facts.check is Check.OUTCOME else f"by {facts.check.value}"
    checked += judge_words(facts.judge, facts.independence) + _claimed(
        facts.claims, facts.unverified
    )
    if facts.next is Next.ACCEPT:
        return f"attempt {facts.attempt} was accepted (checked {checked})"
    follows = {
        Next.RETRY: f"it is tried again after {facts.pause} ms",
        Next.ESCALATE: "a stronger agent is asked",
    }
    then = follows.get(facts.next, "it is given up")
    by = judge_words(facts.judge, facts.independence)
    return f"attempt {facts.attempt} was not accepted ({facts.reason}{by}): {then}"


def _checked(entry: Entry[Checked]) -> str:
    facts = entry.facts
    by = judge_words(facts.judge, facts.independence)
    outcome = _outcome(facts.outcome, facts.reason)
    return f"the answer was checked ({facts.subject}): {outcome}, by {facts.check.value}{by}"


def _claimed(claims: int, unverified: int) -> str:
    return f"; {unverified} of {plural(claims, 'claim')} unverified" if claims else ""


def _skipped(entry: Entry[Skipped]) -> str:
    cause = entry.facts.cause
    return f"skipped, because {'the run was stopped' if cause == STOP else f'{cause} did not pass'}"


def _decided(entry: Entry[GateDecision]) -> str:
    subject = entry.strand.partition("/")[2]
    by = entry.facts.by.value
    named = "" if entry.actor == by else f" ({by})"
    return f"{subject}: {entry.facts.answer.value}, by {entry.actor}{named}"


def _opened(entry: Entry[GateOpened]) -> str:
    return f"{entry.facts.subject} began to wait for approval"


def _edited(entry: Entry[GateEdited]) -> str:
    return f"{entry.actor} changed what waits at {entry.strand.partition('/')[2]}"


def _baselined(entry: Entry[Baselined]) -> str:
    facts = entry.facts
    share = f"{facts.agreement / 10:g} % of those asked agree"
    return f"{plural(facts.answers, 'first answer')}, {share}"


def _concluded(entry: Entry[Concluded]) -> str:
    facts = entry.facts
    ballots = plural(facts.ballots, "ballot")
    return f"the council closed ({facts.end.value}): {facts.accord.value}, from {ballots}"


def _ended(entry: Entry[SessionClosed]) -> str:
    facts = entry.facts
    reason = f" ({facts.reason.value})" if facts.reason else ""
    return f"the session closed: {facts.outcome.value}{reason}"


def _outcome(outcome: Outcome, why: str) -> str:
    return f"{outcome.value} ({why})" if why else outcome.value


_EPOCH_KEYS = {EpochKey.KEPT: "kept", EpochKey.NEW: "lost, and is a new one"}

_WORDS: Mapping[type[Facts], Callable[[Entry[Any]], str]] = {
    LogOpen: lambda e: f"the log was begun by {e.facts.program}",
    KeyAdd: lambda _: "the log's key was recorded",
    KeyRotate: lambda e: f"{e.actor} handed the log over to another signing key",
    LogEpoch: lambda e: (
        f"{e.actor} began the next epoch of the log; its key was {_EPOCH_KEYS[e.facts.key]}"
    ),
    RunOpen: lambda _: "the run was opened",
    RunClose: lambda e: f"the run ended: {e.facts.outcome.value}",
    Remark: lambda e: f"{e.actor} made a remark",
    Join: lambda e: f"{len(e.parents)} causes in one",
    Redact: lambda e: f"{e.actor} had body {e.facts.body!r} erased ({e.facts.reason.value})",
    Export: lambda e: f"{e.actor} exported run {e.facts.run}",
    Accepted: _accepted,
    Routed: lambda e: f"the request was routed: {route_words(e.facts)}",
    Planned: lambda e: f"{e.actor} made a plan of {plural(e.facts.tasks, 'task')}",
    Called: _called,
    Replied: _replied,
    Intended: lambda e: f"the tool {e.facts.tool} was about to be used",
    Happened: _happened,
    Judged: _judged,
    Skipped: _skipped,
    Stopped: lambda e: f"stopped: {stop_words(e.facts)}",
    GateOpened: _opened,
    GateEdited: _edited,
    GateDecided: _decided,
    GateDecidedBy: _decided,
    CancelAsked: lambda e: f"{e.actor} asked the run to end",
    Interruption: lambda e: f"{e.actor} interrupted the run",
    Resumption: lambda e: f"{e.actor} resumed the run",
    ControlClosed: lambda _: "nobody can ask the run to end any more",
    Delegated: lambda e: f"handed to run {e.facts.run}",
    Checked: _checked,
    Opened: lambda e: f"a council of {plural(e.facts.seats, 'seat')} sat down",
    Balloted: lambda _: "its ballot was sealed",
    Baselined: _baselined,
    Revealed: lambda e: f"all ballots of round {e.facts.round} are in, and may be shown",
    Concluded: _concluded,
    Selected: lambda e: f"a panel of {plural(e.facts.agents, 'agent')} was chosen",
    Spoken: lambda e: f"round {e.facts.round}, turn {e.facts.turn}: {e.facts.type.value}",
    Voided: lambda _: "a request was dropped: its target has left",
    SessionClosed: _ended,
    Answered: lambda e: (
        f"answered: {e.facts.outcome.value}, from {plural(e.facts.parts, 'result')}"
        f"{_claimed(e.facts.claims, e.facts.unverified)}"
    ),
}
