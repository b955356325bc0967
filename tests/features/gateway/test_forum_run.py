"""`forum run` with real programs: official SDKs, a provider that fails, and kills."""

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forum.app import Forum
from forum.config import load_settings
from forum.errors import CapReached
from forum.features.gateway.relayed_run import format_amount
from forum.features.telemetry.run_telemetry import RunTelemetry
from forum.ledger.kinds import Outcome
from forum.runs.report_drafts import source_draft
from forum.runs.report_kinds import ReportProvenance, ReportSourceFacts
from forum.units import format_usd
from tests.features.gateway.harness import serve
from tests.features.gateway.provider import LocalProvider
from tests.features.gateway.running import (
    HERE,
    RecordedCalls,
    kill_at_random,
    local_provider,
    provider_variables,
    read_log,
)
from tests.surfaces.terminal import FORUM, Terminal

NANO = 10**9


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    """Return a user with a project."""
    made = Terminal(tmp_path)
    assert made.call("init").exit_code == 0
    return made


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a provider that does not fail."""
    with local_provider(tmp_path_factory.mktemp("provider") / "log") as served:
        yield served


def test_sdks_in_a_loop_never_pass_the_cap(terminal: Terminal, tmp_path: Path) -> None:
    """64 threads with the official SDKs, against a provider that streams, calls tools and fails.

    The cap holds by the provider's own bill, no call is missing from the record, and a refusal is
    an error that the SDKs understand and do not repeat.
    """
    log = tmp_path / "provider.log"
    with local_provider(log, seed=3) as url:
        done = terminal.type(
            "run", "--max-usd", "0.05", "--json", "--", sys.executable,
            str(HERE / "sdk_agent.py"), "64", "40", **provider_variables(url),
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    summary = json.loads(done.stderr.splitlines()[-1])
    calls, billed = read_log(log)
    record = RecordedCalls(terminal)

    assert seen["status 402"] == 64 == summary["refused"] == summary["refusals"]["budget"]
    assert seen["ok"] > 100
    assert billed <= record.cost <= 0.05 * NANO
    assert len(record.made) == len(record.begun) == calls == summary["calls"]
    assert record.begun.keys() == record.made.keys()
    assert summary["tools"]["look_up"] > 0
    assert terminal.type("ledger", "verify").returncode == 0


ROUTE = '[gateway.routes]\n"gpt-4o-mini" = ["openai/gpt-4o-mini", "openai/gpt-4o-mini"]\n'
"""A failed call is tried again."""


@pytest.mark.parametrize(("kills", "settings"), [(6, ""), (3, ROUTE)], ids=["once", "with a route"])
def test_calls_of_a_killed_gateway_are_recorded_as_lost(
    terminal: Terminal, tmp_path: Path, kills: int, settings: str
) -> None:
    """The next process records them at full price; the cap of each run holds, and all verifies.

    Each attempt of a route is a call of its own, so none is made twice and none is missing.
    """
    log = tmp_path / "provider.log"
    with (terminal.folder / "forum.toml").open("a") as file:
        file.write(settings)
    chance = random.Random(11)
    with local_provider(log, seed=5) as url:
        for _ in range(kills):
            kill_at_random(terminal, url, chance, "0.02", log=log)
    # Any command that opens the ledger finds what is left.
    completed = terminal.type("runs")
    calls, billed = read_log(log)
    record = RecordedCalls(terminal)

    assert completed.returncode == 0, completed.stderr
    assert record.begun.keys() == record.made.keys()
    # A call may have been recorded and not yet sent; none was sent and not recorded.
    assert len(record.begun) >= calls > 0
    assert billed <= record.cost <= kills * 0.02 * NANO
    assert record.lost
    for span, step in record.lost.items():
        assert step.outcome == "indeterminate"
        assert step.usd == record.begun[span].usd > 0
    # A late bill of the process before can end the wait: then no run was open yet.
    assert kills // 2 < record.kinds.count("run.open/1") == record.kinds.count("run.close/1")
    assert not list(terminal.state.glob("logs/*/gateway/*"))
    assert terminal.type("ledger", "verify").returncode == 0


ENVIRONMENT = "import json,os; print(json.dumps(dict(os.environ)))"


def test_the_program_gets_a_token_and_no_key(terminal: Terminal, url: str) -> None:
    """Neither under its own name nor under another one."""
    variables = {**provider_variables(url), "MY_COPY": "sk-local-openai", "GEMINI_API_KEY": "gem"}
    done = terminal.type("run", "--", sys.executable, "-c", ENVIRONMENT, **variables)
    document = json.loads(done.stdout)

    assert done.returncode == 0
    assert document["OPENAI_BASE_URL"].startswith("http://127.0.0.1:")
    assert document["OPENAI_API_KEY"] == document["ANTHROPIC_API_KEY"]
    assert document["OPENAI_API_KEY"].startswith("forum-run-")
    assert document["TRACEPARENT"].split("-")[1] == document["FORUM_RUN"].replace("-", "")
    assert "sk-local" not in done.stdout
    assert document["GEMINI_API_KEY"] == document["OPENAI_API_KEY"]
    assert document["OTEL_EXPORTER_OTLP_ENDPOINT"] in document["OPENAI_BASE_URL"]
    assert document["OPENAI_API_KEY"] in document["OTEL_EXPORTER_OTLP_HEADERS"]


TELEMETRY = """
import os
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
caller = TraceContextTextMapPropagator().extract({"traceparent": os.environ["TRACEPARENT"]})
with provider.get_tracer("agents").start_as_current_span(
    "search", context=caller, attributes={"gen_ai.operation.name": "execute_tool"}
):
    pass
