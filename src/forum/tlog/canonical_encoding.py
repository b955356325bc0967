"""Base64 and decimal encodings that several formats share, each with one canonical form.

A parser that accepts two spellings of one value lets two different files pass for one another.
So every parser here refuses input that its formatter would not have written.
"""

from base64 import b64decode, b64encode

from forum.errors import Malformed

# The largest signed 64-bit integer: readers in other languages use that type for sizes and times.
MAX_INT = (1 << 63) - 1


def format_base64(raw: bytes) -> str:
    """Return standard base64 with padding (RFC 4648 section 4)."""
    return b64encode(raw).decode("ascii")


def parse_base64(text: str, what: str) -> bytes:
    """Decode base64.  Raises `Malformed` for stray bits, missing padding and line breaks."""
    try:
        raw = b64decode(text, validate=True)
    except ValueError as error:
        raise Malformed(what, "not base64") from error
    if format_base64(raw) != text:
        raise Malformed(what, "not canonical base64")
    return raw


def parse_decimal(text: str, what: str) -> int:
    """Parse an ASCII decimal number without sign or leading zeros.  Raises `Malformed`."""
    # Check the length first: the time of int() grows faster than the length of its input.
    if not (0 < len(text) <= 19 and text.isascii() and text.isdigit()):
        raise Malformed(what, f"{text[:20]!r} is not a decimal number below 2^63")
    number = int(text)
    if str(number) != text:
        raise Malformed(what, f"{text} has a leading zero")
    return check_number(number, what)


def check_number(number: int, what: str) -> int:
    """Return the number.  Raises `Malformed` if it is not between 0 and `MAX_INT`."""
    if not 0 <= number <= MAX_INT:
        raise Malformed(what, f"{number} is not between 0 and 2^63 - 1")
    return number


def check_text(text: str, what: str) -> None:
    """Raise `Malformed` for text that a signed note cannot hold (signed-note, section Format)."""
    if any(character < " " for character in text):
        raise Malformed(what, "holds a control character")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Malformed(what, "is not Unicode text") from error
