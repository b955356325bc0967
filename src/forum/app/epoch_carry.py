"""Carry access, rules, budgets and open runs of an earlier epoch into the next one."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from forum.app.clock_ids_and_kinds import KINDS, OPERATOR
from forum.engine import interrupt_run
from forum.errors import Malformed, TamperDetected
from forum.ledger import ports
from forum.ledger.body import BytesContent, StoredBody
from forum.ledger.carried import (
    CARRIED_LOG_STRANDS,
    CARRIED_STRAND,
    carry_facts,
    carry_parents,
    read_source,
)
from forum.ledger.control_key import is_allowed
from forum.ledger.entry import LOG_RUN, MAIN_STRAND, leaf_of
from forum.ledger.kinds import CarryFacts, RunCloseFacts
from forum.ledger.log import Ledger
from forum.ledger.row_checks import PositionCheck, SignedTree
from forum.ledger.strand import Attachment, Draft, JointAppend, RecordedEntry, Strand
from forum.ledger.write_tags import WriteKeys
from forum.runs.kinds import AcceptedFacts
from forum.tlog import Hash, VerifierKey, hash_leaf

_PAGE_RUNS = 500


class CarriedState(Struct, frozen=True):
    """What the next epoch of a log has of the one before."""

    keys: int
    """The entries about access that were carried."""
    runs: tuple[str, ...]
    """The open runs that were carried."""
    left_runs: int
    """Open runs that another program records: that program has to begin new ones."""
    refused_runs: tuple[str, ...]
    """Open runs with something that no writer wrote, or without a body; they stay behind."""
    interrupted: bool
    """Whether the runs wait until a person resumes them, because their record may be cut."""
    lost_access: int = 0
    """Entries about access that this machine has seen and that are lost: maybe revocations."""


class SourceCheck:
    """Accepts what may be carried from a log: what its signed tree holds or a writer has tagged."""

    def __init__(
        self,
        reader: ports.EntryReader,
        log_keys: tuple[VerifierKey, ...],
        write_keys: WriteKeys | None,
        control: WriteKeys | None,
    ) -> None:
        self._position, self._tree = PositionCheck(reader.origin), SignedTree(reader, log_keys)
        self._keys, self._control = write_keys, control

    def check_row(self, row: ports.EntryRow) -> None:
        """Check a row found by its position.  Raises `TamperDetected`."""
        self._position.check_row(row)
        is_tagged = self._keys is not None and self._keys.accepts_entry(row.data, row.tag)
        if (is_tagged and is_allowed(row, self._control)) or self._tree.has_leaf(
            hash_leaf(row.data)
        ):
            return
        raise TamperDetected(f"entry {row.position}", "no writer wrote it, and no tree holds it")

    def is_settled(self, _row: ports.EntryRow) -> bool:
        """Return True: what does not count raises."""
        return True

    def check_index(self, index: int, leaf: Hash) -> None:
        """Accept each index: entries are found by their positions."""


def carry_state(
    carrier: "Carrier", ledger: Ledger, *, is_cut: bool, lost_access: int
) -> CarriedState:
    """Record again what goes on in the next epoch, unless an earlier attempt has.

    With `is_cut`, commits of the earlier log were lost: a run may have used a tool, and the record
    of that is gone.  So each run is interrupted, and only a person lets it go on.
    """
    if CARRIED_STRAND not in ledger.store.strands(LOG_RUN):
        # In a commit of its own.  After a crash before the next one it is counted twice, which
        # leaves less of a cap and never more.
        ledger.store.restore_budget_use(carrier.budget_use())
        carrier.commit(ledger)
    if is_cut:
        for run in carrier.driven:
            interrupt_run(ledger, run, OPERATOR)
    return CarriedState(
        keys=carrier.keys,
        runs=tuple(carrier.driven),
        left_runs=carrier.left_runs,
        refused_runs=tuple(carrier.refused),
        interrupted=is_cut,
        lost_access=lost_access,
    )


class Carrier:
    """One commit with all that is carried."""

    _ledger: Ledger
    _joint: JointAppend
    _epoch: Hash
    """The entry that begins the next epoch."""

    def __init__(self, source: ports.Reader, write_keys: WriteKeys | None) -> None:
        """Find what is carried.  Raises `TamperDetected`, before the next epoch has anything."""
        self._source, self._write_keys = source, write_keys
        self._strands: dict[tuple[str, str], Strand] = {}
        self._entries: dict[str, RecordedEntry] = {}
        """All carried entries by their earlier ids."""
        self._before: dict[str, str] = {}
        """The entry before each of them in its strand."""
        self._ids: dict[str, str] = {}
        self._carried: list[RecordedEntry] = []
        self._ends: dict[tuple[str, str], list[RecordedEntry]] = {}
        self.driven: list[str] = []
        self.refused: list[str] = []
        self.left_runs = self.keys = 0
        self._find()

    def _find(self) -> None:
        # An altered strand of the log itself raises: a revocation could be what is missing.
        self._load(LOG_RUN, CARRIED_LOG_STRANDS)
        self.keys = len(self._ends.get((LOG_RUN, CARRIED_LOG_STRANDS[0]), ()))
        for run in self._open_runs():
            try:
                main = list(read_source(self._source, KINDS, run, MAIN_STRAND))
                if any(isinstance(recorded.entry.facts, AcceptedFacts) for recorded in main):
                    self._load(run, self._source.strands(run))
                    self.driven.append(run)
                else:
                    self.left_runs += 1
            except (TamperDetected, Malformed):
                self.refused.append(run)

    def _open_runs(self) -> Iterator[str]:
        after = ""
        while page := self._source.runs(after, _PAGE_RUNS):
            after = page[-1]
            for run in page:
                if run != LOG_RUN and self._is_open(run):
                    yield run

    def _is_open(self, run: str) -> bool:
        try:
            end = self._source.last_entry(run, MAIN_STRAND)
            return end is not None and not isinstance(KINDS.read(end).facts, RunCloseFacts)
        except (TamperDetected, Malformed):
            self.refused.append(run)
            return False

    def _load(self, run: str, strands: Sequence[str]) -> None:
        """Take all of these strands, or none of them if one raises."""
        ends = {strand: list(read_source(self._source, KINDS, run, strand)) for strand in strands}
        for entries in ends.values():
            for recorded in entries:
                self._check_bodies(recorded)
        for strand, entries in ends.items():
            before = ""
            for recorded in entries:
                self._ends[run, strand] = entries
                leaf = recorded.leaf.hex()
                self._entries[leaf], self._before[leaf] = recorded, before
                before = leaf

    def _check_bodies(self, recorded: RecordedEntry) -> None:
        for _ in self._bodies(recorded):
            pass

    def budget_use(self) -> list[ports.BudgetUse]:
        """Return what was used of shared caps, and by the runs that go on."""
        return self._source.budget_use() + self._source.run_budget_use(frozenset(self.driven))

    def commit(self, ledger: Ledger) -> None:
        """Record all of it."""
        self._ledger, self._joint = ledger, ledger.join_appends()
        # Unchecked: nobody but this process has written to the new log, which is not signed yet.
        rows = list(ledger.store.strand_rows(LOG_RUN, MAIN_STRAND))
        self._epoch = leaf_of(rows[-1].data)
        for leaf in list(self._entries):
            self._carry(leaf)
        carried = self._strand(LOG_RUN, CARRIED_STRAND)
        for n, ((run, strand), entries) in enumerate(self._ends.items()):
            facts = CarryFacts(run, strand, len(entries), entries[-1].leaf.hex())
            effects = self._effects(run) if strand == MAIN_STRAND else ()
            draft = Draft(f"carry/{n}", OPERATOR, facts, (self._epoch,), effects=effects)
            self._joint.add(carried, draft)
        end = Draft(
            "carry/end",
            OPERATOR,
            CarryFacts(LOG_RUN, CARRIED_STRAND),
            (self._epoch,),
            effects=tuple(self._idempotency()),
        )
        self._joint.add(carried, end)
        self._joint.commit()

    def _carry(self, first: str) -> None:
        """Record an entry after those that come before it in its strand, and after its causes."""
        waiting = [first]
        while waiting:
            leaf = waiting[-1]
            if leaf in self._ids:
                waiting.pop()
                continue
            recorded = self._entries[leaf]
            needed = [self._before[leaf], *recorded.entry.parents]
            missing = [id_ for id_ in needed if id_ in self._entries and id_ not in self._ids]
            if missing:
                waiting += missing
                continue
            (entry,) = self._joint.add(
                self._strand(recorded.entry.run, recorded.entry.strand), self._draft(recorded)
            )
            self._ids[leaf] = entry.leaf.hex()
            self._carried.append(entry)
            waiting.pop()

    def _strand(self, run: str, name: str) -> Strand:
        return self._strands.setdefault((run, name), self._ledger.new_strand(run, name))

    def _draft(self, recorded: RecordedEntry) -> Draft:
        entry = recorded.entry
        parents = carry_parents(entry, self._ids, self._epoch.hex())
        return Draft(
            step=entry.step,
            actor=entry.actor,
            facts=carry_facts(entry.facts, self._ids),
            parents=tuple(map(Hash.from_hex, parents)),
            bodies=tuple(self._bodies(recorded)),
        )

    def _bodies(self, recorded: RecordedEntry) -> Iterator[Attachment]:
        entry = recorded.entry
        place = ports.Position(entry.run, entry.strand, entry.n)
        bodies = self._source.bodies_at([(place, name) for name in entry.bodies])
        for (name, commitment), body in zip(entry.bodies.items(), bodies, strict=True):
            if not isinstance(body, StoredBody) or not body.matches(commitment):
                raise TamperDetected(f"body {name} of entry {place}", "it is not what was recorded")
            content = BytesContent(b"".join(body.read()))
            yield Attachment(name, content, commitment.type, body.salt)

    def _effects(self, run: str) -> tuple[ports.Effect, ...]:
        """Return the account of a run, from its entries, and its timers."""
        from forum.verify import tally_run

        tally = tally_run(new.entry for new in self._carried if new.entry.run == run)
        effects: list[ports.Effect] = [
            ports.due_now(run, MAIN_STRAND, self._ledger.now()),
            *(ports.Timer(run, gate, deadline) for gate, deadline in tally.gates.items()),
        ]
        if tally.cap is not None:
            used = ports.Amount(tally.usd, tally.tokens, tally.calls)
            effects.append(ports.OpenBudgetAccount(run, ports.Amount(*tally.cap)))
            effects.append(ports.BudgetCharge(run, used, guarded=False))
        return tuple(effects)

    def _idempotency(self) -> Iterator[ports.Effect]:
        """Yield the idempotency keys that a writer of the earlier log has tied to its runs."""
        keys, after = self._write_keys, ""
        while keys is not None and (page := self._source.idempotency_rows(after, 1000)):
            for row in page:
                if row.digest and keys.accepts_idempotency(row.name, row.run, row.digest, row.tag):
                    yield row
            after = page[-1].name
