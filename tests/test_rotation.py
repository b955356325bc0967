"""`forum keys rotate-log`: one log, one key after another, and a crash at any point."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from forum.app import KINDS, Forum
from forum.config import Settings
from forum.errors import LogKeyChanged, LogKeyRetired, RotationRefused, WitnessRefused
from forum.features.witness.service import trust_log, trusted_logs
from forum.ledger.body import text_content
from forum.ledger.key_rotation import KEYS_STRAND, sign_rotation
from forum.ledger.strand import Draft
from forum.stores import state_files
from forum.tlog import VerifierKey, WitnessPolicy, parse_checkpoint
from forum.verify import Trust, verify_bundle
from tests.support import fresh_origin, key_of, upgraded


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Return the settings of a project in each kind of database, with one remark in it."""
    url = None
    if request.param == "postgres":
        url = upgraded(str(request.getfixturevalue("postgres_url")))
    data = tmp_path / "project/.forum"
    made = Settings(
        data,
        state=tmp_path / "state",
        key_file=data / "log.key",
        origin=fresh_origin(),
        database=url,
    )
    write(made)
    return made


def write(settings: Settings) -> str:
    """Put a remark on record as a command does, and return its run."""
    with Forum(settings) as forum:
        forum.keys.initialise()
        located, publication = forum.log.record_note(text_content("hello"))
    assert publication is not None
    assert publication.witnessed
    return located.entry.run


def key_in(settings: Settings) -> VerifierKey:
    """Return the public half of the key that is in place."""
    return state_files.read_key(settings.key_file).verifier()


def test_whoever_trusts_the_old_key_follows_to_the_new_one(settings: Settings) -> None:
    """Readers learn of a rotation from the log itself, signed by the key that they trust."""
    old = key_in(settings)
    with Forum(settings) as forum:
        before = forum.policy
        rotation = forum.keys.rotate_key()
    run = write(settings)
    with Forum(settings) as forum:
        report = forum.log.verify(forum.log.read_trust())
        pinned = forum.log.verify(Trust(policy=before))
        bundle = verify_bundle(forum.log.export(run), KINDS, Trust(policy=before))
        named = forum.policy.log_keys

    assert (rotation.old, rotation.key) == (old, key_in(settings))
    assert rotation.key.name == old.name
    assert rotation.key.public != old.public
    assert [r.ok for r in (report, pinned, bundle)] == [True] * 3, (report, pinned, bundle)
    assert named == (rotation.key, old)
    assert trusted_logs(settings.state / "witness")[old.name] == (rotation.key,)


def test_the_trust_file_after_a_rotation_names_the_newest_key_only(settings: Settings) -> None:
    """A reader who pins a retired key believes its thief, where the hand-over is left out."""
    with Forum(settings) as forum:
        old, run = key_in(settings), write(settings)
        before = forum.log.export(run)
        size = parse_checkpoint(forum.store.checkpoint() or b"").size
        assert WitnessPolicy.parse(forum.log.describe_policy().encode()).log_keys == (old,)
        forum.keys.rotate_key()
    with Forum(settings) as forum:
        text = forum.log.describe_policy()
        after = forum.log.export(run)
    policy = WitnessPolicy.parse(text.encode())

    assert policy.log_keys == (key_in(settings),)
    comment = next(line for line in text.splitlines() if line.startswith(f"# log {old} "))
    assert int(comment.rpartition(" ")[2]) > size
    assert verify_bundle(after, KINDS, Trust(policy=policy)).ok
    # A thief of the old key has what the old key signed, and nothing more.
    assert not verify_bundle(before, KINDS, Trust(policy=policy)).ok


def test_keys_can_be_rotated_again_and_again(settings: Settings) -> None:
    """Each rotation hands over from the last key, and the whole chain is followed."""
    with Forum(settings) as forum:
        before = forum.policy
    for _ in range(3):
        with Forum(settings) as forum:
            forum.keys.rotate_key()
    run = write(settings)
    with Forum(settings) as forum:
        assert forum.log.verify(Trust(policy=before)).ok
        assert verify_bundle(forum.log.export(run), KINDS, Trust(policy=before)).ok


def test_more_hand_overs_than_verifiers_follow_are_refused(settings: Settings) -> None:
    """The next one would leave the log without bundles; an epoch has hand-overs of its own."""
    with Forum(settings) as forum:
        keys = [replace(key_of(settings.origin or ""), seed=bytes([n]) * 32) for n in range(65)]
        for old, new in pairwise(keys):
            facts = sign_rotation(forum.store.origin, 0, old, new)
            draft = Draft(f"rotate/{new.verifier().key_id.hex()}", "operator", facts)
            forum.ledger.append_log_entry(draft, KEYS_STRAND)
        forum.log.publish()
        with pytest.raises(RotationRefused, match=r"handed over 64 times.*forum ledger epoch"):
            forum.keys.rotate_key()
        assert forum.log.verify(forum.log.read_trust()).ok
        forum.keys.new_epoch()
    with Forum(settings) as forum:
        forum.keys.rotate_key()


