"""Prints the difference between two runs."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest

import msgspec

from forum.app.formatting import first_line, pluralize, short_id
from forum.runs.conversation.decoder import decode_body
from forum.runs.conversation.messages import ChatMessage, ChatRole
from forum.runs.conversation.text_search import SKIPPED_BODIES
from forum.runs.run_comparison import Divergence, DivergenceKind
from forum.surfaces.cli.console import echo, style
from forum.surfaces.cli.output import clean_lines, terminal_width
from forum.surfaces.cli.transcript import describe_message
from forum.surfaces.schemas.comparison import step_form

_NEXT = 10
_ANSWER_LINES = 12


def print_divergences(
    divergences: Sequence[Divergence],
    sides: tuple[str, str],
    bodies: Sequence[Mapping[str, bytes]] = (),
) -> None:
    """Print the first divergence with both sides, and the positions of the others."""
    diff = divergences[0]
    heads = {
        DivergenceKind.MISSING: f"only {sides[0]} has",
        DivergenceKind.ADDED: f"only {sides[1]} has",
    }
    head = heads.get(diff.parting, "first difference:")
    echo(f"{head} {diff.strand}, {diff.step}")
    mine, other = diff.first and step_form(diff.first), diff.second and step_form(diff.second)
    if mine and other:
        for name in ["kind", *sorted(mine.facts.keys() | other.facts.keys())]:
            values = [({"kind": side.kind} | side.facts).get(name) for side in (mine, other)]
            if values[0] != values[1]:
                _print_side("-", f"{name}: {_text(values[0])}")
                _print_side("+", f"{name}: {_text(values[1])}")
        _print_bodies(mine.bodies, other.bodies, bodies)
    elif step := mine or other:
        _print_side("-" if mine else "+", f"{step.kind} {_text(step.facts)}")
    if len(divergences) > 1:
        echo(f"and {pluralize(len(divergences) - 1, 'further step')} differ:")
    for further in divergences[1 : 1 + _NEXT]:
        echo(f"  {further.strand}, {further.step}: {further.parting.value}")
    if len(divergences) > 1 + _NEXT:
        echo(f"  and {len(divergences) - 1 - _NEXT} more (--json lists them)")


def print_answers(
    sides: tuple[str, str], runs: tuple[str, str], answers: tuple[bytes | None, bytes | None]
) -> None:
    """Print the answers of two runs."""
    if answers[0] == answers[1]:
        echo(f"both gave {'no answer' if answers[0] is None else 'the same answer'}")
        _print_answer(" ", answers[0])
    else:
        for sign, side, run, answer in zip("-+", sides, runs, answers, strict=True):
            echo(f"answer of {side} ({short_id(run)})")
            _print_answer(sign, answer)
    echo("")


def _print_answer(sign: str, answer: bytes | None) -> None:
    if answer is None:
        return
    lines = clean_lines(answer)
    for line in lines[:_ANSWER_LINES]:
        _print_side(sign, line)
    if len(lines) > _ANSWER_LINES:
        echo(f"    … {pluralize(len(lines) - _ANSWER_LINES, 'more line')}: forum show RUN --answer")


def _print_bodies(
    mine: Mapping[str, str], other: Mapping[str, str], contents: Sequence[Mapping[str, bytes]]
) -> None:
    for name in sorted(mine.keys() | other.keys()):
        if mine.get(name) == other.get(name):
            continue
        sides = [content[name] for content in contents if name in content]
        if len(sides) == 2:
            if name in SKIPPED_BODIES or not _print_messages(name, *sides):
                _print_lines(name, *map(_readable, sides))
        else:
            for sign, digest in (("-", mine.get(name)), ("+", other.get(name))):
                _print_side(sign, f"{name}: {digest or 'none'}")


def _print_messages(name: str, mine: bytes, other: bytes) -> bool:
    """Print the first message in which two requests or replies differ; return whether one does."""
    read = [
        decode_body(content, ChatRole.USER, is_limited=False).messages for content in (mine, other)
    ]
    if min(map(len, read)) < 2 and not all(map(_is_json, (mine, other))):
        return False
    for number, pair in enumerate(zip_longest(*read), 1):
        if pair[0] == pair[1]:
            continue
        echo(f"  {name}, message {number}:")
        texts = [_message_lines(message) for message in pair]
        for sides in zip_longest(*texts):
            if sides[0] != sides[1]:
                for sign, side in zip("-+", sides, strict=True):
                    _print_side(sign, "(no such line)" if side is None else side)
                break
        return True
    return False


def _message_lines(message: ChatMessage | None) -> list[str]:
    if message is None:
        return ["(no such message)"]
    text = "\n".join(describe_message(message))
    return f"{message.role}: {text}".split("\n")


def _is_json(content: bytes) -> bool:
    return content.lstrip()[:1] in (b"{", b"[")


def _readable(content: bytes) -> str:
    """Return a body as text; JSON is indented so that it has lines to compare."""
    with suppress(msgspec.MsgspecError):
        content = msgspec.json.format(content, indent=1)
    return content.decode(errors="replace")


def _print_lines(name: str, mine: str, other: str) -> None:
    """Print the first line in which two texts differ."""
    pairs = zip_longest(mine.split("\n"), other.split("\n"))
    for number, (left, right) in enumerate(pairs, 1):
        if left != right:
            echo(f"  {name}, line {number}:")
            _print_side("-", "(no such line)" if left is None else left)
            _print_side("+", "(no such line)" if right is None else right)
            return


def _print_side(sign: str, text: str) -> None:
    color = {"-": "red", "+": "green"}.get(sign)
    echo(style(f"    {sign} {first_line(text, terminal_width() - 6)}", fg=color))


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
