"""The API keys and the operator token that give access to a ledger."""

import os
from collections.abc import Collection
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from forum.app.clock_ids_and_kinds import OPERATOR, now, origin_file_name
from forum.app.project import ProjectContext
from forum.errors import (
    NoSuchKey,
    TamperDetected,
)
from forum.ledger import kinds
from forum.ledger.access import (
    ACCESS_STRAND,
    DENIALS_STRAND,
    AccessState,
    ApiKey,
    Grant,
    fold_access,
)
from forum.ledger.entry import LOG_RUN, leaf_of
from forum.ledger.epochs import earlier_epochs
from forum.ledger.log import (
    check_strand_head,
)
from forum.ledger.strand import Draft
from forum.runs.kinds import (
    Authority,
    Identity,
)

if TYPE_CHECKING:
    from forum.stores.operator_token import OperatorToken


class Approver(Struct, frozen=True):
    """An actor who decides at a gate, and the authority for the decision."""

    actor: str
    authority: Authority
    identity: Identity | None = None
    """The person that the access token names; recorded in a body only, which can be erased."""


LOCAL_OPERATOR = Approver(OPERATOR, Authority.OPERATOR)


class AccessOperations:
    """Grants and revokes API keys, and holds the token of the operator."""

    def __init__(self, project: ProjectContext) -> None:
        self._project = project

    def read_access(self, state: AccessState | None = None) -> AccessState:
        """Return the granted and revoked keys, folding new entries into `state`.

        Raises `TamperDetected`.
        """
        state = state or AccessState()
        added = list(self._project.store.read_strand(LOG_RUN, ACCESS_STRAND, state.length))
        if not added and state.length:
            return state
        # These checks prevent two attacks through the database: adding a grant, and deleting a
        # revocation, which would make a revoked key valid again.
        if self._project.write_keys is None:
            # Without the write key, an entry is genuine only if the signed tree holds it.
            tree = self._project.open_signed_tree()
            for data in added:
                if not tree.has_leaf(leaf_of(data)):
                    raise TamperDetected(
                        f"an entry of {LOG_RUN}/{ACCESS_STRAND}", "no signed tree holds it"
                    )
        heads = self._project.heads
        check_strand_head(
            self._project.store,
            self._project.write_keys,
            ACCESS_STRAND,
            heads.latest(ACCESS_STRAND),
        )
        access = fold_access(map(self._project.ledger.kinds.read, added), state)
        if added:
            heads.advance({ACCESS_STRAND: (access.length - 1, leaf_of(added[-1]).hex())})
        return access

    def grant(
        self, name: str, scopes: Collection[kinds.Scope], seconds: int = 0, actor: str = OPERATOR
    ) -> ApiKey:
        """Create an API key and record its digest; the returned object alone holds the secret."""
        key = ApiKey(self.tenant, os.urandom(6).hex(), os.urandom(32).hex())
        expires = now() + 1_000_000 * seconds if seconds else 0
        facts = Grant(
            key=key.id, name=name, scopes=tuple(sorted(scopes)), digest=key.digest, expires=expires
        ).to_facts()
        self._project.ledger.append_log_entry(Draft(f"grant/{key.id}", actor, facts), ACCESS_STRAND)
        return key

    def revoke(self, key: str, actor: str = OPERATOR) -> None:
        """Revoke an API key. Raises `NoSuchKey`."""
        access = self.read_access()
        if key not in access.granted:
            raise NoSuchKey(key)
        if key not in access.revoked:
            self._project.ledger.append_log_entry(
                Draft(f"revoke/{key}", actor, kinds.AccessRevocationFacts(key)), ACCESS_STRAND
            )

    def record_denial(self, denied: kinds.AccessDenialFacts, actor: str) -> None:
        """Record that a request was denied."""
        step = f"deny/{os.urandom(8).hex()}"
        self._project.ledger.append_log_entry(Draft(step, actor, denied), DENIALS_STRAND)

    @property
    def tenant(self) -> str:
        """The prefix by which API keys name their ledger."""
        return origin_file_name(self._project.origin)[:8]

    @property
    def tenants(self) -> tuple[str, ...]:
        """The prefixes of this log and of its earlier epochs, whose keys are carried over."""
        origins = earlier_epochs(self._project.origin)
        return tuple(origin_file_name(origin)[:8] for origin in (self._project.origin, *origins))

    @cached_property
    def _operator_token(self) -> "OperatorToken":
        from forum.stores.operator_token import OperatorToken

        return OperatorToken(self._project.registry.token_file(self._project.place))

    def operator_token(self, *, rotate: bool = False) -> str:
        """Return the operator token of this project; create it if needed, or `rotate` it."""
        return self._operator_token.rotate() if rotate else self._operator_token.get_or_create()

    def check_operator_token(self) -> None:
        """Read the operator token, if there is one. Raises `KeyUnreadable` for an unusable one."""
        self._operator_token.read()

    def is_operator(self, shown: str) -> bool:
        """Tell whether this is the token of this project's operator."""
        return self._operator_token.matches(shown)
