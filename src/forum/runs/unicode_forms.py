"""Normal forms of Unicode text, in time linear in its length.

Normalizing sorts each run of combining marks, which takes time quadratic in the length of the run
and holds the interpreter's lock: 120 KB of marks took seconds.  So a long run is broken up first,
as in the Stream-Safe Text Format of UAX #15.  No text of any language has such a run.
"""

import re
import unicodedata
from functools import lru_cache
from typing import Final, Literal

NormalForm = Literal["NFC", "NFD", "NFKC", "NFKD"]

_MAX_MARKS: Final = 30
_JOINER: Final = "\u034f"
"""COMBINING GRAPHEME JOINER: it is not sorted, so that marks before and after it are sorted apart.
"""


def normalize_text(form: NormalForm, text: str) -> str:
    """Return a text in a normal form; with a joiner after each 30 marks of a longer run."""
    if text.isascii():
        return text
    marks = "".join(filter(_is_mark, set(text))) if len(text) > _MAX_MARKS else ""
    if marks:
        run = f"[{re.escape(marks)}]{{{_MAX_MARKS}}}"
        text = re.sub(run, lambda match: match[0] + _JOINER, text)
    return unicodedata.normalize(form, text)


@lru_cache(maxsize=1 << 16)
def _is_mark(character: str) -> bool:
    """Return whether normalizing sorts a character among its neighbours, or what it begins with."""
    return unicodedata.combining(unicodedata.normalize("NFKD", character)[0]) != 0
