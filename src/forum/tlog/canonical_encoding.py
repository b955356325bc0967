"""The small encodings that several formats share, each accepted in its only form.

A parser that reads two spellings of one value lets two different files pass for one
another, so every parser here refuses what its formatter would not have written.
"""

from base64 import b64decode, b64encode

from forum.errors import Malformed

# What a signed 64-bit integer holds: readers in other languages take sizes and times as one.
MAX_INT = (1 << 63) - 1


def format_base64(raw: bytes) -> str:
    """Write standard base64 with padding (RFC 4648 section 4)."""
    return b64encode(raw).decode("ascii")


def parse_base64(text: str, what: str) -> bytes:
    """Read base64.  Stray bits, missing padding and line breaks are refused."""
    try:
        raw = b64decode(text, validate=True)
    except ValueError as error:
        raise Malformed(what, "not base64") from error
    if format_base64(raw) != text:
        raise Malformed(what, "not canonical base64")
    return raw


def parse_decimal(text: str, what: str) -> int:
    """Read a number without sign, leading zeros, or digits of other scripts."""
    # The length goes first: int() takes time that grows faster than its input.
    if not (0 < len(text) <= 19 and text.isascii() and text.isdigit()):
        raise Malformed(what, f"{text[:20]!r} is not a decimal number below 2^63")
    number = int(text)
    if str(number) != text:
        raise Malformed(what, f"{text} has a leading zero")
    return check_number(number, what)


def check_number(number: int, what: str) -> int:
    """Refuse a number that not every reader could hold."""
    if not 0 <= number <= MAX_INT:
        raise Malformed(what, f"{number} is not between 0 and 2^63 - 1")
    return number


def check_text(text: str, what: str) -> None:
    """Refuse text that a signed note cannot hold (signed-note, section Format)."""
    if any(character < " " for character in text):
        raise Malformed(what, "holds a control character")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Malformed(what, "is not Unicode text") from error
