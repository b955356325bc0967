"""Output: reports and entries as text, or one JSON object for programs."""

import json
import os
import shutil
import stat
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec

from forum.app.formatting import format_facts, pluralize, strip_control_characters
from forum.ledger.log import LocatedEntry
from forum.ledger.sequencer import Publication
from forum.surfaces.cli.console import echo, echo_json, redraw_line, style, write_bytes

_MAX_SHOWN = 20_000
"""Maximum number of characters of a text that are printed."""
_WRAPPED_AT_ONCE = 10_000
"""How many characters of a line are wrapped at once; a word may be broken there."""


def terminal_width() -> int:
    """Return the terminal's width, limited to a readable range."""
    return max(60, min(120, shutil.get_terminal_size((80, 24)).columns))


def wrap_lines(words: str, columns: int, lead: str = "") -> list[str]:
    """Return text wrapped to the width, each line with `lead`; no lines for an empty text."""
    wrapper = textwrap.TextWrapper(
        columns - 1,
        initial_indent=lead,
        subsequent_indent=lead,
        replace_whitespace=False,
        break_on_hyphens=False,
        break_long_words=True,
    )
    # The time of `textwrap` grows with the square of the length of a word or of a gap.
    starts = range(0, len(words), _WRAPPED_AT_ONCE)
    return [line for at in starts for line in wrapper.wrap(words[at : at + _WRAPPED_AT_ONCE])]


def wrap_text(text: str, columns: int, lead: str, rest: str) -> Iterator[str]:
    """Yield the lines of a text, wrapped; of a long one the beginning and the command `rest`."""
    for line in text[:_MAX_SHOWN].split("\n"):
        yield from wrap_lines(line, columns, lead) or [""]
    if len(text) > _MAX_SHOWN:
        yield f"{lead}… {pluralize(len(text) - _MAX_SHOWN, 'more character')}: {rest}"


def clean_lines(content: bytes | str) -> list[str]:
    """Return the lines of a text from elsewhere, without tabs and control characters."""
    text = content.decode(errors="replace") if isinstance(content, bytes) else content
    return strip_control_characters(text.expandtabs(4)).strip().split("\n")


def with_heading(title: str, lines: Collection[str]) -> list[str]:
    """Return a section of a screen; nothing if it has no lines."""
    return ["", style(title, bold=True), *lines] if lines else []


def format_table(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Return rows in columns; those with a number in `right` are aligned to the right."""
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    forms = [f"{{:{'>' if n in right else '<'}{size}}}" for n, size in enumerate(sizes)]
    return ["  ".join(forms).format(*row).rstrip() for row in rows]


def print_result(
    schema: str,
    content: msgspec.Struct | dict[str, Any],
    text: str | Iterable[str],
    *,
    as_json: bool,
) -> None:
    """Print a result as one JSON object that names its schema, or as lines of text."""
    if as_json:
        print_json(schema, content)
        return
    for line in text.split("\n") if isinstance(text, str) else text:
        echo(line)


def print_json(schema: str, content: msgspec.Struct | dict[str, Any]) -> None:
    """Print one JSON object that names its schema."""
    members: dict[str, Any] = json.loads(msgspec.json.encode(content))
    # JSON escapes are valid under every locale; Python's backslashreplace is not JSON.
    # `sys.stdout` is None if the parent process has closed it.
    ascii_only = sys.stdout is None or sys.stdout.encoding.lower() != "utf-8"
    echo_json(json.dumps({"schema": schema, **members}, ensure_ascii=ascii_only))


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read: it holds what agents and people have said."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fchmod(descriptor, 0o600)  # it may have been there before
        file.write(data)


def print_bytes(content: bytes) -> None:
    """Print content that ends with a newline; a terminal gets it without control characters."""
    # Otherwise the next message, or the prompt of the shell, stands on the same line.
    write_bytes([content, b"" if content.endswith(b"\n") or not content else b"\n"])


def format_entry(located: LocatedEntry) -> str:
    """Return what an entry records on one line, without its place."""
    return " ".join((located.entry.kind, *_entry_details(located)))


def _entry_details(located: LocatedEntry) -> Iterator[str]:
    """Yield the names of an entry's bodies and its facts, as far as it has any."""
    if located.entry.bodies:
        yield f"[{', '.join(located.entry.bodies)}]"
    if facts := format_facts(located):
        yield facts


def entry_table(entries: Sequence[LocatedEntry]) -> Iterator[str]:
    """Yield entries in columns, below a heading for each run and day; facts get what is left."""
    columns = terminal_width() if sys.stdout.isatty() else _ENTRY_WIDTH
    cells = format_table([_entry_cells(located) for located in entries], right={0})
    last: tuple[str, str] | None = None
    for located, line in zip(entries, cells, strict=True):
        place = (located.entry.run, _moment(located).strftime("%Y-%m-%d"))
        if place != last:
            yield style(f"run {place[0]}, {place[1]}", bold=True)
            last = place
        yield _cut(f"  {line}", columns)


_ENTRY_WIDTH = 100
"""Columns of a list of entries in a file or a pipe."""


def _entry_cells(located: LocatedEntry) -> tuple[str, ...]:
    entry = located.entry
    return (
        "-" if located.index is None else str(located.index),
        located.leaf.hex()[:8],
        _moment(located).strftime("%H:%M:%S"),
        f"{entry.strand}/{entry.n}",
        entry.kind,
        _cut(entry.actor, 12),
        " ".join(_entry_details(located)),
    )


def _cut(line: str, most: int) -> str:
    """Return a line cut to at most `most` characters, with spaces as they are."""
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _moment(located: LocatedEntry) -> datetime:
    return datetime.fromtimestamp(located.entry.ts / 1e6, UTC)


def entry_lines(located: LocatedEntry) -> Iterator[str]:
    """Yield an entry in full."""
    yield f"id     {located.leaf.hex()}"
    yield f"index  {'not sequenced yet' if located.index is None else located.index}"
    yield msgspec.json.format(located.data, indent=2).decode()


def print_publication(publication: Publication | None, recorded: str = "") -> None:
    """Print on stderr whether the newest entries, or the recorded one, are signed and witnessed."""
    if publication is None:
        echo(f"recorded{recorded and f' as {recorded}'}, not signed yet", err=True)
        return
    size = publication.checkpoint.size
    echo(f"checkpoint {size}: {publication.witnessing}", err=True)
    for error in (*publication.refused, *publication.unreachable):
        echo(style(f"  {error}", fg="red"), err=True)


_BAR_WIDTH = 30
_BAR_DELAY_S = 1.0
_BAR_INTERVAL_S = 0.2


def make_progress_bar(what: str, unit: str = "") -> Callable[[int, int], None]:
    """Return a callback that draws a progress bar on stderr, once a task takes over a second."""
    started = shown = monotonic()
    drawn = False

    def show(done: int, total: int) -> None:
        nonlocal shown, drawn
        moment, ended = monotonic(), done >= total
        # Always draw the end of a bar that was drawn, because it ends the line.
        due = moment - started > _BAR_DELAY_S and moment - shown > _BAR_INTERVAL_S
        if sys.stderr is None or not sys.stderr.isatty() or not (due or (ended and drawn)):
            return
        shown, drawn = moment, not ended
        share = min(1.0, done / total) if total else 1.0
        bar = f"{'#' * round(share * _BAR_WIDTH):-<{_BAR_WIDTH}}"
        line = f"{what} [{bar}] {100 * share:3.0f} % ({done} of {total}{unit})"
        redraw_line(line, ends=ended)

    return show
