"""Control entries: what is decided about a log is written where the log is signed."""

from dataclasses import replace
from pathlib import Path

import pytest

from forum.app import KINDS, Forum, new_run_id, new_salt, now
from forum.config import Settings
from forum.errors import (
    CapsUnsigned,
    Malformed,
    NoSuchHold,
    NoSuchRequest,
    NotSigner,
    SigningRefused,
    SpendingFrozen,
    StoreFailed,
    TamperDetected,
)
from forum.features.retention.service import RetentionOperations
from forum.ledger import kinds
from forum.ledger.cap_orders import CapName
from forum.ledger.control_key import CONTROL_STRANDS, REQUESTS_STRAND
from forum.ledger.entry import Facts
from forum.ledger.kinds import ControlAct, ControlRequestFacts, HoldAct, HoldFacts
from forum.ledger.log import Ledger
from forum.ledger.sequencer import Sequencer
from forum.ledger.strand import Draft
from forum.ledger.write_tags import WriteKey, WriteKeys
from forum.runs.shared_caps import Caller
from tests.support import fresh_origin, upgraded

VKEY = "x+00000000+AA=="
CONTROL: dict[str, Facts] = {
    "keys": kinds.KeyRotationFacts(VKEY, VKEY),
    "evidence": kinds.KeyAddFacts(VKEY),
    "retention": HoldFacts("case", HoldAct.RELEASE),
    "carried": kinds.CarryFacts("log", "access", 1, "0" * 64),
    "budgets": kinds.FreezeFacts(kinds.FreezeAct.UNFREEZE),
    "main": kinds.LogSealFacts("over"),
}


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Return the settings of a project in each kind of database, with a hold in force."""
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
    with Forum(made) as forum:
        forum.keys.initialise()
        RetentionOperations(forum).place_hold("case")
        forum.log.publish()
    return made


def write_elsewhere(forum: Forum, strand: str) -> None:
    """Write a control entry as a process can that has the write key and the database."""
    writer = Ledger(forum.store, KINDS, now, new_salt, tags=forum.write_keys)
    writer.append_log_entry(Draft("forged", "operator", CONTROL[strand]), strand)


def test_every_control_strand_is_tried() -> None:
    """A strand that is added to the list is attacked here, too."""
    assert set(CONTROL) == CONTROL_STRANDS | {"main"}


@pytest.mark.parametrize("strand", sorted(CONTROL))
def test_a_writer_cannot_decide_about_the_log(settings: Settings, strand: str) -> None:
    """Its entry is set aside, and the log goes on."""
    with Forum(settings) as forum:
        write_elsewhere(forum, strand)
        forum.log.publish()
        assert forum.store.count_quarantined() == 1
        assert "case" in RetentionOperations(forum).read_state().holds
        RetentionOperations(forum).release_hold("case")
        forum.log.publish()
        assert forum.store.count_quarantined() == 1
        assert "case" not in RetentionOperations(forum).read_state().holds


def test_what_a_writer_has_sequenced_itself_is_not_signed(settings: Settings) -> None:
    """Whoever can write to the database can give an entry an index."""
    with Forum(settings) as forum:
        write_elsewhere(forum, "retention")
        assert Sequencer(forum.store, forum.write_keys).drain() == 1
        with pytest.raises(TamperDetected, match="not written on the machine that signs"):
            forum.log.publish()


def test_what_no_writer_wrote_is_not_signed(settings: Settings) -> None:
    """Whoever has only the database could have any entry signed that it sequences itself."""
    with Forum(settings) as forum:
        signed = forum.store.checkpoint()
        stranger = WriteKeys(forum.store.origin, (WriteKey(b"s" * 32),), 0)
        writer = Ledger(forum.store, KINDS, now, new_salt, tags=stranger)
        writer.record_run(new_run_id(), "agent:friend")
        assert Sequencer(forum.store).drain() > 0
        with pytest.raises(SigningRefused, match=r"no writer of this log wrote it.*ledger epoch"):
            forum.log.publish()
        assert forum.store.checkpoint() == signed


def test_another_machine_leaves_control_entries_to_the_one_that_signs(
    settings: Settings, tmp_path: Path
) -> None:
    """It has no key to check them with, and says where to type the command."""
    with Forum(settings) as forum, Forum(replace(settings, state=tmp_path / "b")) as other:
        with pytest.raises(NotSigner, match="machine that signs"):
            other.ledger.append_log_entry(Draft("seal", "operator", CONTROL["main"]))
        assert other.write_keys == forum.write_keys
        write_elsewhere(other, "retention")
        before = forum.store.head()
        assert other.sequencer.drain() == 0
        assert forum.store.head() == before
        forum.log.publish()
        assert forum.store.count_quarantined() == 1


def test_another_machine_asks_and_the_one_that_signs_decides(
    settings: Settings, tmp_path: Path
) -> None:
    """A request is a claim: it changes nothing until it is granted, and is checked then."""
    with Forum(settings) as forum, Forum(replace(settings, state=tmp_path / "b")) as other:
        RetentionOperations(forum).place_hold("second", ("run-1",))
        forum.log.publish()
        RetentionOperations(other).place_hold("third", ("run-2",), "Claim of a customer.")
        RetentionOperations(other).release_hold("case")
        RetentionOperations(other).set_rule("call/prompt", 3600)
        RetentionOperations(other).release_hold("second")
        forum.log.publish()
        before = RetentionOperations(forum).read_state()
        place, release, rule, unwanted = RetentionOperations(forum).read_requests()
        assert (set(before.holds), before.periods) == ({"case", "second"}, {})
        assert place.reason == "Claim of a customer."
        with pytest.raises(NotSigner):
            RetentionOperations(other).grant_request(release.id)

        granted = RetentionOperations(forum).grant_request(place.id[:12])
        assert granted.entry.parents == (place.id,)
        RetentionOperations(forum).grant_request(release.id)
        RetentionOperations(forum).grant_request(rule.id)
        RetentionOperations(forum).refuse_request(unwanted.id)
        forum.log.publish()
        state = RetentionOperations(forum).read_state()
        assert (set(state.holds), state.periods) == ({"second", "third"}, {"call/prompt": 3600})
        assert RetentionOperations(forum).read_requests() == []
        with pytest.raises(NoSuchRequest):
            RetentionOperations(forum).grant_request(place.id)
        assert forum.store.count_quarantined() == 0
        assert forum.log.verify(forum.log.read_trust()).ok


def test_another_machine_spends_nothing_until_a_change_of_caps_is_signed(
    settings: Settings, tmp_path: Path
) -> None:
    """It cannot tell yet who wrote it; and what a writer forged is no change for anybody."""
    with Forum(settings) as forum, Forum(replace(settings, state=tmp_path / "b")) as other:
        budgets, caller = other.runs.budgets, Caller("operator")
        cap = CapName(kinds.CapSubject.LEDGER, "", kinds.Period.DAY, kinds.CapUnit.RUNS)
        with pytest.raises(NotSigner):
            other.budgets.freeze(kinds.FreezeAct.FREEZE)
        forum.budgets.set_cap(cap, 1)
        with pytest.raises(CapsUnsigned):
            budgets.check_open()
        forum.log.publish()
        budgets.check_open()
        assert [limit.cap.runs for limit in budgets.limits(caller)] == [1]
        forum.budgets.freeze(kinds.FreezeAct.FREEZE)
        forum.log.publish()
        budgets.refresh()
        with pytest.raises(SpendingFrozen):
            budgets.check_open()
        write_elsewhere(other, "budgets")
        with pytest.raises(StoreFailed):
            budgets.refresh()
        forum.log.publish()
        with pytest.raises(SpendingFrozen):
            budgets.check_open()


def test_a_forged_request_is_checked_when_it_is_granted(settings: Settings) -> None:
    """Whoever has the write key can ask for what no command would ask."""
    with Forum(settings) as forum:
        for facts in (
            ControlRequestFacts(ControlAct.RELEASE, hold="none"),
            ControlRequestFacts(ControlAct.PLACE, hold="A name"),
            ControlRequestFacts(ControlAct.RETENTION, subject="run.close/strands", seconds=1),
        ):
            writer = Ledger(forum.store, KINDS, now, new_salt, tags=forum.write_keys)
            writer.append_log_entry(Draft("ask", "operator", facts), REQUESTS_STRAND)
        forum.log.publish()
        for asked in RetentionOperations(forum).read_requests():
            with pytest.raises((NoSuchHold, Malformed)):
                RetentionOperations(forum).grant_request(asked.id)
        assert len(RetentionOperations(forum).read_requests()) == 3


def test_a_ledger_of_release_0_2_gets_its_control_key(settings: Settings) -> None:
    """What was recorded before stays in force, and is signed before the key counts."""
    with Forum(settings) as forum:
        forum.control_key_file.unlink()
    with Forum(settings) as forum:
        write_elsewhere(forum, "retention")  # by the release before: nobody else made such entries
        forum.keys.initialise()
        assert forum.control_key_file.stat().st_mode & 0o077 == 0
        assert "case" not in RetentionOperations(forum).read_state().holds
        RetentionOperations(forum).place_hold("case")
        forum.log.publish()
        assert forum.store.count_quarantined() == 0
        report = forum.log.verify(forum.log.read_trust())
        assert report.ok, report
        write_elsewhere(forum, "retention")
        forum.log.publish()
        assert forum.store.count_quarantined() == 1
