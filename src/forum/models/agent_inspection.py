"""Inspect an agent before a run depends on it: its location, its key and its price."""

import shutil
from importlib.util import find_spec
from typing import assert_never

from msgspec.structs import replace

from forum import engine, errors
from forum.installation import missing_extra
from forum.ledger.body import text_content
from forum.models.extensions import find_extension_problem
from forum.models.prices import BilledTokens, price_of
from forum.models.urls import is_loopback
from forum.runs import policy
from forum.runs.agent_inspection import AgentInspection, KeyStatus
from forum.runs.policy import model_of
from forum.runs.team_settings import authority_of

_PROBE_PROMPT = "Reply with the one word: ready"


def describe_agent(agent: policy.Agent) -> AgentInspection:
    """Return what is known about an agent without calling it."""
    match agent:
        case policy.Scripted():
            return AgentInspection("scripted", model_of(agent), "here", call_usd=agent.usd)
        case policy.Command():
            return _inspect_program(agent)
        case policy.Chat():
            return _add_price(agent, _inspect_chat(agent))
        case policy.Library():
            provider = agent.model.partition(":")[0]
            inspection = AgentInspection("pydantic-ai", agent.model, provider, KeyStatus.PROVIDER)
            return _add_price(agent, replace(inspection, problem=_missing_library()))
        case policy.Extension():
            missing = find_extension_problem(agent)
            return AgentInspection(
                "extension", model_of(agent), "here", call_usd=agent.usd, problem=missing
            )
        case _:
            assert_never(agent)


def _inspect_program(agent: policy.Command) -> AgentInspection:
    names = [each.argv[0] if each.argv else "" for each in agent.programs]
    missing = [
        f"there is no program {name!r} on this machine" for name in names if not shutil.which(name)
    ]
    faults = "; ".join(missing)
    # One program of several is enough, and it is the one that will answer.
    is_usable = len(missing) < len(names)
    return AgentInspection(
        "command",
        model_of(agent),
        next(filter(shutil.which, names), names[0]),
        call_usd=agent.usd,
        problem="" if is_usable else faults,
        warning=faults if is_usable else "",
    )


def _inspect_chat(agent: policy.Chat) -> AgentInspection:
    name = agent.key_env or agent.key_file
    inspection = AgentInspection(
        agent.api.value, agent.model, authority_of(agent.url) or agent.url, key_name=name
    )
    bare = agent.url.startswith("http://") and not is_loopback(agent.url)
    warning = "its key crosses the network without TLS" if name and bare else ""
    inspection = replace(inspection, warning=warning)
    try:
        return replace(inspection, key=KeyStatus.SET) if _read_key(agent) else inspection
    except errors.KeyUnreadable as error:
        return replace(inspection, key=KeyStatus.MISSING, problem=str(error))


def _read_key(agent: policy.Chat) -> str:
    # Imported only when used: the HTTP client takes as long to load as the rest of a short command.
    from forum.models.http_model import read_key  # noqa: PLC0415

    return read_key(agent)


def _missing_library() -> str:
    if find_spec("pydantic_ai") is not None:
        return ""
    return str(missing_extra("agents", "the package pydantic-ai-slim is not installed"))


def _add_price(agent: policy.Chat | policy.Library, inspection: AgentInspection) -> AgentInspection:
    try:
        price = price_of(agent)
    except errors.UnknownPrice as error:
        problems = (inspection.problem, str(error))
        return replace(inspection, problem="; ".join(filter(None, problems)))
    read, written = price.cost(BilledTokens(1000, 0)), price.cost(BilledTokens(0, 1000))
    return replace(inspection, prices=price.id, read_usd=read, said_usd=written)


def require_agent(name: str, agent: policy.Agent, make: engine.ModelFactory, *, key: bool) -> None:
    """Raise `AgentUnusable` for an agent that could never answer.

    The reasons are an unknown price, a missing package or, if `key` is set, a missing key.
    """
    try:
        make(agent)
        if key and isinstance(agent, policy.Chat):
            _read_key(agent)
    except (
        errors.ExtensionMissing,
        errors.UnknownPrice,
        errors.MissingExtra,
        errors.KeyUnreadable,
    ) as error:
        raise errors.AgentUnusable(name, str(error)) from None


async def probe_model(model: engine.Model, seconds: float) -> engine.CallReply:
    """Call a model with a tiny prompt, outside of any run."""
    return await model.reply(
        engine.ModelCall(
            run="check",
            task="check",
            step="check",
            number=1,
            prompt=text_content(_PROBE_PROMPT),
            seconds=seconds,
        )
    )
