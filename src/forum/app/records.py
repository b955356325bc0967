"""Views of a run, read from the database or from a bundle."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from forum.app.clock_ids_and_kinds import KINDS, SESSION_KINDS, now
from forum.errors import (
    NoSuchRun,
)
from forum.ledger import ports
from forum.ledger.body import StoredBody
from forum.ledger.bundle import PACK_END, BundleReader
from forum.ledger.entry import MAIN_STRAND, Entry
from forum.ledger.kinds import Outcome
from forum.ledger.log import LocatedEntry
from forum.ledger.span_files import NO_LIMIT
from forum.runs import run_fold
from forum.runs.claims import ActionClaim, read_claims
from forum.runs.conversation.titles import make_title
from forum.runs.kinds import FINDINGS, TURN_PREFIX, AcceptedFacts, CheckFacts, task_strand
from forum.runs.plan import Plan, read_plan
from forum.runs.policy import Policy, read_policy
from forum.runs.report_kinds import Names, Provenance, ReportSourceFacts, decode_names, span_strand
from forum.runs.roles.opinions import Opinion, parse_opinion
from forum.runs.run_record import RunRecord, sort_by_index
from forum.runs.run_summary import tally_entries
from forum.runs.scores import RecordedScore
from forum.runs.session_steps import NoteBody, Session
from forum.runs.session_steps import SessionNote as Noted
from forum.tlog import Hash

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
    from forum.stores.state_files import FileByteSource
    from forum.verify import verify_bundle

    with path.open("rb") as file:
        return verify_bundle(FileByteSource(file.fileno()), KINDS, trust, progress)


def is_pack_file(path: Path) -> bool:
    """Return whether a file is an evidence pack, and not a bundle of one run."""
    from zipfile import BadZipFile, ZipFile

    try:
        with ZipFile(path) as archive:
            return PACK_END in archive.namelist()
    except (BadZipFile, OSError, ValueError, NotImplementedError):
        return False


@contextmanager
def open_bundle(path: Path) -> Iterator[RunRecord]:
    """Open the run in a bundle without verifying signatures or inclusion.

    Bodies are compared with the commitments of their entries. Raises `Malformed`, `TamperDetected`.
    """
    from forum.stores.state_files import FileByteSource

    with path.open("rb") as file:
        # Bodies are read one by one here, and each is bounded.
        bundle = BundleReader(FileByteSource(file.fileno()), max_bytes=NO_LIMIT)
        named = set(bundle.bodies)

        def bodies_at(places: Sequence[tuple[LocatedEntry, str]]) -> list[StoredBody | None]:
            return [
                bundle.body(at.index, name)
                if at.index is not None and (at.index, name) in named
                else None
                for at, name in places
            ]

        read_all = ((index, bundle.entry(index)) for index in bundle.indexes)
        entries = [LocatedEntry(index, data, KINDS.read(data)) for index, data in read_all]
        own = sort_by_index(entry for entry in entries if entry.entry.run == bundle.run)
        yield RunRecord(bundle.run, own, bodies_at)


class RunReader(Struct, frozen=True):
    """The entries of a run in a database or a bundle, and what reads their bodies and indexes."""

    run: str
    entries: Sequence[run_fold.IdentifiedEntry]
    read: Callable[[Entry[Any], str], bytes | None]
    """Returns the content of a body; None if it was erased or left out."""
    find_indexes: Callable[[Sequence[Hash]], Sequence[int | None]]
    """Returns the indexes of entries in the log, by their ids."""

    def name_indexes(self, named: Mapping[str, Hash | None]) -> dict[str, int]:
        """Return the indexes of entries by name, with one query."""
        leaves = {name: leaf for name, leaf in named.items() if leaf}
        pairs = zip(leaves, self.find_indexes(list(leaves.values())), strict=True)
        return {name: index for name, index in pairs if index is not None}

    def read_bodies(self, entry: Entry[Any]) -> tuple[NoteBody, ...]:
        """Return the bodies of an entry that were not erased."""
        bodies = {name: self.read(entry, name) for name in entry.bodies}
        return tuple(NoteBody(name, body) for name, body in bodies.items() if body is not None)


def view_record(record: RunRecord) -> RunView:
    """Return the view of a recorded run, without any store. Raises `NoSuchRun`."""
    located = {entry.leaf: entry for entry in record.entries}
    places = {entry.position: entry for entry in record.entries}

    def read(entry: Entry[Any], name: str) -> bytes | None:
        return record.read(places[ports.Position(entry.run, entry.strand, entry.n)], name)

    def find_indexes(leaves: Sequence[Hash]) -> list[int | None]:
        return [located[leaf].index for leaf in leaves]

    entries = [(leaf, entry.entry) for leaf, entry in located.items()]
    return view_entries(RunReader(record.run, entries, read, find_indexes))


def view_entries(reader: RunReader) -> RunView:
    """Return the view of a run as far as its own entries say. Raises `NoSuchRun`."""
    state = run_fold.fold(reader.entries)
    if state.accepted is None and not state.is_reported:
        raise NoSuchRun(reader.run)  # the log's own run, or an evaluation
    entries = {(entry.strand, entry.n): entry for _, entry in reader.entries}

    def read_at(at: ports.Position | None, name: str) -> bytes | None:
        entry = entries.get((at.strand, at.n)) if at else None
        return reader.read(entry, name) if entry and name in entry.bodies else None

    main = [(leaf, entry) for leaf, entry in reader.entries if entry.strand == MAIN_STRAND]
    accepted = next((e for _, e in main if isinstance(e.facts, AcceptedFacts)), None)
    planned = next((e for leaf, e in main if leaf == state.plan), None)
    request, plan, policy = (
        reader.read(entry, name) if entry and name in entry.bodies else None
        for entry, name in ((accepted, "request"), (planned, "plan"), (accepted, "policy"))
    )
    tasks = list(state.tasks.values())[:MAX_DETAILED_TASKS]
    errors = {t.id: decode_prefix(read_at(t.result.reply_at, "error")) for t in tasks if t.result}
    errors |= read_span_errors(state, read_at)
    notes = () if state.planned else read_notes(reader, state)
    session = None
    if notes and request is not None and policy is not None:
        session = Session(request.decode(errors="replace"), read_policy(policy), state.begun)
    return RunView(
        run=reader.run,
        state=state,
        at=now(),
        request=request.decode(errors="replace") if request is not None else None,
        plan=read_plan(plan) if plan is not None else None,
        answer=read_at(state.answer_at, "answer"),
        errors={name: words for name, words in errors.items() if words},
        gates=tuple((reader.run, gate) for gate in state.open_gates),
        entries=reader.name_indexes({task.id: task.last for task in tasks}),
        claims=read_claims(read_at(state.answer_at, "claims") or b""),
        places=_find_places(state, reader),
        session=session,
        notes=notes,
        replies=_read_failed_replies(state, tasks, read_at),
        opinions=read_opinions(tasks, read_at),
        check_details={
            leaf.hex(): decode_prefix(reader.read(entry, "detail"))
            for leaf, entry in main
            if isinstance(entry.facts, CheckFacts) and "detail" in entry.bodies
        },
        name=read_run_name(state, read_at),
        names=read_span_names(state, read_at),
        title=read_title(reader.run, state, entries.values(), read_at),
        origin=find_origin(entries.values()),
        declined_team=read_declined_team(policy),
    )


def read_notes(reader: RunReader, state: run_fold.Run) -> tuple[Noted, ...]:
    """Return the entries of a panel's session: those of the run, and then those of each turn."""
    turns = (task_strand(name) for name in state.tasks if name.startswith(TURN_PREFIX))
    # No other strand is part of a session, whatever somebody wrote there.
    places = {strand: place for place, strand in enumerate((MAIN_STRAND, *turns))}
    noted = [
        entry
        for _, entry in reader.entries
        if entry.kind in SESSION_KINDS and entry.strand in places
    ]
    noted.sort(key=lambda entry: (places[entry.strand], entry.n))
    return tuple(Noted(e.step, e.facts, reader.read_bodies(e)) for e in noted)


