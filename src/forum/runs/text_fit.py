"""Fit texts into the context of a model: token estimates, and excerpts by relevance.

The tokenizers of most models are not at hand, so tokens are estimated from the kinds of characters:
prose has few tokens for its length, and tables, digests and diffs have many. The estimate is a
little high on purpose: a prompt that is planned too small costs a little context; one that is
planned too large is refused by the provider.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from math import fsum, log

import msgspec

from forum.runs.asks import is_order
from forum.runs.coverage import find_terms

_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DIGITS = b"0123456789"
_SPACES = b" \t\n\r\v\f"
_NON_ASCII = bytes(range(128, 256))
# Compared with the tokenizer of a large model: English prose is estimated a quarter too high, code
# and documentation a fifth, digests and number tables a tenth; German a tenth too low.
_LETTER_COST, _DIGIT_COST = 27, 80
_SPACE_COST, _NON_ASCII_COST = 12, 50
_OTHER_COST = 100
"""The estimated tokens of a hundred bytes of each kind."""

MAX_PASSAGE_BYTES = 1200
_MAX_GROUP_BYTES = 400
"""The size up to which the lines or sentences of a long paragraph stay together."""
_MAX_NAMED_CHARS = 60
_MAX_HEADING_BYTES = 80
_NOTE_TOKENS = 60
"""The estimated tokens of a note for a part that was left out, and of the heading after it."""

_HEADING_WEIGHT = 2
"""How often a term in a heading counts for a passage under it, by section."""
_TELLING_SHARE = 0.4
"""The share of a task's terms that have to tell passages apart."""

_PARAGRAPH_END = re.compile(rb"\n[ \t]*\n+")
_LINE_END = re.compile(rb"\n")
_SENTENCE_END = re.compile(rb"(?<=[.!?;])\s+")
_WORD = re.compile(r"\w{3,}")
_HEADING = re.compile(r"(?m)^(?:(?P<level>#{1,6}) |\+\+\+ |diff )(?P<name>[^\n]{1,200})")
"""A heading in Markdown, or the line of a diff that names a file."""


