"""The section `[oidc]` of the project file."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from forum.ledger.kinds import Scope
from forum.section_reader import Section

Text = Annotated[str, Meta(min_length=1)]


def _default_scope_map() -> Mapping[str, frozenset[Scope]]:
    """Return the mapping for an issuer that uses the names of our scopes."""
    return {scope.value: frozenset({scope}) for scope in Scope}


class Issuer(Section, frozen=True):
    """An accepted issuer, and how its claims map to our scopes."""

    # Mixed from two files, it could accept the tokens of one issuer by the rules that were written
    # for another.
    is_merged = False

    url: str = msgspec.field(name="issuer")
    audience: Text
    """The audience that stands for this server; tokens for another audience are refused."""
    jwks_url: str = ""
    """Where its keys are; if empty, the discovery document tells."""
    scopes_claim: Text = "scope"
    scopes: Mapping[str, frozenset[Scope]] = msgspec.field(default_factory=_default_scope_map)
    """The scopes that each value of the claim grants; unknown values grant none."""
    ledger_claim: str = ""
    """The claim that names the ledger; if set, every token must have it."""
