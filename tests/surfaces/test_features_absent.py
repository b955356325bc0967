"""What depends on a feature that is not there fails, and says so."""

from pathlib import Path
from zipfile import ZipFile

import pytest
from click.testing import CliRunner

from forum.app import Forum, witnesses
from forum.config import Settings
from forum.errors import FeatureMissing
from forum.ledger.bundle import PACK_END
from forum.surfaces.cli import verify_bundle


def test_a_pack_that_nothing_can_check_is_not_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`forum verify` says that it cannot check the pack, and does not succeed."""
    monkeypatch.setattr(verify_bundle, "FEATURES", ())
    with ZipFile(tmp_path / "pack.zip", "w") as pack:
        pack.writestr(PACK_END, "")
    done = CliRunner().invoke(verify_bundle.verify, [str(tmp_path / "pack.zip")])
    assert done.exit_code != 0
    assert "evidence packs need the feature evidence" in str(done.exception)


def test_a_policy_with_witnesses_that_nothing_reaches_signs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log whose policy names a witness is not published as if it named none."""
    settings = Settings(
        data=tmp_path / "ledger", state=tmp_path / "state", key_file=tmp_path / "log.key"
    )
    with Forum(settings) as forum:
        forum.keys.initialise()
        assert forum.policy.witnesses
    monkeypatch.setattr(witnesses, "FEATURES", ())
    with Forum(settings) as forum, pytest.raises(FeatureMissing, match="feature witness"):
        forum.log.publish()


def test_a_log_without_the_feature_for_witnesses_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new log is signed by a policy that names no witness."""
    monkeypatch.setattr(witnesses, "FEATURES", ())
    with Forum(
        Settings(data=tmp_path / "ledger", state=tmp_path / "state", key_file=tmp_path / "log.key")
    ) as forum:
        forum.keys.initialise()
        assert forum.log.publish().note
        assert not forum.policy.witnesses
