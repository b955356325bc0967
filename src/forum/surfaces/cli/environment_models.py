"""Models that variables of the environment make available, as sections of the project file.

A section names the variable.  Neither a key nor an address is copied from the environment.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from forum.config import PROJECT_FILE
from forum.runs.policy import Agent, Chat
from forum.surfaces.cli.console import echo

OPENAI_URL: Final = "OPENAI_BASE_URL"
OPENAI_KEY: Final = "OPENAI_API_KEY"
ANTHROPIC_KEY: Final = "ANTHROPIC_API_KEY"


class ModelOffer(Struct, frozen=True):
    """A model that the environment makes available."""

    variables: tuple[str, ...]
    """The names of the variables that are set."""
    section: str
    """The lines for the project file."""


def offered_models(
    environ: Mapping[str, str], agents: Iterable[Agent] = ()
) -> tuple[ModelOffer, ...]:
    """Return the models that variables make available and that no configured agent uses."""
    used = {agent.key_env for agent in agents if isinstance(agent, Chat)}
    offers = []
    is_keyed = bool(environ.get(OPENAI_KEY))
    if (is_keyed or environ.get(OPENAI_URL)) and OPENAI_KEY not in used:
        offers.append(_offer_openai(is_keyed=is_keyed, is_elsewhere=bool(environ.get(OPENAI_URL))))
    if environ.get(ANTHROPIC_KEY) and ANTHROPIC_KEY not in used:
        section = _format_section(
            "anthropic", api="anthropic", model="claude-sonnet-4-5", key_env=ANTHROPIC_KEY
        )
        offers.append(ModelOffer((ANTHROPIC_KEY,), section))
    return tuple(offers)


def _offer_openai(*, is_keyed: bool, is_elsewhere: bool) -> ModelOffer:
    key = {"key_env": OPENAI_KEY} if is_keyed else {}
    if not is_elsewhere:
        return ModelOffer((OPENAI_KEY,), _format_section("openai", model="gpt-5-mini", **key))
    # Which models are at that address, and what they cost, only the user knows.
    section = _format_section("openai", url_env=OPENAI_URL, model="NAME", **key)
    return ModelOffer(
        (OPENAI_URL, *key.values()), f"{section}price = {{ input = 0, output = 0 }}\n"
    )


def _format_section(name: str, **values: str) -> str:
    lines = "".join(f'{key} = "{value}"\n' for key, value in values.items())
    return f"[models.{name}]\n{lines}"


def insert_offers(template: str, offers: Iterable[ModelOffer]) -> str:
    """Return the template of the project file with the offers, commented out, among its models."""
    sections = "".join(
        f"# {' and '.join(offer.variables)} in your environment:\n"
        + "".join(f"# {line}\n" for line in offer.section.splitlines())
        + "\n"
        for offer in offers
    )
    before, mark, after = template.partition("[roles]\n")
    return before + sections + mark + after


def echo_offer(offer: ModelOffer, *, is_written: bool) -> None:
    """Print which variables are set, and how to use the model."""
    names = " and ".join(offer.variables)
    verb = "are" if len(offer.variables) > 1 else "is"
    head = offer.section.splitlines()[0]
    if is_written:
        echo(f"{names} {verb} set: to use it, uncomment {head} in {PROJECT_FILE}", err=True)
        return
    echo(f"{names} {verb} set: to use it, add to {PROJECT_FILE}", err=True)
    echo(*(f"  {line}" for line in offer.section.splitlines()), err=True)
