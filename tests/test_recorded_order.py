"""Steps that one program makes one after the other have their indexes in this order."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import forum as sdk
from forum.app import KINDS
from forum.features.recorder.public import HookRules, ReportWriter, handle_event, parse_event
from forum.features.telemetry.intake import TelemetryIntake
from forum.features.telemetry.spans import read_spans
from forum.ledger.entry import Entry
from forum.ledger.log import read_body
from forum.ledger.ports import Reader
from forum.runs.report_kinds import ReportStepFacts
from tests.features.gateway.harness import harness
from tests.features.recorder.recording import make_project, open_forum
from tests.features.recorder.test_hook import event
from tests.features.telemetry.batches import span, traces
from tests.features.telemetry.desks import free_of_charge

STEPS = [f"s{number}" for number in range(12)]


def record_spans(folder: Path) -> None:
    """Record spans as a program does."""
    with sdk.open(folder) as recorder, recorder.run("program"):
        for name in STEPS:
            with recorder.span("step", name):
                pass


def relay_calls(folder: Path) -> None:
    """Call a provider through the gateway."""
    with harness(folder) as gateway:
        for name in STEPS:
            assert gateway.chat(name).status_code == 200
        gateway.entries("report.step/1")  # waits until all are settled


def receive_traces(folder: Path) -> None:
    """Receive two requests, whose spans are grouped by the library that wrote them."""
    chat = {"gen_ai.operation.name": "chat"}
    spans = [span(number + 1, name, chat) for number, name in enumerate(STEPS)]
    with open_forum(folder) as forum:
        forum.keys.initialise()
        intake = TelemetryIntake(forum.ledger)
        for part in (spans[:8], spans[8:]):
            request = ExportTraceServiceRequest()
            request.MergeFrom(traces(*part[1::2], scope="tools"))
            request.MergeFrom(traces(*part[0::2], scope="models"))
            intake.record(read_spans(request, free_of_charge), "test")


def hear_hooks(folder: Path) -> None:
    """Handle the events of a coding agent."""
    with open_forum(folder) as forum:
        forum.keys.initialise()
        writer = ReportWriter(forum.ledger, "claude-code")
        for name in STEPS:
            tool = {"tool_name": name, "tool_input": {}, "tool_use_id": f"use-{name}"}
            for text in (event("PreToolUse", **tool), event("PostToolUse", **tool)):
                assert handle_event(parse_event(text.encode()), writer, HookRules()) == ""


def step_name(reader: Reader, entry: Entry[ReportStepFacts]) -> str:
    """Return the one of `STEPS` that a step is about: its name, or the text of its request."""
    texts = [entry.facts.name]
    for data in reader.read_strand(entry.run, entry.strand):
        part = KINDS.read(data)
        texts += [(read_body(reader, part, name) or b"").decode() for name in part.bodies]
    (name,) = {found for text in texts for found in re.findall(r"\bs\d+\b", text)}
    return str(name)


@pytest.mark.parametrize("record", [record_spans, relay_calls, receive_traces, hear_hooks])
def test_indexes_follow_the_order_of_the_steps(
    record: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever way they are recorded."""
    monkeypatch.setenv("FORUM_STATE_DIR", make_project(tmp_path)["FORUM_STATE_DIR"])
    record(tmp_path)
    with open_forum(tmp_path) as forum:
        forum.log.publish()
        with forum.open_reader() as reader:
            stored = [KINDS.read(data) for data in reader.entries(0, reader.head().size) if data]
            steps = [entry for entry in stored if isinstance(entry.facts, ReportStepFacts)]
            assert [step_name(reader, entry) for entry in steps] == STEPS
