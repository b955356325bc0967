"""One-line descriptions of entries."""

from collections.abc import Callable, Mapping
from typing import Any

from forum.app import KINDS
from forum.deliberation import council_kinds
from forum.deliberation.symposium import kinds
from forum.ledger.entry import Entry, Facts
from forum.ledger.kinds import (
    EpochKey,
    ExportFacts,
    JoinFacts,
    KeyAddFacts,
    KeyRotationFacts,
    LogEpochFacts,
    LogOpenFacts,
    NoteFacts,
    Outcome,
    RedactionFacts,
    RunCloseFacts,
    RunOpenFacts,
)
from forum.ledger.log import LocatedEntry
from forum.surfaces.cli.output import format_entry
from forum.surfaces.cli.run_view import describe_judge, describe_route
from forum.surfaces.formatting import describe_stop, format_usd, pluralize, turn_name
from forum.work.acceptance_criteria import Check
from forum.work.kinds import (
    TURN_PREFIX,
    AcceptedFacts,
    AnswerFacts,
    CallFacts,
    CancelFacts,
    CheckFacts,
    ControlCloseFacts,
    DelegationFacts,
    GateDecision,
    GateDecisionByFacts,
    GateDecisionFacts,
    GateEditFacts,
    GateOpenFacts,
    IntentFacts,
    InterruptionFacts,
    Next,
    OutcomeFacts,
    PlanFacts,
    ReplyFacts,
    ResumptionFacts,
    RouteFacts,
    SkipFacts,
    StopFacts,
    VerdictFacts,
)
from forum.work.schedule import STOP_CAUSE


def describe_entry(located: LocatedEntry) -> str:
    """Return a description of an entry on one line; of an unknown kind, the raw entry."""
    entry = located.entry
    say = _DESCRIPTIONS.get(type(entry.facts))
    # A kind that this release does not know, or has no words for.
    if say is None or entry.kind not in KINDS:
        return format_entry(located).strip()
    place, _, name = entry.strand.partition("/")
    if place == "turn":
        return f"{turn_name(TURN_PREFIX + name)}: {say(entry)}"
    where = f"{place} {name}: " if place in ("task", "role") else ""
    return f"{where}{say(entry)}"


def _accepted(entry: Entry[AcceptedFacts]) -> str:
    facts = entry.facts
    if facts.parent_run:
        return f"task {facts.parent_task} of run {facts.parent_run} became a run of its own"
    fork = f", forking {facts.fork_run} at entry {facts.fork_index}" if facts.fork_run else ""
    return f"{entry.actor} asked for something{fork}"


def _called(entry: Entry[CallFacts]) -> str:
    facts = entry.facts
    name = f"{facts.agent} ({facts.model})" if facts.agent else facts.model
    name = f"{name}, as {facts.role}," if facts.role else name
    price = f", for ${format_usd(facts.usd)} at most" if facts.usd else ""
    return f"{name} was called, attempt {facts.attempt}, call {facts.turn}{price}"


def _replied(entry: Entry[ReplyFacts]) -> str:
    facts = entry.facts
    why = facts.code or facts.why.value
    cost = f", ${format_usd(facts.usd)}" if facts.usd else ""
    return f"the reply came: {_outcome(facts.outcome, why)} after {facts.milliseconds} ms{cost}"


def _happened(entry: Entry[OutcomeFacts]) -> str:
    facts = entry.facts
    if facts.outcome is Outcome.INDETERMINATE:
        return "nobody knows whether the tool was used"
    return f"the tool was used: {_outcome(facts.outcome, facts.code or facts.why.value)}"


def _judged(entry: Entry[VerdictFacts]) -> str:
    facts = entry.facts
    checked = "that it succeeded" if facts.check is Check.OUTCOME else f"by {facts.check.value}"
    checked += describe_judge(facts.judge, facts.independence) + _claimed(
        facts.claims, facts.unverified
    )
    if facts.next is Next.ACCEPT:
        return f"attempt {facts.attempt} was accepted (checked {checked})"
    follows = {
        Next.RETRY: f"it is tried again after {facts.pause} ms",
        Next.ESCALATE: "a stronger agent is asked",
    }
    then = follows.get(facts.next, "it is given up")
    by = describe_judge(facts.judge, facts.independence)
    return f"attempt {facts.attempt} was not accepted ({facts.reason}{by}): {then}"


def _checked(entry: Entry[CheckFacts]) -> str:
    facts = entry.facts
    by = describe_judge(facts.judge, facts.independence)
    outcome = _outcome(facts.outcome, facts.reason)
    return f"the answer was checked ({facts.subject}): {outcome}, by {facts.check.value}{by}"


def _claimed(claims: int, unverified: int) -> str:
    return f"; {unverified} of {pluralize(claims, 'claim')} unverified" if claims else ""


def _skipped(entry: Entry[SkipFacts]) -> str:
    cause = entry.facts.cause
    reason = "the run was stopped" if cause == STOP_CAUSE else f"{cause} did not pass"
    return f"skipped, because {reason}"


