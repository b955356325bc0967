"""Idempotency keys: names of requests, so that a repeated request does nothing twice."""

import re

IDEMPOTENCY_KEY_FORM = "up to 200 printable characters without a space"

_matches = re.compile(r"[!-~]{1,200}").fullmatch


def is_idempotency_key(text: str) -> bool:
    """Tell whether a text can be the name of a request."""
    return _matches(text) is not None
