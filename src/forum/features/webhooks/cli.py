"""`forum webhooks`: list the receivers of webhooks, and send test messages."""

import asyncio
import os
from typing import TYPE_CHECKING

import click
import msgspec

from forum.app import Forum, new_salt, now
from forum.ledger.entry import LOG_RUN
from forum.ledger.kinds import Outcome
from forum.surfaces.cli import EXIT_FAILED, common_options
from forum.surfaces.cli.console import echo, style
from forum.surfaces.cli.output import print_json, print_result

if TYPE_CHECKING:
    from forum.features.webhooks.messages import Webhook
    from forum.features.webhooks.retries import DeliveryResult, DeliveryState


class WebhookLine(msgspec.Struct, frozen=True):
    """A receiver of webhooks."""

    name: str
    state: str
    waiting: int
    """Number of undelivered messages."""
    events: tuple[str, ...]
    url: str


@click.group(cls=common_options.FullHelpGroup)
def webhooks() -> None:
    """List the receivers of webhooks, and send test messages."""


@webhooks.command("list", examples=("forum webhooks list",))
@common_options.as_json
def list_webhooks(*, as_json: bool) -> None:
    """List the receivers of forum.toml, and how many messages wait for each."""
    with common_options.open_forum() as forum:
        lines = [_line(forum, webhook) for webhook in _read_all(forum)]
    if as_json:
        print_json("forum.webhooks/1", {"webhooks": lines})
        return
    if not lines:
        common_options.echo_info("no webhook is configured; add [webhooks.NAME] to forum.toml")
    for line in lines:
        echo(f"{line.name}  {line.state}  {line.waiting} waiting  {','.join(line.events)}")
        echo(style(f"  {line.url}", dim=True))


@webhooks.command("test", examples=("forum webhooks test chat",))
@click.argument("name")
@common_options.as_json
def send_test(name: str, *, as_json: bool) -> None:
    """Send the receiver NAME one signed test message, and print its answer."""
    with common_options.open_forum() as forum:
        by_name = {webhook.name: webhook for webhook in _read_all(forum)}
        if name not in by_name:
            raise click.UsageError(f"no [webhooks.{name}] in forum.toml; forum webhooks list")
        answer = _send(forum, by_name[name])
    delivered = answer.outcome is Outcome.OK
    # The code is the status of the response, or why there is none.
    facts = {"name": name, "told": delivered, "code": answer.code}
    text = f"{'told' if delivered else 'not told'}  {name}  {answer.code}"
    print_result("forum.webhook.trial/1", facts, text, as_json=as_json)
    raise SystemExit(0 if delivered else EXIT_FAILED)


def _read_all(forum: Forum) -> "tuple[Webhook, ...]":
    from forum.features.webhooks.messages import read_webhooks

    return read_webhooks(forum.settings.sections)


def _line(forum: Forum, webhook: "Webhook") -> WebhookLine:
    delivery = _read_delivery_state(forum, webhook)
    state = "stopped by 410" if delivery.stopped else "active" if delivery.length else "not begun"
    return WebhookLine(
        name=webhook.name,
        state=state,
        waiting=len(delivery.open),
        events=tuple(sorted(webhook.events)),
        url=webhook.url,
    )


def _read_delivery_state(forum: Forum, webhook: "Webhook") -> "DeliveryState":
    from forum.features.webhooks.retries import DeliveryState, webhook_strand

    # No table holds the state of deliveries: it follows from the entries of the receiver's strand.
    state = DeliveryState()
    for data in forum.store.read_strand(LOG_RUN, webhook_strand(webhook)):
        state.apply_entry(forum.ledger.kinds.read(data))
    return state


def _send(forum: Forum, webhook: "Webhook") -> "DeliveryResult":
    from forum.features.webhooks.client import open_client, post_message
    from forum.features.webhooks.messages import build_test_message, read_secrets

    secrets = read_secrets(webhook, os.environ)
    message = build_test_message(forum.origin, now(), new_salt())

    async def send() -> "DeliveryResult":
        async with open_client(webhook) as client:
            return await post_message(client, webhook, secrets, message)

    return asyncio.run(send())
