"""How many tokens a text has at most.

A tokenizer makes at most one token of each byte.  But some normalize the text first, and a letter
may become many: U+FDFA has 3 bytes, and 33 in NFKC.

The text is not normalized here.  What a normal form of it may have is added up over its characters:
a letter by itself has its own forms, and a letter with marks after it is at most as long as all of
them taken apart, because putting characters together makes no text longer.
"""

import re
from collections import Counter
from functools import lru_cache
from typing import Final, NamedTuple
from unicodedata import category

from forum.runs.unicode_forms import NormalForm, normalize_text

_BLOCK_CHARS: Final = 1 << 16
"""Characters that are counted at a time: counting holds the interpreter's lock."""
_COMPOSED: Final[tuple[NormalForm, ...]] = ("NFC", "NFKC")
_APART: Final[tuple[NormalForm, ...]] = ("NFD", "NFKD")


class _CharacterSize(NamedTuple):
    """The most bytes of a character in UTF-8."""

    alone: int
    growth: int
    """How many more it may have before a mark that it can be put together with."""
    is_mark: bool


def count_normalized_bytes(text: str) -> int:
    """Return at least the bytes of a text in UTF-8, as it is, in NFC and in NFKC."""
    if text.isascii():
        return len(text)
    starts = range(0, len(text), _BLOCK_CHARS)
    # A block may begin with a mark, which belongs to the character before it.
    borders = sum(_measure(text[at - 1]).growth for at in starts[1:])
    return borders + sum(_count_block(text[at : at + _BLOCK_CHARS]) for at in starts)


def _count_block(text: str) -> int:
    if text.isascii():
        return len(text)
    sizes = [(_measure(character), character, times) for character, times in Counter(text).items()]
    total = sum(size.alone * times for size, _, times in sizes)
    if not any(size.growth for size, _, _ in sizes):
        return total
    marks = "".join(character for size, character, _ in sizes if size.is_mark)
    if marks:
        marked = re.findall(f".(?=[{re.escape(marks)}])", text, re.DOTALL)
        total += sum(_measure(each).growth * times for each, times in Counter(marked).items())
    return total


@lru_cache(maxsize=1 << 16)
def _measure(character: str) -> _CharacterSize:
    alone = max(_bytes_of(character), *(_form_bytes(form, character) for form in _COMPOSED))
    apart = max(_form_bytes(form, character) for form in _APART)
    first = normalize_text("NFKD", character)[0]
    # The vowels and final consonants of Korean are letters, and are put together all the same.
    is_mark = category(first)[0] == "M" or "\u1160" <= first <= "\u11ff"
    if is_mark:
        return _CharacterSize(max(alone, apart), 0, is_mark)
    return _CharacterSize(alone, max(0, apart - alone), is_mark)


def _form_bytes(form: NormalForm, character: str) -> int:
    return _bytes_of(normalize_text(form, character))


def _bytes_of(text: str) -> int:
    # Half of a surrogate pair has no UTF-8 form; it is sent as an escape, or as U+FFFD.
    return len(text.encode(errors="surrogatepass"))