provider.shutdown()
"""


def test_telemetry_of_the_program_is_recorded(terminal: Terminal) -> None:
    """Its exporter is told where to send, and the trace is a run of its own, reported and ended."""
    done = terminal.type("run", "--", sys.executable, "-c", TELEMETRY)
    reported, relayed = json.loads(terminal.type("runs", "--json").stdout)["runs"]

    assert done.returncode == 0, done.stderr
    assert reported["run"] == f"otel-{relayed['run'].replace('-', '')}"
    assert [reported["provenance"], relayed["provenance"]] == ["reported", "relayed"]
    assert (reported["outcome"], reported["gaps"]) == ("ok", 0)


REPORTS = """
import json, os, urllib.request
import forum

def post(url, body, **headers):
    headers = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)

with forum.run("app", usd=1):
    with forum.budget("gpt-4o-mini", input="hello", max_tokens=50) as call:
        reply = post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", {
            "model": "gpt-4o-mini", "max_tokens": 50,
            "messages": [{"role": "user", "content": "hello"}],
        }, Authorization="Bearer " + os.environ["OPENAI_API_KEY"])
        usage = reply["usage"]
        call.tokens(usage["prompt_tokens"], usage["completion_tokens"])
said = [("gen_ai.operation.name", {"stringValue": "chat"}),
        ("gen_ai.request.model", {"stringValue": "gpt-4o-mini"}),
        ("gen_ai.provider.name", {"stringValue": "openai"}),
        ("gen_ai.usage.input_tokens", {"intValue": usage["prompt_tokens"]}),
        ("gen_ai.usage.output_tokens", {"intValue": usage["completion_tokens"]})]
span = {"traceId": os.urandom(16).hex(), "spanId": os.urandom(8).hex(), "name": "chat",
        "startTimeUnixNano": "1", "endTimeUnixNano": "2",
        "attributes": [{"key": k, "value": v} for k, v in said]}
post(os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] + "/v1/traces",
     {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]},
     Authorization=os.environ["OTEL_EXPORTER_OTLP_HEADERS"].split("%20")[1])
