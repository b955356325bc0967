"""Webhooks: their sections in the project file, and the messages that are sent.

Messages follow Standard Webhooks (standardwebhooks.com): an id, a timestamp and a body, signed
together.  They say what happened and where to read more, and contain nothing of requests and
answers.  URLs are chosen by the operator, never by a client.
"""

import hmac
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from re import compile as pattern
from typing import Any, Final
from urllib.parse import quote

import msgspec

from forum.app import GateOrigin
from forum.config import PROJECT_FILE
from forum.errors import BadSettings
from forum.features.webhooks.section import WebhookEvent, WebhookSection
from forum.ledger.entry import Entry
from forum.ledger.kinds import CapAlertFacts, CapUnit, Outcome, RunCloseFacts
from forum.ledger.log import LocatedEntry
from forum.runs.kinds import GateOpenFacts
from forum.runs.policy import Answer
from forum.runs.report_kinds import Provenance
from forum.section_reader import SectionTables
from forum.surfaces.http.config_sections import is_confidential_url
from forum.units import format_rfc3339, format_usd

_PREFIX: Final = "whsec_"
_MIN_SECRET_BYTES, _MAX_SECRET_BYTES = 24, 64
"""Allowed size of a secret in bytes, according to Standard Webhooks."""
_NAME = pattern(r"[a-z0-9][a-z0-9_-]{0,63}").fullmatch


TEST_EVENT: Final = "webhook.trial"
"""The event type of a test message."""


class Webhook(WebhookSection, frozen=True, kw_only=True):
    """A configured endpoint."""

    name: str


def read_webhooks(sections: SectionTables) -> tuple[Webhook, ...]:
    """Return the sections `[webhooks.NAME]`.  Raises `BadSettings`."""
    return tuple(
        _check_webhook(sections, Webhook(name=name, **msgspec.structs.asdict(section)))
        for name, section in sections.read_named("webhooks", WebhookSection).items()
    )


def _check_webhook(sections: SectionTables, webhook: Webhook) -> Webhook:
    with sections.errors(f"webhooks.{webhook.name}"):
        if not _NAME(webhook.name):
            raise ValueError("its name has up to 64 small letters, digits, - and _")
        if not is_confidential_url(webhook.url):
            raise ValueError("url: write https://HOST/PATH; http is for loopback only")
        if bool(webhook.secret_env) == bool(webhook.secret_file):
            raise ValueError("say where its secret is: secret_env or secret_file")
    return webhook


def read_secrets(webhook: Webhook, environ: Mapping[str, str]) -> tuple[bytes, ...]:
    """Return the signing secrets: one, or several during a rotation.  Raises `BadSettings`."""
    setting = "secret_env" if webhook.secret_env else "secret_file"
    where = webhook.secret_env or webhook.secret_file
    try:
        text = environ[where] if webhook.secret_env else Path(where).read_text(encoding="ascii")
    except (KeyError, OSError, UnicodeError):
        text = ""
    secrets = tuple(map(_decode_secret, text.split()))
    if not secrets or not all(
        _MIN_SECRET_BYTES <= len(secret) <= _MAX_SECRET_BYTES for secret in secrets
    ):
        why = f"{setting}: there is no secret in {where}; one is made by: "
        why += f'echo "{_PREFIX}$(openssl rand -base64 32)"'
        raise BadSettings(PROJECT_FILE, f"[webhooks.{webhook.name}] {why}")
    return secrets


def _decode_secret(word: str) -> bytes:
    """Return the bytes of a secret, or b"" if it is malformed; errors must never quote it."""
    if not word.startswith(_PREFIX):
        return b""
    try:
        return b64decode(word.removeprefix(_PREFIX), validate=True)
    except NotBase64:
        return b""


class RunEndedPayload(msgspec.Struct, frozen=True):
    """A run has ended."""

    ledger: str
    run: str
    outcome: Outcome
    index: int
    entry: str
    href: str


class GateOpenedPayload(msgspec.Struct, frozen=True):
    """Something waits for a person."""

    ledger: str
    run: str
    subject: str
    digest: str
    """Of what is shown: a decision names it."""
    deadline: str
    default: Answer
    """What holds after the deadline."""
    provenance: Provenance
    """How Forum knows of the run; a gate that is not `driven` shows what a program says."""
    asked_by: str
    index: int
    entry: str
    href: str


