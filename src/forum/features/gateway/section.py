"""The section `[gateway]` of the project file."""

from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from forum.runs.team_settings import WrittenPrice
from forum.section_reader import (
    Dollars,
    NamedSection,
    SecretFile,
    SecretVariable,
    Section,
    WrittenAmount,
)

DEFAULT_MAX_REPEATS: Final = 100
DEFAULT_QUIET_SECONDS: Final = 600
DEFAULT_FIRST_BYTE_SECONDS: Final = 60


class UpstreamApi(StrEnum):
    """An API that upstreams of `[upstreams]` speak."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


class UpstreamSection(NamedSection, frozen=True):
    """`[upstreams.NAME]`: a provider that routes of the gateway can name."""

    url: Annotated[str, Meta(min_length=1)]
    api: UpstreamApi = UpstreamApi.OPENAI
    key_env: SecretVariable = ""
    key_file: Annotated[SecretFile, Meta(title="the key of the upstream {}")] = ""
    prices: dict[str, WrittenPrice] = msgspec.field(default_factory=dict)


class GatewaySection(Section, frozen=True):
    """Addresses, keys, prices and limits of the gateway to model providers."""

    openai_url: str = ""
    anthropic_url: str = ""
    gemini_url: str = ""
    azure_url: str = ""
    openai_key_env: SecretVariable = ""
    openai_key_file: Annotated[SecretFile, Meta(title="the key of the gateway for openai")] = ""
    anthropic_key_env: SecretVariable = ""
    anthropic_key_file: Annotated[
        SecretFile, Meta(title="the key of the gateway for anthropic")
    ] = ""
    gemini_key_env: SecretVariable = ""
    gemini_key_file: Annotated[SecretFile, Meta(title="the key of the gateway for gemini")] = ""
    azure_key_env: SecretVariable = ""
    azure_key_file: Annotated[SecretFile, Meta(title="the key of the gateway for azure")] = ""
    deployments: dict[str, str] = msgspec.field(default_factory=dict)
    """The model of each deployment, whose price it has."""
    routes: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """By the name that clients give as the model: upstreams, each as `NAME/MODEL`."""
    first_byte_seconds: WrittenAmount = WrittenAmount(DEFAULT_FIRST_BYTE_SECONDS)
    free_loopback: bool = False
    prices: dict[str, WrittenPrice] = msgspec.field(default_factory=dict)
    usd: Dollars | None = None
    tokens: WrittenAmount | None = None
    calls: WrittenAmount | None = None
    allow: tuple[str, ...] = ()
    untouched: bool = False
    max_repeats: WrittenAmount = WrittenAmount(DEFAULT_MAX_REPEATS)
    quiet_seconds: WrittenAmount = WrittenAmount(DEFAULT_QUIET_SECONDS)
