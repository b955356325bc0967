"""Keys: who was given one, who gets one, and who has one no longer."""

from forum.app import now
from forum.ledger import Scope, opens
from forum.surfaces.asking import KeyAsk
from forum.surfaces.forms.keys import KeyForm, KeysForm, NewKeyForm, key_form, keys_form
from forum.surfaces.http.endpoints import Endpoint, Visit
from forum.surfaces.http.problems import Problem, Refusal

_ADMIN = frozenset({Scope.ADMIN})


def list_keys(visit: Visit) -> KeysForm:
    """List every key of the ledger."""
    return keys_form(visit.desk.forum.access(), now())


def create(visit: Visit) -> NewKeyForm:
    """Make a key; nobody gives more than that one has."""
    ask: KeyAsk = visit.body
    for scope in ask.scopes:
        if not opens(visit.principal.scopes, {scope}):
            raise Refusal(Problem.FORBIDDEN, f"who has not the scope {scope} cannot give it")
    forum = visit.desk.forum
    key = forum.grant(ask.name, set(ask.scopes), ask.seconds or 0, visit.principal.name)
    return NewKeyForm(key_form(forum.access(), key.id, now()), str(key))


def revoke(visit: Visit) -> KeyForm:
    """Let a key open nothing from now on."""
    forum, key = visit.desk.forum, visit.path("key")
    forum.revoke(key, visit.principal.name)
    return key_form(forum.access(), key, now())


KEYS = (
    Endpoint(
        "GET", "/api/v1/keys", "list_keys", _ADMIN,
        "List the keys of the ledger", list_keys, reply=KeysForm, tag="keys",
    ),
    Endpoint(
        "POST", "/api/v1/keys", "create_key", _ADMIN,
        "Give somebody a key; its secret is shown this once", create,
        reply=NewKeyForm, body=KeyAsk, status=201, tag="keys",
        example={"name": "ci", "scopes": ["submit", "read"], "seconds": 7776000},
    ),
    Endpoint(
        "DELETE", "/api/v1/keys/{key}", "revoke_key", _ADMIN,
        "Let a key open nothing from now on", revoke, reply=KeyForm, tag="keys",
    ),
)  # fmt: skip
