"""The settings of the gateway: `[gateway]` in forum.toml, and the providers' own variables."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from forum.config import PROJECT_FILE, Settings
from forum.errors import BadSettings
from forum.gateway.call_plan import PriceBook
from forum.gateway.routes import ApiProvider
from forum.gateway.upstream import DEFAULT_URLS, ProviderAddress
from forum.ledger.key_forms import looks_like_key
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
_PROVIDER_KEY = re.compile(r"[!-~]+")


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

    def find_keyless(self, provider: ApiProvider) -> str:
        """Return why a server does not relay to a provider; empty if it does.

        A server on this machine, which the settings name, needs no key.
        """
        address = next(a for a in self.addresses if a.provider is provider)
        if address.key_header is not None or (
            provider in self.explicit and is_loopback(address.url)
        ):
            return ""
        return (
            f"this ledger has no key for {provider.value}. Its operator can name one: "
            f"{provider}_key_env or {provider}_key_file in [gateway] of its forum.toml."
        )

    @property
    def missing_keys(self) -> tuple[str, ...]:
        """The variables of the providers for which Forum has no key."""
        return tuple(KEY_VARIABLES[a.provider] for a in self.addresses if a.key_header is None)


def read_gateway_settings(settings: Settings, environ: Mapping[str, str]) -> GatewaySettings:
    """Read the settings of the gateway.  Raises `BadSettings`.

    The keys of the operator are not those of a tenant.
    """
    table, is_tenant = _Table(settings), settings.secrets.tenant is not None
    addresses, explicit = [], set()
    for provider in ApiProvider:
        variable = BASE_URL_VARIABLES[provider]
        own, shared = table.text(f"{provider}_url"), environ.get(variable)
        # A tenant's own key goes to the address that the tenant names.
        named = (own or shared) if is_tenant else (shared or own)
        url = (named or DEFAULT_URLS[provider]).rstrip("/")
        if not url.startswith(("http://", "https://")) or not host_of(url):
            raise BadSettings(variable, f"{url!r} is no address; write https://HOST")
        # An address of the operator's on this machine may be a proxy that has keys.
        if own if is_tenant else named:
            explicit.add(provider)
        addresses.append(
            ProviderAddress(
                provider=provider,
                url=url,
                key_header=_read_key(table, provider, environ, is_tenant=is_tenant),
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


def _read_key(
    table: "_Table", provider: ApiProvider, environ: Mapping[str, str], *, is_tenant: bool
) -> tuple[bytes, bytes] | None:
    """Return the header with the key of a ledger for a provider, or None if it has none."""
    if not is_tenant:
        key = table.secret(f"{provider}_key", environ)
        return _make_header(provider, key) or _key_header(provider, environ)
    key = table.tenant_secret(provider, environ)
    operators = {environ.get(name, "").strip() for name in PROVIDER_SECRETS} - {""}
    if key in operators:
        raise table.bad(f"{provider}_key_env", "a key of this ledger, not the server's own key")
    return _make_header(provider, key)


def _key_header(provider: ApiProvider, environ: Mapping[str, str]) -> tuple[bytes, bytes] | None:
    """Return the header with the key in the provider's own variable, or None if it has none."""
    key = environ.get(KEY_VARIABLES[provider], "").strip()
    token = environ.get(_TOKEN_VARIABLE, "").strip()
    if provider is ApiProvider.ANTHROPIC and not key and token:
        return (b"authorization", b"Bearer " + token.encode())
    return _make_header(provider, key)


def _make_header(provider: ApiProvider, key: str) -> tuple[bytes, bytes] | None:
    if not key:
        return None
    if provider is ApiProvider.OPENAI:
        return (b"authorization", b"Bearer " + key.encode())
    return (b"x-api-key", key.encode())


class _Table:
    """The section `[gateway]`, read setting by setting."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._values: Mapping[str, Any] = settings.doors.get("gateway", {})
        self._file = str(settings.file or settings.user_file or PROJECT_FILE)

    def text(self, name: str) -> str:
        """Return a text; empty if it is not set."""
        value = self._values.get(name, "")
        if not isinstance(value, str):
            raise self.bad(name, "a text")
        return value

    def texts(self, name: str) -> list[str]:
        """Return a list of texts; empty if it is not set."""
        values = self._values.get(name, [])
        if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
            raise self.bad(name, "a list of texts")
        return values

    def secret(self, name: str, environ: Mapping[str, str]) -> str:
        """Return a secret from the variable or the file that a setting names; empty if neither."""
        variable, file = self.text(f"{name}_env"), self.text(f"{name}_file")
        if variable and file:
            raise self.bad(f"{name}_env", f"left out where {name}_file is set")
        if variable:
            if not (value := environ.get(variable, "").strip()):
                raise self.bad(f"{name}_env", f"the name of a variable; {variable} is not set")
            return self._check_key(f"{name}_env", value)
        if not file:
            return ""
        try:
            value = Path(file).read_text().strip()
        except (OSError, UnicodeError) as error:
            raise self.bad(f"{name}_file", f"a file with a key ({error})") from None
        if not value:
            raise self.bad(f"{name}_file", f"a file with a key; {file} is empty")
        return self._check_key(f"{name}_file", value)

    def _check_key(self, name: str, value: str) -> str:
        """Return a key of a provider.  Raises `BadSettings` for anything else, which stays here."""
        if looks_like_key(value):
            raise self.bad(name, "the key of a provider; that is a key of Forum")
        if not _PROVIDER_KEY.fullmatch(value):
            raise self.bad(name, "the key of a provider: one word in ASCII")
        return value

    def tenant_secret(self, provider: ApiProvider, environ: Mapping[str, str]) -> str:
        """Return the secret of a tenant; empty if its own file names none."""
        name, project = f"{provider}_key", str(self._settings.file)
        own = (self._settings.origins.get(f"gateway.{name}_{kind}") for kind in ("env", "file"))
        # The user's own settings are the operator's.
        return self.secret(name, environ) if project in own else ""

    def flag(self, name: str) -> bool:
        """Return a flag; False if it is not set."""
        value = self._values.get(name, False)
        if not isinstance(value, bool):
            raise self.bad(name, "true or false")
        return value

    def number(self, name: str, unit: int, default: int = NO_LIMIT) -> int:
        """Return a number in its smallest unit."""
        value = self._values.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | Decimal) or value < 0:
            raise self.bad(name, "a number, 0 or more")
        return min(int(value * unit), NO_LIMIT)

    def prices(self) -> dict[str, NamedModelPrice]:
        """Return the declared prices of models."""
        declared = self._values.get("prices", {})
        if not isinstance(declared, dict):
            raise self.bad("prices", _PRICE_FORM)
        return {model: self._price(model, price) for model, price in declared.items()}

    def _price(self, model: str, price: object) -> NamedModelPrice:
        if not isinstance(price, dict) or price.keys() != {"input", "output"}:
            raise self.bad(f"prices.{model}", _PRICE_FORM)
        for value in price.values():
            if isinstance(value, bool) or not isinstance(value, int | Decimal) or value < 0:
                raise self.bad(f"prices.{model}", _PRICE_FORM)
        read, written = (
            -int(-price[name] * _PICO_USD_PER_MILLION // 1) for name in ("input", "output")
        )
        return declared_price(read, written)

    def bad(self, name: str, form: str) -> BadSettings:
        """Return the error of a setting that is not in its form."""
        return BadSettings(self._file, f"[gateway] {name} is {form}")


_PRICE_FORM = "{ input = 0.15, output = 0.60 }, both in dollars for a million tokens"
