"""A session in the form for other programs: its artifact, its manifest and its directory.

All of it is derived from the record; nothing else is stored.
"""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from forum.errors import Malformed
from forum.features.symposium import kinds, schemas
from forum.features.symposium.decoders import read_message, read_termination
from forum.features.symposium.protocol import read_session_config
from forum.features.symposium.transcript import (
    canonical_bytes,
    digest_messages,
    format_time,
    total_usage,
)
from forum.runs.personas import resolve_persona_ref
from forum.runs.record_comparison import SECRET_MARK
from forum.runs.session_steps import Session, SessionNote

ARTIFACT, CONFIG = "artifact.json", "config.json"
MANIFEST, JOURNAL = "manifest.json", "transcript.jsonl"
PANEL, TERMINATION = "selector_output.json", "termination.json"
PRODUCER = "forum"
_STATUS_BY_OUTCOME = {
    kinds.OutcomeKind.SYNTHESIS: kinds.RunDirectoryStatus.COMPLETE,
    kinds.OutcomeKind.TERMINATION: kinds.RunDirectoryStatus.TERMINATED,
}


class RecordedSession(msgspec.Struct, frozen=True):
    """A session as recorded."""

    config: schemas.SymposiumConfig
    begun: int
    messages: tuple[bytes, ...] = ()
    panel: bytes = b""
    closed: kinds.SymposiumClose | None = None
    """None while the session runs."""
    termination: bytes = b""
    digest: str = ""
    """The digest of the transcript; empty while the session runs, or if a message was erased."""


def read_recorded_session(session: Session, notes: Iterable[SessionNote]) -> RecordedSession:
    """Return a session as its notes record it."""
    record = RecordedSession(resolve_personas(read_session_config(session)), session.begun)
    for note in notes:
        bodies = {body.name: body.data for body in note.bodies}
        match note.facts:
            case kinds.MessageFacts():
                messages = (*record.messages, bodies["message"])
                record = replace(record, messages=messages)
            case kinds.PanelFacts():
                record = replace(record, panel=bodies["panel"])
            case kinds.SymposiumCloseFacts() | kinds.SymposiumCloseV2Facts() as closed:
                ended = bodies.get("termination", b"")
                record = replace(record, closed=closed, termination=ended)
            case _:
                pass
    return _with_digest(record)


def _with_digest(record: RecordedSession) -> RecordedSession:
    """Return a record with the digest of its transcript.

    Since `symposium.close/2` none is recorded.  An older one may cover the unmasked messages, which
    no reader can reproduce.
    """
    if record.closed is None or not all(record.messages):
        return record
    closed, is_masked = record.closed, any(map(SECRET_MARK.search, record.messages))
    if isinstance(closed, kinds.SymposiumCloseFacts) and not is_masked:
        return replace(record, digest=closed.digest)
    digest = digest_messages(read_message(data) for data in record.messages)
    ending = record.termination
    if ending:
        noted = read_termination(ending)
        ending = canonical_bytes(replace(noted, transcript_digest=digest))
    return replace(record, digest=digest, termination=ending)


def resolve_personas(config: schemas.SymposiumConfig) -> schemas.SymposiumConfig:
    """Return a config with its personas inlined: to other programs a name may mean another one."""
    return replace(
        config,
        agents=tuple(_resolve_persona(agent) for agent in config.agents),
        coordinator=_resolve_persona(config.coordinator),
    )


def _resolve_persona(agent: schemas.AgentConfig) -> schemas.AgentConfig:
    return replace(agent, persona_ref=resolve_persona_ref(agent.persona_ref))


def build_artifact(record: RecordedSession) -> schemas.Artifact:
    """Return the artifact of a session. Raises `Malformed` if the session has not ended."""
    if record.closed is None:
        raise Malformed("session", "it has not ended, and has no artifact")
    transcript = tuple(read_message(data) for data in record.messages)
    last = transcript[-1]
    if isinstance(last, schemas.Synthesis):
        outcome: schemas.SynthesisOutcome | schemas.TerminationOutcome = schemas.SynthesisOutcome(
            last.id
        )
        unresolved = last.content.unresolved_disagreements
    else:
        ending = read_termination(record.termination)
        outcome, unresolved = schemas.TerminationOutcome(ending), ending.unresolved_disagreements
    return schemas.Artifact(
        schema_version=schemas.VERSION,
        session_id=record.config.session_id,
        config=record.config,
        canonical_transcript=transcript,
        outcome=outcome,
        cumulative_usage=total_usage(transcript),
        cumulative_unresolved=unresolved,
        transcript_digest=record.digest,
        started_at=format_time(record.begun),
        ended_at=format_time(record.closed.ended),
    )


def build_manifest(record: RecordedSession, version: str) -> schemas.RunManifest:
    """Return the manifest of a session's directory."""
    closed = record.closed
    in_progress = kinds.RunDirectoryStatus.IN_PROGRESS
    return schemas.RunManifest(
        schema_version=schemas.VERSION,
        manifest_version=schemas.VERSION,
        session_id=record.config.session_id,
        status=_STATUS_BY_OUTCOME[closed.outcome] if closed else in_progress,
        producer=schemas.Producer(PRODUCER, version),
        created_at=format_time(record.begun),
        artifact_path=ARTIFACT,
        config_path=CONFIG,
        updated_at=_updated_at(record),
        journal_path=JOURNAL,
        transcript_digest=record.digest if closed else UNSET,
        outcome_kind=closed.outcome if closed else UNSET,
    )


def _updated_at(record: RecordedSession) -> str:
    if record.closed is not None:
        return format_time(record.closed.ended)
    return (
        read_message(record.messages[-1]).timestamp
        if record.messages
        else format_time(record.begun)
    )


def build_session_files(record: RecordedSession, version: str) -> Mapping[str, bytes]:
    """Return the files of a session's directory, by name."""
    files = {
        MANIFEST: format_file(build_manifest(record, version)),
        CONFIG: format_file(record.config),
        JOURNAL: b"".join(message + b"\n" for message in record.messages),
    }
    if record.panel:
        files[PANEL] = _indent_json(record.panel)
    if record.termination:
        files[TERMINATION] = _indent_json(record.termination)
    if record.closed is not None:
        files[ARTIFACT] = format_file(build_artifact(record))
    return files


def format_file(form: schemas.ProtocolStruct) -> bytes:
    """Return a protocol object as an indented file."""
    return _indent_json(canonical_bytes(form))


def _indent_json(data: bytes) -> bytes:
    return msgspec.json.format(data, indent=2) + b"\n"
