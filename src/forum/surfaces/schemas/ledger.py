"""The ledger: entries, their causes and their proofs."""

from collections.abc import Callable, Iterable
from typing import Annotated, assert_never

from msgspec import Meta, Raw, Struct

from forum.app import ArchiveResult, LogFigures
from forum.ledger.kinds import ControlAct, ControlRequestFacts
from forum.ledger.log import LocatedEntry
from forum.ledger.ports import QuarantinedRow
from forum.ledger.run_directory import RunListProof
from forum.ledger.sequencer import Publication
from forum.surfaces.schemas.fields import EntryId, Index, RunId, fill
from forum.surfaces.schemas.figures import RecordForm, record_form
from forum.tlog import Checkpoint, TlogProof

Object = Annotated[Raw, Meta(extra_json_schema={"type": "object"})]
"""A JSON object, byte for byte as it is recorded."""


class EntryForm(Struct, frozen=True):
    """An entry of the log, byte for byte as it is hashed."""

    id: EntryId
    index: Annotated[Index | None, Meta(description="Null until it is sequenced.")]
    entry: Object


def entry_form(located: LocatedEntry) -> EntryForm:
    """Return an entry with its id and its index."""
    return EntryForm(located.leaf.hex(), located.index, Raw(located.data))


class RecordedForm(EntryForm, frozen=True):
    """An entry that was just recorded, and whether it is signed and witnesses have seen it."""

    run: RunId
    witnessed: bool
    signed: Annotated[bool, Meta(description="False if the next write has to sign it.")] = True


def recorded_form(located: LocatedEntry, publication: Publication | None) -> RecordedForm:
    """Return an entry that was just recorded, in its form."""
    leaf, data = located.leaf.hex(), Raw(located.data)
    witnessed = publication is not None and publication.witnessed
    signed = publication is not None
    return RecordedForm(
        id=leaf,
        index=located.index,
        entry=data,
        run=located.entry.run,
        witnessed=witnessed,
        signed=signed,
    )


class QuarantinedForm(Struct, frozen=True):
    """A row that no writer of the log wrote, and where it was found."""

    run: str
    strand: str
    n: int
    at: Annotated[int, Meta(description="When it was set aside, microseconds since 1970.")]
    data: Annotated[str, Meta(description="Its bytes, in hexadecimal.")]


class QuarantineForm(Struct, frozen=True):
    """Rows that were set aside, and whether this call discarded them."""

    rows: tuple[QuarantinedForm, ...]
    discarded: bool


def quarantine_form(rows: Iterable[QuarantinedRow], *, discarded: bool) -> QuarantineForm:
    """Return the rows that were set aside, in their form."""
    return QuarantineForm(
        tuple(QuarantinedForm(*r.row.position, r.at, r.row.data.hex()) for r in rows), discarded
    )


class EntriesForm(Struct, frozen=True):
    """Entries of the log, in its order."""

    entries: tuple[EntryForm, ...]


def entries_form(entries: Iterable[LocatedEntry]) -> EntriesForm:
    """Return entries, in their form."""
    return EntriesForm(tuple(entry_form(located) for located in entries))


class CauseForm(Struct, frozen=True):
    """An entry that led to another one."""

    depth: Annotated[
        int, Meta(description="The number of causes in between; 0 is the requested entry.")
    ]
    id: EntryId
    index: Annotated[Index | None, Meta(description="Null until it is sequenced.")]
    entry: Object
    judge: Annotated[
        str, Meta(description="What the judge wrote, for a verdict or a check; else empty.")
    ]


class WhyForm(Struct, frozen=True):
    """An entry, its causes, and theirs."""

    causes: tuple[CauseForm, ...]


def why_form(
    chain: Iterable[tuple[int, LocatedEntry]], explain: Callable[[LocatedEntry], str]
) -> WhyForm:
    """Return what led to an entry, in its form; `explain` gives the words of its judge."""
    return WhyForm(
        tuple(
            CauseForm(
                depth=depth,
                id=cause.leaf.hex(),
                index=cause.index,
                entry=Raw(cause.data),
                judge=explain(cause),
            )
            for depth, cause in chain
        )
    )


