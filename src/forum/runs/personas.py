"""Personas of a panel: five ways of thinking, a coordinator, and how an agent is told its own."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from forum.errors import BadPlan

Text = Annotated[str, Meta(min_length=1)]


class Persona(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A way of thinking: one for any subject, or one for some of them."""

    persona_class: Literal["horizontal", "domain"]
    id: Text
    reasoning_scope: Text
    reasoning_style: Text
    behavioral_constraints: Annotated[tuple[Text, ...], Meta(min_length=1)]
    failure_modes: Annotated[tuple[Text, ...], Meta(min_length=1)]
    output_requirements: tuple[Text, ...] = ()
    domain_scope: Annotated[tuple[Text, ...], Meta(min_length=1)] | UnsetType = UNSET
    forbidden_domains: tuple[Text, ...] | UnsetType = UNSET
    must_delegate: dict[str, Text] | UnsetType = UNSET
    status: Literal["experimental", "stable", "deprecated", "archived"] | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Require limits for a domain persona, and reject them for a horizontal one."""
        is_domain = self.persona_class == "domain"
        for member in ("domain_scope", "forbidden_domains", "must_delegate"):
            if (getattr(self, member) is not UNSET) != is_domain:
                why = "is missing" if is_domain else "has no place"
                raise ValueError(f"{member} {why} with persona_class {self.persona_class}")


FORMAL, LATERAL = "formal-structural", "lateral-creative"
EVIDENCE, ADVERSARIAL = "evidence-based", "adversarial-scrutiny"
FEASIBLE = "implementation-feasibility"
"""Reasoning scopes of the five personas; `panel_selection` has the keywords of each."""


def _horizontal(
    name: str, scope: str, style: str, rules: tuple[str, ...], traps: tuple[str, ...], *says: str
) -> Persona:
    return Persona(
        persona_class="horizontal",
        id=name,
        reasoning_scope=scope,
        reasoning_style=style,
        behavioral_constraints=rules,
        failure_modes=traps,
        output_requirements=says,
    )


PERSONAS: Mapping[str, Persona] = {
    persona.id: persona
    for persona in (
        _horizontal(
            "logician",
            FORMAL,
            "step by step from stated premises to what follows from them, and no further",
            (
                "say which premise each conclusion rests on",
                "judge arguments, never whoever makes them",
            ),
            (
                "mistaking a valid argument for a true one",
                "waving off a good guess because it is not a proof",
            ),
            "the premises you use",
            "any two statements so far that cannot both hold",
            "terms that nobody has defined",
        ),
        _horizontal(
            "visionary",
            LATERAL,
            "looks for another question behind the question, and for likenesses in far-off fields",
            ("offer at least one view that nobody has taken yet", "mark what is a leap as a leap"),
            ("falling for an idea because it is new", "drifting away from what was asked"),
            "one other way to see the problem",
            "what would have to be true for it to work",
        ),
        _horizontal(
            "researcher",
            EVIDENCE,
            "goes by what has been observed, and says how well",
            (
                "name the source of every fact, or say that you have none",
                "keep what was measured apart from what is believed",
            ),
            ("inventing a source", "taking the absence of evidence for evidence of absence"),
            "what is known, and from where",
            "which observation would settle what is not known",
        ),
        _horizontal(
            "critic",
            ADVERSARIAL,
            "tries to break each proposal the way an opponent or bad luck would",
            (
                "attack the strongest form of a proposal, not the weakest",
                "say for each fault how likely it is and how bad",
            ),
            ("objecting to everything alike", "finding faults without saying what would mend them"),
            "the most serious fault that is still open",
            "what would convince you that it is mended",
        ),
        _horizontal(
            "engineer",
            FEASIBLE,
            "asks how it would be built, by whom, at what cost, and how it would be kept running",
            (
                "give orders of magnitude where numbers matter",
                "prefer the simplest thing that would do",
            ),
            (
                "solving what is easy to build in place of what was asked",
                "leaving out the cost of running and changing it",
            ),
            "the steps to build it, in order",
            "the constraint that decides most",
        ),
        _horizontal(
            "coordinator",
            "coordination",
            "weighs what the panel has said, and takes no side of its own",
            (
                "keep to what was said: add no argument of your own",
                "report every disagreement that is still open, however few hold it",
            ),
            (
                "calling the panel agreed because it has stopped talking",
                "going on when another round would bring nothing new",
            ),
            "what has been settled, and by what",
            "what is still open, and who holds which position",
        ),
    )
}


COORDINATOR = "coordinator"
DEFAULT_PERSONAS = tuple(persona for name, persona in PERSONAS.items() if name != COORDINATOR)
"""The personas of a panel that names none."""


def resolve_persona_ref(ref: str | Persona) -> Persona:
    """Return the persona of a reference; an unknown name yields a persona without traits."""
    if isinstance(ref, Persona):
        return ref
    persona = PERSONAS.get(ref)
    return persona or _horizontal(
        ref,
        "general",
        "plain reasoning, in the open",
        ("say what you know, what you assume, and what you do not know",),
        traps=("being surer than the grounds allow",),
    )


def resolve_persona(persona: str | Persona) -> Persona:
    """Return the given persona, or the built-in one of this name. Raises `BadPlan`."""
    if isinstance(persona, Persona):
        return persona
    if persona not in PERSONAS:
        raise BadPlan(f"no persona is called {persona[:64]!r}; known: {', '.join(PERSONAS)}")
    return PERSONAS[persona]


def build_briefing(persona: Persona, requirements: Sequence[str] = ()) -> str:
    """Return the instructions to an agent; `requirements` replace those of its persona."""
    intro = f"You are {persona.id}. What you look at: {persona.reasoning_scope}."
    parts = [
        f"{intro} How you think: {persona.reasoning_style}.",
        _list("Keep to this:", persona.behavioral_constraints),
        _list("What you tend to get wrong:", persona.failure_modes),
        _list("Each time, say:", requirements or persona.output_requirements),
    ]
    if persona.domain_scope is not UNSET:
        parts.append(_list("You know about:", persona.domain_scope))
    if persona.must_delegate is not UNSET:
        sent = (f"{what}: ask {agent}" for what, agent in persona.must_delegate.items())
        parts.append(_list("You do not judge these; whom to ask in place of it:", tuple(sent)))
    return "\n\n".join(part for part in parts if part)


def _list(title: str, items: Sequence[str]) -> str:
    return "\n".join([title, *(f"- {item}" for item in items)]) if items else ""
