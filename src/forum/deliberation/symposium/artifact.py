"""What a session is for other programs: its artifact, its manifest, the files of its directory.

All of it follows from what was recorded; nothing else is kept anywhere.
"""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from forum.deliberation.comparing import MARK
from forum.deliberation.steps import Note, Session
from forum.deliberation.symposium.forms import (
    VERSION,
    AgentConfig,
    Artifact,
    Config,
    Form,
    Producer,
    RunManifest,
    Synthesis,
    SynthesisOutcome,
    TerminationOutcome,
)
from forum.deliberation.symposium.kinds import (
    OutcomeKind,
    Selected,
    SessionClosed,
    Spoken,
    Status,
)
from forum.deliberation.symposium.personas import persona_of
from forum.deliberation.symposium.protocol import config_of
from forum.deliberation.symposium.reading import read_message, read_termination
from forum.deliberation.symposium.transcript import (
    canonical,
    digest_of,
    stamp,
    total_usage,
)
from forum.errors import Malformed

ARTIFACT, CONFIG, MANIFEST, JOURNAL = (
    "artifact.json",
    "config.json",
    "manifest.json",
    "transcript.jsonl",
)
PANEL, TERMINATION = "selector_output.json", "termination.json"
PRODUCER = "forum"


class Kept(msgspec.Struct, frozen=True):
    """A session as it was recorded."""

    config: Config
    begun: int
    messages: tuple[bytes, ...] = ()
    panel: bytes = b""
    closed: SessionClosed | None = None
    """Nothing as long as it lasts."""
    termination: bytes = b""


def record_of(session: Session, notes: Iterable[Note]) -> Kept:
    """Return a session as its notes record it."""
    record = Kept(resolved(config_of(session)), session.begun)
    for note in notes:
        bodies = {body.name: body.data for body in note.bodies}
        match note.facts:
            case Spoken():
                messages = (*record.messages, bodies["message"])
                record = replace(record, messages=messages)
            case Selected():
                record = replace(record, panel=bodies["panel"])
            case SessionClosed() as closed:
                ended = bodies.get("termination", b"")
                record = replace(record, closed=closed, termination=ended)
            case _:
                pass
    return _as_masked(record)


def _as_masked(record: Kept) -> Kept:
    """Return a record with the digest of what is left of it, where secrets were masked."""
    if record.closed is None or not any(map(MARK.search, record.messages)):
        return record
    digest = digest_of(read_message(data) for data in record.messages)
    closed = replace(record.closed, digest=digest)
    ending = record.termination
    if ending:
        noted = read_termination(ending)
        ending = canonical(replace(noted, transcript_digest=digest))
    return replace(record, closed=closed, termination=ending)


def resolved(config: Config) -> Config:
    """Return a config with its personas in it: their names mean others to other programs."""
    return replace(
        config,
        agents=tuple(_resolved(agent) for agent in config.agents),
        coordinator=_resolved(config.coordinator),
    )


def _resolved(agent: AgentConfig) -> AgentConfig:
    return replace(agent, persona_ref=persona_of(agent.persona_ref))


def artifact_of(record: Kept) -> Artifact:
    """Return what is kept of a session that has ended."""
    if record.closed is None:
        raise Malformed("session", "it has not ended, and has no artifact")
    transcript = tuple(read_message(data) for data in record.messages)
    last = transcript[-1]
    if isinstance(last, Synthesis):
        outcome: SynthesisOutcome | TerminationOutcome = SynthesisOutcome(last.id)
        unresolved = last.content.unresolved_disagreements
    else:
        ending = read_termination(record.termination)
        outcome, unresolved = TerminationOutcome(ending), ending.unresolved_disagreements
    return Artifact(
        schema_version=VERSION,
        session_id=record.config.session_id,
        config=record.config,
        canonical_transcript=transcript,
        outcome=outcome,
        cumulative_usage=total_usage(transcript),
        cumulative_unresolved=unresolved,
        transcript_digest=record.closed.digest,
        started_at=stamp(record.begun),
        ended_at=stamp(record.closed.ended),
    )


def manifest_of(record: Kept, version: str) -> RunManifest:
    """Return what a reader of the directory looks at first."""
    manifest = RunManifest(
        schema_version=VERSION,
        manifest_version=VERSION,
        session_id=record.config.session_id,
        status=Status.IN_PROGRESS,
        producer=Producer(PRODUCER, version),
        created_at=stamp(record.begun),
        artifact_path=ARTIFACT,
        config_path=CONFIG,
        updated_at=_last_heard(record),
        journal_path=JOURNAL,
    )
    if record.closed is None:
        return manifest
    answered = record.closed.outcome is OutcomeKind.SYNTHESIS
    return replace(
        manifest,
        status=Status.COMPLETE if answered else Status.TERMINATED,
        transcript_digest=record.closed.digest,
        outcome_kind=record.closed.outcome,
    )


def _last_heard(record: Kept) -> str:
    if record.closed is not None:
        return stamp(record.closed.ended)
    return read_message(record.messages[-1]).timestamp if record.messages else stamp(record.begun)


def files_of(record: Kept, version: str) -> Mapping[str, bytes]:
    """Return the files of a session's directory, by name."""
    files = {
        MANIFEST: written(manifest_of(record, version)),
        CONFIG: written(record.config),
        JOURNAL: b"".join(message + b"\n" for message in record.messages),
    }
    if record.panel:
        files[PANEL] = _laid_out(record.panel)
    if record.termination:
        files[TERMINATION] = _laid_out(record.termination)
    if record.closed is not None:
        files[ARTIFACT] = written(artifact_of(record))
    return files


def written(form: Form) -> bytes:
    """Return a form as a file that people can read too."""
    return _laid_out(canonical(form))


def _laid_out(data: bytes) -> bytes:
    return msgspec.json.format(data, indent=2) + b"\n"