def _decided(entry: Entry[GateDecision]) -> str:
    subject = entry.strand.partition("/")[2]
    by = entry.facts.by.value
    named = "" if entry.actor == by else f" ({by})"
    return f"{subject}: {entry.facts.answer.value}, by {entry.actor}{named}"


def _opened(entry: Entry[GateOpenFacts]) -> str:
    return f"{entry.facts.subject} began to wait for approval"


def _edited(entry: Entry[GateEditFacts]) -> str:
    return f"{entry.actor} changed what waits at {entry.strand.partition('/')[2]}"


def _baselined(entry: Entry[council_kinds.BaselineFacts]) -> str:
    facts = entry.facts
    share = f"{facts.agreement / 10:g} % of those asked agree"
    return f"{pluralize(facts.answers, 'first answer')}, {share}"


def _concluded(entry: Entry[council_kinds.CouncilCloseFacts]) -> str:
    facts = entry.facts
    ballots = pluralize(facts.ballots, "ballot")
    return f"the council closed ({facts.end.value}): {facts.accord.value}, from {ballots}"


def _ended(entry: Entry[kinds.SymposiumCloseFacts]) -> str:
    facts = entry.facts
    reason = f" ({facts.reason.value})" if facts.reason else ""
    return f"the session closed: {facts.outcome.value}{reason}"


def _outcome(outcome: Outcome, why: str) -> str:
    return f"{outcome.value} ({why})" if why else outcome.value


_EPOCH_KEYS = {EpochKey.KEPT: "kept", EpochKey.NEW: "lost, and is a new one"}

_DESCRIPTIONS: Mapping[type[Facts], Callable[[Entry[Any]], str]] = {
    LogOpenFacts: lambda e: f"the log was begun by {e.facts.program}",
    KeyAddFacts: lambda _: "the log's key was recorded",
    KeyRotationFacts: lambda e: f"{e.actor} handed the log over to another signing key",
    LogEpochFacts: lambda e: (
        f"{e.actor} began the next epoch of the log; its key was {_EPOCH_KEYS[e.facts.key]}"
    ),
    RunOpenFacts: lambda _: "the run was opened",
    RunCloseFacts: lambda e: f"the run ended: {e.facts.outcome.value}",
    NoteFacts: lambda e: f"{e.actor} made a remark",
    JoinFacts: lambda e: f"{len(e.parents)} causes in one",
    RedactionFacts: lambda e: (
        f"{e.actor} had body {e.facts.body!r} erased ({e.facts.reason.value})"
    ),
    ExportFacts: lambda e: f"{e.actor} exported run {e.facts.run}",
    AcceptedFacts: _accepted,
    RouteFacts: lambda e: f"the request was routed: {describe_route(e.facts)}",
    PlanFacts: lambda e: f"{e.actor} made a plan of {pluralize(e.facts.tasks, 'task')}",
    CallFacts: _called,
    ReplyFacts: _replied,
    IntentFacts: lambda e: f"the tool {e.facts.tool} was about to be used",
    OutcomeFacts: _happened,
    VerdictFacts: _judged,
    SkipFacts: _skipped,
    StopFacts: lambda e: f"stopped: {describe_stop(e.facts)}",
    GateOpenFacts: _opened,
    GateEditFacts: _edited,
    GateDecisionFacts: _decided,
    GateDecisionByFacts: _decided,
    CancelFacts: lambda e: f"{e.actor} asked the run to end",
    InterruptionFacts: lambda e: f"{e.actor} interrupted the run",
    ResumptionFacts: lambda e: f"{e.actor} resumed the run",
    ControlCloseFacts: lambda _: "nobody can ask the run to end any more",
    DelegationFacts: lambda e: f"handed to run {e.facts.run}",
    CheckFacts: _checked,
    council_kinds.CouncilFacts: lambda e: (
        f"a council of {pluralize(e.facts.seats, 'seat')} sat down"
    ),
    council_kinds.BallotFacts: lambda _: "its ballot was sealed",
    council_kinds.BaselineFacts: _baselined,
    council_kinds.RevealFacts: lambda e: (
        f"all ballots of round {e.facts.round} are in, and may be shown"
    ),
    council_kinds.CouncilCloseFacts: _concluded,
    kinds.PanelFacts: lambda e: f"a panel of {pluralize(e.facts.agents, 'agent')} was chosen",
    kinds.MessageFacts: lambda e: (
        f"round {e.facts.round}, turn {e.facts.turn}: {e.facts.type.value}"
    ),
    kinds.RequestVoidFacts: lambda _: "a request was dropped: its target has left",
    kinds.SymposiumCloseFacts: _ended,
    AnswerFacts: lambda e: (
        f"answered: {e.facts.outcome.value}, from {pluralize(e.facts.parts, 'result')}"
        f"{_claimed(e.facts.claims, e.facts.unverified)}"
    ),
}
