"""What a recorded step costs; a part of `benchmarks gateway`.

`step_caller_us` is the CPU time of a step in the thread of the program, without the function
itself.  `step_ratio` is the CPU time of all threads for a step that is recorded in a ledger in this
process, with its sequencing and signing, divided by that for a span of OpenTelemetry with batch
export whose batches are encoded and thrown away.  Every step is recorded: the program waits if the
queue is full.
"""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time, thread_time
from typing import Any

import forum

ROUNDS = 3


def work(number: int) -> dict[str, int]:
    """Do what is measured: next to nothing."""
    return {"number": number}


def measure_steps(steps: int) -> tuple[float, float]:
    """Return the CPU seconds of a step in the caller's thread, and in all threads."""
    with TemporaryDirectory() as folder:
        os.environ["FORUM_STATE_DIR"] = f"{folder}/state"
        (Path(folder) / "forum.toml").touch()
        recorder = forum.open(folder, loss="block", most=50_000)
        step = recorder.step(work)
        with recorder.run("warm up"):
            for number in range(200):
                step(number)
        recorder.flush()
        all_before = process_time()
        with recorder.run("steps"):
            before = thread_time()
            for number in range(steps):
                step(number)
            caller = thread_time() - before
        recorder.flush(120)
        recorder.close(120)
        everything = process_time() - all_before
    return (caller - bare_cost(steps)) / steps, everything / steps


def bare_cost(steps: int) -> float:
    """Return the CPU seconds of the function alone."""
    before = thread_time()
    for number in range(steps):
        work(number)
    return thread_time() - before


def measure_spans(steps: int) -> float:
    """Return the CPU seconds of a span of OpenTelemetry, in all threads."""
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import (  # noqa: PLC0415
        BatchSpanProcessor,
        SpanExporter,
        SpanExportResult,
    )

    class EncodingExporter(SpanExporter):
        def export(self, spans: Sequence[Any]) -> SpanExportResult:
            encode_spans(spans).SerializeToString()
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    # A queue that takes all of them: a span that is dropped would cost nothing.
    provider.add_span_processor(
        BatchSpanProcessor(EncodingExporter(), max_queue_size=2 * steps, max_export_batch_size=512)
    )
    tracer = provider.get_tracer("benchmark")
    before = process_time()
    with tracer.start_as_current_span("spans"):
        for number in range(steps):
            with tracer.start_as_current_span("work") as span:
                span.set_attribute("input", json.dumps({"number": number}))
                span.set_attribute("output", json.dumps(work(number)))
    provider.shutdown()
    return (process_time() - before) / steps


def _median(measure: Callable[[], float]) -> float:
    return median(measure() for _ in range(ROUNDS))


def step_figures(steps: int) -> dict[str, float]:
    """Return `step_caller_us` and `step_ratio`, with what they are made of."""
    measured = [measure_steps(steps) for _ in range(ROUNDS)]
    caller = median(each[0] for each in measured)
    everything = median(each[1] for each in measured)
    span = _median(lambda: measure_spans(steps))
    return {
        "step_caller_us": round(1e6 * caller, 1),
        "step_all_us": round(1e6 * everything, 1),
        "span_all_us": round(1e6 * span, 1),
        "step_ratio": round(everything / span, 2),
    }
