"""Where a text stands: which bodies hold something that another body was the first to say.

Bodies are compared by what they say: the strings of a body that is JSON, the reply of one that is a
stream, and otherwise the body as it is.  So a reply that was streamed is found in the prompt that
quotes it.
"""

from collections.abc import Iterable, Iterator

import msgspec

from forum.runs.conversation.streams import is_stream, join_stream

MIN_TEXT_BYTES = 16
"""The least length of a text that is looked for; a shorter one stands in many bodies by chance."""

_WINDOW_BYTES = 48
_MAX_WINDOWS = 1000


def read_texts(content: bytes) -> bytes:
    """Return what a body says: the strings of a JSON document, one a line, or all of the body."""
    stream = join_stream(content) if is_stream(content) else None
    if stream is not None:
        return "\n".join(_strings(stream.value)).encode("utf-8", "surrogatepass")
    try:
        document = msgspec.json.decode(content)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return content
    return "\n".join(_strings(document)).encode("utf-8", "surrogatepass")


def _strings(document: object) -> Iterator[str]:
    pending = [document]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            pending.extend(reversed(value))
        elif isinstance(value, dict):
            pending.extend(reversed([*value, *value.values()]))


def find_new_text(content: bytes, earlier: Iterable[bytes]) -> bytes:
    """Return the lines of a body that no earlier body has."""
    earlier_lines = {line for other in earlier for line in read_texts(other).split(b"\n")}
    return b"\n".join(
        line for line in read_texts(content).split(b"\n") if line not in earlier_lines
    )


class TextFinder:
    """Finds bodies that hold a line of a text, or a long part of one."""

    def __init__(self, text: bytes) -> None:
        """Look for each line of at least 16 bytes, and for parts of longer ones.

        A part counts if it has 60 bytes; more, where the text is long.
        """
        self._size = size = max(_WINDOW_BYTES, len(text) // _MAX_WINDOWS)
        lines = sorted({line for line in text.split(b"\n") if len(line) >= MIN_TEXT_BYTES}, key=len)
        short = [line for line in lines if len(line) < size]
        # The longest say most: the others are bounded in number, as the windows are.
        self._needles = short[-_MAX_WINDOWS:]
        self._needles += [
            # Each part that is a quarter longer than a window holds a whole one.
            line[at : at + size]
            for line in lines[len(short) :]
            for at in range(0, len(line) - size + 1, size // 4)
        ]

    def is_in(self, content: bytes) -> bool:
        """Return whether a body holds a line of the text, or a part of one that is long enough."""
        says = read_texts(content)
        return any(needle in says for needle in self._needles)
