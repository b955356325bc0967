"""Secret masking: replace secret values by their names before anything is hashed or stored.

A secret is found in plain form and in common encodings: escaped for JSON, base64, percent-encoded.
Every byte of every occurrence is masked, also where occurrences overlap; content without a secret
is not changed.  Masking is idempotent.

There are two limits.  A value shorter than `MIN_SECRET_LENGTH` bytes is not masked, because it
would occur by chance in ordinary text.  A value that contains a bracket may appear after masking,
formed by the mark of another secret and the text around it; this reveals nothing to a reader who
does not know the value.
"""

import re
from base64 import standard_b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import msgspec
import re2

from forum.ledger.body import CHUNK_SIZE, Content
from forum.ledger.entry import Facts, change_texts

MIN_SECRET_LENGTH = 8
"""Length in bytes below which a value is not masked."""

_MAX_MATCHER_BYTES = 1 << 30
"""Memory limit of the matcher, which allocates on demand: multi-line keys need large automata."""
_NOT_UNRESERVED = re.compile(rb"[^A-Za-z0-9._~-]")  # RFC 3986 section 2.3
_NOT_ASCII = re.compile(r"[^\x00-\x7e]")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.-]")
_encoder = msgspec.json.Encoder()

F = TypeVar("F", bound=Facts)

_SECRET_NAMES = ("_KEY", "APIKEY", "_TOKEN", "_SECRET", "PASSWORD", "PASSWD", "_CREDENTIALS")


def is_secret_name(variable: str) -> bool:
    """Return whether the name of an environment variable suggests that it holds a secret."""
    return variable.upper().endswith(_SECRET_NAMES)


