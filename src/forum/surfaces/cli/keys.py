"""`forum keys`: create, list and revoke API keys; rotate the write key and the signing key."""

import re

import click
import msgspec

from forum.app import now
from forum.app.formatting import strip_control_characters
from forum.ledger.kinds import Scope
from forum.surfaces.cli import common_options
from forum.surfaces.cli.console import echo, style
from forum.surfaces.cli.output import format_table, print_json, print_publication, print_result
from forum.surfaces.requests import KeyAsk
from forum.surfaces.schemas.keys import KeyForm, NewKeyForm, Validity, key_form, keys_form

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "y": 366 * 86400}
_PERIOD = re.compile(r"([1-9][0-9]{0,9})([smhdy])").fullmatch
_COLORS = {Validity.VALID: "green", Validity.EXPIRED: "yellow", Validity.REVOKED: "red"}
_HEADS = ("id", "name", "scopes", "made", "expires", "state")


@click.group(cls=common_options.FullHelpGroup)
def keys() -> None:
    """Create, list and revoke API keys; rotate the key that signs the log."""


@keys.command(
    examples=(
        "forum keys create --name ci --scope submit --scope read",
        "forum keys create --name auditor --scope audit --expires 90d > auditor.key",
    ),
)
@click.option(
    "--name", required=True, help="The name of its owner: up to 40 characters without a space."
)
@click.option(
    "--scope",
    "scopes",
    required=True,
    multiple=True,
    type=click.Choice([scope.value for scope in Scope]),
    help="A permission of the key; may be repeated.",
)
@click.option("--expires", metavar="TIME", help="Lifetime of the key, like 12h or 90d.")
@common_options.as_json
def create(name: str, scopes: tuple[str, ...], expires: str | None, *, as_json: bool) -> None:
    """Create an API key, and print it.

    The key is printed only once and stored nowhere: the ledger holds a digest.  Clients send it as
    `Authorization: Bearer KEY`.  It is valid for this ledger only.
    """
    ask = _build_key_ask(name, scopes, expires)
    with common_options.open_forum() as forum:
        # No ledger is created here: a key of a ledger that was just created by mistake is useless.
        key = forum.access.grant(ask.name, set(ask.scopes), ask.seconds or 0)
        form = key_form(forum.access.read_access(), key.id, now())
        # Print the secret before publishing: it is stored nowhere, so a later error would lose it.
        if as_json:
            print_json("forum.key/1", NewKeyForm(form, str(key)))
        else:
            echo(str(key))
        publication = forum.log.publish_or_warn()
    if not as_json:
        until = f" until {form.expires}" if form.expires else ""
        common_options.echo_info(f"key {form.id} of {form.name}: {', '.join(form.scopes)}{until}")
        common_options.echo_info(
            f"it is not shown again; to revoke it: forum keys revoke {form.id}"
        )
        print_publication(publication)


@keys.command("list", examples=("forum keys list",))
@common_options.as_json
def list_keys(*, as_json: bool) -> None:
    """List every API key that was created, the oldest first."""
    with common_options.open_forum() as forum:
        form = keys_form(forum.access.read_access(), now())
    print_result("forum.keys/1", form, _table(form.keys), as_json=as_json)
    if not form.keys and not as_json:
        common_options.echo_info(
            "there is no key yet; create one: forum keys create --name NAME --scope read"
        )


@keys.command(examples=("forum keys revoke 4f1c09ab77d2",))
@click.argument("key", metavar="ID")
@common_options.as_json
def revoke(key: str, *, as_json: bool) -> None:
    """Revoke the API key ID.  Servers reject it within a second."""
    with common_options.open_forum() as forum:
        forum.access.revoke(key)
        form = key_form(forum.access.read_access(), key, now())
        publication = forum.log.publish_or_warn()
    if as_json:
        print_json("forum.key.revoked/1", form)
        return
    echo(f"{form.state.value}  {form.id}  {strip_control_characters(form.name)}")
    print_publication(publication)


@keys.command("rotate-write")
@common_options.as_json
def rotate_write(*, as_json: bool) -> None:
    """Create a new write key; tags of the older ones stay valid.

    Copy write.key to the other machines that write to this log, and restart what runs there.
    """
    with common_options.open_forum() as forum:
        key_id = forum.keys.rotate_write_key()
        path = forum.settings.write_key_file
    facts = {"key": key_id, "path": str(path)}
    print_result("forum.write-key/1", facts, f"{key_id}  {path}", as_json=as_json)


@keys.command("rotate-log", examples=("forum keys rotate-log",))
@click.confirmation_option(prompt="Sign this log with a new key from now on?")
@common_options.as_json
def rotate_log(*, as_json: bool) -> None:
    """Sign the log with a new key from now on.

    The old key signs an entry that names the new one, so readers who trust the old key can verify
    the change.  The name of the log and its entries do not change.  Restart servers and workers
    afterwards, inform the operators of remote witnesses, and give readers the new policy.
    """
    with common_options.open_forum() as forum:
        rotation = forum.keys.rotate_key()
    if as_json:
        facts = {"origin": rotation.key.name, "key": str(rotation.key), "old": str(rotation.old)}
        print_json("forum.key.rotated/1", facts)
        return
    echo(str(rotation.key))
    common_options.echo_info(f"it follows {rotation.old}, which is kept beside it")
    common_options.echo_info(
        "restart servers and workers; give readers the new trust file: forum ledger policy"
    )
    common_options.echo_info(
        f"on remote witnesses: forum witness serve --rotated --log '{rotation.key}'"
    )
    print_publication(rotation.publication)


def _build_key_ask(name: str, scopes: tuple[str, ...], expires: str | None) -> KeyAsk:
    """Return the request for a key, validated by the rules that apply on every surface."""
    fields = {
        "name": name,
        "scopes": list(dict.fromkeys(scopes)),
        "seconds": _parse_lifetime(expires),
    }
    try:
        return msgspec.convert(fields, KeyAsk)
    except msgspec.ValidationError as error:
        if "$.name" in str(error):
            why = "--name: up to 40 visible ASCII characters, without space, quote and backslash"
        else:
            why = "--expires: at most 100y"
        raise click.UsageError(why) from None


def _parse_lifetime(expires: str | None) -> int | None:
    if expires is None:
        return None
    period = _PERIOD(expires)
    if period is None:
        raise click.UsageError("--expires: write a number and s, m, h, d or y, like 12h or 90d")
    return int(period[1]) * _SECONDS[period[2]]


def _table(forms: tuple[KeyForm, ...]) -> list[str]:
    lines = format_table([_HEADS, *map(_row, forms)]) if forms else []
    colors = [None, *(_COLORS[key.state] for key in forms)]
    return [
        style(line, fg=color, dim=color is None) for line, color in zip(lines, colors, strict=False)
    ]


def _row(key: KeyForm) -> tuple[str, ...]:
    name, scopes = strip_control_characters(key.name), ",".join(key.scopes)
    until = key.expires[:10] if key.expires else "never"
    return key.id, name, scopes, key.made[:10], until, key.state.value
