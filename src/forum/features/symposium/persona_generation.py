"""Generating personas for a question: the task for a model, and parsing its reply."""

import re
from enum import StrEnum

import msgspec
from msgspec import UNSET

from forum.errors import Malformed
from forum.features.symposium.decoders import read_persona
from forum.features.symposium.transcript import to_json_object
from forum.runs import reply_schemas
from forum.runs.personas import Persona
from forum.runs.plan import Task
from forum.runs.prompt import Quotation

MAX_PERSONAS = 9
"""Maximum number of personas per request."""

_MAX_WORD_LENGTH, _MAX_LINE_LENGTH = 60, 300
_MAX_LISTED = 5


class PersonaClass(StrEnum):
    """What a persona is for."""

    HORIZONTAL = "horizontal"
    """For any subject."""
    DOMAIN = "domain"
    """For the subjects in its scope only."""


class _Delegation(msgspec.Struct, frozen=True):
    """A subject that a persona delegates, and to whom."""

    subject: str
    to: str


class _GeneratedPersona(msgspec.Struct, frozen=True):
    """A persona in the form that models return.

    It differs from `Persona` because many models cannot write objects with arbitrary members.
    """

    id: str
    reasoning_scope: str
    reasoning_style: str
    behavioral_constraints: tuple[str, ...]
    failure_modes: tuple[str, ...]
    output_requirements: tuple[str, ...] = ()
    domain_scope: tuple[str, ...] = ()
    forbidden_domains: tuple[str, ...] = ()
    must_delegate: tuple[_Delegation, ...] = ()


class _GeneratedPersonas(msgspec.Struct, frozen=True):
    """All generated personas."""

    personas: tuple[_GeneratedPersona, ...]


def build_persona_task(about: str, kind: PersonaClass, number: int, agent: str = "") -> Task:
    """Return the task that generates personas with differing views of a question."""
    question = about.encode(errors="replace")
    limits = (
        "Each knows one subject that the question needs, says in `domain_scope` what belongs to "
        "it, in `forbidden_domains` what it keeps out of, and in `must_delegate` whom to ask about "
        "what it leaves to others."
        if kind is PersonaClass.DOMAIN
        else "Each is a way of thinking that serves any subject, and no expert on this one."
    )
    words = reply_schemas.compose_prompt(
        f"Make up {number} {'persona' if number == 1 else 'personas'} for a panel that is to "
        "deliberate on the question below. Do not answer the question. They should look at it "
        "from sides that differ as much as possible, and not all want the same.",
        limits,
        "For each: `id`, a short name in small letters; `reasoning_scope`, what it looks at; "
        "`reasoning_style`, how it thinks; `behavioral_constraints`, what it must do; "
        "`failure_modes`, into which traps it tends to fall; `output_requirements`, what it has "
        "to say each time.",
        quoted=[Quotation("the question", question, len(question))],
    )
    demand = f"json {_personas_schema(kind, number).decode()}"
    return Task("personas", words.decode(), demand, agent=agent)


def parse_personas(reply: bytes, kind: PersonaClass) -> tuple[Persona, ...]:
    """Return the personas that a model generated. Raises `Malformed`."""
    try:
        invented = reply_schemas.parse_structured(reply, _invention).personas
    except ValueError as error:
        raise Malformed("personas", str(error)) from None
    if not invented:
        raise Malformed("personas", "there are none")
    return tuple(_to_persona(persona, kind) for persona in invented)


def _to_persona(generated: _GeneratedPersona, kind: PersonaClass) -> Persona:
    is_domain = kind is PersonaClass.DOMAIN
    persona = Persona(
        persona_class=kind.value,
        id=_normalize_name(generated.id),
        reasoning_scope=generated.reasoning_scope,
        reasoning_style=generated.reasoning_style,
        behavioral_constraints=generated.behavioral_constraints,
        failure_modes=generated.failure_modes,
        output_requirements=generated.output_requirements,
        domain_scope=generated.domain_scope if is_domain else UNSET,
        forbidden_domains=generated.forbidden_domains if is_domain else UNSET,
        must_delegate={rule.subject: rule.to for rule in generated.must_delegate}
        if is_domain
        else UNSET,
        status="experimental",
    )
    return read_persona(to_json_object(persona))


def _normalize_name(name: str) -> str:
    """Return a name that is valid wherever the protocol uses one."""
    return re.sub(r"[^a-z0-9]+", "-", name.casefold())[:_MAX_WORD_LENGTH].strip("-") or "persona"


def _personas_schema(kind: PersonaClass, number: int) -> bytes:
    line = reply_schemas.text_schema(_MAX_LINE_LENGTH, 1)
    lines = reply_schemas.array_schema(line, _MAX_LISTED, 1)
    persona = {
        "id": reply_schemas.text_schema(_MAX_WORD_LENGTH, 1),
        "reasoning_scope": line,
        "reasoning_style": line,
        "behavioral_constraints": lines,
        "failure_modes": lines,
        "output_requirements": reply_schemas.array_schema(line, _MAX_LISTED),
    }
    if kind is PersonaClass.DOMAIN:
        deferral = reply_schemas.object_schema({"subject": line, "to": line})
        persona |= {
            "domain_scope": lines,
            "forbidden_domains": reply_schemas.array_schema(line, _MAX_LISTED),
            "must_delegate": reply_schemas.array_schema(deferral, _MAX_LISTED),
        }
    return reply_schemas.build_schema(
        {
            "personas": reply_schemas.array_schema(
                reply_schemas.object_schema(persona), number, number
            )
        }
    )


_invention = msgspec.json.Decoder(_GeneratedPersonas)
