"""Metrics of a server process, in the Prometheus text format."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from forum import metrics
from forum.limits.admission import Admission
from forum.surfaces.http.tenant import Tenant

REQUESTS = metrics.Metric(
    "forum_http_requests_total", metrics.MetricType.COUNTER, "Requests, by operation and status."
)
REQUEST_SECONDS = metrics.Metric(
    "forum_http_request_seconds",
    metrics.MetricType.HISTOGRAM,
    "How long requests took until the answer began.",
)
EVENT_STREAMS = metrics.Metric(
    "forum_event_streams", metrics.MetricType.GAUGE, "Clients that follow a run or the log here."
)
SHARES_HELD = metrics.Metric(
    "forum_http_shares_held",
    metrics.MetricType.GAUGE,
    "What requests of this ledger hold: open requests, event streams, bytes of bodies.",
)
SHARES_REFUSED = metrics.Metric(
    "forum_http_shares_refused_total",
    metrics.MetricType.COUNTER,
    "Requests that were refused, by whose share was in use: of a key, a ledger or the process.",
)
SERVER_METRICS = (REQUESTS, REQUEST_SECONDS, EVENT_STREAMS, SHARES_HELD, SHARES_REFUSED)
"""Metrics that only servers have."""

_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""In seconds."""


@dataclass
class HttpMetrics:
    """Counts requests and their durations."""

    requests: Counter[tuple[str, int]] = field(default_factory=Counter)
    buckets: dict[str, list[int]] = field(default_factory=dict)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    admission: Admission | None = None

    def record_request(self, operation: str, status: int, seconds: float) -> None:
        """Count one request."""
        self.requests[operation, status] += 1
        buckets = self.buckets.setdefault(operation, [0] * (len(_BOUNDS) + 1))
        buckets[bisect_left(_BOUNDS, seconds)] += 1
        self.seconds[operation] += seconds

    def render(self, tenant: Tenant) -> str:
        """Return the metrics in the Prometheus text format; of the ledgers, only the caller's."""
        lines = (*self._requests(), *self._times(), *_ledger(tenant), *self._shares(tenant))
        return "".join(f"{line}\n" for line in lines)

    def _requests(self) -> Iterable[str]:
        yield from metrics.render_header(REQUESTS)
        for (operation, status), times in sorted(self.requests.items()):
            labels = f'operation="{operation}",status="{status}"'
            yield f"{REQUESTS.name}{{{labels}}} {times}"

    def _times(self) -> Iterable[str]:
        name = REQUEST_SECONDS.name
        yield from metrics.render_header(REQUEST_SECONDS)
        for operation, buckets in sorted(self.buckets.items()):
            total = 0
            for bound, times in zip((*_BOUNDS, "+Inf"), buckets, strict=True):
                total += times
                yield f'{name}_bucket{{operation="{operation}",le="{bound}"}} {total}'
            yield f'{name}_sum{{operation="{operation}"}} {self.seconds[operation]:.6f}'
            yield f'{name}_count{{operation="{operation}"}} {total}'

    def _shares(self, tenant: Tenant) -> Iterable[str]:
        meters = self.admission.meters if self.admission else ()
        held = [
            metrics.Sample(
                SHARES_HELD,
                meter.held_by(tenant.forum.access.tenant),
                (("ledger", tenant.forum.origin), ("of", meter.name)),
            )
            for meter in meters
        ]
        refused = [
            metrics.Sample(SHARES_REFUSED, count, (("of", meter.name), ("whose", whose)))
            for meter in meters
            for whose, count in meter.refused.items()
        ]
        return metrics.render_metrics((SHARES_HELD, SHARES_REFUSED), [*held, *refused])


def _ledger(tenant: Tenant) -> Iterable[str]:
    streams = metrics.Sample(EVENT_STREAMS, tenant.log_follower.listener_count)
    samples = [
        *tenant.forum.runs.metric_samples(),
        *metrics.with_labels([streams], ledger=tenant.forum.origin),
    ]
    return metrics.render_metrics((*metrics.LEDGER_METRICS, EVENT_STREAMS), samples)
