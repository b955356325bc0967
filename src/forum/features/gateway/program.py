"""The program of `forum run`: its environment, and its confinement."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from forum.config import Settings
from forum.errors import NotConfined
from forum.features.gateway.agent_profiles import find_profile
from forum.features.gateway.routes import ApiProvider
from forum.features.gateway.run_app import base_url
from forum.features.gateway.settings import (
    BASE_URL_VARIABLES,
    KEY_VARIABLES,
    PROVIDER_SECRETS,
    RELAYED_SECRETS,
    GatewaySettings,
)
from forum.models.process_environment import trusted_environment
from forum.models.sandbox import AllowedAddress, Sandbox, make_sandbox
from forum.models.urls import is_loopback

_OLDER_URL_VARIABLES = {
    ApiProvider.OPENAI: "OPENAI_API_BASE",
    ApiProvider.ANTHROPIC: "ANTHROPIC_API_BASE",
}
"""Names that some frameworks prefer to the current ones."""
_REPLACED = frozenset({"FORUM_RUN", "FORUM_TASK", *RELAYED_SECRETS})
"""Variables whose values are those of an outer run, or keys: the program has its own, or none."""
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


def gateway_variables(
    gateway: GatewaySettings, root: str, token: str, run: str, span: str
) -> dict[str, str]:
    """Return the variables by which a program finds the gateway and the run.

    No value of a provider's key is among them.
    """
    variables = {"FORUM_RUN": run, "TRACEPARENT": f"00-{run.replace('-', '')}-{span}-01"}
    for address in gateway.addresses:
        provider = address.provider
        if not address.url:
            continue
        has_key = address.key_header is not None
        # Without a key of Forum's the program shows its own credential, so the token has to be
        # in the path.
        variables[BASE_URL_VARIABLES[provider]] = base_url(provider, root, "" if has_key else token)
        if has_key or _needs_no_key(gateway, provider) or gateway.has_route(provider):
            variables[KEY_VARIABLES[provider]] = token
    for provider, older in _OLDER_URL_VARIABLES.items():
        if older in os.environ:
            variables[older] = variables[BASE_URL_VARIABLES[provider]]
    return variables


def _needs_no_key(gateway: GatewaySettings, provider: ApiProvider) -> bool:
    """Return whether a provider is a server on this machine, for which the SDKs want some key.

    For any other one the variable stays unset: a coding agent that is logged in would prefer the
    key to its login.
    """
    address = next(a for a in gateway.addresses if a.provider is provider)
    return provider in gateway.explicit and is_loopback(address.url)


class RemovalReason(StrEnum):
    """Why a program does not get a variable."""

    NOT_RELAYED = "not-relayed"
    """The key of a provider that Forum does not relay to."""
    OF_FORUM = "of-forum"
    """A key or an address that Forum uses itself."""
    HOLDS_A_KEY = "holds-a-key"
    """The key of a provider is in its value."""
    BYPASS = "bypass"
    """It would lead the agent past the gateway."""


def find_removed(argv: Sequence[str], named_keys: Sequence[str]) -> dict[str, RemovalReason]:
    """Return the variables that a program does not get, and for each the reason.

    A key is removed under whatever name it stands.
    """
    keys = PROVIDER_SECRETS | set(named_keys)
    secrets = {os.environ[name] for name in keys if len(os.environ.get(name, "")) >= 8}
    _, profile = find_profile(argv)
    kept = trusted_environment()
    removed = {}
    for name, value in os.environ.items():
        if name in _REPLACED:
            continue
        if profile is not None and name in profile.bypasses:
            removed[name] = RemovalReason.BYPASS
        elif name in named_keys or name not in kept:
            removed[name] = RemovalReason.OF_FORUM
        elif name in keys and value:
            removed[name] = RemovalReason.NOT_RELAYED
        elif any(secret in value for secret in secrets):
            removed[name] = RemovalReason.HOLDS_A_KEY
    return removed


def program_environment(added: Mapping[str, str], removed: Collection[str]) -> dict[str, str]:
    """Return the environment of a program: this one without what is removed, and the added."""
    removed = {*removed, *_REPLACED}
    kept = {name: value for name, value in os.environ.items() if name not in removed}
    # A proxy is meant for other hosts, and the gateway is on this machine.
    if any(kept.get(name) for name in _PROXIES):
        for name in ("NO_PROXY", "no_proxy"):
            kept[name] = ",".join(filter(None, (kept.get(name, ""), "127.0.0.1")))
    return kept | dict(added)


def make_run_sandbox(settings: Settings, port: int) -> Sandbox:
    """Return the sandbox of a program that may connect to the gateway and to nothing else.

    What `[agents] connect` allows is left out: with another way to a provider the cap would not
    hold.  Outside of a project the program sees the current folder.  Raises `NotConfined` if this
    machine cannot confine programs.
    """
    rules = replace(settings.agents, confine=True, connect=())
    sandbox = make_sandbox(replace(settings, agents=rules))
    if sandbox is None:
        raise AssertionError("a confined project has a sandbox")
    sandbox = replace(
        sandbox,
        folder=sandbox.folder or _current_folder(),
        connect=(AllowedAddress("127.0.0.1", port),),
    )
    sandbox.check_usable()
    return sandbox


def _current_folder() -> Path:
    """Return the folder that a program sees outside of a project.

    Raises `NotConfined` if that were the whole home folder, with its keys.
    """
    folder = Path.cwd()
    if Path.home().resolve().is_relative_to(folder.resolve()):
        why = f"without a forum.toml the program would see all of {folder}"
        raise NotConfined(
            why, "change to the folder of the program, or begin a project: forum init"
        )
    return folder
