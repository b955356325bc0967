"""The gateway of one run: an ASGI application for a single program, which shows the run's token.

The token is made for the run and ends with it.  A program shows it in place of a provider's key,
or, where it has a credential of its own, in the path of the base URL.
"""

from collections.abc import Sequence
from hmac import compare_digest

from starlette.types import Receive, Scope, Send

from forum.app.run_extensions import RunExtension
from forum.errors import ProcessFull, ShareExceeded
from forum.features.gateway.refusals import CallRefused, RefusalReason
from forum.features.gateway.relay import (
    GatewayRequest,
    Relay,
    refuse_upgrade,
    send_body,
    send_busy,
    send_refusal,
)
from forum.features.gateway.relayed_run import RelayedRun
from forum.features.gateway.routes import ApiProvider
from forum.features.gateway.sent_parts import bare_credential, find_credentials
from forum.limits.admission import HeldShares, SoleAdmission
from forum.limits.shares import Requester

_PREFIXES = {
    ApiProvider.OPENAI: "/openai/v1",
    ApiProvider.ANTHROPIC: "/anthropic",
    ApiProvider.GEMINI: "/gemini",
    ApiProvider.AZURE: "/azure",
}


class RunGateway:
    """Serves the calls of one run to whoever shows its token."""

    def __init__(
        self, relay: Relay, run: RelayedRun, token: str, extensions: Sequence[RunExtension] = ()
    ) -> None:
        self._relay, self._run = relay, run
        self._token = token.encode()
        self._extensions = extensions
        self._admission, self._client = SoleAdmission(), Requester("", run.run)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        held = HeldShares(self._admission)
        try:
            await self._answer(scope, receive, send, held)
        finally:
            held.give_back()

    async def _answer(self, scope: Scope, receive: Receive, send: Send, held: HeldShares) -> None:
        # The undecoded path: what is escaped is no separator, here or at the provider.
        path = bytes(scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        shown, inner = self._split_token(path)
        provider = next(
            (p for p, start in _PREFIXES.items() if inner.startswith(start + "/")), None
        )
        is_known = shown or self._shows_token(scope, provider)
        for extension in self._extensions if is_known else ():
            if extension.serves(inner):
                await extension(scope, receive, send)
                return
        if provider is None:
            await send_body(send, 404, b"", ())
            return
        request = GatewayRequest(
            scope=scope,
            receive=receive,
            send=send,
            provider=provider,
            path=inner.removeprefix(_PREFIXES[provider]),
            token=self._token,
            take_bytes=held.take_bytes,
        )
        if is_known:
            await self._relay_within(request, held)
        else:
            why = "this gateway serves one run, and needs its token as the API key."
            await send_refusal(request, CallRefused(RefusalReason.CREDENTIAL, why))

    async def _relay_within(self, request: GatewayRequest, held: HeldShares) -> None:
        """Relay a call within what the program may have in use at once."""
        if await refuse_upgrade(request):
            return
        try:
            held.admit(self._client)
        except (ShareExceeded, ProcessFull) as error:
            await send_busy(request, error)
            return
        await self._relay.handle(request, self._run)

    def _split_token(self, path: str) -> tuple[bool, str]:
        """Return whether the path begins with the token, and the rest of the path."""
        first, slash, rest = path[1:].partition("/")
        if slash and compare_digest(first.encode(), self._token):
            return True, slash + rest
        return False, path

    def _shows_token(self, scope: Scope, provider: ApiProvider | None) -> bool:
        shown = find_credentials(provider, scope["headers"], scope.get("query_string", b""))
        return any(compare_digest(bare_credential(value), self._token) for _, value in shown)


def base_url(provider: ApiProvider, root: str, token: str = "") -> str:
    """Return the base URL of a provider behind a gateway; with the token in it if given."""
    return f"{root}{'/' + token if token else ''}{_PREFIXES[provider]}"
