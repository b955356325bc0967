"""The sections `[webhooks.NAME]` of the project file."""

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta

from forum.section_reader import NamedSection, SecretFile, SecretVariable


class WebhookEvent(StrEnum):
    """What somebody can be told of."""

    RUN_ENDED = "run.ended"
    GATE_OPENED = "gate.opened"
    BUDGET_ALERT = "budget.alert"


RETRY_DELAYS_S: Final = (5, 300, 1800, 7200, 18_000, 36_000)
"""Delays after failed attempts; after the last one the delivery fails."""
_Seconds = Annotated[int, Meta(ge=1, le=7 * 86_400)]


class WebhookSection(NamedSection, frozen=True):
    """A receiver of messages."""

    url: str
    secret_env: SecretVariable = ""
    secret_file: Annotated[SecretFile, Meta(title="the secret of the webhook {}")] = ""
    events: Annotated[frozenset[WebhookEvent], Meta(min_length=1)] = frozenset(
        {WebhookEvent.RUN_ENDED, WebhookEvent.GATE_OPENED}
    )
    retry_seconds: Annotated[tuple[_Seconds, ...], Meta(max_length=20)] = RETRY_DELAYS_S
    timeout_seconds: Annotated[int, Meta(ge=1, le=60)] = 15
