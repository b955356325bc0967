"""The section `[gateway]` of the project file."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from forum.runs.team_settings import WrittenPrice
from forum.section_reader import Dollars, SecretFile, SecretVariable, Section, WrittenAmount

DEFAULT_MAX_REPEATS: Final = 100
DEFAULT_QUIET_SECONDS: Final = 600


class GatewaySection(Section, frozen=True):
    """Addresses, keys, prices and limits of the gateway to model providers."""

    openai_url: str = ""
    anthropic_url: str = ""
    gemini_url: str = ""
    openai_key_env: SecretVariable = ""
    openai_key_file: Annotated[SecretFile, Meta(title="the key of the gateway for openai")] = ""
    anthropic_key_env: SecretVariable = ""
    anthropic_key_file: Annotated[
        SecretFile, Meta(title="the key of the gateway for anthropic")
    ] = ""
    gemini_key_env: SecretVariable = ""
    gemini_key_file: Annotated[SecretFile, Meta(title="the key of the gateway for gemini")] = ""
    free_loopback: bool = False
    prices: dict[str, WrittenPrice] = msgspec.field(default_factory=dict)
    usd: Dollars | None = None
    tokens: WrittenAmount | None = None
    calls: WrittenAmount | None = None
    allow: tuple[str, ...] = ()
    untouched: bool = False
    max_repeats: WrittenAmount = WrittenAmount(DEFAULT_MAX_REPEATS)
    quiet_seconds: WrittenAmount = WrittenAmount(DEFAULT_QUIET_SECONDS)
