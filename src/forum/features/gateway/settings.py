"""The settings of the gateway: `[gateway]` in forum.toml, and the providers' own variables."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, assert_never

from forum.config import Settings
from forum.errors import BadSettings
from forum.features.gateway.attempts import CallTarget, ModelRoute
from forum.features.gateway.call_plan import PriceBook
from forum.features.gateway.routes import ApiProvider
from forum.features.gateway.section import (
    DEFAULT_MAX_REPEATS,
    DEFAULT_QUIET_SECONDS,
    GatewaySection,
    UpstreamSection,
)
from forum.features.gateway.upstream import DEFAULT_URLS, ProviderAddress
from forum.ledger.key_forms import looks_like_key
from forum.ledger.ports import NO_LIMIT, UNLIMITED, Amount
from forum.models.prices import Price, declared_price
from forum.models.urls import host_of, is_loopback
from forum.runs.team_settings import PRICE_FORM, WrittenPrice
from forum.units import NANO_USD, to_exact_units, to_limit_units

_PICO_USD_PER_MILLION = 10**6
"""A dollar for a million tokens is a million pico-dollars for one."""

BASE_URL_VARIABLES: Mapping[ApiProvider, str] = {
    ApiProvider.OPENAI: "OPENAI_BASE_URL",
    ApiProvider.ANTHROPIC: "ANTHROPIC_BASE_URL",
    ApiProvider.GEMINI: "GOOGLE_GEMINI_BASE_URL",
    ApiProvider.AZURE: "AZURE_OPENAI_ENDPOINT",
}
KEY_VARIABLES: Mapping[ApiProvider, str] = {
    ApiProvider.OPENAI: "OPENAI_API_KEY",
    ApiProvider.ANTHROPIC: "ANTHROPIC_API_KEY",
    ApiProvider.GEMINI: "GEMINI_API_KEY",
    ApiProvider.AZURE: "AZURE_OPENAI_API_KEY",
}
GOOGLE_KEY_VARIABLE = "GOOGLE_API_KEY"
"""The other name of Gemini's key, which its SDKs know too."""
_TOKEN_VARIABLE = "ANTHROPIC_AUTH_TOKEN"  # noqa: S105  # the name of a variable
RELAYED_SECRETS = frozenset({*KEY_VARIABLES.values(), GOOGLE_KEY_VARIABLE, _TOKEN_VARIABLE})
"""Variables with the keys of the providers that are relayed to."""
PROVIDER_SECRETS = frozenset(
    {
        *RELAYED_SECRETS, "AI_GATEWAY_API_KEY", "AWS_BEARER_TOKEN_BEDROCK",
        "AZURE_API_KEY", "CEREBRAS_API_KEY", "CO_API_KEY", "CODEX_API_KEY",
        "COHERE_API_KEY", "DEEPSEEK_API_KEY", "FIREWORKS_API_KEY",
        "GOOGLE_GENERATIVE_AI_API_KEY", "GROQ_API_KEY", "HF_TOKEN",
        "MISTRAL_API_KEY", "OPENAI_ADMIN_KEY", "OPENCODE_API_KEY", "OPENROUTER_API_KEY",
        "PERPLEXITY_API_KEY", "TOGETHER_API_KEY", "VOYAGE_API_KEY", "XAI_API_KEY",
    }
)  # fmt: skip
"""Variables with keys of model providers: with one of them a program could call past the cap."""
_UPSTREAM_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_PROVIDER_KEY = re.compile(r"[!-~]+")


