"""Witnesses on other machines: what they add to a ledger, and what they see through."""

from pathlib import Path
from time import time_ns

import pytest

from forum.app import Forum
from forum.config import Settings
from forum.features.witness.client import WitnessClient, http_sender
from forum.features.witness.service import open_witness
from forum.ledger.body import text_content
from forum.stores.state_files import read_key, write_key
from forum.tlog import KnownLog, KnownWitness, SigningKey, WitnessGroup, WitnessPolicy
from forum.verify import Problem
from tests.features.witness.serving import HOST, Served
from tests.support import free_port, fresh_origin, key_of
from tests.verify.world import REMOTE, World, problems

LATER = 2**52
"""Long after anything that happens here."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return the settings of a ledger with a key of ours and a policy yet to be written."""
    data, state = tmp_path / "data", tmp_path / "state"
    write_key(data / "log.key", key_of(fresh_origin()))
    return Settings(data, state, data / "log.key", policy=data / "policy")


def write_policy(settings: Settings, log: SigningKey, there: KnownWitness) -> None:
    """Ask for the witness of this machine and for another."""
    here = KnownWitness("here", open_witness(settings.state / "witness").verifier)
    both = WitnessGroup("both", 2, (here.name, there.name))
    policy = WitnessPolicy((KnownLog(log.verifier()),), (here, there), (both,), "both")
    (settings.data / "policy").write_bytes(policy.encode())


def test_a_quorum_of_here_and_elsewhere_needs_both(settings: Settings, served: Served) -> None:
    """The local witness alone does not make up for one that the policy wants elsewhere."""
    log, key = read_key(settings.key_file), served.key.verifier()
    served.know(log)
    write_policy(settings, log, KnownWitness("there", key, f"http://{HOST}:{free_port()}"))
    with Forum(settings) as forum:
        forum.keys.initialise()
        _, alone = forum.log.record_note(text_content("hello"))
        unseen = forum.log.verify(forum.log.read_trust(), at=LATER)
    write_policy(settings, log, KnownWitness("there", key, served.url))
    with Forum(settings) as forum:
        both = forum.log.publish()
        seen = forum.log.verify(forum.log.read_trust(), at=LATER)

    assert alone is not None
    assert (alone.witnessed, both.witnessed) == (False, True)
    assert (len(alone.unreachable), both.unreachable) == (1, ())
    assert (alone.checkpoint, both.checkpoint.size) == (both.checkpoint, 9)
    assert problems(unseen) == [Problem.NOT_WITNESSED]
    assert seen.ok
    assert [sighting.same_machine for sighting in seen.sightings] == [True, False]


@pytest.mark.parametrize(("runs", "why"), [(0, "a tree of size 8"), (3, "422")])
def test_a_restored_log_is_refused_though_its_guard_is_gone(
    tmp_path: Path, served: Served, runs: int, why: str
) -> None:
    """Whoever restores an old state of everything on the machine still has not restored this.

    The log as it was restored is smaller than what the witness saw; grown again, it is another.
    """
    (tmp_path / "restored").mkdir()
    log = World(tmp_path, REMOTE)
    log.now = time_ns() // 1000  # the witness has the clock of today
    served.know(log.key)
    log.run("one")
    log.run("two")
    before = log.settle(WitnessClient(REMOTE, http_sender(REMOTE, served.url)))
    restored = World(tmp_path / "restored", REMOTE, origin=log.key.name)
    restored.now = log.now
    for n in range(runs):
        restored.run(f"again-{n}")
    after = restored.settle(WitnessClient(REMOTE, http_sender(REMOTE, served.url)))

    assert (before.witnessed, after.witnessed) == (True, False)
    assert why in str(after.refused[0])
    assert problems(restored.verify(after=60)) == [Problem.NOT_WITNESSED]