class BudgetAlertPayload(msgspec.Struct, frozen=True):
    """A share of a cap over many runs was used."""

    ledger: str
    scope: str
    period: str
    unit: CapUnit
    percent: int
    used: str
    cap: str
    index: int
    entry: str
    href: str


class TestPayload(msgspec.Struct, frozen=True):
    """Nothing has happened: somebody tries out whether messages arrive."""

    ledger: str


class _WebhookPayload(msgspec.Struct, frozen=True):
    type: str
    timestamp: str
    data: RunEndedPayload | GateOpenedPayload | BudgetAlertPayload | TestPayload


@dataclass(frozen=True, slots=True)
class WebhookMessage:
    """A message; its content is the same in every attempt."""

    id: str
    """Receivers recognize duplicates by this id."""
    body: bytes

    def signed_headers(self, secrets: Sequence[bytes], seconds: int) -> dict[str, str]:
        """Return the headers with the signatures for a time in seconds since 1970."""
        signed = f"{self.id}.{seconds}.".encode() + self.body
        # One signature per secret: a receiver accepts any of them, so that secrets can be rotated.
        signatures = (hmac.digest(secret, signed, sha256) for secret in secrets)
        return {
            "content-type": "application/json",
            "webhook-id": self.id,
            "webhook-timestamp": str(seconds),
            "webhook-signature": " ".join(
                f"v1,{b64encode(signature).decode()}" for signature in signatures
            ),
        }


def build_message(located: LocatedEntry, origin: GateOrigin) -> WebhookMessage:
    """Return the message for an entry that ends a run or opens a gate of this origin."""
    event, data = _payload_data(located, located.entry, origin)
    payload = _WebhookPayload(event, format_rfc3339(located.entry.ts), data)
    return WebhookMessage(f"msg_{located.leaf.hex()[:32]}", msgspec.json.encode(payload))


def build_test_message(ledger: str, at: int, salt: bytes) -> WebhookMessage:
    """Return a test message."""
    payload = _WebhookPayload(TEST_EVENT, format_rfc3339(at), TestPayload(ledger))
    return WebhookMessage(f"msg_{salt.hex()[:32]}", msgspec.json.encode(payload))


def _payload_data(
    located: LocatedEntry, entry: Entry[Any], origin: GateOrigin
) -> tuple[WebhookEvent, RunEndedPayload | GateOpenedPayload | BudgetAlertPayload]:
    index, leaf = located.index or 0, located.leaf.hex()
    href = f"/api/v1/runs/{quote(entry.run, safe='')}"
    facts = entry.facts
    if isinstance(facts, RunCloseFacts):
        ended = RunEndedPayload(
            ledger=entry.log,
            run=entry.run,
            outcome=facts.outcome,
            index=index,
            entry=leaf,
            href=href,
        )
        return WebhookEvent.RUN_ENDED, ended
    if isinstance(facts, CapAlertFacts):
        is_money = facts.unit is CapUnit.USD
        used, cap = (
            format_usd(amount) if is_money else str(amount) for amount in (facts.used, facts.cap)
        )
        alert = BudgetAlertPayload(
            ledger=entry.log,
            scope=facts.scope,
            period=facts.period,
            unit=facts.unit,
            percent=facts.percent,
            used=used,
            cap=cap,
            index=index,
            entry=leaf,
            href="/api/v1/budgets",
        )
        return WebhookEvent.BUDGET_ALERT, alert
    assert isinstance(facts, GateOpenFacts)  # noqa: S101  nobody is told of anything else
    waits = GateOpenedPayload(
        ledger=entry.log,
        run=entry.run,
        subject=facts.subject,
        digest=entry.bodies["shown"].h,
        deadline=format_rfc3339(entry.ts + 1000 * facts.milliseconds),
        default=facts.default,
        provenance=origin.provenance,
        asked_by=origin.asked_by,
        index=index,
        entry=leaf,
        href=f"{href}/gate?subject={quote(facts.subject, safe='')}",
    )
    return WebhookEvent.GATE_OPENED, waits
