"""A project whose file has the section of a feature that is not there is refused."""

from pathlib import Path

import pytest

from forum import config
from forum.errors import BadSettings
from forum.features import FEATURES

SECTIONS = {
    "gateway": "[gateway]\nusd = 5\n",
    "upstreams": '[upstreams.one]\nurl = "https://a.example/v1"\n',
    "oidc": '[oidc]\nissuer = "https://id.example"\naudience = "forum"\n',
    "webhooks": '[webhooks.one]\nurl = "https://a.example/"\nsecret_env = "ONE"\n',
    "otel": "[otel]\ncontent = true\n",
}


def test_every_section_of_a_feature_is_tried() -> None:
    """A section that is added without a line here would not be."""
    assert {name for feature in FEATURES for name, _ in feature.sections} == SECTIONS.keys()


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_without_its_feature_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Otherwise a server would run without the cap, the issuer or the receiver."""
    (tmp_path / "forum.toml").write_text(SECTIONS[name])
    assert name in config.load_settings(tmp_path, {}).sections
    others = {section: struct for section, struct in config.SECTIONS.items() if section != name}
    monkeypatch.setattr(config, "SECTIONS", others)

    with pytest.raises(BadSettings, match=rf"\[{name}\] is not a section"):
        config.load_settings(tmp_path, {})
