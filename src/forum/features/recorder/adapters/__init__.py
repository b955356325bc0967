"""Adapters: record agents of other frameworks with one line.

Each module knows one framework and imports it only when it is used.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from forum.errors import Malformed
from forum.features.recorder.adapters import crewai as _crewai
from forum.features.recorder.adapters import google_adk as _google_adk
from forum.features.recorder.adapters import langchain as _langchain
from forum.features.recorder.adapters import openai_agents as _openai_agents
from forum.features.recorder.adapters import pydantic_ai as _pydantic_ai
from forum.features.recorder.recorder import Recorder

_INSTALLERS: dict[str, tuple[str, Callable[[Recorder | None], None]]] = {
    "pydantic_ai": ("pydantic_ai", _pydantic_ai.install),
    "openai_agents": ("agents", _openai_agents.install),
    "langchain": ("langchain_core", _langchain.install),
    "crewai": ("crewai", _crewai.install),
    "google_adk": ("google.adk", _google_adk.install),
}
_installed: set[str] = set()


def instrument(*frameworks: str, recorder: Recorder | None = None) -> tuple[str, ...]:
    """Record everything that these frameworks run from now on; return their names.

    Without names, all that are installed: `pydantic_ai`, `openai_agents`, `langchain` (with
    LangGraph), `crewai`, `google_adk`.  A second call changes nothing.
    """
    for name in frameworks:
        if name not in _INSTALLERS:
            raise Malformed("framework", f"{name!r}; known: {', '.join(sorted(_INSTALLERS))}")
    wanted = frameworks or tuple(name for name in _INSTALLERS if _is_installed(name))
    for name in wanted:
        if name not in _installed:
            _INSTALLERS[name][1](recorder)
            _installed.add(name)
    return wanted


def pydantic_ai(recorder: Recorder | None = None) -> Any:
    """Return a capability for one agent of Pydantic AI: `Agent(..., capabilities=[...])`."""
    return _pydantic_ai.make_capability(recorder)


def langchain(recorder: Recorder | None = None) -> Any:
    """Return a callback handler for LangChain and LangGraph: `config={"callbacks": [...]}`."""
    return _langchain.make_handler(recorder)


def google_adk(recorder: Recorder | None = None) -> Any:
    """Return a plugin for Google's Agent Development Kit: `App(..., plugins=[...])`."""
    return _google_adk.make_plugin(recorder)


def _is_installed(name: str) -> bool:
    module = _INSTALLERS[name][0]
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package above it is not installed
        return False


__all__ = ["google_adk", "instrument", "langchain", "pydantic_ai"]
