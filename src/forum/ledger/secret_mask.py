"""Secrets: what must never be recorded, and gives way to its name before anything is hashed.

A secret is looked for as it is, and as programs like to write it: escaped for JSON, in base64,
percent-encoded.  Every byte of every occurrence is hidden, also where two of them overlap; what
holds no secret stays as it is.  What is masked already is not changed by the same mask again.

Two limits.  A value of less than `MIN_SECRET_LENGTH` bytes is left alone: it would shred ordinary
text.  And a value that holds a bracket could be spelled by the mark of another secret together with
the text around it, which tells nothing to anybody who does not know the value.
"""

import re
from base64 import standard_b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import msgspec
import re2

from forum.ledger.body import CHUNK_SIZE, Content
from forum.ledger.entry import Facts

MIN_SECRET_LENGTH = 8
"""A shorter value is not masked."""

_MAX_MATCHER_BYTES = 1 << 30
"""The most memory for the matcher, which takes what it needs: keys of many lines are long."""
_NOT_UNRESERVED = re.compile(rb"[^A-Za-z0-9._~-]")  # RFC 3986 section 2.3
_NOT_ASCII = re.compile(r"[^\x00-\x7e]")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.-]")
_encoder = msgspec.json.Encoder()

F = TypeVar("F", bound=Facts)

_SECRET_NAMES = ("_KEY", "APIKEY", "_TOKEN", "_SECRET", "PASSWORD", "PASSWD", "_CREDENTIALS")


def is_secret_name(variable: str) -> bool:
    """Tell whether a variable of the environment is called like those that hold secrets."""
    return variable.upper().endswith(_SECRET_NAMES)


@dataclass(frozen=True, slots=True)
class SecretMask:
    """Hides secrets.  Without any it does nothing, and costs nothing."""

    _marks: Mapping[bytes, bytes] = field(default_factory=dict, repr=False)
    """What stands for each form of each secret."""
    _longest: int = field(default=0, repr=False)
    _search: Callable[..., Any] | None = field(default=None, repr=False, compare=False)

    @classmethod
    def from_secrets(cls, secrets: Mapping[str, bytes]) -> Self:
        """Hide these values behind their names; one that is too short is ignored."""
        values = {name: value for name, value in secrets.items() if len(value) >= MIN_SECRET_LENGTH}
        forms = {form: name for name, value in values.items() for form in _encodings_of(value)}
        if not forms:
            return cls()
        # Of those that begin at one byte the matcher takes the first: that must be the longest.
        inorder = sorted(forms, key=len, reverse=True)
        found = re2.compile(b"|".join(map(re2.escape, inorder)), _matcher_options()).search
        marks = {form: _mark(name, found) for form, name in forms.items()}
        return cls(marks, len(inorder[0]), found)

    def __bool__(self) -> bool:
        return self._search is not None

    def has_secret(self, data: bytes) -> bool:
        """Tell whether there is a secret in these bytes."""
        return self._search is not None and self._search(data) is not None

    def may_have_secret(self, *values: object) -> bool:
        """Tell whether there may be a secret in texts, and in facts: one look at all of them."""
        try:
            return self.has_secret(_encoder.encode(values))
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return True  # they cannot be written, and whoever refuses them is not to quote one

    def mask_content(self, content: Content) -> Content:
        """Return this very content if there is no secret in it, and otherwise one that hides it."""
        if self._search is None or not self._has_secret_in_chunks(content.chunks()):
            return content
        return _MaskedContent(content, self, sum(map(len, self.mask_chunks(content.chunks()))))

    def mask_text(self, text: str) -> str:
        """Return a text without secrets."""
        if self._search is None or not self._search(data := text.encode(errors="surrogatepass")):
            return text
        return b"".join(self.mask_chunks([data])).decode(errors="replace")

    def mask_label(self, label: str) -> str:
        """Return a label without secrets; it stays a label, which has no spaces."""
        hidden = self.mask_text(label)
        return label if hidden == label else hidden.replace(" ", ":")

    def mask_facts(self, facts: F) -> F:
        """Return facts without secrets in their texts."""
        hidden: F = self._mask_value(facts)
        return hidden

    def mask_chunks(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the bytes with marks in place of secrets, wherever the pieces were cut."""
        window, done = b"", 0
        for chunk in chunks:
            window += chunk
            # What begins from here on may end in a later piece.
            sure = max(0, len(window) - self._longest + 1)
            piece, done = self._replace(window, done, sure)
            yield piece
            window, done = window[sure:], done - sure
        yield self._replace(window, done, len(window))[0]

    def _replace(self, window: bytes, done: int, sure: int) -> tuple[bytes, int]:
        """Return what stands for the bytes from `done` on, and up to where that is so.

        All occurrences are seen to that begin before `sure`.
        """
        pieces: list[bytes] = []
        for start, end in self._spans(window, sure):
            if start >= done:
                pieces += (window[done:start], self._marks[window[start:end]])
            done = max(done, end)
        pieces.append(window[done:sure])
        return b"".join(pieces), max(done, sure)

    def _spans(self, window: bytes, sure: int) -> Iterator[tuple[int, int]]:
        """Yield where the longest secrets are that begin before `sure`, overlapping or not."""
        at = 0
        while self._search and (found := self._search(window, at)):
            start, end = found.span()
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

    def _mask_value(self, value: Any) -> Any:  # noqa: ANN401  a member of facts
        match value:
            case msgspec.Struct():
                members = {name: getattr(value, name) for name in value.__struct_fields__}
                hidden = {name: self._mask_value(member) for name, member in members.items()}
                return type(value)(**hidden) if hidden != members else value
            case list() | tuple():
                return type(value)(map(self._mask_value, value))
            case str() if type(value) is str:  # a string enum is closed, and says nothing else
                return self.mask_text(value)
            case _:
                return value


class _MaskedContent(msgspec.Struct, frozen=True):
    """Content in which secrets are hidden while it is read."""

    content: Content
    mask: SecretMask
    size: int

    def chunks(self) -> Iterator[bytes]:
        """Read it in full pieces, but for the last: marks are shorter or longer than secrets."""
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
    """Yield how a secret may be written."""
    for encoded in (standard_b64encode(value), urlsafe_b64encode(value)):
        yield from (encoded, encoded.rstrip(b"="))
    yield _NOT_UNRESERVED.sub(lambda byte: b"%%%02X" % ord(byte[0]), value)
    yield value
    try:
        texts = {value.decode()}
    except UnicodeDecodeError:
        return
    # Twice: the arguments of a tool are JSON, and stand as a text in the JSON of a reply.
    for _ in range(2):
        texts = {form for text in texts for form in _json_encodings(text)}
        yield from (text.encode() for text in texts)


def _json_encodings(text: str) -> tuple[str, str]:
    """Return how a text stands in JSON, and in JSON that is kept to ASCII."""
    escaped = msgspec.json.encode(text).decode()[1:-1]
    return escaped, _NOT_ASCII.sub(_code_units, escaped)


def _code_units(character: re.Match[str]) -> str:
    units = character[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _mark(name: str, search: Callable[..., Any]) -> bytes:
    """Return what stands for a secret: its name, unless that would tell one."""
    mark = f"[secret {_NOT_PLAIN.sub('_', name)}]".encode()
    return b"[secret]" if search(mark) else mark


def _matcher_options() -> Any:  # noqa: ANN401  re2 has no types
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # bytes are bytes
    options.max_mem = _MAX_MATCHER_BYTES
    options.never_capture = True
    options.log_errors = False
    return options
