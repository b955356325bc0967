"""Rules of retention and holds."""

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from forum.features.retention.service import ControlRequest, HoldRecord
from forum.ledger.retention_holds import RetentionState
from forum.surfaces.schemas import fields
from forum.surfaces.schemas.ledger import describe_request
from forum.units import format_rfc3339


class RetentionRuleForm(Struct, frozen=True):
    """How long bodies are kept."""

    subject: Annotated[
        str,
        Meta(
            description="All bodies of runs, those of a kind, or one body of a kind.",
            examples=["*", "call", "call/prompt"],
        ),
    ]
    seconds: Annotated[int | None, Meta(description="Null if they are kept for ever.")]


class HoldForm(Struct, frozen=True):
    """A hold in force."""

    name: str
    runs: Annotated[tuple[fields.RunId, ...], Meta(description="Empty: all runs.")]
    since: fields.Moment
    actor: str
    reason: Annotated[str | None, Meta(description="Null if there is none, or it was erased.")]


class RetentionForm(Struct, frozen=True):
    """The rules of retention and the holds in force."""

    rules: tuple[RetentionRuleForm, ...]
    holds: tuple[HoldForm, ...]


class HoldsForm(Struct, frozen=True):
    """The holds in force, the oldest first."""

    holds: tuple[HoldForm, ...]


class RequestForm(Struct, frozen=True):
    """An open request of a process that does not sign the log."""

    id: str
    at: fields.Moment
    actor: Annotated[str, Meta(description="Who asks, as the process says that asks.")]
    asks: str
    reason: Annotated[str | None, Meta(description="Null if there is none, or it was erased.")]
    signed: Annotated[bool, Meta(description="Whether a signed tree has it: only then to decide.")]


class RequestsForm(Struct, frozen=True):
    """The open requests to the machine that signs, the oldest first."""

    requests: tuple[RequestForm, ...]


def requests_form(requests: Iterable[ControlRequest]) -> RequestsForm:
    """Return open requests in their form."""
    return RequestsForm(
        tuple(
            RequestForm(
                id=asked.id,
                at=format_rfc3339(asked.ts),
                actor=asked.actor,
                asks=describe_request(asked.facts),
                reason=asked.reason,
                signed=asked.is_signed,
            )
            for asked in requests
        )
    )


def retention_form(state: RetentionState, holds: Iterable[HoldRecord]) -> RetentionForm:
    """Return the rules and holds in force, in their form."""
    rules = (RetentionRuleForm(what, state.periods[what] or None) for what in sorted(state.periods))
    return RetentionForm(tuple(rules), tuple(map(hold_form, holds)))


def hold_form(record: HoldRecord) -> HoldForm:
    """Return a hold in its form."""
    hold = record.hold
    return HoldForm(
        name=hold.name,
        runs=tuple(sorted(hold.runs)),
        since=format_rfc3339(hold.since),
        actor=hold.actor,
        reason=record.reason,
    )


def holds_form(records: Iterable[HoldRecord]) -> HoldsForm:
    """Return holds in their form."""
    return HoldsForm(tuple(map(hold_form, records)))