"""


def test_what_the_program_reports_is_not_paid_twice(terminal: Terminal, tmp_path: Path) -> None:
    """The gateway records the bill; spans of the SDK and of an exporter are shown beside it."""
    log = tmp_path / "provider.log"
    with local_provider(log) as url:
        done = terminal.type(
            "run", "--max-usd", "1", "--", sys.executable, "-c", REPORTS,
            **provider_variables(url),
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    _, billed = read_log(log)
    table = terminal.costs()
    runs = {
        run["provenance"]: run for run in json.loads(terminal.type("runs", "--json").stdout)["runs"]
    }
    shown = {told: terminal.type("show", run["run"]).stdout for told, run in runs.items()}

    assert runs.keys() == {"relayed", "wrapped", "reported"}
    assert table.total.spent.usd == billed > 0
    assert (table.total.spent.calls, table.total.runs, table.unpriced_runs) == (1, 1, 0)
    for told, text in shown.items():
        assert ("reported, not counted" in text) == (told != "relayed"), text
        assert text.count(format_usd(billed)) >= 1
    assert terminal.type("ledger", "verify").returncode == 0


def test_the_caps_of_the_ledger_hold_too(terminal: Terminal, url: str) -> None:
    """How many runs a day may have is for all programs together."""
    (terminal.folder / "forum.toml").write_text('[budgets.daily]\nper = "day"\nruns = 1\n')
    first, second = (
        terminal.type("run", "--", sys.executable, "-c", "pass", **provider_variables(url))
        for _ in range(2)
    )

    assert first.returncode == 0, first.stderr
    assert second.returncode == 5, second.stderr
    assert "budgets" in second.stderr


def test_a_file_that_is_no_program_has_the_status_of_a_shell(terminal: Terminal) -> None:
    """126, so that it can be told from a command that does not exist."""
    (terminal.folder / "notes.txt").write_text("no program")

    assert terminal.type("run", "--", "./notes.txt").returncode == 126


def test_without_a_key_the_token_is_in_the_path(terminal: Terminal) -> None:
    """A coding agent that is logged in must not find a key variable that it would prefer."""
    terminal.environment.pop("OPENAI_API_KEY", None)
    terminal.environment.pop("ANTHROPIC_API_KEY", None)
    done = terminal.type("run", "--", sys.executable, "-c", ENVIRONMENT)
    document = json.loads(done.stdout)

    assert "forum-run-" in document["ANTHROPIC_BASE_URL"]
    assert "ANTHROPIC_API_KEY" not in document


def test_streams_and_exit_status_are_those_of_the_command(terminal: Terminal) -> None:
    """A program in a pipe does not notice that it is run by Forum."""
    program = "import sys; data=sys.stdin.buffer.read(); sys.stdout.buffer.write(data); sys.exit(7)"
    done = subprocess.run(
        [FORUM, "run", "--", sys.executable, "-c", program],
        cwd=terminal.folder, env=terminal.environment, input=b"\x00\xff\n", capture_output=True,
        check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (7, b"\x00\xff\n")
    assert b"verify the record: forum ledger verify" in done.stderr
    assert terminal.type("run", "--", "no-such-program").returncode == 127


def test_signals_are_passed_on(terminal: Terminal) -> None:
    """SIGTERM reaches the program, which decides; the run is closed with its exit."""
    program = (
        "import signal,sys,time\n"
        "signal.signal(signal.SIGTERM, lambda *_, **__: sys.exit(9))\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)"
    )
    with subprocess.Popen(
        [FORUM, "run", "--", sys.executable, "-c", program],
        cwd=terminal.folder, env=terminal.environment, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(30) == 9
    assert RecordedCalls(terminal).kinds.count("run.close/1") == 1


def test_time_is_a_limit_too(terminal: Terminal) -> None:
    """The command is ended, the stop is recorded, and the status says that a limit was met."""
    done = terminal.type("run", "--max-seconds", "0.5", "--", "sleep", "60")

    assert done.returncode == 5
    assert "stop/1" in RecordedCalls(terminal).kinds


ONE_CALL = """
import json, os, urllib.request
body = json.dumps({"model": "gpt-4o-mini", "messages": [], "max_tokens": 5}).encode()
headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"],
           "content-type": "application/json"}
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
urllib.request.urlopen(urllib.request.Request(url, body, headers)).read()
"""


def test_a_run_that_an_overrun_stopped_is_not_ok(terminal: Terminal, tmp_path: Path) -> None:
    """The status stays that of the command; the run says what was billed, and is no `budget`."""
    provider = LocalProvider(tmp_path / "overrun.log")
    provider.forced_usage = {"prompt_tokens": 9, "completion_tokens": 9999, "total_tokens": 10008}
    with serve(provider) as (address, _):
        environment = terminal.environment | provider_variables(address)
        argv = [str(FORUM), "run", "--max-usd", "1", "--", sys.executable, "-c", ONE_CALL]
        done = subprocess.run(
            argv, cwd=terminal.folder, env=environment, capture_output=True, text=True, check=False
        )
    with Forum(load_settings(terminal.folder, terminal.environment)) as forum:
        ((_, state),) = forum.reads.recent_runs(None, 10)

    assert done.returncode == 0, done.stderr
    assert re.search(
        r"overrun: the provider billed \$\S+ for a call bounded by \$\S+; Forum stops"
        " because its bounds cannot hold",
        done.stderr,
    )
    assert state.outcome is Outcome.DENIED
    listed = terminal.call("runs").stdout
    assert "✗ overrun" in listed
    assert "budget" not in listed
    shown = terminal.call("show").stdout
    assert "the provider billed" in " ".join(shown.split())
    assert "over budget" not in shown
    index = next(
        line.split()[0].lstrip("#")
        for line in terminal.call("review").stdout.splitlines()
        if "stopped:" in line
    )
    for told in (("review",), ("show", "--transcript"), ("why", index)):
        words = " ".join(terminal.call(*told).stdout.split())
        assert "stopped: overrun: the provider billed $" in words, told
        assert "budget:" not in words, told
    reviewed = json.loads(terminal.call("review", "--json").stdout)
    assert (reviewed["counts"]["stops"], reviewed["counts"]["budget_stops"]) == (1, 0)
    costs = terminal.costs()
    assert (costs.stopped_runs, costs.refused_runs, costs.overrun_runs) == (0, 0, 1)
    assert terminal.type("ledger", "verify").returncode == 0


def test_a_cap_that_refused_calls_is_counted(terminal: Terminal, url: str) -> None:
    """Whatever the program makes of the refusal, lists and costs tell of it."""
    call = (sys.executable, "-c", SWALLOWS_REFUSALS)
    done = terminal.type("run", "--max-calls", "1", "--", *call, **provider_variables(url))
    costs = terminal.costs()

    assert done.returncode == 0, done.stderr
    assert "Forum: the cap of 1 call is reached. For more, raise --max-calls." in done.stdout
    assert "lower output limit" not in done.stdout
    for told in (("show",), ("show", "--transcript")):
        shown = " ".join(terminal.call(*told).stdout.split())
        assert "refused: the cap of 1 call is reached" in shown, told
        assert "assistant the cap" not in shown, told
    assert "✓ ok, 2 refused" in terminal.call("runs").stdout
    assert (costs.stopped_runs, costs.refused_runs, costs.refused_calls) == (0, 1, 2)
    terminal.call("ledger", "export", "-o", "run.zip")
    trust = terminal.folder / "trust"
    trust.write_text(terminal.call("ledger", "policy").stdout)
    proven = " ".join(terminal.type("verify", "run.zip", "--policy", "trust").stdout.split())
    assert "2 refused by a cap models gpt-4o-mini (1 call)" in proven
    assert costs.refused == [json.loads(terminal.call("runs", "--json").stdout)["runs"][0]["run"]]


def test_a_program_of_which_every_call_was_refused_did_not_succeed(
    terminal: Terminal, url: str
) -> None:
    """It may swallow all errors and say 0; a schedule or a gate of CI must not take it for done."""
    call = (sys.executable, "-c", SWALLOWS_REFUSALS)
    done = terminal.type("run", "--max-usd", "0", "--", *call, **provider_variables(url))
    failing = (sys.executable, "-c", SWALLOWS_REFUSALS + "\nraise SystemExit(7)\n")
    failed = terminal.type("run", "--max-usd", "0", "--", *failing, **provider_variables(url))

    assert (done.returncode, failed.returncode) == (5, 7)
    assert "every call was refused, so the exit status is 5" in done.stderr
    assert terminal.call("runs").stdout.count("denied") == 1
    assert terminal.type("ledger", "verify").returncode == 0


def test_a_provider_that_cannot_be_reached_has_not_replied(terminal: Terminal) -> None:
    """The record has no text of it, so its code is told in words."""
    call = (sys.executable, "-c", SWALLOWS_REFUSALS)
    terminal.type("run", "--", *call, **provider_variables("http://127.0.0.1:9"))

    for told in (("show",), ("show", "--transcript")):
        shown = " ".join(terminal.call(*told).stdout.split())
        assert "failed: the provider could not be reached" in shown, told


def test_a_program_that_goes_round_the_gateway_is_told_of(terminal: Terminal, url: str) -> None:
    """A cap that nothing came under must not look like one that held."""
    silent = terminal.type(
        "run", "--max-usd", "1", "--", sys.executable, "-c", "pass", **provider_variables(url)
    )
    completed = terminal.type(
        "run", "--max-usd", "1", "--", sys.executable, "-c", ONE_CALL, **provider_variables(url)
    )
    as_json = terminal.type("run", "--json", "--", sys.executable, "-c", "pass")

    assert "no call came through Forum: nothing was capped" in silent.stderr
    assert "--confine" in silent.stderr
    assert "found no key" not in silent.stderr
    assert "no call came through" not in completed.stderr
    assert json.loads(as_json.stderr.splitlines()[-1])["through_gateway"] is False


def test_a_missing_key_is_named_when_the_program_fails(terminal: Terminal) -> None:
    """An SDK says that it has no key; Forum says where it looked for one."""
    names = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GEMINI_API_KEY",
             "GOOGLE_API_KEY")  # fmt: skip
    for name in names:
        terminal.environment.pop(name, None)
    failed = terminal.type(
        "run", "--", sys.executable, "-c", "raise SystemExit(3)", GROQ_API_KEY="g" * 20
    )

    assert failed.returncode == 3
    assert "Forum found no key to pass on: set OPENAI_API_KEY or ANTHROPIC_API_KEY" in failed.stderr
    why = "(keys of providers that Forum does not relay to)"
    assert f"the command does not get GROQ_API_KEY {why}" in failed.stderr


def test_a_local_model_without_a_price_is_told_how_it_gets_one(
    terminal: Terminal, url: str
) -> None:
    """The remedy that is named works."""
    call = ("run", "--max-usd", "1", "--", sys.executable, "-c", LOCAL_MODEL)
    refused = terminal.type(*call, **provider_variables(url))
    assert "write free_loopback = true under [gateway] in forum.toml" in refused.stdout
    (terminal.folder / "forum.toml").write_text("[gateway]\nfree_loopback = true\n")
    allowed = terminal.type(*call, **provider_variables(url))
    assert "status 200" in allowed.stdout, allowed.stderr


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "0"])
def test_a_time_limit_is_a_time(terminal: Terminal, seconds: str) -> None:
    """Nothing is started and nothing recorded."""
    refused = terminal.call("run", "--max-seconds", seconds, "--", "touch", "started")

    assert refused.exit_code == 2
    assert not (terminal.folder / "started").exists()
    assert "run.open/1" not in RecordedCalls(terminal).kinds


def test_a_trace_of_another_reporter_is_not_closed(terminal: Terminal) -> None:
    """The program has ended; whoever else reports the same trace may not have."""
    closed = []
    settings = load_settings(terminal.folder, terminal.environment)
    with Forum(settings) as forum, forum.log.open_writer() as ledger:
        for number, by in enumerate(("key/other", "forum-run")):
            run = f"otel-{number}"
            source = ReportSourceFacts(ReportProvenance.REPORTED, by=by)
            ledger.open_run(run, "agents", source_draft(run, "agents", source), new=True)
            RunTelemetry(forum).end(str(number), "span")
            closed.append(ledger.is_closed(run))

    assert closed == [False, True]


def test_amounts_are_in_the_singular_too() -> None:
    """One call is no calls."""
    amounts = [("calls", 1), ("tokens", 2), ("usd", NANO)]
    assert [format_amount(*amount) for amount in amounts] == ["1 call", "2 tokens", "$1"]
    reached = CapReached("key ci", per="day", limit="calls", amounts=(1, 1, 1), seconds=60)
    assert "1 calls" not in str(reached)


CALL = """
import json, os, urllib.error, urllib.request
def call(model, text):
    body = {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": 5}
    headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"],
               "content-type": "application/json"}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        print("status", urllib.request.urlopen(request).status)
    except urllib.error.HTTPError as error:
        print(error.read().decode())
