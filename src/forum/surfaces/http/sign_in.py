"""Sign-in of browsers: by a one-time code of `forum up`, or by a key that a person has pasted.

Either gives a session of this process (see `browser_sessions`), so that the browser never keeps the
operator's token.  The code is in the fragment of an address, which is sent to no server; it works
once.  The token itself is in no argument, address, file, log or reply.

With the session of a code come the public keys of the log, which the browser pins unless it has
others.  From then on it notices when the log is rewritten, shortened or signed by another key.  It
trusts this machine for the keys themselves: that they are the right ones, only a person can say who
got them another way.

The page asks for the id of the process, without a credential, before it shows its session key: it
stops when another program answers at the address.
"""

from collections.abc import Callable, Sequence
from hmac import compare_digest
from secrets import token_urlsafe
from time import monotonic
from typing import Annotated

from msgspec import Meta, Struct

from forum.ledger.kinds import Scope
from forum.surfaces.http.auth import Authenticator, bearer_token
from forum.surfaces.http.browser_sessions import BrowserSessions, is_session_key
from forum.surfaces.http.endpoints import NO_SCOPES, Endpoint, RequestContext
from forum.surfaces.http.extensions import ServerExtension
from forum.surfaces.http.problems import ProblemError, ProblemType

PATH = "/ui/sign-in"
SESSION_PATH = "/ui/session"
INSTANCE_PATH = "/ui/instance"
CODE_TTL_S = 300.0
"""How long a code can be exchanged: a browser may have to be started first."""
_CODE_BYTES = 32


class InstanceForm(Struct, frozen=True):
    """Which process answers at this address."""

    instance: str


class SessionForm(InstanceForm, frozen=True):
    """A session of a browser with this process."""

    key: Annotated[str, Meta(description="What the page shows to the API.")]


def session_endpoints(authenticator: Authenticator) -> Sequence[Endpoint]:
    """Return what the dashboard alone uses, so that it is no operation of the API."""
    sessions, every = authenticator.sessions, frozenset(Scope)

    async def tell_instance(_: RequestContext) -> InstanceForm:
        return InstanceForm(sessions.instance)

    async def open_session(context: RequestContext) -> SessionForm:
        shown = bearer_token(context.request) or ""
        if is_session_key(shown):  # otherwise it would have no end
            raise ProblemError(ProblemType.FORBIDDEN, "a session cannot open another one")
        return SessionForm(instance=sessions.instance, key=sessions.open(shown))

    async def close_session(context: RequestContext) -> InstanceForm:
        sessions.close(bearer_token(context.request) or "")
        return InstanceForm(sessions.instance)

    return (
        Endpoint("GET", path=INSTANCE_PATH, name="instance", scopes=NO_SCOPES,
                 summary="Which process answers here",
                 handle=tell_instance, reply=InstanceForm),
        Endpoint("POST", path=SESSION_PATH, name="open_session", scopes=every,
                 summary="Exchange a key for a session",
                 handle=open_session, reply=SessionForm),
        Endpoint("DELETE", path=SESSION_PATH, name="close_session", scopes=every,
                 summary="End a session",
                 handle=close_session, reply=InstanceForm),
    )  # fmt: skip


class SignInAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """The code of a browser that this server's operator has started."""

    code: Annotated[str, Meta(max_length=128)]


class SignInReply(SessionForm, frozen=True):
    """The session of the operator, and the keys of the log."""

    origin: str
    policy: Annotated[str, Meta(description="The trust file of the log, as text.")]


class OneTimeSignIn(ServerExtension):
    """Exchanges codes for sessions of the operator, each once and for a short time."""

    def __init__(
        self, operator_token: Callable[[], str], origin: str, policy: Callable[[], str]
    ) -> None:
        self._operator_token, self._origin = operator_token, origin
        self._policy = policy
        self._expiry_by_code: dict[bytes, float] = {}
        self._sessions = BrowserSessions()

    def issue_code(self) -> str:
        """Return a new code."""
        code = token_urlsafe(_CODE_BYTES)
        self._expiry_by_code[code.encode()] = monotonic() + CODE_TTL_S
        return code

    def endpoints(self, authenticator: Authenticator) -> Sequence[Endpoint]:
        """Return the exchange.  The dashboard alone uses it, so it is no operation of the API."""
        self._sessions = authenticator.sessions
        return (
            Endpoint(
                "POST", path=PATH, name="sign_in", scopes=NO_SCOPES,
                summary="Exchange a code for a session",
                handle=self.exchange, reply=SignInReply, body=SignInAsk,
            ),
        )  # fmt: skip

    async def exchange(self, context: RequestContext) -> SignInReply:
        """Return a session for the code.  Raises `ProblemError` for another, used or old one."""
        ask: SignInAsk = context.body
        # All codes are compared, each in constant time: the time tells nothing about any of them.
        given = ask.code.encode()
        codes = [code for code in self._expiry_by_code if compare_digest(code, given)]
        # Removed before the reply: a reply that is lost must not be repeatable.
        expiries = [self._expiry_by_code.pop(code, 0.0) for code in codes]
        if not any(monotonic() <= expiry for expiry in expiries):
            why = "this code was used or has expired; paste a key, or the output of `forum token`"
            raise ProblemError(ProblemType.FORBIDDEN, why)
        return SignInReply(
            instance=self._sessions.instance,
            key=self._sessions.open(self._operator_token()),
            origin=self._origin,
            policy=self._policy(),
        )
