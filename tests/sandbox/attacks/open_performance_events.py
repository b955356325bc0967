"""Open a counter of performance events, a rich source of faults of the kernel."""

from _tools import reaches

reaches("perf_event_open", None, 0, -1, -1, 0)