def estimate_tokens(text: bytes) -> int:
    """Return the estimated number of tokens of a text; seldom too low."""
    kinds = (
        (_LETTERS, _LETTER_COST),
        (_DIGITS, _DIGIT_COST),
        (_SPACES, _SPACE_COST),
        (_NON_ASCII, _NON_ASCII_COST),
    )
    others, cost = len(text), 0
    for members, weight in kinds:
        count = len(text) - len(text.translate(None, members))
        others -= count
        cost += count * weight
    return -(-(cost + others * _OTHER_COST) // 100)


class Excerpt(msgspec.Struct, frozen=True):
    """The passages of a text that fit, with a note in place of each part that was left out."""

    text: bytes
    left_out: int
    """The number of bytes of the text that are missing; 0 if the excerpt is the whole text."""


def excerpt_by_relevance(
    text: bytes, query: str, max_tokens: int, *, by_section: bool = False
) -> Excerpt:
    """Return the passages of a text that share most with a query, in the order of the text.

    A text that fits is returned whole. The first and the last passage are preferred: a request
    says there what it wants. Notes name what was left out by its first words, so that a reader
    knows that more exists and what it is about. With `by_section`, a heading that the query names
    counts more than the words of a passage, and passages that close a gap cost no note.
    """
    if estimate_tokens(text) <= max_tokens:
        return Excerpt(text, 0)
    # In a small room the passages are small too: one that is too long would leave nothing.
    passages = _split_passages(text, min(MAX_PASSAGE_BYTES, max(80, max_tokens)))
    room = max_tokens
    chosen: set[int] = set()
    for number in _rank_passages(passages, query, _HEADING_WEIGHT if by_section else 1):
        # A chosen passage adds a note for the gap before it, if there is one.
        note = 0 if number - 1 in chosen else _NOTE_TOKENS
        if by_section and number + 1 in chosen:
            note -= _NOTE_TOKENS
        size = estimate_tokens(passages[number]) + note
        if size <= room:
            chosen.add(number)
            room -= size
    return _join_passages(passages, chosen)


_GAP_NOTE = re.compile(rb'\[\d+ bytes left out here, beginning "(.*)"\]')
"""What `_note_gap` writes."""
_NOTE_PARTS = re.compile(
    r'\[\d+ bytes left out here, beginning "|"\]'
    r"|\[part \d+, \d+ bytes, could not be summarized\]"
)
"""What a note of another shortening has in it that is not of the text."""
_NOTE_STARTS = ("[0 bytes left out here, beginning ", "[part 0, 0 bytes, could not be summarized")
_NUMBER = re.compile(r"\d+")


def is_excerpt_of(shown: bytes, text: bytes) -> bool:
    """Return whether a text shows only what another has: each line stands there, or notes a gap.

    What was left out is named by its first words, which stand there too.
    """
    lines = set(text.split(b"\n"))
    # A passage that is no UTF-8 is named with characters in place of its bytes, which depend on
    # where it was cut.
    words = ""
    for line in shown.split(b"\n"):
        if line in lines or line in text:
            continue
        note = _GAP_NOTE.fullmatch(line)
        words = words or _join_words(text)
        if note is None:
            # A heading is taken from such a passage in the same way.
            is_shown = _REPLACED in line.decode(errors="replace") and _join_words(line) in words
        else:
            is_shown = _names_beginning(note[1].decode(errors="replace"), words)
        if not is_shown:
            return False
    return True


_REPLACED = "\N{REPLACEMENT CHARACTER}"


def _join_words(text: bytes) -> str:
    """Return the words of a text with one blank between them, and one character for bad ones."""
    return " ".join(re.sub(f"{_REPLACED}+", _REPLACED, text.decode(errors="replace")).split())


def _names_beginning(named: str, words: str) -> bool:
    """Return whether these are words of a text, but for notes with which it may have begun."""
    if len(named) > _MAX_NAMED_CHARS:
        return False
    *parts, last = _NOTE_PARTS.split(named)
    # A note is cut like any other words.
    before, bracket, cut = last.rpartition("[")
    if bracket and any(start.startswith(_NUMBER.sub("0", bracket + cut)) for start in _NOTE_STARTS):
        last = before
    return all(_join_words(part.encode()) in words for part in (*parts, last))


def names_passages(text: bytes, task: str) -> bool:
    """Tell whether a task says which passages of a text it is about.

    It does if enough of its terms stand in some passages, and not in most. "Translate the text" has
    no such term, so its reader needs the whole text.
    """
    texts = [passage.decode(errors="replace") for passage in _split_passages(text)]
    # The first and the last passage say what is wanted, so they have the words of every task.
    within, headings = texts[1:-1], _headings_of(texts)[1:-1]
    own = Counter(term for passage in within for term in _terms_of(passage))
    # A name in a heading tells sections apart, even if most of them mention it.
    under = Counter(term for heading in headings for term in _terms_of(heading))
    words = (word for word in find_terms(task).values() if not is_order(word))
    wanted = _terms_of(" ".join(words)) - _TEXT_TERMS
    telling = sum(0 < (under[term] or own[term]) <= len(within) / 2 for term in wanted)
    return 0 < telling >= len(wanted) * _TELLING_SHARE


def split_chunks(text: bytes, max_tokens: int) -> list[bytes]:
    """Return a text in consecutive chunks of at most this many tokens, cut between passages."""
    room = max(1, max_tokens)
    # No byte is estimated at more than a token, so a passage of `room` bytes fits.
    passages = _split_passages(text, min(room, MAX_PASSAGE_BYTES))
    return _group_parts(passages, room, estimate_tokens)


def _split_passages(text: bytes, max_bytes: int = MAX_PASSAGE_BYTES) -> list[bytes]:
    """Split a text without losing a byte: by paragraphs, then lines, then sentences, then bytes."""
    pieces = _split_after(_PARAGRAPH_END, text)
    for pattern in (_LINE_END, _SENTENCE_END):
        pieces = [
            part
            for piece in pieces
            for part in (
                [piece]
                if len(piece) <= max_bytes
                else _group_parts(_split_after(pattern, piece), min(_MAX_GROUP_BYTES, max_bytes))
            )
        ]
    return [part for piece in pieces for part in _cut_bytes(piece, max_bytes)]


def _cut_bytes(piece: bytes, max_bytes: int) -> Iterator[bytes]:
    """Cut a piece to a size, between characters: a character of UTF-8 has up to four bytes."""
    start = 0
    while start < len(piece):
        end = start + max_bytes
        while start + 4 < end < len(piece) and piece[end] & 0xC0 == 0x80:
            end -= 1
        yield piece[start:end]
        start = end


def _split_after(pattern: re.Pattern[bytes], text: bytes) -> list[bytes]:
    ends = [match.end() for match in pattern.finditer(text)]
    bounds = [0, *ends, len(text)]
    return [text[start:end] for start, end in pairwise(bounds) if start < end]


def _group_parts(
    parts: list[bytes], max_size: int, size_of: Callable[[bytes], int] = len
) -> list[bytes]:
    """Join adjacent parts up to a size: single lines of a table or a diff say little."""
    groups: list[list[bytes]] = []
    used = 0
    for part in parts:
        size = size_of(part)
        if not groups or used + size > max_size:
            groups.append([])
            used = 0
        groups[-1].append(part)
        used += size
    return [b"".join(group) for group in groups]


def _rank_passages(passages: list[bytes], query: str, heading_weight: int) -> list[int]:
    """Return the positions of the passages, the most relevant first.

    A passage is relevant by its own words and by the headings under which it stands.
    """
    texts = [passage.decode(errors="replace") for passage in passages]
    terms = [_terms_of(text) for text in texts]
    headings = [_terms_of(heading) for heading in _headings_of(texts)]
    counts = Counter(term for words in terms for term in words)
    wanted = _terms_of(query)
    weights = {term: log(1 + len(passages) / counts[term]) for term in wanted if counts[term]}
    edges = {0: 2, len(passages) - 1: 1}

    def relevance(number: int) -> tuple[int, float, int]:
        # `fsum` is exact, so the order of a set does not decide between equal passages: a replay in
        # another process must come to the same excerpt.
        named = tuple(headings[number] & weights.keys())
        matches = (*(terms[number] & weights.keys()), *(named * heading_weight))
        score = fsum(weights[term] for term in matches)
        return (-edges.get(number, 0), -score, number)

    return sorted(range(len(passages)), key=relevance)


def _headings_of(texts: list[str]) -> list[str]:
    """Return the headings under which each passage stands, those within it included."""
    path: dict[int, str] = {}
    headings = []
    for text in texts:
        before = " ".join(path.values())
        for match in _HEADING.finditer(text):
            level = len(match["level"] or "")
            path = {other: name for other, name in path.items() if other < level}
            path[level] = match["name"]
        after = " ".join(path.values())
        headings.append(after if text.startswith("#") else f"{before} {after}")
    return headings


def _terms_of(text: str) -> frozenset[str]:
    return frozenset(match.group().casefold()[:6] for match in _WORD.finditer(text))


_TEXT_TERMS = _terms_of(
    "above below document following page section sections text whole "
    "abschnitt abschnitte dokument folgende folgenden ganze seite unten"
)
"""Terms that name the text itself, and no part of it."""


def _join_passages(passages: list[bytes], chosen: set[int]) -> Excerpt:
    parts: list[bytes] = []
    skipped: list[bytes] = []
    left_out = 0
    for number, passage in enumerate(passages):
        if number not in chosen:
            skipped.append(passage)
            left_out += len(passage)
            continue
        parts += _note_gap(skipped)
        parts += _last_heading(skipped, passage)
        parts.append(passage)
        skipped = []
    parts += _note_gap(skipped)
    return Excerpt(b"".join(parts), left_out)


def _note_gap(skipped: list[bytes]) -> list[bytes]:
    """Return the note that stands for skipped passages: how much they are, and how they begin."""
    if not skipped:
        return []
    size = sum(map(len, skipped))
    first = " ".join(skipped[0].decode(errors="replace").split())[:_MAX_NAMED_CHARS]
    return [f'\n[{size} bytes left out here, beginning "{first}"]\n'.encode()]


def _last_heading(skipped: list[bytes], passage: bytes) -> list[bytes]:
    """Return the heading among skipped passages under which the next passage stands.

    Without it a reader would take the passage for a part of the section shown before.
    """
    if passage.startswith((b"#", b"+++ ", b"diff ")):
        return []
    for text in reversed(skipped):
        headings = [match.group() for match in _HEADING.finditer(text.decode(errors="replace"))]
        if headings:
            return [headings[-1].encode()[:_MAX_HEADING_BYTES] + b"\n"]
    return []
