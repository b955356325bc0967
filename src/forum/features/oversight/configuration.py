"""The configuration of a process, as texts that can be recorded and compared.

The texts tell whether two processes, or two moments, had the same configuration.  They depend
neither on a secret nor on the place of a file: the same configuration on another machine has the
same texts.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec

from forum.features.oversight.kinds import (
    CONFIGURATION_PARTS,
    ConfigurationChangeFacts,
    ConfigurationFacts,
)
from forum.runs import policy
from forum.runs.gate_rules import GateRule
from forum.runs.shared_caps import SharedCap, Teams
from forum.runs.team_settings import TeamSettings


class Configuration(msgspec.Struct, frozen=True):
    """What an operator has configured, as a worker or a server uses it."""

    engine: str
    """The release of Forum."""
    team: TeamSettings
    roster: str
    """The digest of the roster."""
    gate_rules: tuple[GateRule, ...]
    shared_caps: tuple[SharedCap, ...]
    teams: Teams


class ConfigurationTexts(msgspec.Struct, frozen=True):
    """The parts of a configuration, as the bodies of its entry have them."""

    roster: bytes
    policies: bytes
    models: bytes
    tools: bytes


def encode_configuration(
    configuration: Configuration, mask: Callable[[str], str]
) -> ConfigurationTexts:
    """Return the parts of a configuration; `mask` replaces secrets by their names."""
    team = configuration.team
    policies = (
        *(configuration.gate_rules, configuration.shared_caps, team.ceiling),
        *(team.roles, sorted(team.off), team.team, team.rung, policy.PROMPT_VERSION),
        *([configuration.teams] if configuration.teams else []),
    )
    agents = {name: _without_folders(agent) for name, agent in team.agents.items()}
    tools = {name: _without_folders(tool) for name, tool in team.tools.items()}
    servers = {name: _without_folders(server) for name, server in team.servers.items()}
    return ConfigurationTexts(
        roster=configuration.roster.encode(),
        policies=_encode(policies, mask),
        models=_encode(agents, mask),
        tools=_encode((tools, servers), mask),
    )


def compare_configuration(
    engine: str,
    texts: ConfigurationTexts,
    last: ConfigurationFacts | ConfigurationChangeFacts,
    read: Callable[[str], bytes | None],
) -> ConfigurationChangeFacts:
    """Return what differs from the last configuration on record.

    `read` returns a body of its entry, or None for one that was erased.
    """
    changed = [] if engine == last.engine else ["engine"]
    erased = []
    for part in CONFIGURATION_PARTS:
        text: bytes = getattr(texts, part)
        if isinstance(last, ConfigurationFacts):
            digest = text.decode() if part == "roster" else sha256(text).hexdigest()
            is_same = digest == getattr(last, part)
        elif (held := read(part)) is None:
            erased.append(part)
            continue
        else:
            is_same = held == text
        if not is_same:
            changed.append(part)
    return ConfigurationChangeFacts(engine, tuple(changed), tuple(erased))


def _encode(value: Any, mask: Callable[[str], str]) -> bytes:  # noqa: ANN401  any settings
    encoded = msgspec.json.encode(value, order="sorted").decode()
    return mask(encoded).encode()


def _without_folders(
    part: policy.Agent | policy.ToolSpec | policy.McpServer,
) -> policy.Agent | policy.ToolSpec | policy.McpServer:
    """Return an agent, a tool or a server without the folders of the files that it names."""
    if isinstance(part, policy.Chat) and part.key_file:
        return msgspec.structs.replace(part, key_file=_file_name(part.key_file))
    if isinstance(part, policy.Command | policy.ToolSpec | policy.McpServer) and part.argv:
        return msgspec.structs.replace(part, argv=tuple(map(_file_name, part.argv)))
    return part


def _file_name(word: str) -> str:
    """Return the last part of an absolute path; any other word as it is."""
    return word.rpartition("/")[2] or word if word.startswith("/") else word
