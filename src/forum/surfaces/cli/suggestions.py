"""Suggestions for commands and options that do not exist."""

from collections.abc import Iterable, Mapping

import click

from forum.spelling import closest_names

_DASHBOARD = "To open the dashboard: forum up --open"
_LIST = "To list runs: forum runs"
_COSTS = "What runs have cost: forum costs.  One run: forum show.  Caps over many: forum budgets"
_TRUST = "To print the keys that others check this log with: forum ledger policy"
_CANCEL = "To end a run: forum cancel RUN"
_ENTRIES = "The entries of the log: forum ledger show.  One run: forum show"
_GRADE = (
    "To record how good a run was: forum score RUN --name correct --value 1.  To compare agents on "
    "cases: forum eval CASES.  To write a run into a file: forum ledger export RUN"
)
_SHORTEN = 'A team shortens long answers and keeps their terms: forum submit "..." --team'
_TRACES = (
    "To record traces as they are sent: forum up --otlp.  A ledger of forum-engine: "
    "forum import forum-engine DIR"
)
HINTS: Mapping[str, str] = {
    "approve": "What waits for approval: forum gate list.  To approve it: "
    "forum gate approve RUN SUBJECT",
    "ask": 'To have a request carried out: forum submit "..."',
    "audit": "To check the whole ledger: forum ledger verify.  A file from somebody else: "
    "forum verify FILE.  A report for auditors: forum evidence --output pack.zip",
    "bench-deep-verify": "To check the whole ledger, with every body: forum ledger verify",
    "budget": _COSTS,
    "campaign": "To have a plan of many tasks done: forum submit --plan FILE.  Caps over many "
    "runs: forum budgets",
    "clarify": _SHORTEN,
    "context": "Prompts are fitted to what a model can read (context_tokens in forum.toml).  "
    "What was sent: forum show --transcript",
    "cost": _COSTS,
    "dashboard": _DASHBOARD,
    "delete": "To erase one text: forum ledger redact ENTRY BODY.  By age: forum retention",
    "export": "To write a run into a file that others can check: forum ledger export RUN",
    "export-gradable": _GRADE,
    "grade": _GRADE,
    "humanize": _SHORTEN,
    "import-trace": _TRACES,
    "kill": _CANCEL,
    "list": _LIST,
    "log": _ENTRIES,
    "login": "To open the dashboard signed in: forum up --open.  A token for programs: forum token",
    "logs": _ENTRIES,
    "ls": _LIST,
    "mine": _TRACES,
    "note": "To record a note: forum ledger note TEXT",
    "open": _DASHBOARD,
    "policies": _TRUST,
    "policy": _TRUST,
    "prove": "To write a run into a file that others can check: forum ledger export RUN.  "
    "One entry: forum ledger proof ENTRY",
    "ps": _LIST,
    "runtime": "Which models answer, and what they cost: forum models",
    "start": 'To run a program under a cap: forum run -- PROGRAM.  A request: forum submit "...".  '
    "The dashboard: forum up --open",
    "status": "The state of runs: forum runs.  Of this installation: forum doctor",
    "stop": _CANCEL,
    "ui": _DASHBOARD,
    "version": "To print the version: forum --version",
    "web": _DASHBOARD,
}
"""Words that people guess or know from other programs, and the commands that they look for."""

_SNAPSHOT = "What a run did: forum show.  The whole ledger: forum ledger summary"
SUBCOMMAND_HINTS: Mapping[str, str] = {
    "ledger capsule": _SNAPSHOT,
    "ledger replay": "A run as it was at an entry: forum show --until ENTRY.  To repeat it from "
    "the record: forum replay RUN",
    "ledger room": _SNAPSHOT,
}
"""The same for commands of groups."""

