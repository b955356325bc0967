"""`forum witness`: run a witness for logs on other machines."""

from functools import partial
from pathlib import Path

import click
import msgspec

from forum.errors import Malformed
from forum.features.witness import service
from forum.surfaces.cli import common_options
from forum.surfaces.cli.console import echo, echo_json, style
from forum.surfaces.cli.output import print_json
from forum.tlog import VerifierKey
from forum.verify import AuditReport

_SHOWN = 20
"""Maximum number of printed findings; the endpoint lists more."""


@click.group(cls=common_options.FullHelpGroup)
def witness() -> None:
    """Cosign the checkpoints of other logs (C2SP tlog-witness)."""


@witness.command()
@click.option("--log", "logs", multiple=True, help="Public key (vkey) of a log to cosign.")
@click.option(
    "--rotated",
    is_flag=True,
    help="Accept a --log that is a new key of a known log: its owner has rotated the key.",
)
@click.option("--name", help="Name of a new witness, such as example.com/witness.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="Folder of the key and of the remembered checkpoints.",
)
@click.option(
    "--audit",
    "audited",
    multiple=True,
    metavar="PROJECT|URL",
    help="Check the content of logs in this project folder or database before cosigning them.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8732, show_default=True, help="Port to listen on.")
@common_options.as_json
def serve(  # noqa: PLR0913  one for each option
    logs: tuple[str, ...],
    name: str | None,
    folder: Path | None,
    audited: tuple[str, ...],
    host: str,
    port: int,
    *,
    rotated: bool,
    as_json: bool,
) -> None:
    """Serve a witness until stopped.

    It cosigns only logs named by --log, now or earlier, and only what continues their past.
    Every request is authenticated by the log's own signature, as the protocol has it.

    With --audit it also reads the log, and cosigns only what `forum ledger verify` would call
    intact and complete.  It says what it found, here and at /SHA256-OF-ORIGIN/audit.
    """
    folder = folder or common_options.current_settings().state / "serving-witness"
    try:
        for log in logs:
            service.trust_log(folder, VerifierKey.parse(log), rotated=rotated)
    except Malformed as error:
        raise click.UsageError(str(error)) from None
    auditor = (
        service.open_auditor(folder, audited, partial(_print_audit, as_json=as_json))
        if audited
        else None
    )
    serving = service.open_witness(folder, name or f"{host}/forum-witness", auditor)
    origins = sorted(service.trusted_logs(folder))
    if as_json:
        facts = {
            "key": str(serving.verifier),
            "url": f"http://{host}:{port}",
            "logs": origins,
            "audits": auditor is not None,
        }
        print_json("forum.witness/1", facts)
    else:
        echo(f"witness {serving.verifier} http://{host}:{port}")
        echo(f"cosigning {', '.join(origins) or 'no log yet: name one with --log'}", err=True)
        if auditor:
            echo("auditing each of them before it is cosigned", err=True)
    service.serve_witness(serving, folder, host, port, auditor=auditor)


def _print_audit(report: AuditReport, *, as_json: bool) -> None:
    """Print the result of an audit as text or JSON."""
    if as_json:
        echo_json(msgspec.json.encode(report).decode())
        return
    bodies = f"{report.bodies_seen} bodies seen"
    what = f"{report.origin} at size {report.asked_size}: {report.entries} entries, {bodies}"
    echo(f"audited {what}: {report.found or 'no'} findings", err=True)
    for finding in report.findings[:_SHOWN]:
        echo(style(f"  {finding}", fg="red"), err=True)