@dataclass(frozen=True, slots=True)
class SecretMask:
    """Masks secrets in content, text and facts.  A mask without secrets does nothing."""

    _marks: Mapping[bytes, bytes] = field(default_factory=dict, repr=False)
    """The replacement for each encoding of each secret."""
    _longest: int = field(default=0, repr=False)
    _search: Callable[..., Any] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_secrets(cls, secrets: Mapping[str, bytes]) -> Self:
        """Return a mask that replaces these values by their names; too short values are ignored."""
        values = {name: value for name, value in secrets.items() if len(value) >= MIN_SECRET_LENGTH}
        forms = {form: name for name, value in values.items() for form in _encodings_of(value)}
        if not forms:
            return cls()
        # An alternation matches the first alternative that fits, so the longest must come first.
        inorder = sorted(forms, key=len, reverse=True)
        search = re2.compile(b"|".join(map(re2.escape, inorder)), _matcher_options()).search
        marks = {form: _mark(name, search) for form, name in forms.items()}
        return cls(marks, len(inorder[0]), search)

    def __bool__(self) -> bool:
        return self._search is not None

    def has_secret(self, data: bytes) -> bool:
        """Return whether these bytes contain a secret."""
        return self._search is not None and self._search(data) is not None

    def may_have_secret(self, *values: object) -> bool:
        """Return whether these texts and facts may contain a secret, with one search over all."""
        try:
            return self.has_secret(_encoder.encode(values))
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return True  # not encodable: mask them, because the error message may quote them

    def mask_content(self, content: Content) -> Content:
        """Return the same object if the content holds no secret, and otherwise a masked view."""
        if self._search is None or not self._has_secret_in_chunks(content.chunks()):
            return content
        return _MaskedContent(content, self, sum(map(len, self.mask_chunks(content.chunks()))))

    def mask_text(self, text: str) -> str:
        """Return a text with its secrets masked."""
        if self._search is None or not self._search(data := text.encode(errors="surrogatepass")):
            return text
        return b"".join(self.mask_chunks([data])).decode(errors="replace")

    def mask_label(self, label: str) -> str:
        """Return a label with its secrets masked; spaces in marks are replaced to keep it valid."""
        hidden = self.mask_text(label)
        return label if hidden == label else hidden.replace(" ", ":")

    def mask_facts(self, facts: F) -> F:
        """Return facts with the secrets in their strings masked."""
        hidden: F = change_texts(facts, self.mask_text)
        return hidden

    def mask_chunks(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the bytes with secrets masked, also those that span several chunks."""
        window, done = b"", 0
        for chunk in chunks:
            window += chunk
            # A secret that starts at or after this offset may end in a later chunk.
            sure = max(0, len(window) - self._longest + 1)
            piece, done = self._replace(window, done, sure)
            yield piece
            window, done = window[sure:], done - sure
        yield self._replace(window, done, len(window))[0]

    def _replace(self, window: bytes, done: int, sure: int) -> tuple[bytes, int]:
        """Return the masked bytes of the window from `done` on, and the offset where they end.

        All secrets that start before `sure` are masked.
        """
        pieces: list[bytes] = []
        for start, end in self._spans(window, sure):
            if start >= done:
                pieces += (window[done:start], self._marks[window[start:end]])
            done = max(done, end)
        pieces.append(window[done:sure])
        return b"".join(pieces), max(done, sure)

    def _spans(self, window: bytes, sure: int) -> Iterator[tuple[int, int]]:
        """Yield the span of the longest secret at each start before `sure`, overlapping or not."""
        at = 0
        while self._search and (match := self._search(window, at)):
            start, end = match.span()
            if start >= sure:
                return
            yield start, end
            at = start + 1

    def _has_secret_in_chunks(self, chunks: Iterable[bytes]) -> bool:
        before = b""
        for chunk in chunks:
            window = before + chunk
            if self.has_secret(window):
                return True
            before = window[1 - self._longest :]
        return False


class _MaskedContent(msgspec.Struct, frozen=True):
    """Content whose secrets are masked while it is read."""

    content: Content
    mask: SecretMask
    size: int

    def chunks(self) -> Iterator[bytes]:
        """Yield chunks of `CHUNK_SIZE`, the last one shorter.

        Masked chunks are split again, because a mark and its secret differ in length.
        """
        rest = b""
        for piece in self.mask.mask_chunks(self.content.chunks()):
            rest += piece
            full = len(rest) // CHUNK_SIZE * CHUNK_SIZE
            for start in range(0, full, CHUNK_SIZE):
                yield rest[start : start + CHUNK_SIZE]
            rest = rest[full:]
        if rest:
            yield rest


def _encodings_of(value: bytes) -> Iterator[bytes]:
    """Yield the encodings of a secret that are searched for."""
    for encoded in (standard_b64encode(value), urlsafe_b64encode(value)):
        yield from (encoded, encoded.rstrip(b"="))
    yield _NOT_UNRESERVED.sub(lambda byte: b"%%%02X" % ord(byte[0]), value)
    yield value
    try:
        texts = {value.decode()}
    except UnicodeDecodeError:
        return
    # Twice, because the arguments of a tool call are JSON inside a string of the reply's JSON.
    for _ in range(2):
        texts = {form for text in texts for form in _json_encodings(text)}
        yield from (text.encode() for text in texts)


def _json_encodings(text: str) -> tuple[str, str]:
    """Return a text as escaped in JSON, and in JSON restricted to ASCII."""
    escaped = msgspec.json.encode(text).decode()[1:-1]
    return escaped, _NOT_ASCII.sub(_code_units, escaped)


def _code_units(character: re.Match[str]) -> str:
    units = character[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _mark(name: str, search: Callable[..., Any]) -> bytes:
    """Return the mark of a secret: its name, unless the mark would itself contain a secret."""
    mark = f"[secret {_NOT_PLAIN.sub('_', name)}]".encode()
    return b"[secret]" if search(mark) else mark


def _matcher_options() -> Any:  # noqa: ANN401  re2 has no types
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # match bytes, not UTF-8 characters
    options.max_mem = _MAX_MATCHER_BYTES
    options.never_capture = True
    options.log_errors = False
    return options
