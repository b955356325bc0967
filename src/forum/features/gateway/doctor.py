"""The check of the section `[gateway]` in `forum doctor`."""

import os
from collections.abc import Iterator

from forum.features.gateway.settings import read_gateway_settings
from forum.surfaces.cli.doctor import (
    DoctorCheck,
    DoctorFinding,
    DoctorState,
    Installation,
    MachineRole,
)


def _check_gateway(context: Installation) -> Iterator[DoctorFinding]:
    """Check that the gateway of this machine has what it needs to ask providers."""
    read_gateway_settings(context.settings, os.environ)
    text = "its section is well-formed, and the keys that it names are set"
    yield DoctorFinding("gateway", DoctorState.OK, text)


CHECKS = (
    DoctorCheck("gateway", _check_gateway, frozenset({MachineRole.GATEWAY}), after="confined"),
)
