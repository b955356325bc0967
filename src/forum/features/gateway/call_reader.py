"""Read the body of a call in the form of its API: what it is sent as, and what bounds its price."""

from dataclasses import replace
from typing import Final

import msgspec

from forum.errors import BodyTooExpensive
from forum.features.gateway.composed_body import ComposedBody, compose_body, refuse_body
from forum.features.gateway.gemini_request import bound_gemini_request, spell_members
from forum.features.gateway.refusals import CallRefused, RefusalReason
from forum.features.gateway.request_reader import (
    ReadRequest,
    bound_request,
    read_composed,
    read_loosely,
)
from forum.features.gateway.routes import ApiProvider, ApiRoute
from forum.limits.json_values import has_more_values
from forum.limits.off_loop import MAX_THREAD_BYTES, read_by_size

MAX_CALL_VALUES: Final = 500_000
"""Values in a large call: 300,000 tokens of an embedding are as many."""


class CallReading(msgspec.Struct, frozen=True):
    """What a body says, or why it is refused; it may pass between processes."""

    request: ReadRequest | None = None
    refused_for: RefusalReason = RefusalReason.MALFORMED
    why: str = ""


async def read_call_by_size(route: ApiRoute, body: bytes) -> ReadRequest:
    """Do the same as `read_call`, for a large body in another process.  Raises `WorkerLost` too."""
    try:
        reading = await read_by_size(read_apart, body, route)
    except BodyTooExpensive as error:
        raise refuse_body(str(error)) from None
    if reading.request is None:
        raise CallRefused(reading.refused_for, reading.why)
    return reading.request


def read_apart(body: bytes, route: ApiRoute) -> CallReading:
    """Return what `read_call` returns, or its refusal, as a value."""
    if len(body) > MAX_THREAD_BYTES and has_more_values(body, MAX_CALL_VALUES):
        return CallReading(why=f"the body has more than {MAX_CALL_VALUES} values.")
    try:
        return CallReading(read_call(route, body))
    except CallRefused as refusal:
        return CallReading(refused_for=refusal.reason, why=refusal.message)


def read_model(body: bytes, _: None) -> str:
    """Return the model of any request, for the record; never fails."""
    return read_loosely(body).model


def read_call(route: ApiRoute, body: bytes) -> ReadRequest:
    """Read the JSON of a request, as it is sent, and what bounds its price.

    Raises `CallRefused` for JSON that two programs could read in two ways.  A request whose price
    cannot be bounded says why in `doubt`.
    """
    composed = compose_body(body)
    if route.provider is ApiProvider.GEMINI and route.is_priced:
        composed = spell_members(composed)
    if route.provider is ApiProvider.AZURE and route.model:
        composed = _name_deployment(route.model, composed)
    loose = read_composed(composed)
    if not route.is_priced:
        return loose
    try:
        if route.provider is ApiProvider.GEMINI:
            return bound_gemini_request(route, composed)
        return bound_request(route.operation, composed)
    except CallRefused as refusal:
        return replace(loose, model=route.model or loose.model, doubt=refusal.message)


def _name_deployment(model: str, composed: ComposedBody) -> ComposedBody:
    """Return a body that is read as one for the deployment in the path; it is sent unchanged.

    Raises `CallRefused` if it names another one.
    """
    value = composed.value
    if not isinstance(value, dict):
        return composed
    if value.get("model") not in (None, model):
        raise refuse_body("its body names another model than its path")
    return ComposedBody(composed.data, {**value, "model": model})
