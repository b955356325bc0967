"""Replay of a session: its transcript is hashed again, or the session is executed again.

A transcript can always be hashed again and must have the same digest. A session can be executed
again only if the ten inputs that determine its course (the pins) are fixed. The first pin that is
not is reported, and nothing is executed: a replay with a pin that is not fixed would yield a match,
or a difference, without meaning.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import zip_longest

import msgspec
import rfc8785
from msgspec.structs import replace

from forum.features.symposium.artifact import (
    RecordedSession,
    read_recorded_session,
    resolve_personas,
)
from forum.features.symposium.artifact_rules import check_artifact
from forum.features.symposium.canonical_json import read_json, transcript_digest
from forum.features.symposium.decoders import read_artifact, read_message, read_termination
from forum.features.symposium.kinds import ReplayPin
from forum.features.symposium.protocol import read_session_config, run_symposium
from forum.features.symposium.provider_calls import FakeScript
from forum.features.symposium.schemas import Artifact, BranchTurn, Message
from forum.features.symposium.simulator import ScriptedPanel, run_protocol
from forum.features.symposium.transcript import (
    canonical_bytes,
    parse_time_us,
    to_json_object,
)
from forum.features.symposium.violations import Violation
from forum.runs.panel import Symposium
from forum.runs.policy import Agent, Policy, Scripted
from forum.runs.session_steps import Session

RECORDED = "recorded"
"""Value of the pin for time: every message keeps its recorded time."""


_COMPARED_WITH_RECORD = frozenset(
    {ReplayPin.PROVIDER, ReplayPin.TOOL_ENV, ReplayPin.PERSONA, ReplayPin.TRANSCRIPT_PREFIX}
)
"""Pins that an artifact and the record of its run state independently of each other."""


class ReplayConditions(msgspec.Struct, frozen=True):
    """The conditions of an execution replay: each of the ten pins is in one of the two."""

    checked: tuple[ReplayPin, ...]
    """Stated twice, and the same."""
    assumed: tuple[ReplayPin, ...]
    """Stated once, and taken over: from the record, from the script or from the artifact."""


class SessionReplay(msgspec.Struct, frozen=True):
    """The result of a replay."""

    messages: int
    stored: str
    """The digest that the artifact states."""
    digest: str
    """The digest that the replay computed."""
    parted: str = ""
    """Id of the first message that differs; empty if there is none."""
    faults: tuple[Violation, ...] = ()
    """Violations of the artifact's invariants."""
    executed: RecordedSession | None = None
    """The session as a script has executed it now; None if it was not executed."""

    @property
    def holds(self) -> bool:
        """Whether the replay matches and the artifact has no violations."""
        return self.stored == self.digest and not self.parted and not self.faults


def replay_transcript(data: bytes, recorded: Sequence[bytes] | None = None) -> SessionReplay:
    """Hash a transcript again and compare it with the recorded messages, if they are given."""
    artifact, stored = _decode_artifact(data)
    parted = _first_difference(stored, recorded) if recorded is not None else ""
    return SessionReplay(
        messages=len(stored),
        stored=artifact.transcript_digest,
        digest=transcript_digest(stored),
        parted=parted,
        faults=check_artifact(data),
    )


def _decode_artifact(data: bytes) -> tuple[Artifact, list[dict[str, object]]]:
    value = read_json(data, "artifact")
    artifact = read_artifact(value)
    assert isinstance(value, dict)  # noqa: S101  read_artifact checked the type
    return artifact, value["canonical_transcript"]


def _first_difference(stored: Sequence[dict[str, object]], recorded: Sequence[bytes]) -> str:
    """Return the id of the first message that differs from the recorded one, or ""."""
    for index in range(max(len(stored), len(recorded))):
        was = recorded[index] if index < len(recorded) else b""
        now = rfc8785.dumps(stored[index]) if index < len(stored) else b""  # type: ignore[arg-type]
        if was != now:
            return str(stored[index]["id"]) if now else read_message(was).id
    return ""


def compute_pins(session: Session, runtime: str) -> Mapping[ReplayPin, str]:
    """Return the pin values of a session; a pin that cannot be fixed has an empty value."""
    config, agents = resolve_personas(read_session_config(session)), _panel_agents(session.policy)
    scripted = all(isinstance(agent, Scripted) for agent in agents.values())
    speakers = (*config.agents, config.coordinator)
    return {
        ReplayPin.RUNTIME: runtime,
        ReplayPin.ADAPTER: _digest([type(agent).__name__ for agent in agents.values()]),
        ReplayPin.PROVIDER: _digest([[speaker.id, speaker.provider] for speaker in speakers]),
        # Only a script is certain to give the same reply again.
        ReplayPin.MODEL: _digest([[speaker.id, speaker.model] for speaker in speakers])
        if scripted
        else "",
        ReplayPin.SAMPLING: _digest(agents),
        ReplayPin.CACHE: "none" if scripted else "",
        ReplayPin.TOOL_ENV: _digest([speaker.tools for speaker in speakers]),
        ReplayPin.WALLCLOCK: RECORDED,
        ReplayPin.PERSONA: _digest([speaker.persona_ref for speaker in speakers]),
        ReplayPin.TRANSCRIPT_PREFIX: _digest([config.originator, config.problem_statement]),
    }


