"""OpenTelemetry: record the traces and events of other programs, and send Forum's runs as traces.

Incoming: `decoding` turns a request of OTLP/HTTP into messages, `dialects` has the names that the
conventions and frameworks use, `spans` and `log_events` make steps of them, `intake` records the
steps, and `receiver` answers the request.  Outgoing: `trace_export` makes spans of the entries of a
run, and `trace_push` sends them.

Needs the extra `otel`.  What comes in was told by a program, after the fact: it is recorded with
the provenance `reported`, and nothing can be refused because of it.
"""

from forum.feature import Feature, FeatureCommand

FEATURE = Feature(
    "telemetry",
    commands=(
        FeatureCommand(
            "otel",
            function="telemetry.cli:otel",
            group="Serve",
            after="keys",
            summary="Send runs as traces",
        ),
    ),
    server="telemetry.process_parts:make_server_extension",
    worker="telemetry.process_parts:sending_own_spans",
    run_extension="telemetry.process_parts:make_run_extension",
    report_patience="telemetry.section:read_report_patience",
    sections=(("otel", "telemetry.section:TelemetrySection"),),
)
