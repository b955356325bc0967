"""Writes the table of scopes in docs/guides/give-access.md; `just docs` runs it."""

import re

from forum.ledger.kinds import Scope
from forum.surfaces.http.application import all_endpoints
from forum.surfaces.http.endpoints import Endpoint
from tests.docs.pages import ROOT

GUIDE = ROOT / "docs/guides/give-access.md"
TABLE = re.compile(r"(?<=<!-- scopes -->\n).*?(?=\n\n)", re.DOTALL)
_COLUMNS = tuple(scope for scope in Scope if scope is not Scope.ADMIN)


def render() -> str:
    """Return the table: what each operation needs, and `admin` opens all of them."""
    heads = ("operation", "", *(f"`{scope}`" for scope in _COLUMNS))
    rows = [_row(endpoint) for endpoint in all_endpoints() if endpoint.scopes]
    lines = [" ".join(f"| {' | '.join(row)} |".split()) for row in (heads, *rows)]
    return "\n".join([lines[0], "|---" * len(heads) + "|", *lines[1:]])


def _row(endpoint: Endpoint) -> tuple[str, ...]:
    path = re.sub(r":\w+}", "}", endpoint.path)
    marks = ("✓" if scope in endpoint.scopes else "" for scope in _COLUMNS)
    return (f"`{endpoint.method} {path}`", endpoint.summary, *marks)


def main() -> None:
    """Write the table into its page."""
    GUIDE.write_text(TABLE.sub(lambda _: render(), GUIDE.read_text()))


if __name__ == "__main__":
    main()
