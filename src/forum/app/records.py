"""Views of a run, read from the database or from a bundle."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from forum.app.environment import DELIBERATION_KINDS, KINDS, now
from forum.deliberation.steps import NoteBody, Session
from forum.deliberation.steps import SessionNote as Noted
from forum.errors import (
    NoSuchRun,
)
from forum.ledger import ports
from forum.ledger.bundle import BundleReader
from forum.ledger.entry import Entry
from forum.ledger.kinds import Outcome
from forum.ledger.log import (
    LocatedEntry,
    check_body,
)
from forum.work import run_fold
from forum.work.claims import ActionClaim, read_claims
from forum.work.conversation.titles import make_title
from forum.work.kinds import FINDINGS, AcceptedFacts, CheckFacts
from forum.work.plan import Plan, read_plan
from forum.work.policy import Policy, read_policy
from forum.work.report_kinds import Names, Provenance, ReportSourceFacts, decode_names, span_strand
from forum.work.roles.opinions import Opinion, parse_opinion
from forum.work.run_record import RunRecord, sort_by_index
from forum.work.run_summary import tally_entries
from forum.work.scores import RecordedScore

if TYPE_CHECKING:
    from forum.verify import (
        Report,
        Trust,
    )

_MAX_ERROR_CHARS = 2000


_MAX_SPAN_ERRORS = 100


MAX_DETAILED_TASKS = 1000
"""Limit of tasks and spans for which a view reads details; no screen shows more."""


class GateOrigin(Struct, frozen=True):
    """Who asks at a gate, and how Forum knows of it."""

    provenance: Provenance
    asked_by: str
    """The actor that submitted the run, or the key or the process that reports it."""


def find_origin(entries: Iterable[Entry[Any]]) -> GateOrigin:
    """Return who asks at the gates of a run with these entries: its submitter or its reporter."""
    for entry in entries:
        if isinstance(entry.facts, AcceptedFacts):
            return GateOrigin(Provenance.DRIVEN, entry.actor)
        if isinstance(entry.facts, ReportSourceFacts):
            return GateOrigin(Provenance(entry.facts.told.value), entry.facts.by)
    return GateOrigin(Provenance.REPORTED, "")


class RunView(Struct, frozen=True):
    """A run with the bodies that its entries commit to, except erased ones."""

    run: str
    state: run_fold.Run
    at: int
    """The time of this view, in microseconds since 1970."""
    request: str | None
    plan: Plan | None
    answer: bytes | None
    errors: Mapping[str, str]
    """The beginning of the last error that an agent's system reported, by task or span strand."""
    gates: tuple[tuple[str, run_fold.Gate], ...]
    """Open gates of this run and of the runs that it delegated to, each with its run."""
    entries: Mapping[str, int] = {}
    """The index of the last entry of each task."""
    until: int | None = None
    """The index at which the view stops; None if it covers the whole run."""
    claims: tuple[ActionClaim, ...] = ()
    """Actions that the answer claims to have taken."""
    places: Mapping[str, int] = {}
    """The indexes of route, tool uses, checks, spans, gaps and notes, by entry id in hex."""
    session: Session | None = None
    """The subject and policy of a panel, if the run is a session and they were not erased."""
    notes: tuple[Noted, ...] = ()
    """The session's entries, without the bodies that were erased."""
    replies: Mapping[str, str] = {}
    """The beginning of the last reply of each task that did not pass."""
    opinions: Mapping[tuple[str, int], Opinion] = {}
    """What a judge wrote about a result, by task and attempt."""
    check_details: Mapping[str, str] = {}
    """What was found in a check of the answer, by the id of its entry in hex."""
    scores: tuple[RecordedScore, ...] = ()
    """Scores of the run, its tasks and its answer; a bundle has none."""
    name: str = ""
    """The name of a reported run."""
    names: Mapping[str, Names] = {}
    """The names of spans that are not equal to their labels, by span."""
    title: str = ""
    """The title of a reported run: its command or name, and the first message to a model."""
    origin: GateOrigin = GateOrigin(Provenance.REPORTED, "")
    declined_team: tuple[str, ...] = ()
    """The models that were found too small for the team that was asked for."""


class LocatedGate(Struct, frozen=True):
    """A gate of a run, with what it takes to check its digest."""

    run: str
    gate: run_fold.Gate
    index: int | None
    """The index of the entry whose body `shown` the gate shows; None until it has one."""
    salt: bytes | None
    """The salt of that body; None if it was erased."""
    origin: GateOrigin


