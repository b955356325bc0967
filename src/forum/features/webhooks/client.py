"""One webhook delivery attempt: a POST request, and the interpretation of its status."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

import httpx2

from forum.app import now
from forum.errors import BadSettings
from forum.features.webhooks.messages import Webhook, WebhookMessage
from forum.features.webhooks.retries import DeliveryResult
from forum.ledger.kinds import Outcome
from forum.surfaces.http.outgoing_client import make_client

_MAX_RETRY_AFTER_S: Final = 86_400


@asynccontextmanager
async def open_client(webhook: Webhook) -> AsyncIterator[httpx2.AsyncClient]:
    """Open an HTTP client for a receiver.  Raises `BadSettings`."""
    try:
        named = {"User-Agent": "forum-webhooks"}
        client = await make_client(webhook.url, webhook.timeout_seconds, named)
    except (ImportError, OSError, ValueError):
        # The text of these errors may quote the URL of a proxy, including its password.
        why = "the proxy or the certificates that are set up here fail"
        raise BadSettings(f"webhook {webhook.name}", why) from None
    async with client:
        yield client


async def post_message(
    client: httpx2.AsyncClient, webhook: Webhook, secrets: Sequence[bytes], message: WebhookMessage
) -> DeliveryResult:
    """Send a message once and return the result."""
    headers = message.signed_headers(secrets, now() // 1_000_000)
    try:
        async with asyncio.timeout(webhook.timeout_seconds):
            request = client.stream("POST", webhook.url, headers=headers, content=message.body)
            async with request as response:  # the response body is ignored
                return _result_from_status(response.status_code, response.headers)
    except TimeoutError:
        code = "timeout"
    except (httpx2.ConnectError, httpx2.ProxyError, httpx2.InvalidURL):
        code = "no connection"
    except httpx2.TimeoutException:
        code = "timeout"
    except httpx2.HTTPError:
        code = "broken off"
    return DeliveryResult(Outcome.INDETERMINATE, code)


def _result_from_status(status: int, headers: httpx2.Headers) -> DeliveryResult:
    if 200 <= status < 300:
        return DeliveryResult(Outcome.OK, str(status))
    # 410 Gone: the receiver wants no more messages (Standard Webhooks).
    if status == 410:
        return DeliveryResult(Outcome.DENIED, str(status))
    return DeliveryResult(
        Outcome.INDETERMINATE, str(status), _parse_retry_after(headers.get("retry-after", ""))
    )


def _parse_retry_after(value: str) -> int:
    """Return the requested delay in seconds (Retry-After, RFC 9110, section 10.2.3)."""
    if value.isascii() and value.isdigit():
        return min(int(value[:12]), _MAX_RETRY_AFTER_S)
    try:
        then = parsedate_to_datetime(value)
        seconds = then.replace(tzinfo=then.tzinfo or UTC).timestamp() - now() / 1e6
    except (ValueError, TypeError, OverflowError):
        return 0
    return min(max(int(seconds), 0), _MAX_RETRY_AFTER_S)
