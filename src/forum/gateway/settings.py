"""The settings of the gateway: `[gateway]` in forum.toml, and the providers' own variables."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from forum.config import PROJECT_FILE, Settings
from forum.errors import BadSettings
from forum.gateway.call_plan import PriceBook
from forum.gateway.routes import ApiProvider
from forum.gateway.upstream import DEFAULT_URLS, ProviderAddress
from forum.ledger.ports import NO_LIMIT, UNLIMITED, Amount
from forum.models.prices import NamedModelPrice, declared_price
from forum.models.urls import host_of, is_loopback

_NANO_USD = 10**9
_PICO_USD_PER_MILLION = 10**6
"""A dollar for a million tokens is a million pico-dollars for one."""
DEFAULT_MAX_REPEATS = 100
DEFAULT_QUIET_SECONDS = 600

BASE_URL_VARIABLES: Mapping[ApiProvider, str] = {
    ApiProvider.OPENAI: "OPENAI_BASE_URL",
    ApiProvider.ANTHROPIC: "ANTHROPIC_BASE_URL",
}
KEY_VARIABLES: Mapping[ApiProvider, str] = {
    ApiProvider.OPENAI: "OPENAI_API_KEY",
    ApiProvider.ANTHROPIC: "ANTHROPIC_API_KEY",
}
_TOKEN_VARIABLE = "ANTHROPIC_AUTH_TOKEN"  # noqa: S105  # the name of a variable
PROVIDER_SECRETS = frozenset(
    {
        *KEY_VARIABLES.values(), _TOKEN_VARIABLE, "AZURE_OPENAI_API_KEY", "CEREBRAS_API_KEY",
        "CO_API_KEY", "COHERE_API_KEY", "DEEPSEEK_API_KEY",
        "FIREWORKS_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GROQ_API_KEY", "HF_TOKEN",
        "MISTRAL_API_KEY", "OPENAI_ADMIN_KEY", "OPENROUTER_API_KEY", "PERPLEXITY_API_KEY",
        "TOGETHER_API_KEY", "VOYAGE_API_KEY", "XAI_API_KEY",
    }
)  # fmt: skip
"""Variables with keys of model providers: with one of them a program could call past the cap."""


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """The effective settings of a gateway."""

    addresses: tuple[ProviderAddress, ...]
    prices: PriceBook
    cap: Amount = UNLIMITED
    """The limits of each run on a server; `forum run` takes them from its options."""
    allowed: frozenset[str] = frozenset()
    untouched: bool = False
    max_repeats: int = DEFAULT_MAX_REPEATS
    quiet_seconds: int = DEFAULT_QUIET_SECONDS
    """After so long without a call, the next call of a key begins a new run."""
    explicit: frozenset[ApiProvider] = field(default_factory=frozenset)
    """The providers whose address was set, and is not the default."""

    @property
    def has_no_key(self) -> bool:
        """Whether Forum has a key for none of the providers."""
        return all(address.key_header is None for address in self.addresses)

    @property
    def missing_keys(self) -> tuple[str, ...]:
        """The variables of the providers for which Forum has no key."""
        return tuple(KEY_VARIABLES[a.provider] for a in self.addresses if a.key_header is None)


def read_gateway_settings(settings: Settings, environ: Mapping[str, str]) -> GatewaySettings:
    """Read the settings of the gateway.  Raises `BadSettings`."""
    table = _Table(settings)
    addresses, explicit = [], set()
    for provider in ApiProvider:
        variable = BASE_URL_VARIABLES[provider]
        named = environ.get(variable) or table.text(f"{provider}_url")
        url = (named or DEFAULT_URLS[provider]).rstrip("/")
        if not url.startswith(("http://", "https://")) or not host_of(url):
            raise BadSettings(variable, f"{url!r} is no address; write https://HOST")
        if named:
            explicit.add(provider)
        addresses.append(
            ProviderAddress(
                provider=provider,
                url=url,
                key_header=_key_header(provider, environ),
                is_free=table.flag("free_loopback") and is_loopback(url),
            )
        )
    return GatewaySettings(
        addresses=tuple(addresses),
        prices=PriceBook(table.prices()),
        cap=Amount(
            table.number("usd", _NANO_USD), table.number("tokens", 1), table.number("calls", 1)
        ),
        allowed=frozenset(table.texts("allow")),
        untouched=table.flag("untouched"),
        max_repeats=table.number("max_repeats", 1, DEFAULT_MAX_REPEATS),
        quiet_seconds=table.number("quiet_seconds", 1, DEFAULT_QUIET_SECONDS),
        explicit=frozenset(explicit),
    )


def _key_header(provider: ApiProvider, environ: Mapping[str, str]) -> tuple[bytes, bytes] | None:
    """Return the header with Forum's key for a provider, or None if it has none."""
    key = environ.get(KEY_VARIABLES[provider], "").strip()
    if provider is ApiProvider.OPENAI:
        return (b"authorization", b"Bearer " + key.encode()) if key else None
    if key:
        return (b"x-api-key", key.encode())
    token = environ.get(_TOKEN_VARIABLE, "").strip()
    return (b"authorization", b"Bearer " + token.encode()) if token else None


class _Table:
    """The section `[gateway]`, read setting by setting."""

    def __init__(self, settings: Settings) -> None:
        self._values: Mapping[str, Any] = settings.doors.get("gateway", {})
        self._file = str(settings.file or settings.user_file or PROJECT_FILE)

    def text(self, name: str) -> str:
        """Return a text; empty if it is not set."""
        value = self._values.get(name, "")
        if not isinstance(value, str):
            raise self._bad(name, "a text")
        return value

    def texts(self, name: str) -> list[str]:
        """Return a list of texts; empty if it is not set."""
        values = self._values.get(name, [])
        if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
            raise self._bad(name, "a list of texts")
        return values

    def flag(self, name: str) -> bool:
        """Return a flag; False if it is not set."""
        value = self._values.get(name, False)
        if not isinstance(value, bool):
            raise self._bad(name, "true or false")
        return value

    def number(self, name: str, unit: int, default: int = NO_LIMIT) -> int:
        """Return a number in its smallest unit."""
        value = self._values.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | Decimal) or value < 0:
            raise self._bad(name, "a number, 0 or more")
        return min(int(value * unit), NO_LIMIT)

    def prices(self) -> dict[str, NamedModelPrice]:
        """Return the declared prices of models."""
        declared = self._values.get("prices", {})
        if not isinstance(declared, dict):
            raise self._bad("prices", _PRICE_FORM)
        return {model: self._price(model, price) for model, price in declared.items()}

    def _price(self, model: str, price: object) -> NamedModelPrice:
        if not isinstance(price, dict) or price.keys() != {"input", "output"}:
            raise self._bad(f"prices.{model}", _PRICE_FORM)
        for value in price.values():
            if isinstance(value, bool) or not isinstance(value, int | Decimal) or value < 0:
                raise self._bad(f"prices.{model}", _PRICE_FORM)
        read, written = (
            -int(-price[name] * _PICO_USD_PER_MILLION // 1) for name in ("input", "output")
        )
        return declared_price(read, written)

    def _bad(self, name: str, form: str) -> BadSettings:
        return BadSettings(self._file, f"[gateway] {name} is {form}")


_PRICE_FORM = "{ input = 0.15, output = 0.60 }, both in dollars for a million tokens"
