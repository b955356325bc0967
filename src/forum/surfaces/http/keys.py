"""Endpoints for API keys: list, create and revoke."""

from forum.app import now
from forum.ledger.access import has_scope
from forum.ledger.kinds import Scope
from forum.surfaces.http.endpoints import Endpoint, RequestContext
from forum.surfaces.http.problems import ProblemError, ProblemType
from forum.surfaces.requests import KeyAsk
from forum.surfaces.schemas import keys

_ADMIN = frozenset({Scope.ADMIN})


def list_keys(context: RequestContext) -> keys.KeysForm:
    """List every key of the ledger."""
    return keys.keys_form(context.tenant.forum.access.read_access(), now())


def create_key(context: RequestContext) -> keys.NewKeyForm:
    """Make a key; nobody gives more than that one has."""
    ask: KeyAsk = context.body
    # Otherwise a key could be used to create a more powerful one.
    for scope in ask.scopes:
        if not has_scope(context.principal.scopes, {scope}):
            raise ProblemError(
                ProblemType.FORBIDDEN, f"who has not the scope {scope} cannot give it"
            )
    forum = context.tenant.forum
    key = forum.access.grant(ask.name, set(ask.scopes), ask.seconds or 0, context.principal.name)
    return keys.NewKeyForm(keys.key_form(forum.access.read_access(), key.id, now()), str(key))


def revoke_key(context: RequestContext) -> keys.KeyForm:
    """Let a key open nothing from now on."""
    forum, key = context.tenant.forum, context.path_param("key")
    forum.access.revoke(key, context.principal.name)
    return keys.key_form(forum.access.read_access(), key, now())


KEYS = (
    Endpoint(
        "GET", path="/api/v1/keys", name="list_keys", scopes=_ADMIN,
        summary="List the keys of the ledger", handle=list_keys, reply=keys.KeysForm, tag="keys",
    ),
    Endpoint(
        "POST", path="/api/v1/keys", name="create_key", scopes=_ADMIN,
        summary="Give somebody a key; its secret is shown this once", handle=create_key,
        reply=keys.NewKeyForm, body=KeyAsk, status=201, tag="keys",
        example={"name": "ci", "scopes": ["submit", "read"], "seconds": 7776000},
    ),
    Endpoint(
        "DELETE", path="/api/v1/keys/{key}", name="revoke_key", scopes=_ADMIN,
        summary="Let a key open nothing from now on", handle=revoke_key, reply=keys.KeyForm,
        tag="keys",
    ),
)  # fmt: skip
