"""Results of requests to models in the protocol, and scripts that replace a model."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from forum.features.symposium import schemas
from forum.features.symposium.kinds import ErrorKind, ExpectedOutput


class ProviderError(schemas.ProtocolStruct, frozen=True):
    """The error of a failed request."""

    kind: ErrorKind
    message: schemas.Text
    retriable: bool
    details: schemas.Opaque | None = None


class ReplyMessage(msgspec.Struct, frozen=True):
    """A message of a model as received; unknown members are ignored."""

    role: schemas.Text
    content: object


class ToolEvent(schemas.ProtocolStruct, frozen=True):
    """A tool call and its result."""

    name: schemas.Text
    arguments: schemas.Opaque
    error: ProviderError | None
    result: str | schemas.Opaque | None = None
    latency_ms: schemas.Count | UnsetType = UNSET


class ProviderResult(schemas.ProtocolStruct, frozen=True):
    """The result of a request."""

    messages: tuple[ReplyMessage, ...]
    tool_events: tuple[ToolEvent, ...]
    usage: schemas.MessageUsage
    finish_reason: Literal["stop", "length", "tool_call", "content_filter", "error"]
    structured_output: schemas.Opaque | None
    raw: schemas.Opaque | None
    error: ProviderError | None


class ScriptMatch(schemas.ProtocolStruct, frozen=True):
    """Conditions that a request must meet for a script entry to apply."""

    agent_id: schemas.Text | UnsetType = UNSET
    expected_output_schema: ExpectedOutput | UnsetType = UNSET
    round: schemas.Count | UnsetType = UNSET
    turn_index: schemas.Count | UnsetType = UNSET


class ScriptEntry(schemas.ProtocolStruct, frozen=True):
    """The result for one request."""

    result: ProviderResult
    match: ScriptMatch = ScriptMatch()
    comment: str = ""


class FakeScript(schemas.ProtocolStruct, frozen=True):
    """Results of a model, in the order of the requests."""

    schema_version: schemas.Version
    entries: Annotated[tuple[ScriptEntry, ...], Meta(min_length=1)]
    description: str = ""
    on_exhaustion: Literal["error", "loop"] = "error"