class KeyPlace(NamedTuple):
    """Where a key is: in a variable, or in a file."""

    variable: str
    file: str
    prefix: str = ""
    """What the names of the two settings begin with."""


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
    routes: Mapping[str, ModelRoute] = field(default_factory=dict)
    """By the name that clients give as the model."""
    explicit: frozenset[ApiProvider] = field(default_factory=frozenset)
    """The providers whose address was set, and is not the default."""

    @property
    def has_no_key(self) -> bool:
        """Whether Forum has a key for none of the providers."""
        return all(address.key_header is None for address in self.addresses)

    def has_route(self, provider: ApiProvider) -> bool:
        """Return whether a call in the form of a provider may be made at another upstream."""
        return any(route.provider is provider for route in self.routes.values())

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
    section, is_tenant = settings.sections.read("gateway", GatewaySection), _is_tenant(settings)
    addresses, explicit = [], set()
    for provider in ApiProvider:
        variable = BASE_URL_VARIABLES[provider]
        own, shared = getattr(section, f"{provider}_url"), environ.get(variable)
        # A tenant's own key goes to the address that the tenant names.
        named = (own or shared) if is_tenant else (shared or own)
        url = (named or DEFAULT_URLS[provider]).rstrip("/")
        if provider is ApiProvider.ANTHROPIC:
            # Some clients take this variable with `/v1`. The gateway adds it to each path.
            url = url.removesuffix("/v1")
        if url and not (url.startswith(("http://", "https://")) and host_of(url)):
            raise BadSettings(variable, f"{url!r} is no address; write https://HOST")
        # An address of the operator's on this machine may be a proxy that has keys.
        if own if is_tenant else named:
            explicit.add(provider)
        with settings.sections.errors("gateway"):
            key_header = _read_key(settings, section, provider, environ)
        addresses.append(
            ProviderAddress(
                provider=provider,
                url=url,
                key_header=key_header,
                is_free=section.free_loopback and is_loopback(url),
            )
        )
    upstreams = _read_upstreams(settings, section, environ)
    with settings.sections.errors("gateway"):
        prices = replace(_read_prices(section.prices), deployments=section.deployments)
        own = {each.provider.value: CallTarget(each, prices) for each in addresses}
        return GatewaySettings(
            addresses=tuple(addresses),
            prices=prices,
            # The user's own routes are the operator's, like the upstreams that they name.
            routes=_read_routes(section, {**own, **upstreams})
            if not is_tenant or settings.origins.get("gateway.routes") == str(settings.file)
            else {},
            cap=Amount(
                _read_limit(section, "usd", NANO_USD),
                _read_limit(section, "tokens"),
                _read_limit(section, "calls"),
            ),
            allowed=frozenset(section.allow),
            untouched=section.untouched,
            max_repeats=_read_limit(section, "max_repeats"),
            quiet_seconds=_read_limit(section, "quiet_seconds"),
            explicit=frozenset(explicit),
        )


def _read_upstreams(
    settings: Settings, section: GatewaySection, environ: Mapping[str, str]
) -> dict[str, CallTarget]:
    """Return the upstreams that routes can name, with the prices that are declared for each."""
    targets = {}
    for name, upstream in settings.sections.read_named("upstreams", UpstreamSection).items():
        # The user's own settings are the operator's, and no tenant gets their keys.
        if _is_tenant(settings) and settings.origins.get(f"upstreams.{name}") != str(settings.file):
            continue
        with settings.sections.errors(f"upstreams.{name}"):
            if name in set(ApiProvider) or not _UPSTREAM_NAME.fullmatch(name):
                raise ValueError(
                    f"{name}: write another name: a-z, 0-9 and -, and none of "
                    f"{', '.join(ApiProvider)}"
                )
            url = upstream.url.rstrip("/")
            if not url.startswith(("http://", "https://")) or not host_of(url):
                raise ValueError("url: write https://HOST/PATH")
            provider = ApiProvider(upstream.api.value)
            key = _read_secret(KeyPlace(upstream.key_env, upstream.key_file), environ)
            _check_own(settings, key, "key_env", environ)
            address = ProviderAddress(
                provider=provider,
                url=url,
                key_header=_make_header(provider, key),
                is_free=section.free_loopback and is_loopback(url),
                upstream=name,
            )
            targets[name] = CallTarget(address, _read_prices(section.prices | upstream.prices))
    return targets


def _read_routes(
    section: GatewaySection, upstreams: Mapping[str, CallTarget]
) -> dict[str, ModelRoute]:
    """Return the routes.  Raises `ValueError`."""
    seconds = float(_read_limit(section, "first_byte_seconds"))
    routes = {}
    for name, listed in section.routes.items():
        targets = []
        for each in listed:
            upstream, _, model = each.partition("/")
            if upstream not in upstreams or not model:
                raise ValueError(
                    f"routes.{name}: write UPSTREAM/MODEL, with one of {', '.join(upstreams)}"
                )
            targets.append(replace(upstreams[upstream], model=model))
        providers = {target.address.provider for target in targets}
        if len(providers) != 1 or not providers <= {ApiProvider.OPENAI, ApiProvider.ANTHROPIC}:
            raise ValueError(
                f"routes.{name}: list upstreams that speak one API, openai or anthropic"
            )
        routes[name] = ModelRoute(providers.pop(), tuple(targets), seconds)
    return routes


def _read_prices(prices: Mapping[str, WrittenPrice]) -> PriceBook:
    return PriceBook({model: _read_price(model, price) for model, price in prices.items()})


