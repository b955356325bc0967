"""The ledger as its users have it: entries are found, proven, exported and redacted."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest

from forum.errors import AmbiguousEntry, Malformed, NoSuchEntry, NotYetSigned
from forum.ledger.body import text_content
from forum.ledger.entry import LOG_RUN
from forum.ledger.kinds import NoteFacts, Outcome, RedactionReason
from forum.ledger.log import Ledger, StrandEnd
from forum.ledger.ports import EntryWrite
from forum.ledger.sequencer import Publisher, Sequencer
from forum.ledger.strand import Attachment, Draft
from forum.stores.state_files import FileCheckpointStore
from forum.tlog import Checkpoint, WitnessPolicy, check_inclusion, hash_leaf
from tests.support import Chain, StoreFactory, entries_of, key_of, leaves_of, ledger_on

WITHOUT_WITNESSES = WitnessPolicy((), (), (), "none")
SAID = Draft("say", "tester", NoteFacts(), bodies=(Attachment("text", text_content("something")),))


class Office:
    """A ledger, and the means to sign it."""

    def __init__(self, folder: Path) -> None:
        self.factory = StoreFactory(folder / "ledger.db", "test.example/office")
        self.store = self.factory()
        self.ledger = ledger_on(self.store)
        self.guard = FileCheckpointStore(folder / "guard.note")

    def sign(self) -> Checkpoint:
        """Sequence and sign what is there."""
        Sequencer(self.store).drain()
        key = key_of(self.factory.origin)
        return Publisher(self.store, key, self.guard, WITHOUT_WITNESSES).publish().checkpoint


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    """Return a new ledger."""
    office = Office(tmp_path)
    yield office
    office.factory.close()


def test_an_entry_is_found_by_index_id_and_position(office: Office) -> None:
    """However somebody names an entry, it is the same entry."""
    chain = Chain(office.factory.origin, strand="a/b")
    office.store.append(chain.take(600))
    Sequencer(office.store).drain()
    record = chain.records[7]
    names = ["7", record.leaf.hex(), record.leaf.hex()[:17], "run/a/b/7"]
    located_entries = [office.ledger.find_entry(name) for name in names]
    beginnings = [leaf.hex()[:4] for leaf in leaves_of(office.store)]
    shared = next(b for b in beginnings if beginnings.count(b) > 1 and not b.isdecimal())

    assert [(f.index, f.data, f.leaf, f.position) for f in located_entries] == [
        (7, record.data, record.leaf, record.position)
    ] * 4
    with pytest.raises(AmbiguousEntry, match=shared):
        office.ledger.find_entry(shared)


def test_an_entry_without_an_index_is_found_by_its_position(office: Office) -> None:
    """Durable is recorded; whoever has just written must be able to see it."""
    chain = Chain(office.factory.origin)
    office.store.append(chain.take(2))
    located_entry = office.ledger.find_entry("run/main/1")

    assert (located_entry.index, located_entry.data) == (None, chain.records[1].data)
    with pytest.raises(NotYetSigned):
        office.ledger.prove_entry(0)


@pytest.mark.parametrize(
    "what",
    [
        "",
        "600",
        "999999999999999",
        "abc",
        "f" * 64,
        "f" * 65,
        "zzzz",
        "run/main/1",
        "run/main/-1",
        "run/main/x",
        "run/main/" + "9" * 30,
        "run/main/" + "9" * 5000,
        "run//0",
        "/",
        "٣",
    ],
)
def test_what_is_not_there_is_said_to_be_missing(office: Office, what: str) -> None:
    """Names are typed by people: any of them is answered, none breaks the database."""
    office.store.append(Chain(office.factory.origin).take(1))
    Sequencer(office.store).drain()

    with pytest.raises((NoSuchEntry, Malformed)):
        office.ledger.find_entry(what)


def test_an_entry_of_a_signed_tree_is_proven(office: Office) -> None:
    """The proof leads to the root that the log has signed, also when the tree has grown since."""
    strand = office.ledger.open_run("run", "tester")
    strand.append(SAID)
    signed = office.sign()
    strand.append(SAID)
    Sequencer(office.store).drain()
    for index, data in enumerate(entries_of(office.store)[: signed.size]):
        proof = office.ledger.prove_entry(index)
        assert Checkpoint.parse(proof.note.text) == signed
        check_inclusion(proof.hashes, hash_leaf(data), index, signed.size, root=signed.root)

    with pytest.raises(NotYetSigned):
        office.ledger.prove_entry(signed.size)


def test_a_log_begins_once(office: Office) -> None:
    """Whoever opens it, and however often, it has one beginning and one key."""
    key = key_of(office.factory.origin).verifier()
    for _ in range(2):
        office.ledger.initialize("forum/1", key)
    ledger_on(office.factory()).initialize("forum/2", key)
    entries = [office.ledger.kinds.read(data) for data in office.store.read_strand(LOG_RUN, "main")]

    assert [entry.kind for entry in entries] == ["log.open/1", "key.add/1"]
    assert entries[0].facts.program == "forum/1"
    assert entries[1].facts.vkey == str(key)


def test_a_run_names_its_past_and_all_of_its_strands(office: Office) -> None:
    """Nothing in it is older than the checkpoint it opens with; none of its strands is left out."""
    office.store.append(Chain(office.factory.origin, "earlier").take(3))
    past = office.sign()
    main = office.ledger.open_run("run", "tester")
    opened = main.head
    ends = []
    for name in ("b", "a"):
        side = office.ledger.open_strand("run", name)
        side.append(SAID, SAID)
        ends.append(StrandEnd(name, 1, str(side.head and side.head.hex())))
    closed = office.ledger.close_run(main, "tester", Outcome.OK)
    again = office.ledger.open_run("run", "tester")
    body = office.store.body(office.ledger.find_entry("run/main/1").position, "strands")

    assert opened is not None
    facts = office.ledger.find_entry("run/main/0").entry.facts
    assert (facts.after_size, facts.after_root) == (past.size, past.root.hex())
    assert office.ledger.close_run(again, "tester", Outcome.FAILED) == closed
    assert closed.entry.facts.outcome is Outcome.OK
    assert body is not None
    assert msgspec.json.decode(b"".join(body.read()), type=list[StrandEnd]) == sorted(
        ends, key=lambda end: end.strand
    )


def overtaken_by(office: Office, act: Callable[[], object]) -> Ledger:
    """Return a ledger at whose first commit somebody else has been faster."""
    acts = iter([act])

    def append(records: Sequence[EntryWrite]) -> None:
        next(acts, lambda: None)()
        office.store.append(records)

    return ledger_on(office.store, append)


def test_nothing_in_the_life_of_a_log_replaces_something_else(office: Office) -> None:
    """Two that record at the same moment are both recorded, whichever comes first."""
    act = partial(office.ledger.append_log_entry, Draft("other", "rival", NoteFacts()))
    mine = overtaken_by(office, act).append_log_entry(Draft("mine", "tester", NoteFacts()))
    actors = [office.ledger.kinds.read(d).actor for d in office.store.read_strand(LOG_RUN, "main")]

    assert mine.entry.actor == "tester"
    assert actors == ["rival", "tester"]


def test_each_export_is_recorded(office: Office) -> None:
    """Bodies that left twice, at the same moment, left twice: a redaction must name both."""
    act = partial(office.ledger.record_export, "run", 1, 1, "rival")
    mine = overtaken_by(office, act).record_export("run", 1, 1, "tester")
    actors = [office.ledger.kinds.read(d).actor for d in office.store.read_strand(LOG_RUN, "main")]

    assert mine.entry.actor == "tester"
    assert actors == ["rival", "tester"]


def test_a_body_is_erased_after_its_redaction_is_signed(office: Office) -> None:
    """A body that is gone without a word in a signed tree is a finding, not a redaction."""
    strand = office.ledger.open_run("run", "tester")
    strand.append(SAID)
    office.sign()
    exported = office.ledger.record_export("run", 2, 2, "tester")
    target = office.ledger.find_entry("run/main/1")
    redaction = office.ledger.request_redaction(target, "text", "tester", RedactionReason.REQUEST)
    erased = [office.ledger.erase_redacted()]
    Sequencer(office.store).drain()
    erased.append(office.ledger.erase_redacted())
    assert office.store.body(target.position, "text") is not None
    office.sign()
    erased.append(office.ledger.erase_redacted())
    erased.append(office.ledger.erase_redacted())

    assert erased == [[], [], [target.position], []]
    assert office.store.body(target.position, "text") is None
    assert redaction.entry.parents == (target.leaf.hex(), exported.leaf.hex())
    assert redaction.entry.facts.runs == ("run",)


def test_what_has_no_such_body_cannot_be_redacted(office: Office) -> None:
    """A redaction of nothing would excuse the absence of a body that nobody erased."""
    office.store.append(Chain(office.factory.origin).take(1))
    target = office.ledger.find_entry("run/main/0")

    with pytest.raises(NoSuchEntry, match="text"):
        office.ledger.request_redaction(target, "text", "tester", RedactionReason.SECRET)
    assert list(office.store.read_strand(LOG_RUN, "main")) == []


def test_a_redaction_names_every_export_however_many(office: Office) -> None:
    """Whoever was given the body can still prove it: the record must lead to all of them."""
    run = office.ledger.open_run("run", "tester")
    (said,) = run.append(SAID)
    office.sign()
    exports = {office.ledger.record_export("run", 2, 2, "tester").leaf.hex() for _ in range(40)}
    target = office.ledger.find_entry(said.leaf.hex())
    redaction = office.ledger.request_redaction(target, "text", "tester", RedactionReason.LEGAL)
    office.sign()
    reached: set[str] = set()
    open_ends = [redaction.leaf.hex()]
    while open_ends:
        entry = office.ledger.find_entry(open_ends.pop()).entry
        reached.update(entry.parents)
        open_ends += [p for p in entry.parents if p not in exports | {said.leaf.hex()}]

    assert said.leaf.hex() in redaction.entry.parents
    assert exports <= reached
