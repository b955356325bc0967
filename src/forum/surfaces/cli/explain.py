"""One-line descriptions of entries."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from forum.app import KINDS
from forum.app.formatting import describe_compaction, describe_stop_entry, pluralize, turn_name
from forum.app.reported_runs import describe_gap
from forum.feature import load_parts
from forum.features import FEATURES
from forum.ledger import kinds as ledger_kinds
from forum.ledger.entry import Entry, Facts
from forum.ledger.log import LocatedEntry
from forum.ledger.ports import NO_LIMIT
from forum.runs import kinds, report_kinds
from forum.runs.acceptance_criteria import Check
from forum.runs.schedule import STOP_CAUSE
from forum.runs.scores import describe_subject
from forum.surfaces.cli.output import format_entry
from forum.surfaces.cli.run_view import describe_check, describe_judge, describe_route
from forum.surfaces.schemas.ledger import describe_request
from forum.units import format_usd


def describe_entry(located: LocatedEntry) -> str:
    """Return a description of an entry on one line; of an unknown kind, the raw entry."""
    entry = located.entry
    say = _descriptions().get(type(entry.facts))
    # A later release may have written the entry, with a kind that this one cannot describe.
    if say is None or entry.kind not in KINDS:
        return format_entry(located).strip()
    place, _, name = entry.strand.partition("/")
    if place == "turn":
        return f"{turn_name(kinds.TURN_PREFIX + name)}: {say(entry)}"
    where = f"{place} {name}: " if place in ("task", "role", "span") else ""
    return f"{where}{say(entry)}"


def _accepted(entry: Entry[kinds.AcceptedFacts]) -> str:
    facts = entry.facts
    if facts.parent_run:
        return f"task {facts.parent_task} of run {facts.parent_run} became a run of its own"
    fork = f", forking {facts.fork_run} at entry {facts.fork_index}" if facts.fork_run else ""
    return f"{entry.actor} asked for something{fork}"


def _called(entry: Entry[kinds.CallFacts]) -> str:
    facts = entry.facts
    name = f"{facts.agent} ({facts.model})" if facts.agent else facts.model
    name = f"{name}, as {facts.role}," if facts.role else name
    price = f", for ${format_usd(facts.usd)} at most" if facts.usd else ""
    return f"{name} was called, attempt {facts.attempt}, call {facts.turn}{price}"


def _replied(entry: Entry[kinds.ReplyFacts]) -> str:
    facts = entry.facts
    why = facts.code or facts.why.value
    cost = f", ${format_usd(facts.usd)}" if facts.usd else ""
    return f"the reply came: {_outcome(facts.outcome, why)} after {facts.milliseconds} ms{cost}"


def _happened(entry: Entry[kinds.OutcomeFacts]) -> str:
    facts = entry.facts
    if facts.outcome is ledger_kinds.Outcome.INDETERMINATE:
        return "nobody knows whether the tool was used"
    return f"the tool was used: {_outcome(facts.outcome, facts.code or facts.why.value)}"


def _judged(entry: Entry[kinds.VerdictFacts]) -> str:
    facts = entry.facts
    checked = "that it succeeded" if facts.check is Check.OUTCOME else f"by {facts.check.value}"
    checked += describe_judge(facts.judge, facts.independence) + _claimed(
        facts.claims, facts.unverified
    )
    if facts.next is kinds.Next.ACCEPT:
        return f"attempt {facts.attempt} was accepted (checked {checked})"
    follows = {
        kinds.Next.RETRY: f"it is tried again after {facts.pause} ms",
        kinds.Next.ESCALATE: "a stronger agent is asked",
    }
    then = follows.get(facts.next, "it is given up")
    by = describe_judge(facts.judge, facts.independence)
    return f"attempt {facts.attempt} was not accepted ({facts.reason}{by}): {then}"


def _planned(entry: Entry[kinds.PlanFacts]) -> str:
    reasons = {
        kinds.SINGLE_ASK_STEP: ", because the request is one ask",
        kinds.LISTED_ASKS_STEP: ", one for each question that the request lists",
    }
    tasks = pluralize(entry.facts.tasks, "task")
    return f"{entry.actor} made a plan of {tasks}{reasons.get(entry.step, '')}"


def _checked(entry: Entry[kinds.CheckFacts]) -> str:
    facts = entry.facts
    by = describe_judge(facts.judge, facts.independence)
    reason = f" ({facts.reason})" if facts.reason else ""
    outcome = f"{describe_check(facts)}{reason}"
    return f"the answer was checked ({facts.subject}): {outcome}, by {facts.check.value}{by}"


def _claimed(claims: int, unverified: int) -> str:
    return f"; {unverified} of {pluralize(claims, 'claim')} unverified" if claims else ""


def _skipped(entry: Entry[kinds.SkipFacts]) -> str:
    cause = entry.facts.cause
    reason = "the run was stopped" if cause == STOP_CAUSE else f"{cause} did not pass"
    return f"skipped, because {reason}"


def _decided(entry: Entry[kinds.GateDecision]) -> str:
    subject = entry.strand.partition("/")[2]
    by = entry.facts.by.value
    named = "" if entry.actor == by else f" ({by})"
    return f"{subject}: {entry.facts.answer.value}, by {entry.actor}{named}"


def _gave_reason(entry: Entry[kinds.GateReasonFacts]) -> str:
    return f"{entry.actor} gave a reason for the decision at {entry.strand.partition('/')[2]}"


def _opened(entry: Entry[kinds.GateOpenFacts]) -> str:
    return f"{entry.facts.subject} began to wait for approval"


def _edited(entry: Entry[kinds.GateEditFacts]) -> str:
    return f"{entry.actor} changed what waits at {entry.strand.partition('/')[2]}"


def _outcome(outcome: ledger_kinds.Outcome, why: str) -> str:
    return f"{outcome.value} ({why})" if why else outcome.value


def _sourced(entry: Entry[report_kinds.ReportSourceFacts]) -> str:
    facts = entry.facts
    how = f"{facts.told} by {facts.by}"
    framework = f" ({facts.framework})" if facts.framework else ""
    more = f", continuing run {facts.continues}" if facts.continues else ""
    cap = f", for ${format_usd(facts.usd)} at most" if facts.usd != NO_LIMIT else ""
    return f"the run {entry.actor} is {how}{framework}{more}{cap}"


def _began(entry: Entry[report_kinds.ReportBeginFacts]) -> str:
    facts = entry.facts
    model = f" ({facts.model})" if facts.model else ""
    price = f", for ${format_usd(facts.usd)} at most" if facts.usd else ""
    set_by_us = f"; Forum set {', '.join(facts.altered)}" if facts.altered else ""
    return f"{facts.op} {facts.name}{model} was about to begin{price}{set_by_us}"


def _stepped(entry: Entry[report_kinds.ReportStepFacts]) -> str:
    facts = entry.facts
    model = f" ({facts.model})" if facts.model else ""
    tokens = facts.input_tokens + facts.output_tokens
    used = f", {pluralize(tokens, 'token')}" if tokens else ""
    cost = f", ${format_usd(facts.usd)}" if facts.usd else ""
    time = f" after {facts.micros / 1000:g} ms" if facts.micros else ""
    ended = _outcome(facts.outcome, facts.code)
    return f"{facts.op} {facts.name}{model} ended: {ended}{time}{used}{cost}"


_EPOCH_KEYS = {
    ledger_kinds.EpochKey.KEPT: "kept",
    ledger_kinds.EpochKey.NEW: "lost, and is a new one",
}

_DESCRIPTIONS: Mapping[type[Facts], Callable[[Entry[Any]], str]] = {
    ledger_kinds.LogOpenFacts: lambda e: f"the log was begun by {e.facts.program}",
    ledger_kinds.KeyAddFacts: lambda _: "the log's key was recorded",
    ledger_kinds.KeyAddV2Facts: lambda _: "a key for attestations was published",
    ledger_kinds.KeyRotationFacts: lambda e: (
        f"{e.actor} handed the log over to another signing key"
    ),
    ledger_kinds.KeyRotationV2Facts: lambda e: (
        f"{e.actor} handed the log over to another signing key; both keys signed that"
    ),
    ledger_kinds.LogEpochFacts: lambda e: (
        f"{e.actor} began the next epoch of the log; its key was {_EPOCH_KEYS[e.facts.key]}"
    ),
    ledger_kinds.CarryFacts: lambda e: (
        f"{pluralize(e.facts.entries, 'entry')} of {e.facts.run}/{e.facts.strand} were carried over"
        if e.facts.entries
        else f"{e.actor} carried the state of the earlier epoch over"
    ),
    ledger_kinds.RunOpenFacts: lambda _: "the run was opened",
    ledger_kinds.RunCloseFacts: lambda e: f"the run ended: {e.facts.outcome.value}",
    ledger_kinds.NoteFacts: lambda e: f"{e.actor} made a remark",
    ledger_kinds.WitnessedFacts: lambda e: (
        f"checkpoint of size {e.facts.size}: {len(e.facts.cosignatures)} cosignatures"
    ),
    ledger_kinds.RunsOpenedFacts: lambda e: (
        f"{pluralize(len(e.facts.runs), 'run')} entered the log"
    ),
    ledger_kinds.JoinFacts: lambda e: f"{len(e.parents)} causes in one",
    ledger_kinds.RedactionFacts: lambda e: (
        f"{e.actor} had body {e.facts.body!r} erased ({e.facts.reason.value})"
    ),
    ledger_kinds.RedactionBatchFacts: lambda e: (
        f"{e.actor} had {len(e.facts.bodies)} bodies erased ({e.facts.reason.value}"
        f"{', rule ' + e.facts.rule if e.facts.rule else ''})"
    ),
    ledger_kinds.RedactionV3Facts: lambda e: (
        f"{e.actor} had {pluralize(len(e.facts.bodies), 'body')} of "
        f"{pluralize(len(set(e.facts.runs)), 'run')} erased ({e.facts.reason.value}"
        f"{', rule ' + e.facts.rule if e.facts.rule else ''})"
    ),
    ledger_kinds.RetentionFacts: lambda e: (
        f"{e.actor} had the bodies of {e.facts.subject} kept "
        f"{f'for {e.facts.seconds} s' if e.facts.seconds else 'for ever'}"
    ),
    ledger_kinds.CapFacts: lambda e: (
        f"the cap of {e.facts.subject} {e.facts.name} per {e.facts.per} was set"
        if e.facts.act is ledger_kinds.CapChange.SET
        else f"the cap of {e.facts.subject} {e.facts.name} per {e.facts.per} was removed"
    ),
    ledger_kinds.TeamFacts: lambda e: f"the members of the team {e.facts.team} were set",
    ledger_kinds.FreezeFacts: lambda e: (
        "all spending was frozen"
        if e.facts.act is ledger_kinds.FreezeAct.FREEZE
        else "spending was allowed again"
    ),
    ledger_kinds.CapAlertFacts: lambda e: (
        f"{e.facts.percent} % of a cap of {e.facts.unit} for {e.facts.scope} were used"
    ),
    ledger_kinds.HoldFacts: lambda e: (
        f"{e.actor} {e.facts.act.value}d the hold {e.facts.hold} on "
        f"{pluralize(len(e.facts.runs), 'run') if e.facts.runs else 'all runs'}"
        if e.facts.act is ledger_kinds.HoldAct.PLACE
        else f"{e.actor} released the hold {e.facts.hold}"
    ),
    ledger_kinds.ControlRequestFacts: lambda e: (
        f"{e.actor} asked the machine that signs: {describe_request(e.facts)}"
    ),
    ledger_kinds.ControlRefusalFacts: lambda e: f"{e.actor} refused a request",
    ledger_kinds.ExportFacts: lambda e: f"{e.actor} exported run {e.facts.run}",
    ledger_kinds.AccessDenialFacts: lambda e: (
        f"{e.facts.who} was denied at {e.facts.door} ({e.facts.why.value}), "
        f"{pluralize(e.facts.times, 'time')}"
    ),
    ledger_kinds.ArchiveFacts: lambda e: f"{e.actor} archived run {e.facts.run}",
    kinds.AcceptedFacts: _accepted,
    kinds.RouteFacts: lambda e: f"the request was routed: {describe_route(e.facts)}",
    kinds.AboutFacts: lambda e: f"a panel is to deliberate on the answer of run {e.facts.run}",
    kinds.PlanFacts: _planned,
    kinds.CallFacts: _called,
    kinds.ReplyFacts: _replied,
    kinds.IntentFacts: lambda e: f"the tool {e.facts.tool} was about to be used",
    kinds.OutcomeFacts: _happened,
    kinds.CompactionFacts: lambda e: (
        f"the conversation was compacted: {describe_compaction(e.facts)}"
    ),
    kinds.VerdictFacts: _judged,
    kinds.SkipFacts: _skipped,
    kinds.StopFacts: lambda e: f"stopped: {describe_stop_entry(e)}",
    kinds.GateOpenFacts: _opened,
    kinds.GateEditFacts: _edited,
    kinds.GateReasonFacts: _gave_reason,
    kinds.GateDecisionFacts: _decided,
    kinds.GateDecisionByFacts: _decided,
    kinds.CancelFacts: lambda e: f"{e.actor} asked the run to end",
    kinds.InterruptionFacts: lambda e: f"{e.actor} interrupted the run",
    kinds.ResumptionFacts: lambda e: f"{e.actor} resumed the run",
    kinds.ControlCloseFacts: lambda _: "nobody can ask the run to end any more",
    kinds.DelegationFacts: lambda e: f"handed to run {e.facts.run}",
    kinds.AccordFacts: lambda e: (
        f"the panel that {'judges' if e.facts.role else 'does'} it closed: {e.facts.accord.value}"
    ),
    kinds.CheckFacts: _checked,
    kinds.AnswerFacts: lambda e: (
        f"answered: {e.facts.outcome.value}, from {pluralize(e.facts.parts, 'result')}"
        f"{_claimed(e.facts.claims, e.facts.unverified)}"
    ),
    kinds.ScoreFacts: lambda e: (
        f"{e.actor} scored {describe_subject(e.facts)} of run {e.facts.run}: "
        f"{e.facts.name} {e.facts.value / kinds.MAX_SCORE:g}, by a {e.facts.by.value}"
    ),
    kinds.EvalOpenFacts: lambda e: (
        f"{e.actor} began to evaluate {pluralize(e.facts.cases, 'case')}"
    ),
    kinds.EvalPlayFacts: lambda e: (
        f"{e.facts.configuration} played case {e.facts.case} in run {e.facts.run}: "
        f"quality {e.facts.quality / kinds.MAX_SCORE:g}"
    ),
    report_kinds.ReportSourceFacts: _sourced,
    report_kinds.ReportBeginFacts: _began,
    report_kinds.ReportStepFacts: _stepped,
    report_kinds.ReportBatchFacts: lambda e: (
        f"{pluralize(e.facts.spans, 'span')} were reported by {e.facts.by}"
    ),
    report_kinds.ReportGapFacts: lambda e: describe_gap(e.facts),
    kinds.EvalReportFacts: lambda e: f"{pluralize(e.facts.plays, 'play')} were compared",
}


@cache
def _descriptions() -> Mapping[type[Facts], Callable[[Entry[Any]], str]]:
    return {
        **_DESCRIPTIONS,
        **{k: v for part in load_parts(FEATURES, "words") for k, v in part.items()},
    }
