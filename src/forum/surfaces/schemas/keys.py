"""Keys that let others in."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from forum.app.formatting import format_rfc3339
from forum.ledger.access import AccessState
from forum.ledger.kinds import Scope


class Validity(StrEnum):
    """Whether a key opens anything."""

    VALID = "valid"
    EXPIRED = "expired"
    REVOKED = "revoked"


class KeyForm(Struct, frozen=True):
    """A key that somebody was given; what is secret of it is nowhere."""

    id: str
    name: str
    scopes: tuple[Scope, ...]
    made: Annotated[str, Meta(description="RFC 3339.")]
    expires: Annotated[str | None, Meta(description="RFC 3339; null if it holds for ever.")]
    state: Validity


class NewKeyForm(Struct, frozen=True):
    """A key, with its secret: it is shown this once."""

    key: KeyForm
    secret: Annotated[str, Meta(description="All that a client has to show.")]


class KeysForm(Struct, frozen=True):
    """Every key of a ledger, the oldest first."""

    keys: tuple[KeyForm, ...]


def key_form(access: AccessState, key: str, now: int) -> KeyForm:
    """Return a key that was granted, in its form."""
    grant = access.granted[key]
    lapsed = access.check_grant(grant, now)
    return KeyForm(
        id=grant.key,
        name=grant.name,
        scopes=grant.scopes,
        made=format_rfc3339(access.made[key]),
        expires=format_rfc3339(grant.expires) if grant.expires else None,
        state=Validity(lapsed.value) if lapsed else Validity.VALID,
    )


def keys_form(access: AccessState, now: int) -> KeysForm:
    """Return every key that was granted, in its form."""
    return KeysForm(tuple(key_form(access, key, now) for key in access.granted))
