"""The check of the section `[gateway]` in `forum doctor`."""

import os
from collections.abc import Iterator

from forum.features.gateway.settings import read_gateway_settings
from forum.surfaces.cli import doctor


def _check_gateway(context: doctor.Installation) -> Iterator[doctor.DoctorFinding]:
    """Check that the gateway of this machine has what it needs to ask providers."""
    settings = read_gateway_settings(context.settings, os.environ)
    text = "its section is well-formed, and the keys that it names are set"
    unpriced = [
        f"{target.address.name}/{target.model}"
        for route in settings.routes.values()
        for target in route.targets
        if target.prices.find(target.model, url=target.address.url) is None
    ]
    if not unpriced:
        yield doctor.DoctorFinding("gateway", doctor.DoctorState.OK, text)
        return
    text = f"no price is known for {', '.join(unpriced)}: a cap of dollars refuses its calls"
    remedy = "declare prices in [upstreams.NAME], or in [gateway]"
    yield doctor.DoctorFinding("gateway", doctor.DoctorState.WARNING, text, remedy)


CHECKS = (
    doctor.DoctorCheck(
        "gateway", _check_gateway, frozenset({doctor.MachineRole.GATEWAY}), after="confined"
    ),
)
