"""The providers behind the gateway: their addresses, their credentials, and the headers they get.

Provider keys stay with Forum.  Where Forum has no key, the client's own credential passes.  No
credential is recorded.
"""

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.request import getproxies

import httpx2

from forum.features.gateway.routes import ApiProvider
from forum.features.gateway.sent_parts import HOP_BY_HOP
from forum.features.gateway.upstream_connections import ProviderTransport
from forum.models.provider_http import system_ssl_context
from forum.models.urls import is_loopback

Headers = list[tuple[bytes, bytes]]

CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 600.0
"""How long a provider may send nothing: a model that thinks is silent for minutes."""

_HOP_BY_HOP = frozenset(name.encode() for name in HOP_BY_HOP)
_DROPPED_REPLY_HEADERS = frozenset({b"set-cookie", b"alt-svc"})
"""Cookies belong to the connection between Forum and the provider."""


@dataclass(frozen=True, slots=True)
class ProviderAddress:
    """Where a provider is, and with which credential Forum calls it."""

    provider: ApiProvider
    url: str
    """The base URL, without a slash at its end; empty if there is none."""
    key_header: tuple[bytes, bytes] | None = field(default=None, repr=False)
    """None if clients bring credentials of their own."""
    is_free: bool = False
    """Whether the operator has declared that calls cost nothing."""
    upstream: str = ""
    """The name in `[upstreams]`; empty for the address of the gateway itself."""

    @property
    def name(self) -> str:
        """The name in the record: that of the upstream, or of the provider."""
        return self.upstream or self.provider.value

    @property
    def secret(self) -> bytes:
        """Forum's key for the provider; empty if it has none."""
        return self.key_header[1].removeprefix(b"Bearer ") if self.key_header else b""


DEFAULT_URLS: Mapping[ApiProvider, str] = {
    ApiProvider.OPENAI: "https://api.openai.com/v1",
    ApiProvider.ANTHROPIC: "https://api.anthropic.com",
    ApiProvider.GEMINI: "https://generativelanguage.googleapis.com",
    # Each customer of Azure has an address of their own.
    ApiProvider.AZURE: "",
}


def make_client(address: ProviderAddress, connections: int) -> httpx2.AsyncClient:
    """Return the client for one provider.  It follows no redirect and retries nothing."""
    local = is_loopback(address.url)
    context = (
        system_ssl_context()
        if address.url.lower().startswith("https:")
        else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    )
    # A proxy from the environment is meant for other hosts, not for this machine.
    has_proxy = not local and bool(getproxies())
    return httpx2.AsyncClient(
        verify=context,
        transport=None if has_proxy else ProviderTransport(context, connections),
        trust_env=has_proxy,
        timeout=httpx2.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S, pool=None),
        limits=httpx2.Limits(max_connections=connections, max_keepalive_connections=connections),
        follow_redirects=False,
    )


def request_headers(
    composed: Mapping[str, str],
    credentials: Iterable[tuple[bytes, bytes]],
    address: ProviderAddress,
    token: bytes,
) -> Headers:
    """Return the headers for the provider: those that were composed, and a credential.

    `credentials` are those of the client, and `token` is the credential of the run, which no
    provider may see.
    """
    headers = [(name.encode(), value.encode()) for name, value in composed.items()]
    if address.key_header is not None:
        headers.append(address.key_header)
    else:
        headers += [(name, value) for name, value in credentials if not (token and token in value)]
    return [*headers, (b"accept-encoding", b"identity")]


def reply_headers(received: Iterable[tuple[bytes, bytes]], *, altered: bool) -> Headers:
    """Return the headers for the client; the length of an altered reply is not known.

    What is left of caps, the gateway alone says: no `forum-` header of a provider is passed on.
    """
    received = list(received)
    dropped = _HOP_BY_HOP | _DROPPED_REPLY_HEADERS | _named_in_connection(received)
    if altered:
        dropped |= {b"content-length"}
    lowered = ((name.lower(), value) for name, value in received)
    return [
        (name, value)
        for name, value in lowered
        if name not in dropped and not name.startswith(b"forum-")
    ]


def _named_in_connection(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    named = [value for name, value in headers if name.lower() == b"connection"]
    return frozenset(part.strip().lower() for value in named for part in value.split(b","))
