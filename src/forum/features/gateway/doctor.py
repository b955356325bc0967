"""The check of the section `[gateway]` in `forum doctor`."""

import os
from collections.abc import Iterator

from forum.features.gateway.settings import read_gateway_settings
from forum.surfaces.cli import doctor


def _check_gateway(context: doctor.Installation) -> Iterator[doctor.DoctorFinding]:
    """Check that the gateway of this machine has what it needs to ask providers."""
    read_gateway_settings(context.settings, os.environ)
    text = "its section is well-formed, and the keys that it names are set"
    yield doctor.DoctorFinding("gateway", doctor.DoctorState.OK, text)


CHECKS = (
    doctor.DoctorCheck(
        "gateway", _check_gateway, frozenset({doctor.MachineRole.GATEWAY}), after="confined"
    ),
)