_CONTEXT = "Prompts are fitted to the model: set context_tokens of the model in forum.toml"
_DECISION = "Name the run and what waits: forum gate list, then forum gate approve RUN SUBJECT"
_LONG_TEXT = "Texts are printed whole with --json"
OPTION_HINTS: Mapping[str, str] = {
    "--allow-gate-decisions": "Decisions need the scope: forum mcp --scope approve",
    "--api-key-env": "Did you mean --key-env?",
    "--approver": "Whoever types the command decides; a person with a key decides as its name.  "
    + _DECISION,
    "--assume-cache-cleared": "What was checked and what was assumed is told: "
    "forum deliberate execution-replay FOLDER",
    "--checkpoint-each-wave": "A checkpoint is signed after every commit: forum ledger checkpoint",
    "--config": "A symposium has a configuration: "
    'forum deliberate "..." --protocol symposium --config FILE',
    "--context-token-budget": _CONTEXT,
    "--delivery-profile": "Say in the request for whom the answer is",
    "--edit": "To change what waits: forum gate edit RUN SUBJECT --file FILE",
    "--format": _TRACES,
    "--judge-intent": "A model judges whether the answer answers with --team, or where intent "
    "is set under [roles] in forum.toml",
    "--ledger": "The ledger is that of the folder you are in: forum init makes one there.  To "
    "take over a ledger of forum-engine: forum import forum-engine DIR",
    "--max-items": _LONG_TEXT,
    "--max-model-calls": "Did you mean --max-calls?",
    "--max-text-chars": _LONG_TEXT,
    "--min-checks": _GRADE,
    "--no-auth": "Did you mean --open-loopback?",
    "--no-open": "Nothing is opened unless you say --open",
    "--note": "Did you mean --reason?",
    "--out": "Did you mean --output?",
    "--request-context-token-budget": _CONTEXT,
    "--router": "Did you mean --rung?",
    "--run-seq": _DECISION,
    "--runs-dir": "Sessions are runs of the ledger: forum runs.  To follow one: forum watch",
    "--runtime-config": "Models are configured in forum.toml: forum init writes one, "
    "forum models check reads it",
    "--task-context-token-budget": _CONTEXT,
    "--text": "Text is printed unless you say --json",
    "--threshold": "The router says how sure it is, and leaves the rest to the Classifier",
    "--upstream-token-budget": _CONTEXT,
    "--use-capsule-context": "A tool can give context: context = [...] in the policy of a "
    "plan, forum submit --plan FILE",
    "--wave": _DECISION,
    **{
        f"--{tier}-{what}": f"Name it under [models.{tier}] in forum.toml: forum models check"
        for tier in ("cheap", "capable", "frontier")
        for what in ("cmd", "chat-url", "model", "api-key-env")
    },
}
"""Options that other programs have, and what Forum has instead."""

VALUE_HINTS: Mapping[str, str] = {
    "--api": "Write --api anthropic, --api responses or --api chat",
}
"""Options that other programs have without a value."""


def explain_option_error(
    command: click.Command, ctx: click.Context, error: click.UsageError
) -> click.UsageError:
    """Return an error about an option with what was probably meant, or the error itself."""
    if isinstance(error, click.NoSuchOption):
        hint = _suggest_option(command, ctx, error.option_name)
        return click.UsageError(f"{error.message} {hint}".rstrip(), ctx)
    option = getattr(error, "option_name", "")
    if isinstance(error, click.BadParameter) and error.param is not None:
        option = error.param.opts[0]
    if option not in VALUE_HINTS:
        return error
    return click.UsageError(f"{error.format_message().rstrip('.')}. {VALUE_HINTS[option]}.", ctx)


def _suggest_option(command: click.Command, ctx: click.Context, name: str) -> str:
    names = [name for option in command.get_params(ctx) for name in option.opts]
    hint = OPTION_HINTS.get(name, "")
    meant = hint.removeprefix("Did you mean ").removesuffix("?")
    # A hint that names an option is for the commands that have it.
    if hint and (meant == hint or meant in names):
        return hint
    near = closest_names(name, [n for n in names if n.startswith("--")])
    return f"Did you mean {near[0]}?" if near else ""


def suggest(name: str, names: Iterable[str], count: int = 1) -> str:
    """Return a question that names what was probably meant; nothing if nothing is similar."""
    near = closest_names(name, names, count)
    return f"Did you mean {' or '.join(near)}?" if near else ""
