r"""Text that others wrote, and how it is shown: on a terminal and in HTML.

An escape sequence repaints a terminal, a mark of direction turns figures around, and a character
without a form of its own hides a text.  `UntrustedText` cannot be printed by accident: whatever
formats it gets visible escapes, such as `\x1b` and `\u202e`.  The escapers are also for strings
whose type does not say where they come from.

One table says which characters are hidden; the dashboard has a copy.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

HIDDEN_RANGES = (
    (0x0000, 0x0008),
    (0x000B, 0x001F),
    (0x007F, 0x009F),
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x0600, 0x0605),
    (0x061C, 0x061C),
    (0x06DD, 0x06DD),
    (0x070F, 0x070F),
    (0x0890, 0x0891),
    (0x08E2, 0x08E2),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xD800, 0xDFFF),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0x110BD, 0x110BD),
    (0x110CD, 0x110CD),
    (0x13430, 0x1343F),
    (0x16FE4, 0x16FE4),
    (0x1BCA0, 0x1BCA3),
    (0x1D159, 0x1D159),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)
"""Characters that are invisible, control a display, or turn the direction of writing.

Tab and newline are not among them: who shows one line escapes them as well.
"""

JOINERS = frozenset("\u200d\ufe0e\ufe0f")
"""Part of emoji and of some scripts: no hidden characters right after a symbol or a mark."""

_MAX_MARKS = 8
"""More marks than any script puts on one letter cover other lines."""

_HIDDEN = "".join(f"{chr(first)}-{chr(last)}" for first, last in HIDDEN_RANGES)
_is_listed = re.compile(f"[{_HIDDEN}]").match
_escape_in_json = re.compile(f"[{_HIDDEN}]").sub
_escape_listed = re.compile(f"[{_HIDDEN}\t\n]").sub
_SHORT_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def is_hidden(character: str, before: str) -> bool:
    """Return whether nobody sees a character or a terminal obeys it, except for a newline.

    `before` is the character before it, or "".
    """
    if character in JOINERS and before:
        # Only right after a symbol or a mark: a row of them could carry a hidden text.
        if before in JOINERS:
            return (before, character) != ("\ufe0f", "\u200d")
        return unicodedata.category(before) not in ("So", "Sk", "Mn", "Mc")
    if character.isascii():
        return character != "\n" and not character.isprintable()
    return _is_listed(character) is not None or unicodedata.category(character)[0] == "C"


def replace_hidden(text: str) -> str:
    """Return text of the same length with U+FFFD for each character that nobody sees."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text  # most texts are: character by character takes a hundred times as long
    before = ("", *text)
    return "".join(
        "\ufffd" if is_hidden(letter, before[at]) else letter for at, letter in enumerate(text)
    )


def escape_character(character: str) -> str:
    """Return a character as a visible escape, as Python and JavaScript write it."""
    code = ord(character)
    if code < 0x100:
        return _SHORT_ESCAPES.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def escape_line(text: str) -> str:
    """Return a text as one line for a terminal: line breaks and tabs are escaped too."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped_pieces(text))


def escape_lines(text: str) -> str:
    """Return lines of text, each escaped as one line."""
    return "\n".join(map(escape_line, text.split("\n")))


def escape_json(data: bytes) -> bytes:
    """Return JSON of the same value, with escapes of JSON for hidden characters.

    Control characters that JSON must escape are escaped already.
    """
    if data.isascii() and b"\x7f" not in data:
        return data
    return _escape_in_json(lambda match: _escape_units(match[0]), data.decode()).encode()


def escape_json_line(text: str) -> str:
    """Return a line of JSON of the same value, in printable ASCII if a character is hidden."""
    if escape_line(text) == text:
        return text
    return "".join(c if " " <= c <= "~" else _escape_units(c) for c in text)


def _escape_units(character: str) -> str:
    """Return a character in the escapes of JSON, which are of UTF-16."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _escaped_pieces(text: str) -> Iterator[str]:
    before, marks = "", 0
    for character in text:
        is_mark = not character.isascii() and unicodedata.category(character)[0] == "M"
        marks = marks + 1 if is_mark else 0
        # A mark at the beginning would change what Forum itself printed before it.
        is_stray = is_mark and (not before or marks > _MAX_MARKS)
        if is_stray or character == "\n" or is_hidden(character, before):
            yield escape_character(character)
        else:
            yield character
        before = character


def escape_hidden(text: str) -> str:
    """Return a text with visible escapes in place of hidden characters, tabs and line breaks.

    Only the table decides, so that a page has the same bytes under every version of Unicode.
    """
    return _escape_listed(lambda match: escape_character(match[0]), text)


def escape_html(text: str) -> str:
    """Return a text for HTML, also between quotes of an attribute."""
    return escape(escape_hidden(text))


def isolate_html(text: str) -> str:
    """Return lines of text as an HTML element from which no direction of writing spreads."""
    lines = "\n".join(map(escape_html, text.split("\n")))
    return f"<bdi>{lines}</bdi>"


@dataclass(frozen=True, slots=True)
class UntrustedText:
    """Text from evidence or from another program; shown only with visible escapes."""

    raw: str

    def __str__(self) -> str:
        return escape_line(self.raw)

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __repr__(self) -> str:
        return f"UntrustedText({str(self)!r})"
