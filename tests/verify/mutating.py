"""Every small change that a key holder could make to the record of a session.

Each fact, body, type, cause, actor, step and time of an entry is replaced by other values of its
type; entries are left out, written twice, cut off with all that follows, and swapped with the next.
Every change leaves a record in which all links, proofs and signatures can be made to hold.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any

import msgspec

from forum.ledger.entry import MAIN_STRAND
from forum.ledger.kinds import Outcome
from forum.ledger.ports import NO_LIMIT
from forum.runs.kinds import AcceptedFacts, AnswerFacts, OutcomeFacts, ReplyFacts, StopFacts
from forum.runs.policy import Policy, read_policy, write_policy
from forum.runs.record_comparison import BODY_MEDIA_TYPES
from forum.runs.session_steps import JSON
from tests.engine.office import KINDS
from tests.verify.forging import Line, Story

SECOND = 1_000_000
ANOTHER_TYPE = "text/html"
_KINDS = {kind.facts: kind for kind in KINDS}
_SPOKEN = (ReplyFacts, AnswerFacts, StopFacts)
"""Whose bodies are JSON that may be altered and stay in its form."""
_OWN = (AcceptedFacts, StopFacts, AnswerFacts)
"""What is like no other: how a session was to go, why it was stopped, and what came of it."""
_TELLING = (
    *("outcome", "why", "source", "reason", "type"),
    *("passage", "end", "ground", "strategy"),
)
"""Facts in which entries may differ that are like others."""


@dataclass(frozen=True)
class Mutation:
    """One change of a record."""

    kind: str
    """Of the entry that is changed; what came to nothing is a kind of its own."""
    what: str
    make: Callable[[Story], None]


def mutations(story: Story, done: set[object]) -> Iterator[Mutation]:
    """Yield every change of a record, but for those of entries and policies like others before.

    Seats of a round do the same, and so do those of another session.
    """
    own: set[object] = set()
    # Of several stops the one comes first that has stopped the run: which that is, others decide.
    decisive = [line.facts for line in story.of(MAIN_STRAND, StopFacts)]
    inorder = sorted(story.lines, key=lambda o: (o.facts not in decisive, o.strand, o.step))
    for line in inorder:
        at, likeness = story.lines.index(line), _likeness(line)
        if likeness in own or likeness in done:
            continue
        (own if isinstance(line.facts, _OWN) else done).add(likeness)
        for what, make in (*_of(story, line), *_policies(line, done)):
            yield Mutation(_kind(line), what, partial(_at, at, make))
        yield from _places(story, at)


def _kind(line: Line) -> str:
    name = _KINDS[type(line.facts)].name
    failed = (
        isinstance(line.facts, ReplyFacts | OutcomeFacts) and line.facts.outcome is not Outcome.OK
    )
    return f"{name}, not ok" if failed else name


def _likeness(line: Line) -> object:
    """Return what entries share of which one is enough."""
    members = [getattr(line.facts, name, "") for name in _TELLING]
    return re.sub(r"\d+$", "", line.strand), re.sub(r"\d+", "", line.step), _kind(line), *members


def _at(at: int, make: Callable[[Line], None], story: Story) -> None:
    make(story.lines[at])


Alter = tuple[str, Callable[[Line], None]]


def _of(story: Story, line: Line) -> Iterator[Alter]:
    """Yield the changes of one entry that stays where it is."""
    alike = [one for one in story.lines if type(one.facts) is type(line.facts)]
    yield from _facts(line, alike)
    yield from _bodies(line, alike)
    for parents in _parents(story, line):
        yield "parents", partial(_set, "parents", parents)
    another = next(one.actor for one in story.lines if one.actor != line.actor)
    for actor in ("somebody", another):
        yield "actor", partial(_set, "actor", actor)
    yield "step", partial(_set, "step", f"{line.step}x")
    for ts in (line.ts - SECOND, line.ts + SECOND):
        yield "ts", partial(_set, "ts", ts)


def _facts(line: Line, alike: list[Line]) -> Iterator[Alter]:
    for member in line.facts.__struct_fields__:
        known = [getattr(line.facts, member) for line in alike]
        for value in _others(getattr(line.facts, member), known):
            yield member, partial(Line.alter, **{member: value})


def _bodies(line: Line, alike: list[Line]) -> Iterator[Alter]:
    for name in sorted(_KINDS[type(line.facts)].bodies):
        for body in _other_bodies(line, name, alike):
            yield f"body {name}", partial(_put, name, body)
    for name, (data, _) in line.bodies.items():
        yield f"type of {name}", partial(_put, name, (data, ANOTHER_TYPE))


def _set(member: str, value: object, line: Line) -> None:
    setattr(line, member, value)


def _put(name: str, body: tuple[bytes, str] | None, line: Line) -> None:
    if body is None:
        del line.bodies[name]
    else:
        line.bodies[name] = body


def _others(value: object, known: list[Any]) -> list[Any]:
    """Return other values of the same type: neighbours, nothing, and what another entry has."""
    match value:
        case StrEnum():
            return [member for member in type(value) if member is not value]
        case bool():
            return [not value]
        case None:
            return [0]
        case float():
            return [value / 2]
        case int():
            return _but(value, [value + 1, value - 1, 0], known)
        case str():
            return _but(value, [f"{value}x", ""], known)
        case _:
            raise TypeError(value)


def _but(value: object, near: list[Any], known: list[Any]) -> list[Any]:
    elsewhere = [candidate for candidate in known if candidate != value][:1]
    return [
        candidate
        for candidate in dict.fromkeys([*near, *elsewhere])
        if candidate != value and _can_be(candidate)
    ]


def _can_be(value: object) -> bool:
    """Tell whether an entry can say this."""
    return not isinstance(value, int) or 0 <= value <= NO_LIMIT


def _other_bodies(line: Line, name: str, alike: list[Line]) -> Iterator[tuple[bytes, str] | None]:
    """Yield what a body could be in place of what it is, or of not being there."""
    if name not in line.bodies:
        taken = [line.bodies[name] for line in alike if name in line.bodies]
        yield from [*taken, (b"[]", BODY_MEDIA_TYPES.get(type(line.facts), {}).get(name, JSON))][:1]
        return
    data, media = line.bodies[name]
    yield None
    elsewhere = (line.bodies[name][0] for line in alike if name in line.bodies)
    other = [line for line in elsewhere if line != data][:1]
    others = [b"", b"x" + data, *other, *_told_otherwise(line, data)]
    yield from ((other, media) for other in dict.fromkeys(others) if other != data)


def _told_otherwise(line: Line, data: bytes) -> Iterator[bytes]:
    """Yield the same JSON, with one value of it changed."""
    if isinstance(line.facts, _SPOKEN):
        try:
            document = json.loads(data)
        except ValueError:
            return
        yield from (msgspec.json.encode(other) for _, other in _parts(document))


def _parts(told: Any, place: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    """Yield a JSON value with each of its parts changed, and where that is."""
    if isinstance(told, dict):
        for name, value in told.items():
            for where, other in _parts(value, f"{place}.{name}"):
                yield where, {**told, name: other}
    elif isinstance(told, list):
        for at, value in enumerate(told):
            for where, other in _parts(value, place):
                yield where, [*told[:at], other, *told[at + 1 :]]
        yield place, told[1:] if told else [None]
    else:
        yield from ((place, other) for other in _others(told, []))


def _policies(line: Line, done: set[object]) -> Iterator[Alter]:
    """Yield the changes of the first policy of a protocol that leave one, member by member."""
    if not isinstance(line.facts, AcceptedFacts):
        return
    policy = read_policy(line.bodies["policy"][0])
    if type(policy.panel) in done:
        return
    done.add(type(policy.panel))
    for member, value in _replaced(policy):
        yield f"policy.{member}", partial(_put_policy, value)
    for member, panel in _replaced(policy.panel):
        changed = msgspec.structs.replace(policy, panel=panel)
        yield f"policy.panel.{member}", partial(_put_policy, changed)


def _replaced(struct: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    for member in struct.__struct_fields__:
        value = getattr(struct, member)
        changed: list[tuple[str, Any]] = []
        if isinstance(value, str | int):
            changed = [("", other) for other in _others(value, [])]
        elif isinstance(value, tuple) and value:
            changed = [("", value[1:]), ("", value[:-1])]
        elif isinstance(value, dict) and member == "config":
            changed = list(_parts(value))
        elif isinstance(value, dict):
            rest = ({n: one for n, one in value.items() if n != name} for name in value)
            changed = [("", document) for document in rest]
        for where, other in changed:
            yield f"{member}{where}", msgspec.structs.replace(struct, **{member: other})


def _put_policy(policy: Policy, line: Line) -> None:
    line.bodies["policy"] = write_policy(policy), line.bodies["policy"][1]


def _parents(story: Story, line: Line) -> Iterator[list[str]]:
    """Yield other causes: fewer, more, in another order, or another one."""
    earlier = [line.id for line in story.lines[: story.lines.index(line)]]
    stranger = next((text for text in reversed(earlier) if text not in line.parents), None)
    if line.parents:
        yield line.parents[1:]
    if line.parents[1:]:
        yield line.parents[:-1]
        yield line.parents[::-1]
    if stranger:
        yield [*line.parents, stranger]
        yield [*line.parents[:-1], stranger]


def _places(story: Story, at: int) -> Iterator[Mutation]:
    """Yield the changes that take an entry away, or put it elsewhere."""
    line, following = story.lines[at], story.lines[at + 1 : at + 2]
    kind = _kind(line)
    yield Mutation(kind, "left out", partial(_leave_out, at))
    yield Mutation(kind, "written twice", partial(_write_twice, at))
    yield Mutation(kind, "cut off", partial(_cut_off, at))
    if following and line.id not in following[0].parents:
        alone = following[0].strand == line.strand
        yield Mutation(kind if alone else "two strands", "swapped", partial(_swap, at))


def _leave_out(at: int, story: Story) -> None:
    story.drop(story.lines[at])


def _write_twice(at: int, story: Story) -> None:
    story.lines.insert(at + 1, replace(story.lines[at], id="again"))


def _cut_off(at: int, story: Story) -> None:
    """Leave out an entry and all that follows it in its strand."""
    line = story.lines[at]
    story.drop(*(one for one in story.lines[at:] if one.strand == line.strand))


def _swap(at: int, story: Story) -> None:
    lines = story.lines
    lines[at], lines[at + 1] = lines[at + 1], lines[at]
