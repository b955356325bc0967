"""The model gateway: pass calls of any program on to a provider, under a cap, and record them.

It speaks OpenAI's and Anthropic's APIs.  The provider gets a request that the gateway composed from
what it has checked; the reply passes as it is.  The gateway adds nothing to prompts, keeps provider
keys to itself and repeats no call.  Before each call its highest cost is reserved durably;
afterwards it is settled.  `forum run` starts one for a single
program; a server offers it under `/gateway`.
"""

from forum.gateway.actor_caps import find_actor_caps
from forum.gateway.call_plan import PriceBook
from forum.gateway.program import (
    find_foreign_keys,
    gateway_variables,
    make_run_sandbox,
    program_environment,
)
from forum.gateway.refusals import CallRefused, RefusalReason, error_body
from forum.gateway.relay import GatewayRequest, Relay, send_refusal
from forum.gateway.relayed_run import RelayedRun, RunCounters, RunLimits, SharedCaps, format_amount
from forum.gateway.reservations import CallsInFlight
from forum.gateway.routes import ApiProvider
from forum.gateway.run_app import RunExtension, RunGateway, base_url
from forum.gateway.settings import (
    BASE_URL_VARIABLES,
    KEY_VARIABLES,
    PROVIDER_SECRETS,
    GatewaySettings,
    read_gateway_settings,
)
from forum.gateway.upstream import ProviderAddress
from forum.models.sandbox import ProgramSession, Sandbox

__all__ = [
    "BASE_URL_VARIABLES",
    "KEY_VARIABLES",
    "PROVIDER_SECRETS",
    "ApiProvider",
    "CallRefused",
    "CallsInFlight",
    "GatewayRequest",
    "GatewaySettings",
    "PriceBook",
    "ProgramSession",
    "ProviderAddress",
    "RefusalReason",
    "Relay",
    "RelayedRun",
    "RunCounters",
    "RunExtension",
    "RunGateway",
    "RunLimits",
    "Sandbox",
    "SharedCaps",
    "base_url",
    "error_body",
    "find_actor_caps",
    "find_foreign_keys",
    "format_amount",
    "gateway_variables",
    "make_run_sandbox",
    "program_environment",
    "read_gateway_settings",
    "send_refusal",
]
