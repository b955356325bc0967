"""Webhooks: whom the project file wants told of what, and what they are sent.

Messages are those of Standard Webhooks (standardwebhooks.com): an id, a time and a body, signed
together.  They are thin: they say what happened and where to look, and hold nothing of what was
asked or answered.  An address is the operator's choice, never a client's.
"""

import hmac
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from re import compile as pattern
from typing import Annotated, Any, Final
from urllib.parse import quote

import msgspec

from forum.errors import BadSettings
from forum.ledger import Entry, Located, Outcome, RunClose
from forum.surfaces.http.sections import bad_section, is_safe, read_section
from forum.surfaces.telling import iso
from forum.work import Answer, GateOpened

RETRY_SECONDS: Final = (5, 300, 1800, 7200, 18_000, 36_000)
"""How long after each attempt that failed the next one is made; then it is given up."""
_PREFIX: Final = "whsec_"
_FEWEST, _MOST = 24, 64
"""Bytes of a secret, as Standard Webhooks has them."""
_NAME = pattern(r"[a-z0-9][a-z0-9_-]{0,63}").fullmatch


class Event(StrEnum):
    """What somebody can be told of."""

    RUN_ENDED = "run.ended"
    GATE_OPENED = "gate.opened"


TRIAL: Final = "webhook.trial"
"""What is sent when somebody tries it out."""


# Settings


@dataclass(frozen=True, slots=True)
class Webhook:
    """Somebody who wants to be told."""

    name: str
    url: str
    secret_env: str = ""
    secret_file: str = ""
    events: frozenset[Event] = frozenset(Event)
    retry_seconds: tuple[int, ...] = RETRY_SECONDS
    timeout_seconds: int = 15


_Seconds = Annotated[int, msgspec.Meta(ge=1, le=7 * 86_400)]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A section as it is written."""

    url: str
    secret_env: str = ""
    secret_file: str = ""
    events: Annotated[tuple[Event, ...], msgspec.Meta(min_length=1)] = tuple(Event)
    retry_seconds: Annotated[tuple[_Seconds, ...], msgspec.Meta(max_length=20)] = RETRY_SECONDS
    timeout_seconds: Annotated[int, msgspec.Meta(ge=1, le=60)] = 15


def read_webhooks(tables: Mapping[str, Mapping[str, Any]]) -> tuple[Webhook, ...]:
    """Read the sections `[webhooks.NAME]` of the project file."""
    return tuple(_read(name, table) for name, table in tables.items())


def _read(name: str, table: Mapping[str, Any]) -> Webhook:
    if not _NAME(name):
        raise _wrong(name, "its name has up to 64 small letters, digits, - and _")
    told = read_section(_section(name), table, _Table)
    if not is_safe(told.url):
        raise _wrong(name, "url: write https://HOST/PATH; http is for loopback only")
    if bool(told.secret_env) == bool(told.secret_file):
        raise _wrong(name, "say where its secret is: secret_env or secret_file")
    return Webhook(
        name,
        told.url,
        told.secret_env,
        told.secret_file,
        frozenset(told.events),
        told.retry_seconds,
        told.timeout_seconds,
    )


def read_secrets(webhook: Webhook, environ: Mapping[str, str]) -> tuple[bytes, ...]:
    """Return what messages are signed with: one secret, or several while one replaces another."""
    setting = "secret_env" if webhook.secret_env else "secret_file"
    where = webhook.secret_env or webhook.secret_file
    try:
        text = environ[where] if webhook.secret_env else Path(where).read_text(encoding="ascii")
    except (KeyError, OSError, UnicodeError):
        text = ""
    secrets = tuple(map(_secret, text.split()))
    if not secrets or not all(_FEWEST <= len(secret) <= _MOST for secret in secrets):
        why = f"{setting}: there is no secret in {where}; one is made by: "
        raise _wrong(webhook.name, f'{why}echo "{_PREFIX}$(openssl rand -base64 32)"')
    return secrets


def _secret(word: str) -> bytes:
    """Return the bytes of a secret, or none: what it says is never quoted."""
    if not word.startswith(_PREFIX):
        return b""
    try:
        return b64decode(word.removeprefix(_PREFIX), validate=True)
    except NotBase64:
        return b""


def _section(name: str) -> str:
    return f"webhooks.{name}"


def _wrong(name: str, why: str) -> BadSettings:
    return bad_section(_section(name), why)


# Messages


class RunEnded(msgspec.Struct, frozen=True):
    """A run has ended."""

    ledger: str
    run: str
    outcome: Outcome
    index: int
    entry: str
    href: str


class GateWaits(msgspec.Struct, frozen=True):
    """Something waits for a person."""

    ledger: str
    run: str
    subject: str
    digest: str
    """Of what is shown: a decision names it."""
    deadline: str
    default: Answer
    """What holds after the deadline."""
    index: int
    entry: str
    href: str


class Trial(msgspec.Struct, frozen=True):
    """Nothing has happened: somebody tries out whether messages arrive."""

    ledger: str


class _Payload(msgspec.Struct, frozen=True):
    type: str
    timestamp: str
    data: RunEnded | GateWaits | Trial


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent: the same, however often it has to be."""

    id: str
    """By this receivers know what they have heard before."""
    body: bytes

    def headers(self, secrets: Sequence[bytes], seconds: int) -> dict[str, str]:
        """Return what makes it believable at this time, in seconds since 1970."""
        signed = f"{self.id}.{seconds}.".encode() + self.body
        found = (hmac.digest(secret, signed, sha256) for secret in secrets)
        return {
            "content-type": "application/json",
            "webhook-id": self.id,
            "webhook-timestamp": str(seconds),
            "webhook-signature": " ".join(f"v1,{b64encode(one).decode()}" for one in found),
        }


def message_of(found: Located) -> Message:
    """Return what is said of an entry that ends a run or opens a gate."""
    event, data = _data(found, found.entry)
    payload = _Payload(event, iso(found.entry.ts), data)
    return Message(f"msg_{found.leaf.hex()[:32]}", msgspec.json.encode(payload))


def trial_of(ledger: str, at: int, salt: bytes) -> Message:
    """Return what is sent when somebody tries it out."""
    payload = _Payload(TRIAL, iso(at), Trial(ledger))
    return Message(f"msg_{salt.hex()[:32]}", msgspec.json.encode(payload))


def _data(found: Located, entry: Entry[Any]) -> tuple[Event, RunEnded | GateWaits]:
    index, leaf = found.index or 0, found.leaf.hex()
    href = f"/api/v1/runs/{quote(entry.run, safe='')}"
    facts = entry.facts
    if isinstance(facts, RunClose):
        ended = RunEnded(entry.log, entry.run, facts.outcome, index, leaf, href)
        return Event.RUN_ENDED, ended
    assert isinstance(facts, GateOpened)  # noqa: S101  nobody is told of anything else
    waits = GateWaits(
        ledger=entry.log,
        run=entry.run,
        subject=facts.subject,
        digest=entry.bodies["shown"].h,
        deadline=iso(entry.ts + 1000 * facts.milliseconds),
        default=facts.default,
        index=index,
        entry=leaf,
        href=f"{href}/gate?subject={quote(facts.subject, safe='')}",
    )
    return Event.GATE_OPENED, waits
