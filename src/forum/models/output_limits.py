"""The most tokens that known models write in one reply.

The price table has the context length of a model, and not this.  A provider answers a request whose
output limit is above it with an error.  The source of each number is the provider's model page.
"""

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Final

_DATE: Final = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8})$")


def max_output_tokens(model: str) -> int:
    """Return the most tokens that a model writes in one reply; 0 if that is not known."""
    # Routers put the provider before the name: `openai/gpt-4o`.
    name = model.rpartition("/")[2]
    limits = _read_limits()
    return limits.get(name) or limits.get(_DATE.sub("", name), 0)


@cache
def _read_limits() -> dict[str, int]:
    return tomllib.loads((files("forum.models") / "output_limits.toml").read_text("utf-8"))
