"""The check of the section `[oidc]` in `forum doctor`."""

from collections.abc import Iterator

from forum.features.oidc.tokens import read_issuer
from forum.surfaces.cli.doctor import DoctorCheck, DoctorFinding, DoctorState, Installation


def _check_issuer(context: Installation) -> Iterator[DoctorFinding]:
    sections = context.settings.sections
    if "oidc" in sections:
        issuer = read_issuer(sections)
        text = f"those of {issuer.url} are taken; it was not asked"
        yield DoctorFinding("tokens", DoctorState.OK, text)


CHECKS = (DoctorCheck("doors", _check_issuer, after="confined"),)