class ExplainedGate(Struct, frozen=True):
    """Everything that a decision at a gate is about."""

    located: LocatedGate
    shown: bytes
    """The content that waits; the decision names its digest."""
    request: str | None
    """The request of the run, or the name of a reported one; None if it was erased."""
    results: tuple[tuple[str, bytes], ...]
    """The results that the content depends on, by task."""
    spent: ports.Amount
    cap: ports.Amount
    milliseconds: int
    """The time limit of the run."""
    plan: Plan | None
    policy: Policy | None
    """The policy of the run; None if it was erased, or if Forum does not drive the run."""
    reason: str | None = None
    """The reason that was given for the decision."""


def verify_bundle_file(
    path: Path, trust: "Trust", progress: Callable[[int, int], None] = lambda _done, _all: None
) -> "Report":
    """Verify the bundle in a file, without reading all of it into memory."""
    from forum.backends.state_files import FileByteSource
    from forum.verify import verify_bundle

    with path.open("rb") as file:
        return verify_bundle(FileByteSource(file.fileno()), KINDS, trust, progress)


@contextmanager
def open_bundle(path: Path) -> Iterator[RunRecord]:
    """Open the run in a bundle without verifying signatures or inclusion.

    Bodies are compared with the commitments of their entries. Raises `Malformed`, `TamperDetected`.
    """
    from forum.backends.state_files import FileByteSource

    with path.open("rb") as file:
        bundle = BundleReader(FileByteSource(file.fileno()))
        named = set(bundle.bodies)

        def read(located: LocatedEntry, name: str) -> bytes | None:
            if located.index is None or (located.index, name) not in named:
                return None
            body = bundle.body(located.index, name)
            check_body(located.entry, name, body)
            return b"".join(body.read())

        read_all = ((index, bundle.entry(index)) for index in bundle.indexes)
        entries = [LocatedEntry(index, data, KINDS.read(data)) for index, data in read_all]
        own = sort_by_index(entry for entry in entries if entry.entry.run == bundle.run)
        yield RunRecord(bundle.run, own, read)


def view_record(record: RunRecord) -> RunView:
    """Return the view of a recorded run, without any store. Raises `NoSuchRun`."""
    state = run_fold.fold((entry.leaf, entry.entry) for entry in record.entries)
    if state.accepted is None and not state.is_reported:
        raise NoSuchRun(record.run)
    places = {entry.position: entry for entry in record.entries}
    indexes = {entry.leaf: entry.index for entry in record.entries if entry.index is not None}

    def read_at(at: ports.Position | None, name: str) -> bytes | None:
        entry = places.get(at) if at else None
        return record.read(entry, name) if entry and name in entry.entry.bodies else None

    requests = (e.position for e in record.entries if isinstance(e.entry.facts, AcceptedFacts))
    accepted = next(requests, None)
    planned = next((entry.position for entry in record.entries if entry.leaf == state.plan), None)
    request, plan = read_at(accepted, "request"), read_at(planned, "plan")
    tasks = list(state.tasks.values())[:MAX_DETAILED_TASKS]
    errors = {t.id: decode_prefix(read_at(t.result.reply_at, "error")) for t in tasks if t.result}
    errors |= read_span_errors(state, read_at)
    replies = {
        t.id: decode_prefix(read_at(run_fold.last_reply_position(t), "output")) for t in tasks
    }
    notes = tuple(
        Noted(entry.entry.step, entry.entry.facts, _bodies_in(record, entry))
        for entry in record.entries
        if entry.entry.kind in DELIBERATION_KINDS
    )
    policy = read_at(accepted, "policy")
    session = None
    if notes and request is not None and policy is not None:
        session = Session(request.decode(errors="replace"), read_policy(policy), state.begun)
    return RunView(
        run=record.run,
        state=state,
        at=now(),
        request=request.decode(errors="replace") if request is not None else None,
        plan=read_plan(plan) if plan is not None else None,
        answer=read_at(state.answer_at, "answer"),
        errors={name: words for name, words in errors.items() if words},
        gates=tuple((record.run, gate) for gate in state.open_gates),
        entries={t.id: indexes[t.last] for t in tasks if t.last in indexes},
        claims=read_claims(read_at(state.answer_at, "claims") or b""),
        places={leaf.hex(): index for leaf, index in indexes.items()},
        session=session,
        notes=notes,
        replies={name: words for name, words in replies.items() if words},
        opinions=read_opinions(tasks, read_at),
        check_details={
            entry.leaf.hex(): decode_prefix(record.read(entry, "detail"))
            for entry in record.entries
            if isinstance(entry.entry.facts, CheckFacts) and "detail" in entry.entry.bodies
        },
        name=read_run_name(state, read_at),
        names=read_span_names(state, read_at),
        title=read_title(record.run, state, (e.entry for e in record.entries), read_at),
        origin=find_origin(located.entry for located in record.entries),
        declined_team=read_declined_team(policy),
    )


