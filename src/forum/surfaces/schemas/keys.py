"""API keys."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from forum.ledger.access import AccessState
from forum.ledger.kinds import Scope
from forum.units import format_rfc3339


class Validity(StrEnum):
    """Whether a key can be used."""

    VALID = "valid"
    EXPIRED = "expired"
    REVOKED = "revoked"


class KeyForm(Struct, frozen=True):
    """An API key. The secret itself is never stored."""

    id: str
    name: str
    scopes: tuple[Scope, ...]
    made: Annotated[str, Meta(description="RFC 3339.")]
    expires: Annotated[str | None, Meta(description="RFC 3339; null if the key does not expire.")]
    state: Validity


class NewKeyForm(Struct, frozen=True):
    """A new API key with its secret, which is shown only once."""

    key: KeyForm
    secret: Annotated[str, Meta(description="The secret that a client sends as its bearer token.")]


class KeysForm(Struct, frozen=True):
    """All API keys of a ledger, oldest first."""

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