class ProofForm(Struct, frozen=True):
    """The proof of an entry, which can be checked offline."""

    id: EntryId
    index: Index
    proof: Annotated[
        str,
        Meta(description="A C2SP tlog-proof: the inclusion proof, and the checkpoint it leads to."),
    ]


def proof_form(located: LocatedEntry, proven: TlogProof) -> ProofForm:
    """Return the proof of an entry, in its form."""
    return ProofForm(located.leaf.hex(), proven.index, proven.encode().decode())


class DirectoryForm(Struct, frozen=True):
    """Consecutive entries of the directory of runs, with their proof."""

    first: Annotated[Index, Meta(description="The position of the first entry in the directory.")]
    entries: Annotated[
        tuple[str, ...],
        Meta(description="The entries as they were hashed; each names the one before it."),
    ]
    proof: Annotated[str, Meta(description="A C2SP tlog-proof of the last of these entries.")]


def directory_form(proven: RunListProof) -> DirectoryForm:
    """Return some entries of the directory, in their form."""
    entries = tuple(data.decode() for data in proven.entries)
    return DirectoryForm(proven.first, entries, proven.proof.decode())


class CheckpointForm(Struct, frozen=True):
    """The newest checkpoint of the log."""

    origin: Annotated[str, Meta(description="The name of the log.")]
    size: int
    root: str
    witnessed: Annotated[bool, Meta(description="Whether enough witnesses have cosigned it.")]
    note: Annotated[str, Meta(description="The signed note, with the cosignatures that it has.")]


def checkpoint_form(signed: Checkpoint, note: bytes, *, witnessed: bool) -> CheckpointForm:
    """Return a checkpoint and the note that it comes in."""
    root, text = signed.root.hex(), note.decode()
    return fill(CheckpointForm, signed, root=root, witnessed=witnessed, note=text)


class RejectedRunForm(Struct, frozen=True):
    """A run that was not archived, and why."""

    run: str
    why: str


class ArchiveForm(Struct, frozen=True):
    """What `forum ledger archive` did."""

    archived: tuple[str, ...]
    needed: Annotated[
        tuple[str, ...], Meta(description="Runs that were kept because open runs need them.")
    ]
    rejected: tuple[RejectedRunForm, ...]


def archive_form(result: ArchiveResult) -> ArchiveForm:
    """Return what was archived as its JSON form."""
    return fill(ArchiveForm, result)


class SummaryForm(Struct, frozen=True):
    """What the ledger holds, counted."""

    origin: str
    size: int
    root: str
    waiting: Annotated[int, Meta(description="Entries that have no index yet.")]
    runs: int
    kinds: Annotated[dict[str, int], Meta(description="How many entries there are of each kind.")]
    run: Annotated[
        str | None, Meta(description="The run that was counted, with those within it; null: all.")
    ]
    signed: Annotated[int, Meta(description="The size of the newest checkpoint.")]
    verified: Annotated[
        int, Meta(description="The size that this machine last verified; 0 if it never did.")
    ]
    outcomes: Annotated[
        dict[str, int],
        Meta(description="The number of closed runs by their state, as lists show it."),
    ]
    record: RecordForm


def summary_form(log: LogFigures, run: str | None = None) -> SummaryForm:
    """Return what a log holds; with a run, what that run holds."""
    record = log.record
    return fill(
        SummaryForm,
        log,
        runs=record.runs,
        kinds=record.kinds,
        run=run,
        outcomes=record.outcomes,
        record=record_form(record),
    )


def describe_request(facts: ControlRequestFacts) -> str:
    """Return the command that does what a request asks for, without its reason."""
    match facts.act:
        case ControlAct.PLACE:
            return " ".join(["hold place", facts.hold, *(f"--run {run}" for run in facts.runs)])
        case ControlAct.RELEASE:
            return f"hold release {facts.hold}"
        case ControlAct.RETENTION:
            period = f"{facts.seconds} s" if facts.seconds else "keep"
            return f"retention set {facts.subject} {period}"
        case _:
            assert_never(facts.act)
