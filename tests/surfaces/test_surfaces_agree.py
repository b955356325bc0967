"""What one surface can do, the others can do too, or there is a reason why not."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import click
import pytest

from forum.surfaces.cli import cli
from forum.surfaces.http.application import all_endpoints
from forum.surfaces.mcp.tools import all_tools

# Why an operation is missing on a surface.
HERE = "acts on this machine, its files or its processes, or with the keys of the log"
OPERATOR = "only the operator does this, who has the command line"
PERSON = "a person decides this, and a model must not in their place"
PART = "another operation of this surface includes it"
STREAM = "a tool gives one result, and `status` waits for changes"
WIRE = "is the form in which other programs call it"
LONG = "plays many runs from files; a client submits them one by one"
VIEW = "is another view of what `show` and `diff` tell"
RARE = "is read by programs that check the log, over HTTP or from its files"


class Operation(NamedTuple):
    """One operation: the command, endpoints and tools that do it, or why there is none."""

    cli: str
    http: str
    mcp: str
    reason: str = ""


OPERATIONS = (
    Operation("submit", "create_run", "submit"),
    Operation("deliberate ask", "create_run", "deliberate"),
    Operation("deliberate ask", "create_run", "deliberate_adaptive"),
    Operation("deliberate ask", "create_run", "generate_persona"),
    Operation("", "", "list_personas", PART),
    Operation("show", "get_run", "show"),
    Operation("show", "get_transcript", "transcript"),
    Operation("show", "get_run", "status"),
    Operation("watch", "follow_run", "", STREAM),
    Operation("", "follow_log", "", STREAM),
    Operation("runs", "list_runs", "runs"),
    Operation("diff", "diff_runs", "diff"),
    Operation("bench", "diff_runs", "", VIEW),
    Operation("costs", "get_costs", "costs"),
    Operation("", "get_upstreams", "", OPERATOR),
    Operation("", "list_budgets", "", OPERATOR),
    *(Operation(f"budgets {act}", "set_budget", "", OPERATOR) for act in ("set", "raise", "unset")),
    Operation("budgets freeze", "freeze_budgets", "", OPERATOR),
    Operation("budgets unfreeze", "freeze_budgets", "", OPERATOR),
    Operation("budgets team", "", "", OPERATOR),
    Operation("ledger reconcile", "", "", OPERATOR),
    Operation("route", "route", "route"),
    Operation("plan", "plan", "plan"),
    Operation("lanes", "list_lanes", "roster"),
    Operation("models check", "list_models", "models"),
    Operation("cancel", "cancel_run", "cancel"),
    Operation("resume", "resume_run", "resume"),
    Operation("fork", "fork_run", "fork"),
    Operation("replay", "replay_run", "replay"),
    Operation("score", "create_score", "score"),
    Operation("scores", "list_scores", "", PART),
    Operation("gate list", "list_gates", "gates"),
    Operation("gate show", "show_gate", "gate"),
    Operation("gate approve", "decide_gate", "decide"),
    Operation("gate reject", "decide_gate", "decide"),
    Operation("gate edit", "edit_gate", "", PERSON),
    Operation("review", "get_review", "reviews"),
    Operation("review", "create_review", "", PERSON),
    Operation("incident list", "list_incidents", "", PERSON),
    Operation("incident open", "open_incident", "", PERSON),
    Operation("incident close", "close_incident", "", PERSON),
    Operation("eval", "list_evaluations", "", LONG),
    Operation("eval", "get_evaluation", "", LONG),
    Operation("why", "get_causes", "why"),
    Operation("ledger why", "get_causes", "why"),
    Operation("ledger verify", "verify", "verify"),
    Operation("ledger export", "export_run", "bundle"),
    Operation("ledger proof", "get_proof", "proof"),
    Operation("ledger show", "list_entries", "", RARE),
    Operation("ledger get", "get_entry", "", RARE),
    Operation("ledger get", "get_body", "", RARE),
    Operation("ledger checkpoint", "get_checkpoint", "", RARE),
    Operation("ledger summary", "", "", OPERATOR),
    Operation("evidence", "create_evidence", "", OPERATOR),
    Operation("keys create", "create_key", "", OPERATOR),
    Operation("keys list", "list_keys", "", OPERATOR),
    Operation("keys revoke", "revoke_key", "", OPERATOR),
    Operation("", "get_me", "", PART),
    Operation("", "create_reports", "", WIRE),
    Operation("", "openapi", "", WIRE),
    *(Operation("", name, "", WIRE) for name in
      ("openai_models", "openai_model", "openai_chat", "openai_responses")),
    *(Operation("", name, "", RARE) for name in
      ("tlog_checkpoint", "tlog_entries", "tlog_tile", "get_directory")),
    *(Operation("doctor", name, "", HERE) for name in
      ("livez", "readyz", "readyz_read", "readyz_sign", "metrics")),
    *(
        Operation(name, "", "", HERE)
        for name in (
            "import forum-engine", "demo agent", "demo cheat", "demo crash", "demo panel",
            "demo provider", "demo team",
            "init", "config show", "completion", "run", "models pull", "up", "serve", "worker",
            "mcp gateway", "hook", "token", "witness serve", "otel push", "db partition",
            "db upgrade", "backup", "restore", "verify", "webhooks list", "webhooks test",
            "deliberate execution-replay", "deliberate export", "deliberate metrics",
            "deliberate replay", "deliberate validate",
        )
    ),
    *(
        Operation(name, "", "", OPERATOR)
        for name in (
            "ledger archive", "ledger epoch", "ledger note", "ledger policy", "ledger quarantine",
            "ledger redact", "ledger requests", "retention apply", "retention list",
            "retention set", "hold list",
            "hold place", "hold release", "keys rotate-log", "keys rotate-write", "tenant add",
            "tenant epoch", "tenant role",
            "tenant list", "tenant move",
        )
    ),
)  # fmt: skip
"""Every operation of Forum. A surface without it needs a reason."""


def commands(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield all commands within a group that are listed."""
    if not isinstance(command, click.Group):
        yield " ".join(words)
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        if not inner.hidden:
            yield from commands(inner, (*words, name))


@pytest.mark.parametrize(
    ("surface", "offered"),
    [
        ("cli", set(commands(cli))),
        ("http", {endpoint.name for endpoint in all_endpoints()}),
        ("mcp", {tool.name for tool in all_tools()}),
    ],
    ids=["cli", "http", "mcp"],
)
def test_every_operation_is_listed_with_its_names(surface: str, offered: set[str]) -> None:
    """What is added to one surface has its line here, with the others or with the reason."""
    assert offered == {getattr(operation, surface) for operation in OPERATIONS} - {""}


def test_an_operation_that_a_surface_lacks_has_a_reason() -> None:
    """And one that all surfaces have needs none."""
    assert [
        operation for operation in OPERATIONS if bool(operation.reason) == all(operation[:3])
    ] == []
    assert not [line for line, times in Counter(OPERATIONS).items() if times > 1]