def test_a_process_that_holds_the_old_key_stops_signing(settings: Settings) -> None:
    """It was not restarted; what it signed would be refused by every verifier."""
    with Forum(settings) as running:
        running.log.record_note(text_content("before"))
        with Forum(settings) as forum:
            forum.keys.rotate_key()

        with pytest.raises(LogKeyRetired, match="restart"):
            running.log.record_note(text_content("after"))
    write(settings)
    with Forum(settings) as forum:
        assert forum.log.verify(forum.log.read_trust()).ok


def test_the_old_key_from_a_backup_is_refused(settings: Settings) -> None:
    """It was rotated because somebody else may have it."""
    backup = settings.key_file.read_bytes()
    with Forum(settings) as forum:
        forum.keys.rotate_key()
    settings.key_file.write_bytes(backup)

    with Forum(settings) as forum, pytest.raises(LogKeyChanged):
        forum.keys.initialise()


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Return what stops the process before one of its durable writes."""
    whole = state_files.write_durably

    def arm(at: int) -> None:
        calls = iter(range(at + 1))

        def stopped(*arguments: Any, **named: Any) -> None:  # noqa: ANN401
            if next(calls, at + 1) == at:
                raise KeyboardInterrupt
            whole(*arguments, **named)

        for module in ("state_files", "project_registry"):
            monkeypatch.setattr(f"forum.stores.{module}.write_durably", stopped)

    yield arm
    monkeypatch.undo()


@pytest.mark.slow
@pytest.mark.parametrize("again", [True, False], ids=["tried again", "gone on with"])
def test_a_rotation_that_was_stopped_harms_nothing(
    stop: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
    again: bool,  # noqa: FBT001  a case
    tmp_path: Path,
) -> None:
    """Stopped before any of its writes: one of the two keys is in place, and is the log's."""
    done = False
    at = 0
    while not done:
        data = tmp_path / str(at) / ".forum"
        here = Settings(data, tmp_path / str(at) / "state", data / "log.key", fresh_origin())
        write(here)
        with Forum(here) as forum:
            before = forum.policy
        stop(at)
        try:
            with Forum(here) as forum:
                forum.keys.rotate_key()
            done = True
        except KeyboardInterrupt:
            at += 1
        monkeypatch.undo()
        if again:
            with Forum(here) as forum:
                forum.keys.rotate_key()
        write(here)
        with Forum(here) as forum:
            report = forum.log.verify(forum.log.read_trust())
            assert report.ok, (at, report)
            assert forum.log.verify(Trust(policy=before)).ok
    assert at > 8


def test_only_the_machine_that_signs_rotates_the_key(settings: Settings, tmp_path: Path) -> None:
    """Elsewhere nobody could sign the hand-over."""
    elsewhere = replace(settings, state=tmp_path / "elsewhere")

    with Forum(elsewhere) as forum, pytest.raises(RotationRefused, match="another machine"):
        forum.keys.rotate_key()


def test_an_epoch_after_a_rotation_knows_every_key_of_the_log_before_it(
    settings: Settings,
) -> None:
    """The earlier log is signed by both."""
    with Forum(settings) as forum:
        forum.keys.rotate_key()
    with Forum(settings) as forum:
        forum.keys.new_epoch("we moved")
    write(settings)
    with Forum(settings) as forum:
        report = forum.log.verify(forum.log.read_trust())

    assert report.ok, report
    assert [epoch.origin for epoch in report.epochs] == [settings.origin]


def test_a_witness_learns_another_key_of_a_log_only_from_its_operator(tmp_path: Path) -> None:
    """Whoever asks over the network must not be able to teach it keys."""
    old = key_of("example.com/log").verifier()
    new = replace(key_of("example.com/log"), seed=b"n" * 32).verifier()
    trust_log(tmp_path, old)

    with pytest.raises(WitnessRefused):
        trust_log(tmp_path, new)
    trust_log(tmp_path, new, rotated=True)
    trust_log(tmp_path, new)
    assert trusted_logs(tmp_path) == {old.name: (old, new)}


def test_whoever_looks_too_early_takes_the_write_key_that_another_process_made(
    settings: Settings,
) -> None:
    """Of two keys for one log, the entries of one would be set aside."""
    key = settings.write_key_file.read_bytes()
    settings.write_key_file.unlink()
    with Forum(settings) as late:
        assert late.write_keys is None
        settings.write_key_file.write_bytes(key)  # by another process, in this moment
        late.keys.initialise()
        late.log.record_note(text_content("hello"))
        assert late.store.count_quarantined() == 0
    assert settings.write_key_file.read_bytes() == key
