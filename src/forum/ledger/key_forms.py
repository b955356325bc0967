"""What the keys of Forum look like: the only place that says so for those who look for them.

A key of a log, a write key, the operator's token and an API key give authority in a ledger.
Files with one are hidden from confined programs, and none is sent to a provider.
"""

import re
from typing import Final

from forum.ledger.access import API_KEY_PREFIX, OPERATOR_TOKEN_PREFIX
from forum.ledger.write_tags import WRITE_KEY_HEADER

# A beginning, and the rest of the whole shape.  Every repetition is bounded: programs may have
# written the text.
_FORMS: Final = {
    "PRIVATE+KEY+": r"[^\s+]{1,255}\+[0-9a-f]{8}\+[A-Za-z0-9+/]{40}",
    WRITE_KEY_HEADER: r".{1,400}?key [0-9a-f]{8} [A-Za-z0-9+/]{40}",
    OPERATOR_TOKEN_PREFIX: r"[0-9a-f]{64}",
    f"{API_KEY_PREFIX}_": r"[0-9a-f]{8}_[0-9a-f]{12}_[0-9a-f]{64}",
}
KEY_MARKS: Final = tuple(mark.encode() for mark in _FORMS)
"""Every key has one of them in it."""
_WHOLE: Final = re.compile(
    "|".join(re.escape(mark) + rest for mark, rest in _FORMS.items()).encode(), re.DOTALL
)
_BEGINNING: Final = re.compile(
    "|".join(re.escape(mark) for mark in _FORMS if mark != f"{API_KEY_PREFIX}_")
    + rf"|{API_KEY_PREFIX}_[0-9a-f]{{8}}_"
)


def has_whole_key(head: bytes) -> bool:
    """Return whether bytes have a whole key in them; those that only name the header have not."""
    return _WHOLE.search(head) is not None


def looks_like_key(text: str) -> bool:
    """Return whether a text has anything in it that begins like a key."""
    return _BEGINNING.search(text) is not None
