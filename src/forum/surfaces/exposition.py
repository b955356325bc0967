"""Metrics as the library of Prometheus writes them: in its text format, or in OpenMetrics.

The library takes long to load: what answers a scrape imports this module then.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as MetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from forum.metrics import Metric, Sample

_asks_for_openmetrics = re.compile(r"application/openmetrics-text *; *version=1\.0\.0\b").search


class _Collected(Collector):
    def __init__(self, families: Iterable[MetricFamily]) -> None:
        self._families = families

    def collect(self) -> Iterable[MetricFamily]:
        return self._families


def write_exposition(
    metrics: Iterable[Metric], samples: Iterable[Sample], accept: str, *histograms: MetricFamily
) -> tuple[bytes, str]:
    """Return metrics in the format that an Accept header asks for, and its media type."""
    by_name: defaultdict[str, list[Sample]] = defaultdict(list)
    for sample in sorted(samples, key=lambda sample: sample.labels):
        by_name[sample.metric.name].append(sample)
    families = [_make_family(metric, by_name[metric.name]) for metric in metrics]
    # Of a version that it does not know, the library makes an error, or repeats it in its reply.
    asked = "application/openmetrics-text; version=1.0.0" if _asks_for_openmetrics(accept) else ""
    encode, media_type = choose_encoder(asked)
    return encode(_Collected([*histograms, *families])), media_type


def _make_family(metric: Metric, samples: Sequence[Sample]) -> MetricFamily:
    names = [name for name, _ in samples[0].labels] if samples else []
    # The suffix is what Prometheus calls a number that only grows.
    make_family = CounterMetricFamily if metric.name.endswith("_total") else GaugeMetricFamily
    family = make_family(metric.name, metric.help, labels=names)
    for sample in samples:
        family.add_metric([value for _, value in sample.labels], sample.value)
    return family
