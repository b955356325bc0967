"""The configuration of a process, as digests that can be recorded.

The digests tell whether two processes, or two moments, had the same configuration.  They depend
neither on a secret nor on the place of a file: the same configuration on another machine has the
same digests.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec

from forum.work import policy
from forum.work.gate_rules import GateRule
from forum.work.oversight_kinds import ConfigurationFacts
from forum.work.shared_caps import SharedCap
from forum.work.team_settings import TeamSettings


class Configuration(msgspec.Struct, frozen=True):
    """What an operator has configured, as a worker or a server uses it."""

    engine: str
    """The release of Forum."""
    team: TeamSettings
    roster: str
    """The digest of the roster."""
    gate_rules: tuple[GateRule, ...]
    shared_caps: tuple[SharedCap, ...]


def digest_configuration(
    configuration: Configuration, mask: Callable[[str], str]
) -> ConfigurationFacts:
    """Return the digests of a configuration; `mask` replaces secrets by their names."""
    team = configuration.team
    policies = (
        *(configuration.gate_rules, configuration.shared_caps, team.ceiling),
        *(team.roles, sorted(team.off), team.team, team.rung, policy.PROMPT_VERSION),
    )
    agents = {name: _without_folders(agent) for name, agent in team.agents.items()}
    tools = {name: _without_folders(tool) for name, tool in team.tools.items()}
    servers = {name: _without_folders(server) for name, server in team.servers.items()}
    return ConfigurationFacts(
        engine=configuration.engine,
        roster=configuration.roster,
        policies=_digest(policies, mask),
        models=_digest(agents, mask),
        tools=_digest((tools, servers), mask),
    )


def _digest(value: Any, mask: Callable[[str], str]) -> str:  # noqa: ANN401  any settings
    encoded = msgspec.json.encode(value, order="sorted").decode()
    return sha256(mask(encoded).encode()).hexdigest()


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
