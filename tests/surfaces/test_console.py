"""The law of output: every module of the command line prints through one that escapes."""

import ast
import io
import json
import re
import sys
from collections.abc import Iterator

import pytest

from forum.surfaces.cli import console
from tests.test_repository import package_sources

_PRINTERS = "clear|confirm|echo|echo_via_pager|edit|pause|progressbar|prompt|secho|style"
_is_printer = re.compile(
    rf"(click\.(termui\.|utils\.)?({_PRINTERS})|rich\b.*|print|sys\.(__)?std(out|err)(__)?\.\w*(write|buffer)\w*)"
).fullmatch
_FREE = {
    "surfaces/cli/console.py",  # the one that escapes
    "verify/standalone.py",  # a file without Forum; it escapes by itself
    "models/sandbox_start.py",  # starts an agent's program; it has no terminal of a user
}


def _names(node: ast.AST) -> list[str]:
    """Return what a node imports, calls or reads, with dots."""
    match node:
        case ast.Import(names=names):
            return [name.name for name in names]
        case ast.ImportFrom(module=str(module), names=names):
            return [f"{module}.{name.name}" for name in names]
        case ast.Call(func=ast.Name(id=name)):
            return [name]
        case ast.Attribute():
            return [ast.unparse(node)]
        case _:
            return []


def _offences(path: str, source: str) -> Iterator[str]:
    """Yield the lines that print past the console."""
    for node in ast.walk(ast.parse(source)):
        for name in filter(_is_printer, _names(node)):
            yield f"{path}:{getattr(node, 'lineno', 0)}: {name}"


_ALLOWED = {
    # Protocols between processes of our own.
    "stores/parallel_verify.py": "sys.stdout.buffer",
    "limits/worker_processes.py": "sys.stdout.buffer",
    # A line for the parent process, about itself.
    "features/demo/smollm2.py": "sys.stdout.write",
    # Standard output is the protocol; `forum mcp` guards standard error.
    "surfaces/mcp/server.py": "print",
}


def test_nothing_prints_past_the_console() -> None:
    """Else a text of an agent would reach the terminal as it is."""
    offences = [
        offence
        for path, source in package_sources().items()
        if path not in _FREE
        for offence in _offences(path, source)
        if not offence.endswith(f": {_ALLOWED.get(path, '-')}")
    ]
    assert offences == []


def _on_terminal(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    """Make a guarded stream the standard output."""
    shown = io.BytesIO()
    stream = console.GuardedStream(io.TextIOWrapper(shown, "utf-8"), color=True)
    monkeypatch.setattr(sys, "stdout", stream)
    return shown


def test_an_argument_of_echo_is_one_line_and_its_style_is_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A text cannot begin a line, nor a color, nor guess how the console marks its own."""
    shown = _on_terminal(monkeypatch)
    console.echo(console.style("a\nb\x1b[32mc", fg="red"), "\x1b[0;1m\u202e\x9b31m\r")
    assert shown.getvalue().decode() == (
        "\x1b[31ma\\nb\\x1b[32mc\x1b[0m\n\\x1b[0;1m\\u202e\\x9b31m\\r\n"
    )


def test_what_others_write_to_a_guarded_stream_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs, warnings and tracebacks do not call `echo`."""
    shown = _on_terminal(monkeypatch)
    for piece in ("a\x1b", "[2J", "\u2066\n\tb\r\n"):
        sys.stdout.write(piece)
    sys.stdout.flush()
    assert shown.getvalue().decode() == "a\\x1b[2J\\u2066\n\tb\\r\n"


def test_json_is_the_same_json_without_a_hidden_character(monkeypatch: pytest.MonkeyPatch) -> None:
    """Escapes of JSON lose nothing."""
    shown = _on_terminal(monkeypatch)
    content = {"a": "\x7f\x9b\u202e\u200b\U000e0041é\ue000\n", "b": "é"}
    console.echo_json(json.dumps(content, ensure_ascii=False))
    assert shown.getvalue().isascii()
    assert json.loads(shown.getvalue()) == content
