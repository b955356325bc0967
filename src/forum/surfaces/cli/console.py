"""Everything that the command line prints passes here, and nothing else may print.

What is printed may come from a bundle, an agent or a server, and a terminal obeys what it is sent.
So `echo` prints each of its arguments as exactly one line, and every control character, mark of
direction and invisible character in it becomes a visible escape.  The sequences that Forum itself
sends carry a number that is drawn anew in each process: no data can contain them.

`guard_streams` covers what does not call `echo`: errors of click, logs, warnings and tracebacks.
"""

import os
import re
import sys
from collections.abc import Iterable
from io import TextIOWrapper
from typing import Any, TextIO

import click

from forum.untrusted_text import escape_json_line, escape_line

# As `secrets` draws it; loading that module costs a tenth of `forum --help`.
_NUMBER = int.from_bytes(os.urandom(8))
# Of the form of other sequences, so that click recognizes and removes them where there is no color.
_split_at_sequences = re.compile(rf"\x1b\[{_NUMBER};([0-9;]*[AJmr])").split
_is_plain = re.compile(r"[ -~]*+").fullmatch
_is_plain_lines = re.compile(r"[\n\t -~]*+").fullmatch
_split_at_breaks = re.compile(r"([\n\t])").split
_CARRIAGE_RETURN = "r"
"""Stands for the return to the beginning of the line, which is no sequence by itself."""
_COLORS = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36"}


def style(
    text: str, *, fg: str | None = None, bold: bool | None = None, dim: bool | None = None
) -> str:
    """Return text in a style, for `echo`."""
    codes = ["1"] * bool(bold) + ["2"] * bool(dim) + ([_COLORS[fg]] if fg else [])
    if not codes:
        return text
    return f"{_own_sequence(';'.join(codes) + 'm')}{text}{_own_sequence('0m')}"


def _own_sequence(end: str) -> str:
    """Return a sequence that `echo` and a guarded stream let pass."""
    return f"\x1b[{_NUMBER};{end}"


def _escape_as_line(text: str) -> str:
    """Return text as one line, in which only our own sequences are left."""
    if _is_plain(text):
        return text
    pieces = _split_at_sequences(text)
    # Every second piece is the end of a sequence.
    return "".join(
        _own_sequence(piece) if at % 2 else escape_line(piece) for at, piece in enumerate(pieces)
    )


def _send(text: str, *, color: bool) -> str:
    """Return what is sent to a terminal: our own sequences, and everything else escaped."""
    if _is_plain_lines(text):
        return text
    pieces = _split_at_sequences(text)
    return "".join(
        _sent_sequence(piece, color=color) if at % 2 else _escape_lines(piece)
        for at, piece in enumerate(pieces)
    )


def _sent_sequence(end: str, *, color: bool) -> str:
    if end == _CARRIAGE_RETURN:
        return "\r"
    return f"\x1b[{end}" if color or not end.endswith("m") else ""


def _escape_lines(text: str) -> str:
    return "".join(
        part if at % 2 else escape_line(part) for at, part in enumerate(_split_at_breaks(text))
    )


class GuardedStream(TextIOWrapper):
    """A standard stream that escapes whatever is written to it, except for lines and tabs."""

    def __init__(self, stream: TextIOWrapper, *, color: bool) -> None:
        stream.flush()
        super().__init__(
            stream.buffer,
            # As click does: a locale without UTF-8 was most likely not set.
            encoding="utf-8" if stream.encoding.lower() == "ascii" else stream.encoding,
            # Otherwise a character that the locale's encoding lacks would end the command.
            errors="backslashreplace",
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        self._color = color
        # Both have one buffer: the end of the other stream would close it.
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text with visible escapes."""
        super().write(_send(text, color=self._color))
        return len(text)


def guard_streams(*, color: bool | None) -> None:
    """Escape whatever this process writes to its standard streams from now on."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        # Not a stream to which somebody has redirected output within this process.
        if isinstance(stream, TextIOWrapper) and stream is getattr(sys, f"__{name}__"):
            has_color = stream.isatty() if color is None else color
            setattr(sys, name, GuardedStream(stream, color=has_color))


def echo(*lines: object, err: bool = False, file: TextIO | None = None) -> None:
    """Print each argument as exactly one line; without any, an empty line."""
    _write("".join(f"{_escape_as_line(str(line))}\n" for line in lines or ("",)), err, file)


def _write(text: str, err: bool, file: TextIO | None = None) -> None:  # noqa: FBT001
    stream = file or (sys.stderr if err else sys.stdout)
    if stream is None:  # closed by the parent process
        return
    if isinstance(stream, GuardedStream):
        stream.write(text)
        stream.flush()
    else:
        click.echo(_send(text, color=True), file=stream, nl=False)


def redraw(lines: Iterable[str], above: int) -> None:
    """Replace the last `above` rows of the terminal on stderr, in one write against flicker."""
    wipe = _own_sequence(f"{above}A") + _own_sequence("J") if above else ""
    _write(wipe + "".join(f"{_escape_as_line(line)}\n" for line in lines), err=True)


def redraw_line(line: str, *, ends: bool) -> None:
    """Replace the line of the terminal on stderr in which the cursor stands."""
    text = f"{_own_sequence(_CARRIAGE_RETURN)}{_escape_as_line(line)}"
    _write(f"{text}\n" if ends else text, err=True)


def echo_json(text: str) -> None:
    """Print one line of JSON, with escapes of JSON for characters that cannot be seen."""
    echo(escape_json_line(text))


def write_bytes(chunks: Iterable[bytes]) -> None:
    """Write content unchanged to a file or a pipe; a terminal gets its lines, escaped."""
    if sys.stdout is None:  # closed by the parent process
        return
    sys.stdout.flush()
    if sys.stdout.isatty():
        words = b"".join(chunks).decode(errors="replace").replace("\r\n", "\n").expandtabs()
        if words:
            echo(*words.removesuffix("\n").split("\n"))
        return
    for chunk in chunks:
        sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


def prompt(text: str, **options: Any) -> Any:  # noqa: ANN401  as click has it
    """Ask for a value, as `click.prompt` does."""
    return click.prompt(escape_line(text), **options)


def confirm(question: str) -> bool:
    """Ask a question on stderr; return whether the answer was yes."""
    return click.confirm(escape_line(question), err=True)
