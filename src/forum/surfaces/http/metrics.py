"""Metrics of a server process."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from forum import metrics
from forum.limits.admission import Admission
from forum.surfaces.http.tenant import Tenant

REQUESTS = metrics.Metric("forum_http_requests_total", "Requests, by operation and status.")
REQUEST_SECONDS = metrics.Metric(
    "forum_http_request_seconds",
    "How long requests took until the answer began.",
)
EVENT_STREAMS = metrics.Metric("forum_event_streams", "Clients that follow a run or the log here.")
SHARES_HELD = metrics.Metric(
    "forum_http_shares_held",
    "What requests of this ledger hold: open requests, event streams, bytes of bodies.",
)
SHARES_REFUSED = metrics.Metric(
    "forum_http_shares_refused_total",
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

    def write(self, tenant: Tenant, accept: str) -> tuple[bytes, str]:
        """Return the metrics in the format that an Accept header asks for, and its media type.

        Of the ledgers, only the caller's are told.
        """
        from prometheus_client.core import HistogramMetricFamily

        from forum.surfaces.exposition import write_exposition

        times = HistogramMetricFamily(
            REQUEST_SECONDS.name, REQUEST_SECONDS.help, labels=["operation"]
        )
        for operation, buckets in sorted(self.buckets.items()):
            counts = zip((*map(str, _BOUNDS), "+Inf"), accumulate(buckets), strict=True)
            times.add_metric([operation], list(counts), self.seconds[operation])
        written = (REQUESTS, *metrics.LEDGER_METRICS, EVENT_STREAMS, SHARES_HELD, SHARES_REFUSED)
        samples = [*self._samples(tenant), *tenant.forum.runs.metric_samples()]
        return write_exposition(written, samples, accept, times)

    def _samples(self, tenant: Tenant) -> Iterator[metrics.Sample]:
        for (operation, status), times in sorted(self.requests.items()):
            labels = (("operation", operation), ("status", str(status)))
            yield metrics.Sample(REQUESTS, times, labels)
        ledger = ("ledger", tenant.forum.origin)
        yield metrics.Sample(EVENT_STREAMS, tenant.log_follower.listener_count, (ledger,))
        for meter in self.admission.meters if self.admission else ():
            of = ("of", meter.name)
            held = meter.held_by(tenant.forum.access.tenant)
            yield metrics.Sample(SHARES_HELD, held, (ledger, of))
            for whose, count in meter.refused.items():
                yield metrics.Sample(SHARES_REFUSED, count, (of, ("whose", whose)))
