"""A server whose project file has the section of a feature that is not there does not start."""

from pathlib import Path

import pytest

from forum.app import feature_sections
from forum.errors import BadSettings
from forum.features import FEATURES
from forum.surfaces.http.auth import ServerConfig
from forum.surfaces.http.extensions import load_extensions
from forum.surfaces.http.tenant import Tenant
from tests.surfaces.halls import PROJECT, open_forum

SECTIONS = {
    "gateway": "[gateway]\nusd = 5\n",
    "oidc": '[oidc]\nissuer = "https://id.example"\naudience = "forum"\n',
    "webhooks": '[webhooks.one]\nurl = "https://a.example/"\nsecret_env = "ONE"\n',
}


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_without_its_feature_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Otherwise the server would run without the cap, the issuer or the receiver."""
    others = tuple(f for f in FEATURES if name not in f.sections)
    with open_forum(tmp_path, PROJECT + SECTIONS[name]) as forum:
        feature_sections.check_sections(forum.settings)
        monkeypatch.setattr(feature_sections, "FEATURES", others)

        with pytest.raises(BadSettings, match=rf"\[{name}\] is for a feature"):
            load_extensions(ServerConfig([Tenant(forum)]))
