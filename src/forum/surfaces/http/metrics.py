"""What a process counts of itself, in the text format of Prometheus."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from forum.surfaces.http.desk import Desk

_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds."""


@dataclass
class Metrics:
    """Counts requests and how long they take."""

    requests: Counter[tuple[str, int]] = field(default_factory=Counter)
    buckets: dict[str, list[int]] = field(default_factory=dict)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def count(self, operation: str, status: int, seconds: float) -> None:
        """Count one request."""
        self.requests[operation, status] += 1
        buckets = self.buckets.setdefault(operation, [0] * (len(_BOUNDS) + 1))
        buckets[bisect_left(_BOUNDS, seconds)] += 1
        self.seconds[operation] += seconds

    def exposition(self, desk: Desk) -> str:
        """Return everything as Prometheus reads it: of the ledgers, only the one of who asks."""
        lines = (*self._requests(), *self._times(), *_ledger(desk))
        return "".join(f"{line}\n" for line in lines)

    def _requests(self) -> Iterable[str]:
        yield "# HELP forum_http_requests_total Requests, by operation and status."
        yield "# TYPE forum_http_requests_total counter"
        for (operation, status), times in sorted(self.requests.items()):
            labels = f'operation="{operation}",status="{status}"'
            yield f"forum_http_requests_total{{{labels}}} {times}"

    def _times(self) -> Iterable[str]:
        name = "forum_http_request_seconds"
        yield f"# HELP {name} How long requests took until the answer began."
        yield f"# TYPE {name} histogram"
        for operation, buckets in sorted(self.buckets.items()):
            total = 0
            for bound, times in zip((*_BOUNDS, "+Inf"), buckets, strict=True):
                total += times
                yield f'{name}_bucket{{operation="{operation}",le="{bound}"}} {total}'
            yield f'{name}_sum{{operation="{operation}"}} {self.seconds[operation]:.6f}'
            yield f'{name}_count{{operation="{operation}"}} {total}'


def _ledger(desk: Desk) -> Iterable[str]:
    gauges = {
        "forum_ledger_entries": "Entries with an index.",
        "forum_ledger_backlog": "Entries that wait for an index.",
        "forum_ledger_quarantined": "Rows that no writer of the log wrote, set aside.",
        "forum_workers": "Workers that hold a lease.",
        "forum_event_streams": "Clients that follow a run in this process.",
    }
    values = _values(desk)
    for name, meaning in gauges.items():
        yield f"# HELP {name} {meaning}"
        yield f"# TYPE {name} gauge"
        yield f'{name}{{ledger="{desk.forum.origin}"}} {values[name]}'


def _values(desk: Desk) -> dict[str, int]:
    store = desk.forum.store
    return {
        "forum_ledger_entries": store.head().size,
        "forum_ledger_backlog": store.backlog(),
        "forum_ledger_quarantined": store.quarantined(),
        "forum_workers": len(set(store.workers()) - set(store.lost_workers())),
        "forum_event_streams": desk.tail.listeners,
    }
