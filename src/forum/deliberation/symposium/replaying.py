"""Whether a session is what it was: its transcript read again, or all of it carried out again.

A transcript can always be read again, and then has the digest that it had.  A session can be
carried out again only where ten things are held that its course depends on.  The first that
cannot be held is named, and nothing is carried out: a replay that holds less than it says would
find a match, or a difference, that means nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import zip_longest

import msgspec
import rfc8785
from msgspec.structs import replace

from forum.deliberation.steps import Session
from forum.deliberation.symposium.artifact import record_of, resolved
from forum.deliberation.symposium.calls import FakeScript
from forum.deliberation.symposium.faults import Fault
from forum.deliberation.symposium.forms import Artifact, BranchTurn, Message
from forum.deliberation.symposium.ijson import read_json, transcript_digest
from forum.deliberation.symposium.kinds import Pin
from forum.deliberation.symposium.laws import check_artifact
from forum.deliberation.symposium.protocol import config_of, symposium
from forum.deliberation.symposium.reading import read_artifact, read_message
from forum.deliberation.symposium.rehearsal import Rehearsal, perform
from forum.deliberation.symposium.transcript import canonical, members
from forum.work import Agent, Policy, Scripted, Symposium

RECORDED = "recorded"
"""How the time is held: every message has the time that it had."""


class Replayed(msgspec.Struct, frozen=True):
    """What came of a replay."""

    messages: int
    stored: str
    """The digest that the artifact says it has."""
    digest: str
    """The one that it came to now."""
    parted: str = ""
    """The first message that is not what it was."""
    faults: tuple[Fault, ...] = ()
    """What else speaks against the artifact."""

    @property
    def holds(self) -> bool:
        """Whether all is as it was."""
        return self.stored == self.digest and not self.parted and not self.faults


def replay_transcript(data: bytes, recorded: Sequence[bytes] | None = None) -> Replayed:
    """Read a transcript again, and compare it with what was recorded, where that is at hand."""
    artifact, stored = _artifact_of(data)
    parted = _parting(stored, recorded) if recorded is not None else ""
    return Replayed(
        len(stored),
        artifact.transcript_digest,
        transcript_digest(stored),
        parted,
        check_artifact(data),
    )


def _artifact_of(data: bytes) -> tuple[Artifact, list[dict[str, object]]]:
    value = read_json(data, "artifact")
    artifact = read_artifact(value)
    assert isinstance(value, dict)  # noqa: S101  it has the form of an artifact
    return artifact, value["canonical_transcript"]


def _parting(stored: Sequence[dict[str, object]], recorded: Sequence[bytes]) -> str:
    """Return the id of the first message that is not the recorded one."""
    for index in range(max(len(stored), len(recorded))):
        was = recorded[index] if index < len(recorded) else b""
        now = rfc8785.dumps(stored[index]) if index < len(stored) else b""  # type: ignore[arg-type]
        if was != now:
            return str(stored[index]["id"]) if now else read_message(was).id
    return ""


# Carrying it out again


def pins_of(session: Session, runtime: str) -> Mapping[Pin, str]:
    """Return what the course of a session depends on; nothing for what cannot be held."""
    config, agents = resolved(config_of(session)), _agents_of(session.policy)
    scripted = all(isinstance(agent, Scripted) for agent in agents.values())
    speakers = (*config.agents, config.coordinator)
    return {
        Pin.RUNTIME: runtime,
        Pin.ADAPTER: _digest([type(agent).__name__ for agent in agents.values()]),
        Pin.PROVIDER: _digest([[one.id, one.provider] for one in speakers]),
        # Nobody but a script says tomorrow what it says today.
        Pin.MODEL: _digest([[one.id, one.model] for one in speakers]) if scripted else "",
        Pin.SAMPLING: _digest(agents),
        Pin.CACHE: "none" if scripted else "",
        Pin.TOOL_ENV: _digest([one.tools for one in speakers]),
        Pin.WALLCLOCK: RECORDED,
        Pin.PERSONA: _digest([one.persona_ref for one in speakers]),
        Pin.TRANSCRIPT_PREFIX: _digest([config.originator, config.problem_statement]),
    }


def unheld_pin(was: Mapping[Pin, str], now: Mapping[Pin, str]) -> Pin | None:
    """Return the first of the pins that cannot be held, or is not the same any more."""
    for pin in Pin:
        if not was.get(pin) or was.get(pin) != now.get(pin):
            return pin
    return None


def replay_execution(
    session: Session, data: bytes, script: FakeScript, selector: FakeScript | None = None
) -> Replayed:
    """Carry a session out again by its script, and compare each message with the one it was.

    Ids and times are those of the artifact: they are held, not compared.
    """
    artifact, stored = _artifact_of(data)
    rehearsal = Rehearsal(session, script, selector)
    played = perform(symposium(session), rehearsal.answer)
    was = artifact.canonical_transcript
    messages = [read_message(data) for data in record_of(session, played.notes).messages]
    again = [canonical(message) for message in _held(messages, was)]
    # In one form: others may write what we leave out, such as members that are null.
    parted = _parting([members(message) for message in was], again)
    digest = transcript_digest(stored if not parted else [_json(one) for one in again])
    return Replayed(len(again), artifact.transcript_digest, digest, parted, check_artifact(data))


def _held(messages: Sequence[Message], was: Sequence[Message]) -> Iterator[Message]:
    """Yield messages with the ids and the times of those that they should be."""
    ids: dict[str, str] = {}
    for message, old in zip_longest(messages, was[: len(messages)]):
        ids[message.id] = old.id if old else message.id
        held = replace(
            message,
            id=ids[message.id],
            timestamp=old.timestamp if old else message.timestamp,
        )
        if isinstance(held, BranchTurn):
            held = replace(held, parent_id=ids[held.parent_id])
        yield held


def _agents_of(policy: Policy) -> dict[str, Agent]:
    assert isinstance(policy.panel, Symposium)  # noqa: S101  config_of has seen to that
    return {name: policy.agents[name] for name in sorted(set(policy.panel.agents.values()))}


def _digest(value: object) -> str:
    return sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def _json(data: bytes) -> object:
    return msgspec.json.decode(data)
