"""Names of models and programs, as the ledger records them."""

import re

_NOT_PLAIN = re.compile(r"[^!#-\[\]-~]+")


def plain_name(name: str) -> str:
    """Return a name reduced to the characters that names in the ledger may have."""
    return _NOT_PLAIN.sub("-", name)[:128]
