"""The fast path of a chronicle: what it accepts without decoding, the slow path accepts too."""

import hashlib

import pytest

from forum.errors import Malformed
from forum.ledger.entry import Entry
from forum.ledger.kinds import LEDGER_KINDS, LogSealFacts
from forum.ledger.ports import EntryRow
from forum.verify.entry_checker import EntryChecker, StrandHead
from forum.verify.report import Findings

ORIGIN, RUN = "log.example/1", "run"
STRAND, TIME = "work", 1_700_000_000_000_000
PREVIOUS, FIRST, SECOND = (hashlib.sha256(name).hexdigest() for name in (b"0", b"1", b"2"))


def follows(data: bytes) -> bool:
    """Tell whether a chronicle that knows the strand and the parents accepts an entry."""
    checker = EntryChecker(ORIGIN, Findings(), lambda *_, **__: None)
    checker.open_run(RUN, TIME)
    checker.put_strand(RUN, STRAND, StrandHead(7, PREVIOUS.encode(), TIME))
    checker.restore_recent([FIRST.encode()], [SECOND.encode()])
    return checker.check_plain_entry(
        b"leaf", EntryRow(RUN, strand=STRAND, n=7, data=data, tag=None), LEDGER_KINDS
    )


def sample(*parents: str) -> bytes:
    """Return the bytes of a plain entry with these parents."""
    return LEDGER_KINDS.write(
        Entry(
            v="forum/entry/1",
            log=ORIGIN,
            run=RUN,
            strand=STRAND,
            n=7,
            prev=PREVIOUS,
            step="a",
            ts=TIME,
            actor="system:test",
            kind="log.seal/1",
            parents=parents,
            facts=LogSealFacts("why"),
            bodies={},
        )
    )


def is_readable(data: bytes) -> bool:
    """Tell whether the bytes are an entry in its only form."""
    try:
        LEDGER_KINDS.read(data)
    except Malformed:
        return False
    return True


@pytest.mark.parametrize("parents", [(), (FIRST,), (SECOND,), (FIRST, SECOND)])
def test_no_altered_byte_passes_the_fast_path_only(parents: tuple[str, ...]) -> None:
    """A signed entry with other bytes than those of its form is a finding, not a plain entry."""
    data = sample(*parents)
    assert follows(data)

    altered = (
        data[:at] + bytes([byte]) + data[at + 1 :] for at in range(len(data)) for byte in range(256)
    )
    assert [each for each in altered if follows(each) and not is_readable(each)] == []


@pytest.mark.parametrize("parents", [(PREVIOUS,), (FIRST, FIRST), (FIRST, PREVIOUS)])
def test_unknown_and_repeated_parents_are_left_to_the_slow_path(parents: tuple[str, ...]) -> None:
    """A chronicle knows these parents by no entry, or twice."""
    listed = ",".join(f'"{parent}"' for parent in parents).encode()
    assert not follows(sample().replace(b'"parents":[]', b'"parents":[' + listed + b"]"))
