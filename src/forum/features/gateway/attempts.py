"""The upstreams that a call is tried at, one after the other, and the health of each.

A route of `[gateway.routes]` gives a model a name of its own and lists upstreams.  A call by that
name is made at the first one that is healthy.  If an upstream is overloaded, fails, hangs or breaks
off before the first byte of its reply, the call is made at the next one.  Each attempt is a call of
its own: it is bounded at the prices of its upstream, reserved and recorded before, and settled
after.  So no fallback can pass a cap, and an attempt whose outcome is unknown keeps its
reservation.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Final

from forum.features.gateway.call_plan import CallPlan, PriceBook
from forum.features.gateway.composed_body import set_member
from forum.features.gateway.request_reader import ReadRequest
from forum.features.gateway.routes import ApiProvider
from forum.features.gateway.upstream import ProviderAddress

RETRIED_STATUSES: Final = frozenset({408, 429, 500, 502, 503, 504, 529})
"""Replies after which another upstream is tried."""
MAX_FAILURES: Final = 3
"""Failures in a row after which an upstream is passed over."""
REST_SECONDS: Final = 30.0
"""How long an upstream is passed over; then one call tries it."""


@dataclass(frozen=True, slots=True)
class CallTarget:
    """An upstream, and the model that a call asks it for."""

    address: ProviderAddress
    prices: PriceBook
    model: str = ""
    """Empty for the model of the request."""

    def prepare(self, read: ReadRequest) -> ReadRequest:
        """Return a request for the model of this upstream."""
        if not self.model or self.model == read.model:
            return read
        body = set_member(read.body, "model", self.model)
        added = max(0, len(body) - len(read.body))
        return replace(read, model=self.model, body=body, input_tokens=read.input_tokens + added)

    def mark(self, plan: CallPlan, asked: str) -> CallPlan:
        """Return a plan that says whether the model of the request was replaced."""
        if plan.request.model == asked:
            return plan
        return replace(plan, altered=("model", *plan.altered))


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """The upstreams of a model, in the order in which they are tried."""

    provider: ApiProvider
    """Whose API the clients and the upstreams speak."""
    targets: tuple[CallTarget, ...]
    first_byte_s: float
    """How long an upstream may send nothing before the next one is tried."""


@dataclass(slots=True)
class _Health:
    failures: int = 0
    rests_until: float = 0.0
    is_probed: bool = False


@dataclass(slots=True)
class UpstreamHealth:
    """The failures in a row of each upstream, in this process."""

    clock: Callable[[], float] = monotonic
    _by_name: dict[str, _Health] = field(default_factory=dict)

    def order(self, targets: Sequence[CallTarget]) -> tuple[CallTarget, ...]:
        """Return the targets without those that rest; all of them if all rest."""
        healthy = tuple(t for t in targets if self.is_usable(t.address.name))
        return healthy or tuple(targets)

    def is_usable(self, name: str) -> bool:
        """Return whether an upstream may be called: one that has rested may be, by one call."""
        health = self._by_name.get(name)
        if health is None or health.failures < MAX_FAILURES:
            return True
        return self.clock() >= health.rests_until and not health.is_probed

    def begin(self, name: str) -> None:
        """Note that a call is made; if the upstream has rested, no other one is until it ends."""
        health = self._by_name.get(name)
        if health is not None and health.failures >= MAX_FAILURES:
            health.is_probed = True

    def end(self, name: str, *, failed: bool | None) -> None:
        """Note how a call ended; None if that says nothing of the upstream."""
        health = self._by_name.setdefault(name, _Health())
        health.is_probed = False
        if failed is None:
            return
        health.failures = health.failures + 1 if failed else 0
        if health.failures >= MAX_FAILURES:
            health.rests_until = self.clock() + REST_SECONDS
