"""Check that the sections of the project file are read by a feature."""

from typing import Final

from forum.config import PROJECT_FILE, Settings
from forum.errors import BadSettings
from forum.features import FEATURES

_SERVER_SECTIONS: Final = ("gateway", "oidc", "webhooks")
"""Sections without which a server would let in, cap or tell others than its operator wants."""


def check_sections(settings: Settings) -> None:
    """Raise `BadSettings` for a section that no feature reads: it would be ignored in silence."""
    declared = {section for feature in FEATURES for section in feature.sections}
    for section in _SERVER_SECTIONS:
        if section in settings.sections and section not in declared:
            why = f"[{section}] is for a feature that this copy of Forum does not have; remove it"
            raise BadSettings(str(settings.file or settings.user_file or PROJECT_FILE), why)
