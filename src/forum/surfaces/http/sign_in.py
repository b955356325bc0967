"""Sign-in of the browser of the person who started `forum up`.

The browser gets a code in the fragment of an address, which is sent to no server, and exchanges it
once for the operator's token.  The token itself is in no argument, address, file or log.

With the token come the public keys of the log, which the browser pins unless it has others.  From
then on it notices when the log is rewritten, shortened or signed by another key.  It trusts this
machine for the keys themselves: that they are the right ones, only a person can say who got them
another way.
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
from forum.tlog import WitnessPolicy

PATH = "/ui/sign-in"
CODE_TTL_S = 300.0
"""How long a code can be exchanged: a browser may have to be started first."""
_CODE_BYTES = 32


class SignInAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """The code of a browser that this server's operator has started."""

    code: Annotated[str, Meta(max_length=128)]


class SignInReply(Struct, frozen=True):
    """The credential for the API, and the keys of the log."""

    key: str
    origin: str
    policy: Annotated[str, Meta(description="The trust file of the log, as text.")]


class OneTimeSignIn:
    """Exchanges codes for the operator's token, each once and for a short time."""

    def __init__(
        self, operator_token: Callable[[], str], origin: str, policy: Callable[[], WitnessPolicy]
    ) -> None:
        self._operator_token, self._origin, self._policy = operator_token, origin, policy
        self._expiry_by_code: dict[bytes, float] = {}

    def issue_code(self) -> str:
        """Return a new code."""
        code = token_urlsafe(_CODE_BYTES)
        self._expiry_by_code[code.encode()] = monotonic() + CODE_TTL_S
        return code

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
        # All codes are compared, each in constant time: the time tells nothing about any of them.
        given = ask.code.encode()
        found = [code for code in self._expiry_by_code if compare_digest(code, given)]
        # Removed before the reply: a reply that is lost must not be repeatable.
        expiries = [self._expiry_by_code.pop(code, 0.0) for code in found]
        if not any(monotonic() <= expiry for expiry in expiries):
            why = "this code was used or has expired; paste a key, or the output of `forum token`"
            raise ProblemError(ProblemType.FORBIDDEN, why)
        trust_file = self._policy().text_for_others()
        return SignInReply(self._operator_token(), self._origin, trust_file)
