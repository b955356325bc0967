"""Personas for a question: how a model is asked to make them up, and reading what it says."""

import re
from enum import StrEnum

import msgspec
from msgspec import UNSET

from forum.deliberation.symposium.forms import Persona
from forum.deliberation.symposium.reading import read_persona
from forum.deliberation.symposium.transcript import members
from forum.errors import Malformed
from forum.work import Quoted, Task, a_text, an_array, an_object, form_of, instruct, read_formed

MOST_PERSONAS = 9
"""How many are asked for at once."""

_WORD, _LINE, _MOST_LISTED = 60, 300, 5


class PersonaClass(StrEnum):
    """What a persona is for."""

    HORIZONTAL = "horizontal"
    """Any subject."""
    DOMAIN = "domain"
    """Some subjects, beyond which it does not go."""


class _Deferral(msgspec.Struct, frozen=True):
    """What a persona leaves to others."""

    subject: str
    to: str


class _Invented(msgspec.Struct, frozen=True):
    """A persona as a model says it: many can write no object whose members are not known."""

    id: str
    reasoning_scope: str
    reasoning_style: str
    behavioral_constraints: tuple[str, ...]
    failure_modes: tuple[str, ...]
    output_requirements: tuple[str, ...] = ()
    domain_scope: tuple[str, ...] = ()
    forbidden_domains: tuple[str, ...] = ()
    must_delegate: tuple[_Deferral, ...] = ()


class _Invention(msgspec.Struct, frozen=True):
    """All personas that were asked for."""

    personas: tuple[_Invented, ...]


def persona_task(about: str, kind: PersonaClass, number: int, agent: str = "") -> Task:
    """Return the task to make personas up who have something to say about a question."""
    said = about.encode(errors="replace")
    limits = (
        "Each knows one subject that the question needs, says in `domain_scope` what belongs to "
        "it, in `forbidden_domains` what it keeps out of, and in `must_delegate` whom to ask about "
        "what it leaves to others."
        if kind is PersonaClass.DOMAIN
        else "Each is a way of thinking that serves any subject, and no expert on this one."
    )
    words = instruct(
        f"Make up {number} {'persona' if number == 1 else 'personas'} for a panel that is to "
        "deliberate on the question below. Do not answer the question. They should look at it "
        "from sides that differ as much as possible, and not all want the same.",
        limits,
        "For each: `id`, a short name in small letters; `reasoning_scope`, what it looks at; "
        "`reasoning_style`, how it thinks; `behavioral_constraints`, what it must do; "
        "`failure_modes`, into which traps it tends to fall; `output_requirements`, what it has "
        "to say each time.",
        quoted=[Quoted("the question", said, len(said))],
    )
    demand = f"json {_form(kind, number).decode()}"
    return Task("personas", words.decode(), demand, agent=agent)


def read_personas(said: bytes, kind: PersonaClass) -> tuple[Persona, ...]:
    """Return the personas that a model has made up.  Raises `Malformed`."""
    try:
        invented = read_formed(said, _invention).personas
    except ValueError as error:
        raise Malformed("personas", str(error)) from None
    if not invented:
        raise Malformed("personas", "there are none")
    return tuple(_persona(one, kind) for one in invented)


def _persona(said: _Invented, kind: PersonaClass) -> Persona:
    known = kind is PersonaClass.DOMAIN
    persona = Persona(
        persona_class=kind.value,
        id=_name(said.id),
        reasoning_scope=said.reasoning_scope,
        reasoning_style=said.reasoning_style,
        behavioral_constraints=said.behavioral_constraints,
        failure_modes=said.failure_modes,
        output_requirements=said.output_requirements,
        domain_scope=said.domain_scope if known else UNSET,
        forbidden_domains=said.forbidden_domains if known else UNSET,
        must_delegate={one.subject: one.to for one in said.must_delegate} if known else UNSET,
        status="experimental",
    )
    return read_persona(members(persona))


def _name(said: str) -> str:
    """Return a name that can stand wherever the protocol has one."""
    return re.sub(r"[^a-z0-9]+", "-", said.casefold())[:_WORD].strip("-") or "persona"


def _form(kind: PersonaClass, number: int) -> bytes:
    line = a_text(_LINE, 1)
    lines = an_array(line, _MOST_LISTED, 1)
    persona = {
        "id": a_text(_WORD, 1),
        "reasoning_scope": line,
        "reasoning_style": line,
        "behavioral_constraints": lines,
        "failure_modes": lines,
        "output_requirements": an_array(line, _MOST_LISTED),
    }
    if kind is PersonaClass.DOMAIN:
        deferral = an_object({"subject": line, "to": line})
        persona |= {
            "domain_scope": lines,
            "forbidden_domains": an_array(line, _MOST_LISTED),
            "must_delegate": an_array(deferral, _MOST_LISTED),
        }
    return form_of({"personas": an_array(an_object(persona), number, number)})


_invention = msgspec.json.Decoder(_Invention)
