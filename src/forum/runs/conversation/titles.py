"""Titles of runs that Forum does not drive: the command, and the first message to a model.

A title follows from bodies and is computed when it is shown.  It is stored nowhere, so it is gone
when the bodies are erased.
"""

import re
import shlex
from collections.abc import Iterable

import msgspec

from forum.runs.conversation.decoder import decode_body
from forum.runs.conversation.messages import ChatMessage, ChatRole

MAX_TITLE_CHARS = 200

_TITLE_SOURCE_CHARS = 4 * MAX_TITLE_CHARS
"""How much of a text is read for a title, which leaves out some of its spaces."""
_LAUNCHER = re.compile(
    r"python[\d.]*|node|deno|bun|ruby|perl|php|sh|bash|zsh|env|uv|uvx|npx|pipx|poetry|run|exec"
)
_TAG = re.compile(r"\s*+<([a-zA-Z][\w-]*+)[^>]*+>")
_argv = msgspec.json.Decoder(tuple[str, ...])


def make_title(name: str, command: bytes | None, prompt: bytes | None) -> str:
    """Return a title, for example `agent.py: Name three rivers`.

    `command` is the body with the words of a command line, `prompt` the first request to a model.
    Without both, the title is the name of the run.
    """
    program = describe_command(command) or name
    words = first_user_text(decode_body(prompt, ChatRole.USER).messages) if prompt else ""
    line = " ".join(words.split())
    return (f"{program}: {line}" if line else program)[:MAX_TITLE_CHARS]


def describe_command(command: bytes | None) -> str:
    """Return the program of a command line, without its folder and the interpreter before it."""
    try:
        words = _argv.decode(command or b"[]")
    except (msgspec.MsgspecError, UnicodeError):
        return ""
    for number, word in enumerate(words):
        program = _file_name(word)
        is_last = number == len(words) - 1
        if word == "-c":
            break  # the next word is a program text
        if not word.startswith("-") and (is_last or not _LAUNCHER.fullmatch(program)):
            return program
    return _file_name(words[0]) if words else ""


def format_command(command: bytes) -> str:
    """Return a recorded command line as one would type it."""
    try:
        return shlex.join(_argv.decode(command))
    except (msgspec.MsgspecError, UnicodeError):
        return command.decode(errors="replace")


def _file_name(word: str) -> str:
    return word.rstrip("/").rpartition("/")[2]


def first_user_text(messages: Iterable[ChatMessage]) -> str:
    """Return the start of the first text of a user, without what an agent has put before it."""
    texts = [message.text for message in messages if message.role is ChatRole.USER and message.text]
    for text in texts:
        rest = _strip_context(text)
        if rest:
            return rest
    return texts[0][:_TITLE_SOURCE_CHARS] if texts else ""


def _strip_context(text: str) -> str:
    """Return the start of a text without the tagged passages that coding agents put before it.

    For example, `<system-reminder>...</system-reminder>`.
    """
    at = 0
    while match := _TAG.match(text, at):
        closing = f"</{match[1]}>"
        end = text.find(closing, match.start(1))
        if end < 0:
            break
        at = end + len(closing)
    return text[at:].strip()[:_TITLE_SOURCE_CHARS]
