"""`forum witness`: being a witness for logs on other machines."""

from pathlib import Path

import click

from forum.app import open_witness, serve_witness, trust_log, trusted_logs
from forum.errors import Malformed
from forum.surfaces.cli import options
from forum.surfaces.cli.output import print_json
from forum.tlog import VerifierKey


@click.group(cls=options.Spelled)
def witness() -> None:
    """Cosign the checkpoints of other logs (C2SP tlog-witness)."""


@witness.command()
@click.option("--log", "logs", multiple=True, help="Public key (vkey) of a log to cosign.")
@click.option("--name", help="Name of a new witness, such as example.com/witness.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where key and memory are.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8732, show_default=True, help="Port to listen on.")
@options.as_json
def serve(
    logs: tuple[str, ...],
    name: str | None,
    folder: Path | None,
    host: str,
    port: int,
    *,
    as_json: bool,
) -> None:
    """Serve a witness until stopped.

    It cosigns only logs named by --log, now or earlier, and only what continues their past.
    Every request is authenticated by the log's own signature, as the protocol has it.
    """
    folder = folder or options.settings().state / "serving-witness"
    try:
        for log in logs:
            trust_log(folder, VerifierKey.parse(log))
    except Malformed as error:
        raise click.UsageError(str(error)) from None
    serving = open_witness(folder, name or f"{host}/forum-witness")
    known = sorted(trusted_logs(folder))
    if as_json:
        facts = {"key": str(serving.verifier), "url": f"http://{host}:{port}", "logs": known}
        print_json("forum.witness/1", facts)
    else:
        click.echo(f"witness {serving.verifier} http://{host}:{port}")
        click.echo(f"cosigning {', '.join(known) or 'no log yet: name one with --log'}", err=True)
    serve_witness(serving, folder, host, port)
