"""`forum submit`: submit a request or a plan, and print its answer."""

import sys
from pathlib import Path

import click

from forum.app import OPERATOR
from forum.engine import IdempotencyKey
from forum.errors import IdempotencyKeyUsed
from forum.surfaces.cli import common_options, submit_options
from forum.surfaces.cli.console import echo
from forum.surfaces.cli.run_follower import run_and_follow, submit_detached


@click.command(
    cls=common_options.ExampleCommand,
    examples=(
        'forum submit "Name three rivers" --cmd "./agent --brief"',
        'forum submit "Why is the sky blue?" --chat-url http://127.0.0.1:11434/v1 --model qwen3',
        'forum submit "Review the checkout" --team --max-usd 0.50',
        "forum submit --plan plan.toml --max-usd 0.50 --max-seconds 600",
        "forum submit --plan plan.json --gate plan",
        "git diff | forum submit - --cmd ./review --detach",
    ),
)
@click.argument("request", required=False)
@click.option(
    "--plan",
    type=common_options.FILE,
    help="The tasks that answer it: JSON or TOML.",
)
@submit_options.submit_options
@click.option("--detach", is_flag=True, help="Do not wait; a `forum worker` carries out the run.")
@common_options.confine
@common_options.idempotency_key
@common_options.as_json
def submit(
    request: str | None,
    plan: Path | None,
    *,
    wishes: submit_options.SubmitOptions,
    detach: bool,
    idempotency_key: str | None,
    as_json: bool,
) -> None:
    """Have a REQUEST answered, and print the answer.  `-` reads it from standard input.

    Every step is recorded before the next begins.  Ctrl-C and SIGTERM interrupt the run: nobody
    goes on with it before `forum resume` does.  If this command is killed instead, the next one
    that works on the ledger carries the run on.  For a reply that was recorded nobody is asked
    again.

    Where a model is named, here or in forum.toml, the request is given to the lane of the roster
    that it belongs to; with --team several agents plan, judge and put together.  `forum models
    check` tells who would be asked.

    A plan file holds `request` and `tasks`, each with `id` and `instruction`, and if wanted
    `done_when` (on each line `contains TEXT`, `matches REGEX`, `json SCHEMA`, `command TOOL`,
    `tests TOOL`, `file PATH sha256:HEX`, or words for a judge), `needs` (tasks whose output it is
    given), `after` (tasks that it only follows), `lane` (of the roster), `agent` and `panel` (who
    deliberates on it: `seats`, `models`, `personas`, `options`, `rounds`, `baseline`, `threshold`,
    `judge`).  It may also hold `policy` and `budget`: what the options below say, for those who
    want to keep it.

    Exit status: 0 answered, 1 failed, 2 usage, 5 budget or time used up, 6 waiting for approval,
    130 interrupted by Ctrl-C, 143 by SIGTERM.
    """
    if request == "-":
        words = submit_options.as_usage_error(lambda: common_options.read_text(sys.stdin.buffer))
        request = words.data.decode()
    run_request = submit_options.read_run_request(
        request, plan, wishes, common_options.current_settings()
    )
    # With --detach the calls are made by a worker, which may be on another machine and have the API
    # keys that are missing here.
    submit_options.reject_unusable_agents(run_request.policy, run_request.plan, here=not detach)
    if submit_options.is_echo_only(run_request):
        echo(
            "No model is connected: a scripted agent repeats the request.  Connect one with "
            "--model, with --cmd PROGRAM, or as [models.capable] in forum.toml.",
            err=True,
        )
    if submit_options.has_ineffective_cap(run_request):
        echo(
            "no agent has a price: --max-usd stops nothing; declare one with --price-usd, "
            "or --price-in and --price-out",
            err=True,
        )
    with common_options.open_forum() as forum:
        common_options.announce_user_ledger(forum.settings)
        forum.keys.initialise()

        key, owner = idempotency_key, f"{OPERATOR}/submit"
        key_of_request = IdempotencyKey.of_order(owner, key, run_request) if key else None

        def begin() -> str:
            try:
                return submit_options.as_usage_error(
                    lambda: forum.runs.submit(run_request, idempotency_key=key_of_request)
                )
            except IdempotencyKeyUsed as error:
                why = f"The key {idempotency_key} was used for another request, run {error.run}"
                raise click.ClickException(f"{why}. Use another key for this one.") from None

        if detach:
            submit_detached(forum, begin, as_json=as_json)
        else:
            run_and_follow(forum, begin, as_json=as_json)
