"""The check of the sections `[webhooks.NAME]` in `forum doctor`."""

import os
from collections.abc import Iterator

from forum.features.webhooks.messages import read_secrets, read_webhooks
from forum.surfaces.cli.doctor import DoctorCheck, DoctorFinding, DoctorState, Installation


def _check_webhooks(context: Installation) -> Iterator[DoctorFinding]:
    for webhook in read_webhooks(context.settings.sections):
        read_secrets(webhook, os.environ)
        text = f"{webhook.name} has a secret; `forum webhooks test {webhook.name}` tries it out"
        yield DoctorFinding("webhook", DoctorState.OK, text)


CHECKS = (DoctorCheck("doors", _check_webhooks, after="confined"),)