def find_unheld_pin(was: Mapping[ReplayPin, str], now: Mapping[ReplayPin, str]) -> ReplayPin | None:
    """Return the first pin that cannot be fixed or has changed, or None."""
    for pin in ReplayPin:
        if not was.get(pin) or was.get(pin) != now.get(pin):
            return pin
    return None


def record_conditions(pins: Mapping[ReplayPin, str], *, has_manifest: bool) -> ReplayConditions:
    """Return the conditions of a replay from the record, for the pins of the artifact.

    The replies, their times and the settings of the agents are those of the record. The runtime is
    compared only if the manifest beside the artifact states it, and the model only if it is a
    script: no name of a model makes sure that it replies the same again.
    """
    checked = set(_COMPARED_WITH_RECORD)
    if has_manifest:
        checked.add(ReplayPin.RUNTIME)
    if pins[ReplayPin.MODEL]:
        checked.add(ReplayPin.MODEL)
    return _split_pins(checked)


def script_conditions() -> ReplayConditions:
    """Return the conditions of a replay by a script: only the runtime is stated elsewhere."""
    return _split_pins({ReplayPin.RUNTIME})


def _split_pins(checked: Collection[ReplayPin]) -> ReplayConditions:
    return ReplayConditions(
        tuple(pin for pin in ReplayPin if pin in checked),
        tuple(pin for pin in ReplayPin if pin not in checked),
    )


def replay_execution(
    session: Session, data: bytes, script: FakeScript, selector: FakeScript | None = None
) -> SessionReplay:
    """Execute a session again with its script and compare each message with the artifact.

    Ids and times are taken from the artifact, so they are not compared.
    """
    artifact, stored = _decode_artifact(data)
    rehearsal = ScriptedPanel(session, script, selector)
    played = run_protocol(run_symposium(session), rehearsal.answer)
    was = artifact.canonical_transcript
    record = read_recorded_session(session, played.notes)
    messages = [read_message(data) for data in record.messages]
    again = [canonical_bytes(message) for message in _with_recorded_ids(messages, was)]
    # Compare in one form: other programs may write members that Forum omits, such as nulls.
    parted = _first_difference([to_json_object(message) for message in was], again)
    own_digest = transcript_digest([msgspec.json.decode(data) for data in again])
    return SessionReplay(
        messages=len(again),
        stored=artifact.transcript_digest,
        digest=own_digest if parted else transcript_digest(stored),
        parted=parted,
        faults=check_artifact(data),
        executed=_with_recorded_times(record, again, own_digest, artifact),
    )


def _with_recorded_times(
    record: RecordedSession, messages: Sequence[bytes], digest: str, artifact: Artifact
) -> RecordedSession:
    """Return an executed session with the ids and times of the recorded one."""
    ending, closed = record.termination, record.closed
    if ending:
        ending = canonical_bytes(replace(read_termination(ending), transcript_digest=digest))
    if closed is not None:
        closed = replace(closed, ended=parse_time_us(artifact.ended_at))
    return replace(
        record,
        begun=parse_time_us(artifact.started_at),
        messages=tuple(messages),
        closed=closed,
        termination=ending,
        digest=digest,
    )


def _with_recorded_ids(messages: Sequence[Message], was: Sequence[Message]) -> Iterator[Message]:
    """Yield messages with the ids and times of the recorded ones."""
    ids: dict[str, str] = {}
    for message, old in zip_longest(messages, was[: len(messages)]):
        ids[message.id] = old.id if old else message.id
        held = replace(
            message, id=ids[message.id], timestamp=old.timestamp if old else message.timestamp
        )
        if isinstance(held, BranchTurn):
            held = replace(held, parent_id=ids[held.parent_id])
        yield held


def _panel_agents(policy: Policy) -> dict[str, Agent]:
    assert isinstance(policy.panel, Symposium)  # noqa: S101  read_session_config checked the type
    return {name: policy.agents[name] for name in sorted(set(policy.panel.agents.values()))}


def _digest(value: object) -> str:
    return sha256(msgspec.json.encode(value, order="sorted")).hexdigest()