def _find_places(state: run_fold.Run, reader: RunReader) -> dict[str, int]:
    """Return the indexes of route, checks, tool uses, spans, gaps and notes, by id in hex."""
    uses = [use for task in state.tasks.values() for use in task.uses][:MAX_DETAILED_TASKS]
    named = [state.route, *(leaf for leaf, _ in state.checks)]
    named += [use.outcome or use.entry for use in uses]
    named += [span.last for span in list(state.report.spans.values())[:MAX_DETAILED_TASKS]]
    named += [gap.entry for gap in state.report.gaps]
    named += [note.entry for note in state.report.notes[:MAX_DETAILED_TASKS]]
    return reader.name_indexes({leaf.hex(): leaf for leaf in named if leaf})


def _read_failed_replies(
    state: run_fold.Run, tasks: Iterable[run_fold.TaskRun], read_at: "BodyReader"
) -> dict[str, str]:
    """Return the beginning of the last reply of each task that did not pass in a failed run."""
    if state.outcome in (None, Outcome.OK):
        return {}
    failed = (task for task in tasks if task.state is not run_fold.TaskState.PASSED)
    replies = {
        task.id: decode_prefix(read_at(run_fold.last_reply_position(task), "output"))
        for task in failed
    }
    return {name: words for name, words in replies.items() if words}


def read_declined_team(policy: bytes | None) -> tuple[str, ...]:
    """Return the models of a recorded policy that are too small for the team that was asked for."""
    return () if policy is None else read_policy(policy).declined_team


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
