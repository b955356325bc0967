"""The time to read recorded text grows with its length, whatever a program has written."""

import gc
import importlib
import inspect
import pkgutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, get_type_hints

import pytest

from forum.ledger.log import LocatedEntry
from forum.runs import conversation
from forum.runs.conversation.histories import History
from forum.runs.conversation.json_values import UNREADABLE
from forum.runs.conversation.messages import ChatAttachment, ChatMessage, ChatRole, ModelExchange
from forum.runs.run_record import RunRecord

Body = tuple[str, str, str]
"""A beginning, a piece that is repeated, and an end.

`#` is the number of a piece; `@` in a beginning is a text that is as long as all the pieces.
"""

LENGTH = 50_000
_CHAT_EVENT = (
    'data: {"choices":[{"index":#,"delta":{"content":"a",'
    '"tool_calls":[{"index":#,"function":{"name":"f","arguments":"a"}}]}}]}\n\n'
)
_GEMINI = 'data: {"candidates":[{"content":{"parts":['
BODIES: dict[str, Body] = {
    "a tag that does not end": ("<", "a", ""),
    "a tag with dashes": ("<a", "-", ""),
    "a tag with spaces": ("<a", " ", "x"),
    "tags that open": ("", "<a>", ""),
    "tags that close": ("<a>", "</b>", ""),
    "empty passages": ("", "<a></a>", "x"),
    "passages apart": ("", "<a></a> ", "x"),
    "spaces": ("", " ", "x"),
    "a quote": ('"', "\\", ""),
    "cut objects": ('{"messages":[', "{},", "x"),
    "cut numbers": ("[", "1,", "x"),
    "cut texts": ('{"messages":[', '"a",', '"a'),
    "cut members": ("{", '"#":1,', "x"),
    "cut text": ('{"messages":["', "a", ""),
    "cut escapes": ('{"messages":["', "\\n", ""),
    "cut halves of characters": ('{"messages":["', "\\ud800", ""),
    "spaces in a cut document": ("[", " ", "x"),
    "lists in lists": ("", "[", ""),
    "objects in objects": ("", '{"messages":', ""),
    "contents in contents": ("", '{"message_content":', "1"),
    "a long number": ("[", "1", "]"),
    "a long fraction": ("[1.", "1", "]"),
    "empty lists": ("[", "[],", "1]"),
    "messages": ('{"messages":[', '{"role":"user","content":"a"},', "1]}"),
    "messages of two": ("[", '{"role":"user","content":"a"},{"role":"tool","content":"a"},', "1]"),
    "parts": ('[{"role":"user","content":[', '{"type":"text","text":"a"},', "1]}]"),
    "results": ('[{"role":"user","content":[', '{"type":"tool_result","content":["a"]},', "1]}]"),
    "calls": ('[{"role":"ai","content":"","tool_calls":[', '{"name":"a"},', "1]}]"),
    "choices": ('{"choices":[', '{"message":{"content":"a"}},', "1]}"),
    "unknown members": ("{", '"#":{"a":"b"},', '"z":1}'),
    "streamed choices": ("", _CHAT_EVENT, ""),
    "streamed texts": ("", 'data: {"choices":[{"delta":{"content":"a"}}]}\n\n', ""),
    "streamed blocks": (
        'data: {"type":"message_start"}\n\n',
        'data: {"type":"content_block_start","index":#,"content_block":{"text":"a"}}\n\n',
        "",
    ),
    "streamed items": (
        "",
        'data: {"type":"response.output_item.added","output_index":#,"item":{"a":1}}\n\n',
        "",
    ),
    "streamed parts": (_GEMINI, '{"text":"a"},', "1]}}]}\n\n"),
    "streamed parts of one text": (_GEMINI + '{"text":"@"},', '{"text":"a"},', "1]}}]}\n\n"),
    "events of one line": ("data: {\n", "data: 1\n", "data: }\n\n"),
    "an event without an end": ("data: {", "a", ""),
    "indexes of events": ("data: {\n", '"index": ', ""),
    "texts of events": ('data: {"choices":1}\n', '\\"text":"a', ""),
    "spaces in events": ('data: {"choices":1,"text":', " ", ""),
}  # fmt: skip


def make_body(body: Body, length: int) -> bytes:
    """Return a body of about this length."""
    begin, piece, end = body
    begin = begin.replace("@", "a" * length)
    count = length // len(piece)
    pieces = (piece.replace("#", str(number)) for number in range(count))
    return (begin + ("".join(pieces) if "#" in piece else piece * count) + end).encode()


def find_readers() -> Iterator[Callable[..., Any]]:
    """Yield the public functions of the package, also those that are added later."""
    for module_info in pkgutil.iter_modules(conversation.__path__, f"{conversation.__name__}."):
        module = importlib.import_module(module_info.name)
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module_info.name and not name.startswith("_"):
                yield function


def choose_arguments(function: Callable[..., Any], body: bytes) -> list[object] | None:
    """Return arguments that hold a body; None if the function reads bodies from a record."""
    text = body.decode()
    parameters = inspect.signature(function).parameters.values()
    hints = get_type_hints(function)
    types = [hints[given.name] for given in parameters if given.default is given.empty]
    has_body = any(kind in (bytes, bytes | None) for kind in types)
    messages = (ChatMessage(ChatRole.USER, text), ChatMessage(ChatRole.USER, text))
    values: dict[object, object] = {
        bytes: body,
        bytes | None: body,
        str: "zz" if has_body else text,
        object: text,
        int: len(body) // 2,
        Iterable[bytes]: [body],
        ChatRole: ChatRole.USER,
        ChatAttachment: ChatAttachment("file", name=text),
        dict[str, Any]: {"a": text},
        Iterable[ChatMessage]: messages,
        Sequence[ChatMessage]: messages,
        History: History(messages[:1], messages),
        ModelExchange: ModelExchange(repeated=1),
    }
    if {RunRecord, Iterable[LocatedEntry]} & set(types):
        return None  # what they read goes through `decode_exchange`
    return [values[kind] for kind in types]


def cpu_seconds(function: Callable[..., Any], arguments: list[object]) -> float:
    """Return the time that a call takes, without that of a garbage collection."""
    gc.disable()
    began = time.process_time()
    with suppress(*UNREADABLE):
        function(*arguments)
    seconds = time.process_time() - began
    gc.enable()
    return seconds


@pytest.mark.parametrize("name", BODIES)
def test_the_time_grows_with_the_length(name: str) -> None:
    """Four times the length takes about four times as long; sixteen times would be a weapon."""
    slow = []
    for function in find_readers():
        short = choose_arguments(function, make_body(BODIES[name], LENGTH))
        long = choose_arguments(function, make_body(BODIES[name], 4 * LENGTH))
        if short is None or long is None:
            continue
        for _ in range(3):
            seconds = cpu_seconds(function, long)
            if seconds < 0.02 or seconds < 8 * cpu_seconds(function, short):
                break
        else:
            slow.append(f"{function.__name__}: {seconds:.2f} s")
    assert slow == []