def read_declined_team(policy: bytes | None) -> tuple[str, ...]:
    """Return the models of a recorded policy that are too small for the team that was asked for."""
    return () if policy is None else read_policy(policy).declined_team


def _bodies_in(record: RunRecord, located: LocatedEntry) -> tuple[NoteBody, ...]:
    bodies = {name: record.read(located, name) for name in located.entry.bodies}
    return tuple(NoteBody(name, body) for name, body in bodies.items() if body is not None)


def read_opinion(body: bytes | None) -> Opinion | None:
    """Return what a judge wrote; None if it is gone or was no usable opinion."""
    if body is None:
        return None
    with suppress(ValueError):
        return parse_opinion(body)
    return None


def read_opinions(
    tasks: Iterable[run_fold.TaskRun],
    read_at: "BodyReader",
) -> dict[tuple[str, int], Opinion]:
    """Return the opinions of the judges of some tasks, by task and attempt.

    That of a panel is what it found.
    """
    opinions = {}
    for task in tasks:
        for attempt, at in run_fold.opinion_positions(task).items():
            opinions[task.id, attempt] = read_opinion(read_at(at, "output"))
        for judged in task.judged:
            opinions[task.id, judged.attempt] = read_panel_opinion(read_at(judged.at, FINDINGS))
    return {key: opinion for key, opinion in opinions.items() if opinion is not None}


def read_panel_opinion(findings: bytes | None) -> Opinion | None:
    """Return what a judging panel found; None if it is gone. The verdict says if it accepted."""
    if findings is None:
        return None
    return Opinion(passed=False, reason=findings.decode(errors="replace"))


BodyReader = Callable[[ports.Position | None, str], bytes | None]
"""A function that returns a body of the entry at a position; None if it is absent or erased."""


def read_run_name(state: run_fold.Run, read_at: BodyReader) -> str:
    """Return the name of a reported run, or its label if the name was erased."""
    if not state.is_reported:
        return ""
    source = state.report.source_at
    return decode_names(read_at(source, "names")).name or state.report.label


def read_title(
    run: str, state: run_fold.Run, entries: Iterable[Entry[Any]], read_at: BodyReader
) -> str:
    """Return the title of a reported run; empty for any other."""
    name = read_run_name(state, read_at)
    if not name:
        return ""
    summary = tally_entries(entries).result()
    bodies = [
        read_at(ports.Position(run, body.strand, body.n), "input") if body else None
        for body in (summary.command, summary.prompt)
    ]
    return make_title(name, *bodies)


def read_span_names(state: run_fold.Run, read_at: BodyReader) -> dict[str, Names]:
    """Return the names of spans that differ from their labels and were not erased."""
    named = {}
    for span in list(state.report.spans.values())[:MAX_DETAILED_TASKS]:
        # The body of the end counts; a span that has not ended has only the other.
        bodies = (decode_names(read_at(at, "names")) for at in span.positions)
        names = next((names for names in bodies if names != Names()), None)
        if names is not None:
            named[span.id] = names
    return named


def read_span_errors(state: run_fold.Run, read_at: BodyReader) -> dict[str, str]:
    """Return the beginnings of the errors of some spans that did not end well, by strand."""
    failed = [
        span
        for span in state.report.spans.values()
        if span.outcome is not None and span.outcome is not Outcome.OK
    ]
    errors = {
        span_strand(span.id): decode_prefix(read_at(span.ended_at, "error"))
        for span in failed[:_MAX_SPAN_ERRORS]
    }
    return {strand: error for strand, error in errors.items() if error}


def decode_prefix(body: bytes | None) -> str:
    """Return the beginning of a body as text."""
    return (body or b"")[:_MAX_ERROR_CHARS].decode(errors="replace").strip()
