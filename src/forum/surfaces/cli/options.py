"""Options that several commands share, and how they become settings and trust."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forum.app import Forum
from forum.config import Settings, load_settings
from forum.errors import Malformed
from forum.tlog import Policy, VerifierKey

if TYPE_CHECKING:
    from forum.verify import Trust

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

as_json: Decorator = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of text."
)


def settings() -> Settings:
    """Return the settings that hold where the command was called."""
    return load_settings(Path.cwd(), os.environ)


def forum() -> Forum:
    """Return the ledger of this folder."""
    return Forum(settings())


def trust_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options by which a reader says whom to trust."""
    for option in (
        click.option(
            "--seen",
            multiple=True,
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="A checkpoint that you, or another reader, saw before.",
        ),
        click.option(
            "--policy",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="The logs and witnesses that you trust (a C2SP tlog-policy file).",
        ),
        click.option(
            "--key", "keys", multiple=True, help="A log's public key that you trust (a vkey)."
        ),
    ):
        command = option(command)
    return command


def read_trust(keys: tuple[str, ...], policy: Path | None, seen: tuple[Path, ...]) -> "Trust":
    """Return what the reader said to trust."""
    from forum.verify import Trust

    try:
        return Trust(
            keys=tuple(VerifierKey.parse(key) for key in keys),
            policy=Policy.parse(policy.read_bytes()) if policy else None,
            remembered=tuple(path.read_bytes() for path in seen),
        )
    except Malformed as error:
        raise click.UsageError(str(error)) from None
