"""What `forum run` sets for agents that it knows by the name of their program.

Every program gets the variables of the gateway.  An agent that takes its address from somewhere
else, or could take it from there, gets more: arguments after the name of the program, variables,
and a settings file.  A new agent is one entry of the table.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from forum.features.gateway.routes import ApiProvider
from forum.surfaces.cli.output import write_private


class SettingsFile(Struct, frozen=True):
    """A file of settings for one run, which outranks those of the user."""

    content: str
    option: str = ""
    """The option that names it."""
    variable: str = ""
    """The variable that names it, if no option does."""


class AgentProfile(Struct, frozen=True):
    """What an agent gets beside the variables of the gateway.

    Arguments may have `{openai}`, the address of the gateway for OpenAI, and so on for each
    provider.  They have no credential, because all users of a machine can read them.  Values of
    variables and files may also have `{token}`, the credential of the run, and variables of the
    gateway by their names, such as `{ANTHROPIC_BASE_URL}`.
    """

    providers: tuple[ApiProvider, ...]
    """Whose APIs it calls; the first one decides whether Forum has a key."""
    arguments: tuple[str, ...] = ()
    with_key: tuple[str, ...] = ()
    """More arguments where Forum has a key."""
    with_login: tuple[str, ...] = ()
    """More arguments where the agent shows a credential of its own."""
    variables: Mapping[str, str] = {}
    bypasses: frozenset[str] = frozenset()
    """Variables that would lead it past the gateway."""
    settings: SettingsFile | None = None
    """Not given to a confined agent, which reaches nothing but the gateway."""


def _codex_option(name: str, value: str) -> tuple[str, str]:
    return ("-c", f"{name}={value}")


AGENT_PROFILES: Final[Mapping[str, AgentProfile]] = {
    "aider": AgentProfile(
        # Its own names are read before its settings file, which may have another address.
        providers=(ApiProvider.OPENAI, ApiProvider.ANTHROPIC),
        variables={"AIDER_OPENAI_API_BASE": "{openai}"},
        bypasses=frozenset(
            {"AIDER_OPENAI_API_KEY", "AIDER_ANTHROPIC_API_KEY", "AIDER_API_KEY", "AIDER_SET_ENV"}
        ),
    ),
    "claude": AgentProfile(
        providers=(ApiProvider.ANTHROPIC,),
        bypasses=frozenset(
            f"CLAUDE_CODE_USE_{name}"
            for name in ("ANTHROPIC_AWS", "BEDROCK", "FOUNDRY", "GATEWAY", "MANTLE", "VERTEX")
        ),
        # Settings of the user have variables, too, and these outrank the real ones.
        settings=SettingsFile(
            content='{"env":{"ANTHROPIC_BASE_URL":"{ANTHROPIC_BASE_URL}",'
            '"CLAUDE_CODE_USE_BEDROCK":"0","CLAUDE_CODE_USE_VERTEX":"0",'
            '"CLAUDE_CODE_USE_FOUNDRY":"0"}}',
            option="--settings",
        ),
    ),
    "codex": AgentProfile(
        # It reads no variable for the address, and its built-in provider cannot be changed.
        providers=(ApiProvider.OPENAI,),
        arguments=(
            *_codex_option("model_provider", "forum"),
            *_codex_option("model_providers.forum.name", "Forum"),
            *_codex_option("model_providers.forum.base_url", "{openai}"),
            *_codex_option("model_providers.forum.wire_api", "responses"),
            # A search at the provider has no bounded price.
            *_codex_option("web_search", "disabled"),
        ),
        with_key=_codex_option("model_providers.forum.env_key", "OPENAI_API_KEY"),
        with_login=(
            *_codex_option("model_providers.forum.requires_openai_auth", "true"),
            *_codex_option(
                "model_providers.forum.env_http_headers", '{"x-api-key"="FORUM_RUN_TOKEN"}'
            ),
        ),
        variables={"FORUM_RUN_TOKEN": "{token}"},
    ),
    "gemini": AgentProfile(
        providers=(ApiProvider.GEMINI,),
        # Settings of the user may say to log in with Google, whose calls go elsewhere.
        settings=SettingsFile(
            content='{"security":{"auth":{"selectedType":"gemini-api-key"}}}',
            variable="GEMINI_CLI_SYSTEM_SETTINGS_PATH",
        ),
        bypasses=frozenset({"GOOGLE_GENAI_USE_GCA", "GOOGLE_GENAI_USE_VERTEXAI"}),
    ),
    "opencode": AgentProfile(
        # Its free models, and the providers of its other logins, are past the gateway.
        providers=(ApiProvider.OPENAI, ApiProvider.ANTHROPIC),
        variables={"OPENCODE_CONFIG_CONTENT": '{"enabled_providers":["openai","anthropic"]}'},
    ),
}
"""By the name of the program.  The guide about agents has the same table."""


class ProgramStart(Struct, frozen=True):
    """How a program is started: with what its profile adds."""

    argv: tuple[str, ...]
    variables: Mapping[str, str]
    arguments: tuple[str, ...] = ()
    """Those that were added."""


def find_profile(argv: Sequence[str]) -> tuple[str, AgentProfile | None]:
    """Return the name of a program, and its profile if it is a known agent."""
    name = Path(argv[0]).name
    return name, AGENT_PROFILES.get(name)


def apply_profile(
    argv: tuple[str, ...],
    urls: Mapping[ApiProvider, str],
    variables: Mapping[str, str],
    folder: Path | None,
    *,
    token: str,
    keyed: frozenset[ApiProvider],
) -> ProgramStart:
    """Return how a program is started, with the variables of the gateway and those of its profile.

    `urls` are the addresses of the gateway without a credential, and `keyed` the providers for
    which Forum has a key.  A settings file is written into `folder`, if there is one.
    """
    _, profile = find_profile(argv)
    if profile is None:
        return ProgramStart(argv=argv, variables=variables)
    has_key = not keyed.isdisjoint(profile.providers[:1])
    more = profile.with_key if has_key else profile.with_login
    shown = {provider.value: url for provider, url in urls.items()}
    arguments = [_fill_in(each, shown) for each in (*profile.arguments, *more)]
    secret = shown | {"token": token} | dict(variables)
    added = {name: _fill_in(value, secret) for name, value in profile.variables.items()}
    if profile.settings is not None and folder is not None:
        file = folder / "settings.json"
        write_private(file, _fill_in(profile.settings.content, secret).encode())
        if profile.settings.option:
            arguments += [profile.settings.option, str(file)]
        else:
            added[profile.settings.variable] = str(file)
    # First, so that the agent's own subcommands and its `--` come after them.
    return ProgramStart(
        argv=(argv[0], *arguments, *argv[1:]),
        variables={**variables, **added},
        arguments=tuple(arguments),
    )


def _fill_in(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text
