"""The guide to keys says what the server does."""

import re
import tomllib

from forum.features.oidc.tokens import read_issuer
from forum.ledger.kinds import Scope
from forum.section_reader import SectionTables
from forum.surfaces.http.application import all_endpoints
from tests.docs.access_guide import GUIDE, TABLE, render


def test_the_table_of_scopes_is_what_is_declared() -> None:
    """Whoever gives a key away goes by it.  `python -m tests.docs.access_guide` writes it anew."""
    (shown,) = TABLE.findall(GUIDE.read_text())

    assert shown == render()


def test_every_scope_is_explained() -> None:
    """And no other."""
    explained = re.findall(r"^\| `([a-z]+)` \|", GUIDE.read_text(), re.MULTILINE)

    assert explained == [scope.value for scope in Scope]


def test_what_needs_no_key_is_named() -> None:
    """Strangers see nothing else."""
    text = GUIDE.read_text().split("Nobody needs a key for ")[1].split(".\n")[0]

    public = [endpoint.path for endpoint in all_endpoints() if not endpoint.scopes]
    assert sorted(re.findall(r"`([^`]+)`", text)) == sorted(public)


def test_the_issuer_of_the_example_can_be_read() -> None:
    """It is what people paste first, and change then."""
    (block,) = re.findall(
        r"^```toml\n(\[oidc\]\n.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL
    )
    issuer = read_issuer(SectionTables(tomllib.loads(block)))

    assert issuer.scopes["forum-operators"] == {Scope.ADMIN}
    assert issuer.ledger_claim == "ledger"
