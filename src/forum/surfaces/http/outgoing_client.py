"""HTTP clients for the URLs in the project file: issuers' keys, and receivers of webhooks."""

import asyncio
import ssl
from collections.abc import Mapping
from functools import cache

import httpx2

from forum.surfaces.http.config_sections import is_loopback_url


async def make_client(url: str, seconds: float, headers: Mapping[str, str]) -> httpx2.AsyncClient:
    """Return a client for one configured URL.

    Raises `ValueError`, `OSError` or `ImportError` if the proxy or the certificates of this machine
    are unusable.  Their text may quote the URL of a proxy, including its password.
    """
    return httpx2.AsyncClient(
        verify=await asyncio.to_thread(_ssl_context, is_tls=url.lower().startswith("https:")),
        # A proxy from the environment is meant for other hosts, not for this machine.
        trust_env=not is_loopback_url(url),
        timeout=httpx2.Timeout(seconds),
        headers={**headers, "Accept-Encoding": "identity"},
        # Only the configured URL was checked; the target of a redirect was not.
        follow_redirects=False,
    )


@cache
def _ssl_context(*, is_tls: bool) -> ssl.SSLContext:
    """Return a context with the system's CA certificates if needed; loading them is slow."""
    return httpx2.create_ssl_context() if is_tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
