"""Sign-in of the browser that `forum up --open` starts.

The browser gets a code in the fragment of an address, which is sent to no server, and exchanges it
once for the operator's token.  The token itself is in no argument, address, file or log.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from hmac import compare_digest
from secrets import token_urlsafe
from time import monotonic
from typing import Annotated

from msgspec import Meta, Struct

from forum.surfaces.http.auth import Authenticator
from forum.surfaces.http.endpoints import NO_SCOPES, Endpoint, RequestContext
from forum.surfaces.http.problems import ProblemError, ProblemType

PATH = "/ui/sign-in"
CODE_TTL_S = 300.0
"""How long a code can be exchanged: a browser may have to be started first."""
_CODE_BYTES = 32


class SignInAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """The code of a browser that this server's operator has started."""

    code: Annotated[str, Meta(max_length=128)]


class SignInReply(Struct, frozen=True):
    """The credential for the API."""

    key: str


class OneTimeSignIn:
    """Exchanges one code for the operator's token, once and for a short time."""

    def __init__(self, operator_token: Callable[[], str]) -> None:
        self._operator_token = operator_token
        self._code: str | None = None
        self._expires = 0.0

    def issue_code(self) -> str:
        """Return a new code; the one before is no longer valid."""
        self._code, self._expires = token_urlsafe(_CODE_BYTES), monotonic() + CODE_TTL_S
        return self._code

    def endpoints(self, door: Authenticator) -> Sequence[Endpoint]:  # noqa: ARG002  the code is the credential
        """Return the exchange.  The dashboard alone uses it, so it is no operation of the API."""
        return (
            Endpoint(
                "POST", PATH, "sign_in", NO_SCOPES, "Exchange a code for a key",
                self.exchange, reply=SignInReply, body=SignInAsk,
            ),
        )  # fmt: skip

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Do nothing: a code needs no background task."""
        yield

    async def exchange(self, context: RequestContext) -> SignInReply:
        """Return the token for the code.  Raises `ProblemError` for another, used or old one."""
        ask: SignInAsk = context.body
        code = self._code
        is_valid = code is not None and compare_digest(code.encode(), ask.code.encode())
        if not is_valid or monotonic() > self._expires:
            why = "this code was used or has expired; paste a key, or the output of `forum token`"
            raise ProblemError(ProblemType.FORBIDDEN, why)
        self._code = None  # before the reply: a reply that is lost must not be repeatable
        return SignInReply(self._operator_token())