def _is_tenant(settings: Settings) -> bool:
    return settings.secrets.tenant is not None


def _read_limit(section: GatewaySection, name: str, unit: int = 1) -> int:
    """Return a limit in its smallest unit.  Raises `ValueError`."""
    if (value := getattr(section, name)) is None:
        return NO_LIMIT
    try:
        return to_limit_units(value, unit)
    except ValueError as error:
        raise ValueError(f"{name}: write a number, 0 or more: {error}") from None


def _read_price(model: str, price: WrittenPrice) -> Price:
    try:
        read, written = (
            to_exact_units(each, _PICO_USD_PER_MILLION) for each in (price.input, price.output)
        )
    except ValueError as error:
        raise ValueError(f"prices.{model}: write {PRICE_FORM}: {error}") from None
    return declared_price(read, written)


def _read_key(
    settings: Settings, section: GatewaySection, provider: ApiProvider, environ: Mapping[str, str]
) -> tuple[bytes, bytes] | None:
    """Return the header with the key of a ledger for a provider, or None if it has none."""
    setting = f"{provider}_key"
    place = KeyPlace(
        getattr(section, f"{setting}_env"), getattr(section, f"{setting}_file"), f"{provider}_"
    )
    if not _is_tenant(settings):
        key = _read_secret(place, environ)
        return _make_header(provider, key) or _key_header(provider, environ)
    own = (settings.origins.get(f"gateway.{provider}_key_{kind}") for kind in ("env", "file"))
    # The user's own settings are the operator's.
    key = _read_secret(place, environ) if str(settings.file) in own else ""
    _check_own(settings, key, f"{provider}_key_env", environ)
    return _make_header(provider, key)


def _check_own(settings: Settings, key: str, setting: str, environ: Mapping[str, str]) -> None:
    """Raise `ValueError` for a tenant that names a key of the operator."""
    operators = {environ.get(name, "").strip() for name in PROVIDER_SECRETS} - {""}
    if _is_tenant(settings) and key in operators:
        raise ValueError(f"{setting}: name a key of this ledger, not the server's own key")


def _read_secret(place: KeyPlace, environ: Mapping[str, str]) -> str:
    """Return the key that the settings name; empty if they name none.  Raises `ValueError`."""
    env_setting, file_setting = f"{place.prefix}key_env", f"{place.prefix}key_file"
    variable, file = place.variable, place.file
    if variable and file:
        raise ValueError(f"{env_setting}: leave it out where {file_setting} is set")
    if variable:
        if not (value := environ.get(variable, "").strip()):
            raise ValueError(f"{env_setting}: name a variable that is set; {variable} is not set")
        return _check_key(env_setting, value)
    if not file:
        return ""
    try:
        value = Path(file).read_text().strip()
    except (OSError, UnicodeError) as error:
        raise ValueError(f"{file_setting}: name a file with a key ({error})") from None
    if not value:
        raise ValueError(f"{file_setting}: name a file with a key; {file} is empty")
    return _check_key(file_setting, value)


def _check_key(setting: str, value: str) -> str:
    """Return a key of a provider.  Raises `ValueError` for anything else, which stays here."""
    if looks_like_key(value):
        raise ValueError(f"{setting}: name the key of a provider; that is a key of Forum")
    if not _PROVIDER_KEY.fullmatch(value):
        raise ValueError(f"{setting}: name the key of a provider: one word in ASCII")
    return value


def _key_header(provider: ApiProvider, environ: Mapping[str, str]) -> tuple[bytes, bytes] | None:
    """Return the header with the key in the provider's own variable, or None if it has none."""
    key = environ.get(KEY_VARIABLES[provider], "").strip()
    if provider is ApiProvider.GEMINI and not key:
        key = environ.get(GOOGLE_KEY_VARIABLE, "").strip()
    token = environ.get(_TOKEN_VARIABLE, "").strip()
    if provider is ApiProvider.ANTHROPIC and not key and token:
        return (b"authorization", b"Bearer " + token.encode())
    return _make_header(provider, key)


def _make_header(provider: ApiProvider, key: str) -> tuple[bytes, bytes] | None:
    if not key:
        return None
    match provider:
        case ApiProvider.OPENAI:
            return (b"authorization", b"Bearer " + key.encode())
        case ApiProvider.ANTHROPIC:
            return (b"x-api-key", key.encode())
        case ApiProvider.GEMINI:
            return (b"x-goog-api-key", key.encode())
        case ApiProvider.AZURE:
            return (b"api-key", key.encode())
        case _:
            assert_never(provider)
