"""Fit texts into the context of a model: token estimates, and excerpts by relevance.

The tokenizers of most models are not at hand, so tokens are estimated from bytes. The estimate is
high on purpose: an English text has about four bytes for each token, German and program code about
three. A prompt that is planned too small costs a little context; one that is planned too large is
refused by the provider.
"""

import re
from collections import Counter
from itertools import pairwise
from math import log

import msgspec

TOKEN_BYTES = 3
"""The assumed number of bytes of a token."""
MAX_PASSAGE_BYTES = 1200
_MAX_NAMED_CHARS = 60

_PARAGRAPH_END = re.compile(rb"\n[ \t]*\n+")
_SENTENCE_END = re.compile(rb"(?<=[.!?;])\s+")
_WORD = re.compile(r"\w{3,}")


def estimate_tokens(text: bytes) -> int:
    """Return the estimated number of tokens of a text; seldom too low."""
    return -(-len(text) // TOKEN_BYTES)


class Excerpt(msgspec.Struct, frozen=True):
    """The passages of a text that fit, with a note in place of each part that was left out."""

    text: bytes
    left_out: int
    """The number of bytes of the text that are missing; 0 if the excerpt is the whole text."""


def excerpt_by_relevance(text: bytes, query: str, max_tokens: int) -> Excerpt:
    """Return the passages of a text that share most with a query, in the order of the text.

    A text that fits is returned whole. The first and the last passage are preferred: a request
    says there what it wants. Notes name what was left out by its first words, so that a reader
    knows that more exists and what it is about.
    """
    if estimate_tokens(text) <= max_tokens:
        return Excerpt(text, 0)
    passages = _split_passages(text)
    room = max_tokens * TOKEN_BYTES
    chosen: set[int] = set()
    for number in _rank_passages(passages, query):
        # Each chosen passage may add a note for the gap before it.
        size = len(passages[number]) + _MAX_NAMED_CHARS * 2
        if size <= room:
            chosen.add(number)
            room -= size
    return _join_passages(passages, chosen)


def split_chunks(text: bytes, max_tokens: int) -> list[bytes]:
    """Return a text in consecutive chunks of at most this many tokens, cut between passages."""
    room = max(1, max_tokens) * TOKEN_BYTES
    chunks: list[bytes] = []
    for passage in _split_passages(text, min(room, MAX_PASSAGE_BYTES)):
        if chunks and len(chunks[-1]) + len(passage) <= room:
            chunks[-1] += passage
        else:
            chunks.append(passage)
    return chunks


def _split_passages(text: bytes, max_bytes: int = MAX_PASSAGE_BYTES) -> list[bytes]:
    """Split a text without losing a byte: by paragraphs, then lines, then sentences, then bytes."""
    pieces = [text]
    for pattern in (_PARAGRAPH_END, re.compile(rb"\n"), _SENTENCE_END):
        pieces = [
            part
            for piece in pieces
            for part in ([piece] if len(piece) <= max_bytes else _split_after(pattern, piece))
        ]
    return [
        piece[at : at + max_bytes] for piece in pieces for at in range(0, len(piece), max_bytes)
    ]


def _split_after(pattern: re.Pattern[bytes], text: bytes) -> list[bytes]:
    ends = [match.end() for match in pattern.finditer(text)]
    bounds = [0, *ends, len(text)]
    return [text[start:end] for start, end in pairwise(bounds) if start < end]


def _rank_passages(passages: list[bytes], query: str) -> list[int]:
    """Return the positions of the passages, the most relevant first."""
    terms = [_terms_of(passage.decode(errors="replace")) for passage in passages]
    counts = Counter(term for words in terms for term in words)
    wanted = _terms_of(query)
    weights = {term: log(1 + len(passages) / counts[term]) for term in wanted if counts[term]}
    edges = {0: 2, len(passages) - 1: 1}

    def relevance(number: int) -> tuple[int, float, int]:
        score = sum(weights[term] for term in terms[number] & weights.keys())
        return (-edges.get(number, 0), -score, number)

    return sorted(range(len(passages)), key=relevance)


def _terms_of(text: str) -> frozenset[str]:
    return frozenset(match.group().casefold()[:6] for match in _WORD.finditer(text))


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
