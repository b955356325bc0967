"""`forum otel`: send runs as OpenTelemetry traces to another product."""

import os
from typing import TYPE_CHECKING, Final

import click

from forum.app import Forum
from forum.app.formatting import pluralize
from forum.errors import StoreFailed
from forum.features.telemetry.section import TelemetrySection
from forum.installation import require_extra
from forum.surfaces.cli import common_options
from forum.surfaces.cli.output import print_result
from forum.surfaces.cli.stop_signals import catch_stop_signals

if TYPE_CHECKING:
    from forum.features.telemetry.trace_push import PushResult, PushTarget, TracePusher

_POLL_INTERVAL_S: Final = 2.0


@click.group(cls=common_options.FullHelpGroup)
def otel() -> None:
    """Send runs as OpenTelemetry traces to another product."""


@otel.command(
    examples=(
        "forum otel push --endpoint http://127.0.0.1:6006",
        "forum otel push 0198c2d4 --endpoint https://otlp.example.com --headers-env OTLP_HEADERS",
        "forum otel push --follow",
    ),
)
@click.argument("run", required=False)
@click.option(
    "--endpoint", metavar="URL", help="The address before /v1/traces; else [otel] endpoint."
)
@click.option(
    "--headers-env",
    metavar="NAME",
    help="The variable that holds headers, like Authorization=Bearer%20abc.",
)
@click.option("--content", is_flag=True, help="Send prompts, replies, arguments and results too.")
@click.option("--follow", is_flag=True, help="Go on until Ctrl-C, and send what is completed.")
@common_options.as_json
def push(
    run: str | None,
    endpoint: str | None,
    headers_env: str | None,
    *,
    content: bool,
    follow: bool,
    as_json: bool,
) -> None:
    """Send runs as traces: all of RUN, or whatever was completed since the last time.

    Ids follow from the entries, so that sending a run again changes nothing for a product that
    knows spans by their ids.  Each span names its entry and its index.  The text of prompts and
    replies stays here, unless --content is given.
    """
    with require_extra("otel"):
        from forum.features.telemetry.trace_push import TracePusher, TracesNotSent, open_client

    if run is not None and follow:
        raise click.UsageError("--follow is for all runs; leave out RUN")
    with common_options.open_forum() as forum:
        target = _read_target(forum, endpoint, headers_env, content=content)
        with open_client(target) as client:
            pusher = TracePusher(forum, target, client)
            if not follow:
                result = pusher.push_run(forum.reads.find_run(run)) if run else pusher.push_new()
                _print(result, target.endpoint, as_json=as_json)
                return
            with catch_stop_signals() as stop:
                warned = False
                while True:
                    try:
                        _print_news(pusher, target.endpoint, as_json=as_json)
                        warned = False
                    except (TracesNotSent, StoreFailed) as error:
                        # An endpoint or a database that restarts delays traces, and loses none.
                        if not warned:
                            common_options.echo_warning(f"{error}; trying again")
                        warned = True
                    if stop.wait(_POLL_INTERVAL_S) is not None:
                        return


def _read_target(
    forum: Forum, endpoint: str | None, headers_env: str | None, *, content: bool
) -> "PushTarget":
    from forum.features.telemetry.trace_push import make_target

    settings = forum.settings.sections.read("otel", TelemetrySection)
    named = endpoint or settings.endpoint
    if not named:
        raise click.UsageError("name the endpoint: --endpoint URL, or [otel] endpoint")
    # The headers of the project file are for the endpoint that stands beside them.
    variable = headers_env or (settings.headers_env if named == settings.endpoint else "")
    return make_target(named, variable, os.environ, content=content or settings.content)


def _print_news(pusher: "TracePusher", endpoint: str, *, as_json: bool) -> None:
    result = pusher.push_new()
    if result.spans:
        _print(result, endpoint, as_json=as_json)


def _print(result: "PushResult", endpoint: str, *, as_json: bool) -> None:
    dropped = f", of which it dropped {result.rejected}" if result.rejected else ""
    spans, runs = pluralize(result.spans, "span"), pluralize(result.runs, "run")
    text = f"{spans} of {runs} sent to {endpoint}{dropped}"
    print_result("forum.otel.push/1", result, text, as_json=as_json)
