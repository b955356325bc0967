"""What the client sends, and when it sends it again.  No I/O.

A request is sent again only where that cannot do anything twice: a GET, or a POST with an
idempotency key, under which the server carries out one request only.  Everything else fails with
the first error, since nobody knows whether a lost request was carried out.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

from .errors import ForumError, Malformed
from .problems import (
    NotSignedProblem,
    RateLimitProblem,
    ServerUnreachable,
    ShareInUseProblem,
    UnavailableProblem,
)

RETRY_DELAYS_S = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Delays between attempts: together longer than a server takes to restart."""
MAX_RETRY_AFTER_S = 30.0
"""The longest delay of a Retry-After header for which the client waits itself."""
REPLY_SLACK_S = 5.0
"""Time for the network, in addition to the time limit of the server."""
_PARAMETER = re.compile(r"{(\w+)(:path)?}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """One operation with its arguments."""

    method: str
    path: str
    query: Mapping[str, object] | None = None
    body: Mapping[str, object] | None = None
    """The members of the JSON body; None if the operation has no body."""
    idempotency_key: str | None = None
    accept: str = "*/*"
    seconds: float = 30.0
    """Time limit of the server until the reply begins."""

    @property
    def is_repeatable(self) -> bool:
        """Whether sending it twice has the effect of sending it once."""
        return self.method == "GET" or self.idempotency_key is not None

    @property
    def headers(self) -> dict[str, str]:
        """The headers, without the key."""
        headers = {"Accept": self.accept}
        if self.body is not None:
            headers["Content-Type"] = "application/json"
        if self.idempotency_key is not None:
            headers["Idempotency-Key"] = self.idempotency_key
        return headers

    @property
    def content(self) -> bytes | None:
        """The encoded body; members that were not given are left out."""
        return None if self.body is None else msgspec.json.encode(_drop_none(self.body))

    @property
    def parameters(self) -> dict[str, Any]:
        """The query parameters that were given."""
        return _drop_none(self.query or {})


def _drop_none(values: Mapping[str, object]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def fill_path(template: str, **values: object) -> str:
    """Return a path with its parameters; `{name:path}` may have several segments.

    Raises `Malformed`.
    """

    def insert(found: re.Match[str]) -> str:
        name, is_path = found[1], found[2] is not None
        value = str(values[name])
        segments = value.split("/") if is_path else [value]
        # Nothing is safe: a run named `a/b` is one segment, and `?` begins no query.
        return "/".join(quote(_checked(name, segment), safe="") for segment in segments)

    return _PARAMETER.sub(insert, template)


def _checked(name: str, segment: str) -> str:
    # A proxy removes such segments, and would send the request to another operation: with
    # `keys/..`, a revocation would go to the parent.
    if segment in ("", ".", ".."):
        raise Malformed(name, f"{segment!r} is no name")
    return segment


def retry_delay(request: ApiRequest, failure: ForumError, attempt: int) -> float | None:
    """Return the seconds to wait before the next attempt; None if there is to be none.

    Attempts are counted from 0.
    """
    # Also where the connection was refused: a proxy may refuse after it has passed a request on.
    if not request.is_repeatable or attempt >= len(RETRY_DELAYS_S):
        return None
    delay = RETRY_DELAYS_S[attempt]
    # What is not signed yet will be in a second: only readers are told so.
    if isinstance(failure, ServerUnreachable | NotSignedProblem):
        return delay
    # A cap of the operator (429 as well) is not among these: it holds for hours.
    if isinstance(failure, UnavailableProblem | RateLimitProblem | ShareInUseProblem):
        # A server that is overloaded says when to come again: earlier attempts would add load.
        wanted = failure.retry_after or 0.0
        return max(delay, wanted) if wanted <= MAX_RETRY_AFTER_S else None
    return None