"""
SWALLOWS_REFUSALS = CALL + "for n in range(3): call('gpt-4o-mini', str(n))"
LOCAL_MODEL = CALL + "call('my-local-model', 'hi')"

ESCAPE = """
import json, os, socket, sys, urllib.request
from urllib.parse import urlsplit
provider, base = sys.argv[1], os.environ["OPENAI_BASE_URL"]
body = json.dumps({"model": "gpt-4o-mini", "messages": [], "max_tokens": 5}).encode()
headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"],
           "content-type": "application/json"}
request = urllib.request.Request(base + "/chat/completions", body, headers)
print(urllib.request.urlopen(request).status)
for host, port in [("127.0.0.1", int(provider)), ("1.1.1.1", 443)]:
    try:
        socket.create_connection((host, port), 5)
        print("reached", host)
    except OSError:
        print("closed", host)
print("key" if "sk-local" in str(os.environ) else "no key")
"""


def test_a_confined_program_cannot_reach_the_provider_around_the_gateway(
    terminal: Terminal, url: str
) -> None:
    """It reaches the gateway, and neither the provider beside it nor any other address."""
    (terminal.folder / "escape.py").write_text(ESCAPE)
    # Not even where the agents of this project may: it would be a way around the cap.
    port = url.rpartition(":")[2]
    (terminal.folder / "forum.toml").write_text(f'[agents]\nconnect = ["127.0.0.1:{port}"]\n')
    done = terminal.type(
        "run", "--max-usd", "1", "--confine", "--", sys.executable, "escape.py", port,
        **provider_variables(url),
    )  # fmt: skip

    assert done.stdout.split("\n")[:4] == ["200", "closed 127.0.0.1", "closed 1.1.1.1", "no key"], (
        done.stderr
    )
    assert len(RecordedCalls(terminal).made) == 1


def test_a_program_that_cannot_be_confined_leaves_no_run(tmp_path: Path) -> None:
    """It is refused before anything is recorded: no bubblewrap, or not in its sight."""
    terminal = Terminal(tmp_path)
    terminal.call("init")
    empty = tmp_path / "bin"
    empty.mkdir()
    hidden = terminal.type("run", "--confine", "--", str(tmp_path / "no-such-program"))
    without = terminal.type("run", "--confine", "--", sys.executable, "-c", "", PATH=str(empty))

    assert hidden.returncode != 0
    assert without.returncode != 0
    assert "bubblewrap" in without.stderr
    assert terminal.ask("runs")["runs"] == []


def test_a_confined_program_starts_in_the_current_folder(tmp_path: Path) -> None:
    """Also outside of a project, but not with the whole home folder in sight."""
    terminal = Terminal(tmp_path)
    (terminal.folder / "agent.py").write_text("import os; print(os.getcwd())")
    run = ("run", "--confine", "--", sys.executable, "agent.py")
    done = terminal.type(*run)
    at_home = terminal.type(*run, HOME=str(terminal.folder))

    assert done.stdout.strip() == str(terminal.folder), done.stderr
    assert at_home.returncode != 0
    assert "forum init" in at_home.stderr
