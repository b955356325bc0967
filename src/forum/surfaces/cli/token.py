"""`forum token`: print the token that authenticates the operator of a project over HTTP."""

import click

from forum.surfaces.cli import common_options
from forum.surfaces.cli.output import print_result


@common_options.command(
    examples=(
        "forum token",
        "forum token --header | curl -H @- http://127.0.0.1:8080/api/v1/runs",
        "forum token --rotate",
    ),
)
@click.option("--rotate", is_flag=True, help="Replace the token; the old one becomes invalid.")
@click.option(
    "--header",
    is_flag=True,
    help="Print it as an HTTP header, for programs that read headers from their standard input.",
)
@common_options.as_json
def token(*, rotate: bool, header: bool, as_json: bool) -> None:
    """Print the token of this project's operator.

    It gives full access to this project's ledger at the servers of this machine, `forum up` and
    `forum serve`.  Commands of `forum` need none.  It is created when it is first needed, and kept
    in the state directory in a file that only you can read.  For others, create API keys:
    `forum keys create`.

    Do not write it into a command line: every user of a machine can read those.  `--header` gives
    it to curl through a pipe.
    """
    with common_options.open_forum() as forum:
        forum.verifier  # noqa: B018  raises where there is no ledger: its token opens nothing
        value = forum.access.operator_token(rotate=rotate)
    text = f"Authorization: Bearer {value}" if header else value
    print_result("forum.token/1", {"token": value}, text, as_json=as_json)
    if rotate:
        common_options.echo_info("servers accept only the new token from now on")
