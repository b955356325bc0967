"""A run as a transcript: what was said, wanted, done and judged, in the order of the log."""

from typing import Annotated

from msgspec import Meta, Struct

from forum.surfaces.schemas import fields
from forum.surfaces.schemas.reported import ProvenanceWord


class TranscriptStep(Struct, frozen=True):
    """One entry of a run, in words, with its texts."""

    entry: fields.Index | None
    id: fields.EntryId
    at: fields.Moment
    strand: str
    kind: str
    actor: str
    summary: Annotated[str, Meta(description="What it records, in one sentence.")]
    bodies: Annotated[
        dict[str, str | None],
        Meta(description="Prompt, reply, arguments, result and the like; null if erased."),
    ]


class TranscriptForm(Struct, frozen=True):
    """All steps of a run, and why it failed, if it did."""

    run: fields.RunId
    steps: tuple[TranscriptStep, ...]
    why: str | None
    provenance: ProvenanceWord
    coverage: Annotated[
        str, Meta(description="How Forum knows of the run, and what may be missing in it.")
    ]
