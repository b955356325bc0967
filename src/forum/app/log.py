"""Appending to the log: writing, publishing, exporting, redacting and verifying."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace as replace_struct

from forum import errors, metrics, tlog
from forum.app.archiving import ArchiveResult, RunArchiver, make_archiver
from forum.app.clock_ids_and_kinds import (
    KINDS,
    OPERATOR,
    POLL_INTERVAL_S,
    new_run_id,
    new_salt,
    now,
)
from forum.app.project import ProjectContext
from forum.app.reads import RunReads
from forum.app.witnesses import Witnesses
from forum.features import FEATURES
from forum.ledger import kinds, ports
from forum.ledger.body import Content
from forum.ledger.bundle import gather_bundle
from forum.ledger.database_memory import DatabaseMemory
from forum.ledger.due_bodies import RetentionScan
from forum.ledger.entry import LOG_RUN, MAIN_STRAND, leaf_of
from forum.ledger.key_rotation import find_retired_keys
from forum.ledger.log import (
    Ledger,
    LocatedEntry,
    read_body,
)
from forum.ledger.row_checks import NoRowCheck
from forum.ledger.sequencer import Publication, Publisher
from forum.ledger.strand import RUNS_STRAND, TAGGED_STRANDS, Attachment, Draft, RecordedEntry
from forum.ledger.write_tags import WriteKeys
from forum.runs.conversation.text_copies import MIN_TEXT_BYTES, TextFinder, find_new_text

if TYPE_CHECKING:
    from forum.app.open_calls import OpenRunsFile
    from forum.stores.publisher_loop import PublisherLoop
    from forum.verify import (
        EarlierLogs,
        Report,
        RunSnapshot,
        SegmentRunner,
        Trust,
        VerifiedCheckpoint,
    )

_SIGNER_PATIENCE_S = 30.0
"""How long an archiving machine waits for the machine that signs."""
_MIN_PARALLEL_ENTRIES = 100_000
"""Log size from which starting verification processes takes less time than it saves."""


class RedactionResult(Struct, frozen=True):
    """The result of a redaction."""

    entry: str
    erased: int
    publication: Publication
    bodies: tuple[tuple[ports.Position, str], ...] = ()
    """Where the text was found, if it was looked for in the whole run."""


def _origin_of_note(note: bytes) -> str:
    """Return the log that a note belongs to, or an empty string for anything but a checkpoint."""
    try:
        return tlog.parse_checkpoint(note).origin
    except errors.Malformed:
        return ""


def _trust_digest(trust: "Trust") -> str:
    """Return a digest of the keys and the policy that a reader trusts, without its checkpoints."""
    keys = "".join(f"{key}\n" for key in sorted(map(str, trust.log_keys)))
    policy = trust.policy.encode() if trust.policy else b""
    return sha256(keys.encode() + policy).hexdigest()


class LogOperations:
    """Appends to the log, publishes, exports, redacts and verifies it."""

    def __init__(self, project: ProjectContext, witnesses: Witnesses, reads: RunReads) -> None:
        self._project, self._witnesses = project, witnesses
        self._reads = reads
        self._clock_was_named = False
        self._publisher_loop: PublisherLoop | None = None
        self.counters = metrics.EntryCounters(KINDS)

    @contextmanager
    def open_writer(self) -> Iterator[Ledger]:
        """Open the ledger for many writers: threads call `append`, tasks `append_async`.

        Entries that arrive at about the same time share one commit. Indexes, signatures and
        cosignatures are added in the background; when the block ends, every entry has been
        published.
        """
        from forum.stores.group_commit import GroupCommitter

        self._project.ledger.check_write_key()
        with self._publish_in_background() as loop:
            committer = GroupCommitter(self._project.store, watch=partial(self._watch_append, loop))
            before = self._project.ledger
            self.recover_lost_calls()
            self._project.ledger = Ledger(
                store=self._project.store,
                kinds=KINDS,
                clock=now,
                salts=new_salt,
                append=committer.append,
                append_async=committer.append_async,
                mask=self._project.mask,
                tags=self._project.write_keys,
                control=self._project.control_keys,
                may_control=self._project.may_control,
                dating_clock=self._project.dating_clock,
                set_aside=self._project.set_aside_foreign_rows,
            )
            try:
                yield self._project.ledger
            finally:
                self._project.ledger = before
                # Close the committer before the publisher loop, which signs the committer's last
                # entries too.
                committer.close()

    @contextmanager
    def _watch_append(
        self, loop: "PublisherLoop | None", records: Sequence[ports.EntryWrite]
    ) -> Iterator[None]:
        """Count the entries of a block that appends them, and have them published.

        Let the monitor know at once that nothing can be written.
        """
        if loop is not None:
            loop.raise_failure()
        try:
            yield
        except errors.StoreFailed as error:
            self._project.monitor.report_failure(error)
            raise
        self.counters.count(records)
        if loop is not None:
            loop.notice_append()

    def open_calls_file(self) -> "OpenRunsFile":
        """Return the file with the runs of a new gateway of this process."""
        from forum.app.open_calls import OpenRunsFile, open_calls_folder

        return OpenRunsFile(open_calls_folder(self._project.state))

    def recover_lost_calls(self) -> int:
        """Record the calls that a gateway lost which was killed on this machine.

        Return their number.
        """
        from forum.app.open_calls import open_calls_folder, recover_lost_calls

        lost = recover_lost_calls(self._project.ledger, open_calls_folder(self._project.state))
        if lost:
            self._project.notify(
                "a gateway was killed: what was in flight is recorded as lost, calls of models at "
                f"full price (steps: {lost})"
            )
        return lost

    @contextmanager
    def _publish_in_background(self) -> "Iterator[PublisherLoop | None]":
        """Sequence and sign the log in background threads, if this machine signs it.

        On any other machine yield None: entries are only appended there, and the signing machine
        sequences and signs them.
        """
        from forum.stores.publisher_loop import PublisherLoop

        if not self._project.is_signer:
            yield None
            return
        keeper = PublisherLoop(
            store=self._project.store,
            sequencer=self._project.sequencer,
            publisher=self.publisher,
            on_publication=self._warn_of_clock,
            retain=self._make_retention_step(),
            cleanup_delay_s=86_400.0 * self._project.settings.cleanup_days,
        )
        self._publisher_loop = keeper
        try:
            with self._project.monitor.watch_signer(lambda: keeper.failure or keeper.last_error):
                yield keeper
        finally:
            self._publisher_loop = None
            try:
                keeper.close()
            except errors.StoreFailed as error:
                # Every acknowledged entry is durable; only the signature is missing.
                self._warn_unsigned(error)

    @property
    def has_retained(self) -> bool:
        """Whether a round of retention is over since the log was opened for writing."""
        return self._publisher_loop is not None and self._publisher_loop.has_retained

    def make_retention_scan(self) -> RetentionScan:
        """Return a scan that erases bodies whose period is over, step by step."""
        return RetentionScan(self._project.ledger, self._is_active, self._make_archiver())

    def _make_retention_step(self) -> Callable[[], bool]:
        """Return a function that does one step of retention and tells whether all is done."""
        scan = DatabaseMemory(self._project.store.lineage, self.make_retention_scan)

        def step() -> bool:
            try:
                done = scan.value.step()
            except (errors.ArchiveUnreachable, errors.TamperDetected) as error:
                # The next round tries again, from the beginning: the sequencer may have set a row
                # of a stranger aside.  The publisher goes on, so that the record is complete.
                scan.value = self.make_retention_scan()
                self._project.warn(f"bodies past their period are not erased: {error}")
                return True
            return done.is_done and not done.is_waiting

        return step

    def _is_active(self, run: str) -> bool:
        """Return whether a worker drives a run and still reads what it has recorded."""
        if run == LOG_RUN or self._project.ledger.is_closed(run):
            return False
        state = self._reads.read_run(run)
        return state.accepted is not None and state.outcome is None

    @cached_property
    def gauges(self) -> metrics.LedgerGauges:
        """The metrics that are measured in the store."""
        try:
            return metrics.LedgerGauges(self._project.store, self._project.policy)
        except errors.KeyUnreadable:  # no policy here: the signing machine reports on witnesses
            return metrics.LedgerGauges(self._project.store, None)

    def enforce_tags_when_alone(self) -> None:
        """Enforce tags on SQLite, if no process of an older release has the file open."""
        from forum.stores.sqlite import SqliteStore

        if isinstance(self._project.store, SqliteStore) and self._project.store.enforce_tags():
            self.enforce_tags()

    def enforce_tags(self) -> bool:
        """Refuse entries without a tag from now on, after verifying the ledger.

        Return whether they are refused. Call this when no process of a release before tags is left;
        the database refuses that release's entries already.
        """
        from forum.stores.state_files import write_write_keys

        keys = self._project.write_keys
        if keys is None or keys.is_enforced:
            return keys is not None
        self.publish()
        if not self._is_verified():
            return False
        self._project.ledger.enforce_tags(self._project.store.head().size - 1)
        for strand in TAGGED_STRANDS:
            self.tag_head(strand, keys)
        self._tag_idempotency(keys)
        # The file is written last: after a crash before it, all steps are repeated, and those
        # already done change nothing.
        keys = replace_struct(keys, tagged_from=self._project.store.head().size)
        write_write_keys(self._project.settings.write_key_file, keys)
        self._project.use_write_keys(keys)
        self.drop_publisher()
        self.publish()
        return True

    def _is_verified(self) -> bool:
        from forum.verify import State

        report = self.verify(self.read_trust())
        return report.intact.state is report.complete.state is State.HOLDS

    def _tag_idempotency(self, keys: WriteKeys) -> None:
        """Tag the idempotency rows of an earlier release, so that a change is detected."""
        last = ""
        while page := self._project.store.idempotency_rows(last, 1000):
            for row in page:
                if row.digest and row.tag is None:
                    tag = keys.tag_idempotency(row.name, row.run, row.digest)
                    self._project.store.tag_idempotency(row._replace(tag=tag))
            last = page[-1].name

    def tag_head(self, strand: str, keys: WriteKeys) -> None:
        """Tag the last entry of a strand with the write key."""
        last = self._project.store.last_entry(LOG_RUN, strand)
        if last is not None:
            n, leaf = KINDS.read(last).n, leaf_of(last)
            self._project.store.save_strand_head(
                ports.TaggedHead(strand, n, leaf, keys.tag_head(strand, n, leaf))
            )

    def discard_quarantine(self) -> int:
        """Delete the quarantined rows and return their number."""
        rows = self._project.store.quarantined_rows()
        if rows:
            leaves = b"".join(leaf_of(row.row.data) for row in rows)
            digest = sha256(leaves).hexdigest()
            facts = kinds.QuarantineDiscardFacts(len(rows), digest)
            # The digest of the deleted rows is recorded and signed before the rows are deleted.
            # After a crash in between, the rows are still there and can be deleted again.
            self._project.ledger.append_log_entry(
                Draft(f"quarantine/{digest[:16]}", OPERATOR, facts)
            )
            self.publish()
            self._project.store.discard_quarantine([row.id for row in rows])
        return len(rows)

    def publish(self, patience: float = 0.0) -> Publication:
        """Sequence and sign all entries, and ask the witnesses for cosignatures.

        If another machine signs, wait for its checkpoint for at most `patience` seconds, then
        raise.
        """
        self._project.sequencer.drain()
        try:
            publication = self.publisher.publish()
        except (errors.GuardMissing, errors.KeyUnreadable, errors.NoLedger):
            signed = self._signed_elsewhere(self._project.store.head().size, patience)
            if signed is None:
                raise
            return signed
        self._warn_of_clock(publication)
        return publication

    def publish_or_warn(self) -> Publication | None:
        """Publish before a command ends; warn instead of raising if a fault prevents it.

        The entries are durable already, and the next write signs them. If the command failed here,
        its user would repeat it and record everything twice.
        """
        try:
            return self.publish()
        except errors.NoLedger:
            self._project.warn("recorded, not signed yet: the machine that signs does that")
            return None
        except (errors.StoreFailed, errors.KeyUnreadable, errors.GuardMissing, OSError) as error:
            self._warn_unsigned(error)
            return None

    def _warn_unsigned(self, error: Exception) -> None:
        if isinstance(error, errors.LogEnded):
            self._project.warn(f"recorded; the command that ends the log signs it: {error}")
            return
        self._project.warn(f"recorded, not signed yet; the next write signs it: {error}")

    def _warn_of_clock(self, publication: Publication) -> None:
        """Warn once that this machine's clock disagrees with others."""
        if publication.clock_warnings and not self._clock_was_named:
            self._clock_was_named = True
            for warning in publication.clock_warnings:
                self._project.warn(warning)

    def _signed_elsewhere(self, size: int, patience: float) -> Publication | None:
        """Wait for a witnessed checkpoint of at least this size.

        On timeout accept one that is not witnessed. Return None if there is none.
        """
        deadline = time.monotonic() + patience
        while True:
            notes = [tlog.Note.parse(data) for data in self._project.store.checkpoints(size)]
            witnessed = next(
                (note for note in notes if tlog.is_witnessed(note, self._project.policy)), None
            )
            if witnessed or time.monotonic() >= deadline:
                break
            time.sleep(POLL_INTERVAL_S)
        if not notes:
            return None
        note = witnessed or notes[-1]
        return Publication(
            note=note.encode(),
            checkpoint=tlog.Checkpoint.parse(note.text),
            witnessed=witnessed is not None,
            witnessing=tlog.describe_witnessing(note, self._project.policy),
        )

    @cached_property
    def publisher(self) -> Publisher:
        """The signer of this log."""
        return Publisher(
            store=self._project.store,
            key=self._project.key,
            guard=self._project.guard,
            policy=self._project.policy,
            cosigners=self._witnesses.cosigners(),
            follows=self._project.earlier_keys(),
            clock=self._project.dating_clock or now,
            keys=self._project.write_keys,
            reload=self._project.reload_write_keys,
            control=self._project.control_keys,
            cosigned=self._project.cosigned,
            readable=self._project.readable,
            remember=self._project.heads.advance,
        )

    def drop_publisher(self) -> None:
        """Forget the publisher, which holds the key that it was made with."""
        self.__dict__.pop("publisher", None)

    def record_note(
        self, content: Content, idempotency_key: str | None = None
    ) -> tuple[LocatedEntry, Publication | None]:
        """Record a note in a run of its own; the publication is None if it could not be signed yet.

        With the idempotency key of an earlier call, return that call's note, or raise
        `IdempotencyKeyUsed` if its text was different.
        """
        run = self.append_note(content, idempotency_key)
        publication = self.publish_or_warn()
        return self._project.ledger.find_entry(
            str(ports.Position(run, MAIN_STRAND, 1))
        ), publication

    def append_note(self, content: Content, key: str | None = None, actor: str = OPERATOR) -> str:
        """Append a note in a run of its own, and return the run, or the earlier one of this key."""
        run, digest = new_run_id(), sha256(b"".join(content.chunks())).hexdigest()
        body = Attachment("text", content, "text/plain")
        # The run, the note and the idempotency row are one commit: neither a crash nor a full disk
        # can separate them.
        name = f"{actor}/note/{key}"
        effects = (ports.IdempotencyRecord(name, run, digest),) if key is not None else ()
        draft = Draft(
            step="note",
            actor=actor,
            facts=kinds.NoteFacts(),
            parents=(),
            bodies=(body,),
            effects=effects,
        )
        try:
            self._project.ledger.record_run(run, actor, draft)
        except errors.IdempotencyKeyUsed as error:
            if error.digest != digest:
                raise
            self._project.ledger.check_idempotency_row(name, error)
            return error.run
        return run

    def redact(self, entry: str, body: str, reason: kinds.RedactionReason) -> RedactionResult:
        """Record a redaction, have it signed, and only then erase the body.

        Raises `RunNotEnded`: the driver of a run still reads what the run has recorded.  Raises
        `BodyHeld`.
        """
        target = self._find_ended(entry)
        recorded = self._project.ledger.request_redaction(target, body, OPERATOR, reason)
        return self._erase_recorded(recorded, target.entry.run)

    def redact_text(self, entry: str, body: str, reason: kinds.RedactionReason) -> RedactionResult:
        """Erase a body, and each body of its run that holds what this one was the first to say.

        Raises as `redact` does, and `TextNotFound` if the body is gone or says nothing new.
        """
        target = self._find_ended(entry)
        run = target.entry.run
        if body not in target.entry.bodies:
            raise errors.NoSuchEntry(f"{target.leaf.hex()} has no body {body!r}")
        leaves = {at: leaf_of(data) for at, data in self._project.store.entries_of_run(run)}
        places = self._find_text(target, body, leaves)
        named = [(leaves[at], name) for at, name in places]
        recorded = self._project.ledger.request_redactions(run, named, OPERATOR, reason)
        return replace_struct(self._erase_recorded(recorded[0], run), bodies=tuple(places))

    def _find_ended(self, entry: str) -> LocatedEntry:
        """Return an entry of a run that has ended.  Raises `RunNotEnded`."""
        target = self._project.ledger.find_entry(entry)
        if self._is_active(target.entry.run):
            raise errors.RunNotEnded(target.entry.run)
        return target

    def _erase_recorded(self, recorded: RecordedEntry, run: str) -> RedactionResult:
        """Have a recorded redaction signed, and only then erase what it names."""
        # Signed before erased: after a crash in between, the redaction is on record, and the next
        # call of `erase_redacted` erases the body.
        publication = self.publish()
        archiver = self._make_archiver()
        erased = self._project.ledger.erase_redacted(archiver)
        for place, error in archiver.unreachable.items():
            if place == run:
                raise error  # the copy still has the body; asking again erases it
            self._project.warn(f"an earlier redaction was not repeated in an archive: {error}")
        return RedactionResult(recorded.leaf.hex(), len(erased), publication)

    def _find_text(
        self, target: LocatedEntry, body: str, leaves: Mapping[ports.Position, tlog.Hash]
    ) -> list[tuple[ports.Position, str]]:
        """Return where the new text of a body stands in its run, beginning with this body.

        `leaves` are the ids of the entries of the run.
        """
        store, run = self._project.store, target.entry.run
        content = read_body(store, target.entry, body)
        if content is None:
            raise errors.TextNotFound(body, f"it is not stored any more; see forum show {run}")
        own = (ports.Position(run, target.entry.strand, target.entry.n), body)
        indexes = dict(zip(leaves, store.indexes(list(leaves.values())), strict=True))
        before = indexes[own[0]]

        def is_earlier(at: ports.Position) -> bool:
            index = indexes.get(at)
            return index is not None and (before is None or index < before)

        earlier = (
            b"".join(stored.read())
            for at, name, stored in store.bodies_of_run(run)
            if is_earlier(at)
        )
        text = find_new_text(content, earlier)
        if not text:
            raise errors.TextNotFound(body, "an earlier body of its run says all of it: name that")
        if len(text) < MIN_TEXT_BYTES:
            why = f"it has only {len(text)} bytes, which stand elsewhere by chance"
            raise errors.TextNotFound(body, f"{why}; redact each body by its name")
        finder = TextFinder(text)
        return [own] + [
            (at, name)
            for at, name, stored in store.bodies_of_run(run)
            if (at, name) != own and finder.is_in(b"".join(stored.read()))
        ]

    def archive_runs(self, before: int, place: str) -> ArchiveResult:
        """Move the runs that ended before a time (microseconds since 1970) to an archive.

        Raises `ArchiveUnreachable`, `BadSettings`, `NotYetSigned`.
        """
        return self._make_archiver().archive_runs(before, place)

    def _make_archiver(self) -> RunArchiver:
        return make_archiver(
            self._project, partial(self.publish, _SIGNER_PATIENCE_S), self.read_trust
        )

    def export(self, run: str, actor: str = OPERATOR, patience: float = 0.0) -> bytes:
        """Return the evidence bundle of a run, after recording the export in a signed entry.

        If another machine signs, wait for its checkpoint for at most `patience` seconds.
        """
        if not self._project.store.strands(run):
            raise errors.NoSuchEntry(f"the log has no run {run}")
        # Reading the entries checks them, so that an altered run is not exported.
        entries = sum(1 for _ in self._project.store.entries_of_run(run))
        self._project.ledger.record_export(run, entries, self._project.store.head().size, actor)
        self.publish(patience)
        verifier = (files("forum.verify") / "standalone.py").read_bytes()
        with self._project.open_reader() as reader:
            return gather_bundle(
                reader, KINDS, run, self._project.policy, verifier=verifier
            ).encode()

    def describe_policy(self) -> str:
        """Return the trust file for readers: the newest key of the log, earlier ones as comments.

        Hand-overs lead from the newest key to the earlier ones.  A reader who pins an earlier key
        would believe its thief where the hand-over is left out.
        """
        key, policy = self._project.verifier, self._project.policy
        others = [log for log in policy.logs if log.key.name != key.name]
        own = next((log for log in policy.logs if log.key == key), tlog.KnownLog(key))
        with self._project.open_reader() as reader:
            earlier = list(find_retired_keys(reader, KINDS))
        lines = [f"# log {old} signed trees up to size {size}\n" for old, size in earlier]
        return replace(policy, logs=(own, *others)).text_for_others() + "".join(lines)

    def read_trust(self) -> "Trust":
        """Return the policy and the checkpoints that the operator of this machine trusts."""
        from forum.verify import Trust

        guard = self._project.guard.latest()
        return Trust(
            policy=self._project.policy,
            remembered=self._project.remembered_checkpoints(),
            guard=guard,
        )

    def read_trust_for_others(self) -> "Trust":
        """Return what a server verifies with for a client, who has marked no witness.

        The operator's marks are his own: by them a writer would call himself independent.
        """
        return replace_struct(self.read_trust(), policy=self._project.policy.without_marks())

    def remember_signed(self, note: bytes) -> None:
        """Make this machine the signer of the log, continuing from this checkpoint.

        Only for a machine without a guard of its own.
        """
        self._project.guard.advance(None, note)

    def verify(
        self,
        trust: "Trust",
        progress: Callable[[int, int], None] = lambda _done, _all: None,
        at: int | None = None,
        jobs: int = 1,
    ) -> "Report":
        """Verify the whole ledger, and remember its checkpoint if the report is ok.

        With `jobs` above 1, segments of a long log are checked in that many processes.
        """
        from forum.verify import verify_epochs, verify_ledger

        snapshots: list[tuple[Iterable[RunSnapshot], VerifiedCheckpoint]] = []

        def keep(runs: "Iterable[RunSnapshot]", last: "VerifiedCheckpoint") -> None:
            snapshots.append((runs, last))

        with self._project.snapshot() as reader, self._segment_runner(reader, jobs) as runner:
            self._project.register()
            # The verifier compares the rows itself and reports forged ones; the check would raise
            # instead.
            reader.check = NoRowCheck()
            reader.archive = self._project.make_archive(reader)
            moment = at or now()
            heads = {name: self._project.heads.latest(name) for name in TAGGED_STRANDS}
            report = verify_ledger(
                reader,
                KINDS,
                trust,
                moment,
                progress=progress,
                runner=runner,
                keep=keep,
                write_keys=self._project.write_keys,
                heads={name: head for name, head in heads.items() if head is not None},
            )
            report = verify_epochs(reader, report, KINDS, moment, logs=self._earlier_logs(trust))
            note, runs_end = reader.checkpoint(), reader.last_entry(LOG_RUN, RUNS_STRAND)
        if report.ok and note:
            for runs, last in snapshots:
                self._save_run_state(runs, last, trust)
            self._remember_seen(note, runs_end)
        return report

    def _earlier_logs(self, trust: "Trust") -> "EarlierLogs":
        """Return how to open and trust the logs that this one continues."""
        from forum.verify import EarlierLogs

        origins = tuple(epoch.origin for epoch in self._project.known_epochs())
        return EarlierLogs(origins, self._project.open_log, partial(self._trust_of, trust))

    def _trust_of(self, trust: "Trust", origin: str) -> "Trust":
        """Return the keys, policy and checkpoints that a reader trusts for an earlier log."""
        epochs = [e for e in self._project.known_epochs() if e.origin == origin]
        keys = tuple(tlog.VerifierKey.parse(vkey) for epoch in epochs for vkey in epoch.vkeys)
        own = self._project.log_folder(origin) / "policy"
        policy, current = trust.policy, self._project.policy
        if policy in (current, current.without_marks()) and own.exists():
            # The witnesses may have changed since that log ended, so its checkpoints are judged by
            # the policy that was in force then.
            then = tlog.WitnessPolicy.parse(own.read_bytes())
            policy = then if policy == current else then.without_marks()
        memories = [self._project.memory(origin, name) for name in ("guard.note", "seen.note")]
        remembered = (m.latest() for m in (*memories, self._project.witness_memory(origin)))
        named = [key for key in (policy.log_keys if policy else ()) if key.name == origin]
        trusted = [key for key in trust.keys if key.name == origin]
        shown = [note for note in trust.remembered if _origin_of_note(note) == origin]
        return replace_struct(
            trust,
            keys=tuple(dict.fromkeys((*keys, *named, *trusted))),
            policy=policy,
            remembered=tuple(dict.fromkeys((*(note for note in remembered if note), *shown))),
        )

    def verify_since_seen(
        self,
        trust: "Trust",
        progress: Callable[[int, int], None] = lambda _done, _all: None,
        jobs: int = 1,
    ) -> "tuple[Report, str]":
        """Verify only entries newer than the last successful verification, or everything.

        Return the report, and the reason if everything was verified.
        """
        result = self._verify_new(trust, progress)
        if isinstance(result, str):
            return self.verify(trust, progress, jobs=jobs), result
        return result, ""

    def _verify_new(self, trust: "Trust", progress: Callable[[int, int], None]) -> "Report | str":
        """Verify only new entries; return a reason if that is not possible."""
        from forum.stores.run_progress import open_run_progress
        from forum.verify import verify_epochs, verify_since

        last_seen = self._project.seen.latest()
        if last_seen is None or not self._project.run_state_file.exists():
            return "no earlier verification has left its state"
        try:
            with (
                open_run_progress(self._project.run_state_file) as state,
                self._project.snapshot() as reader,
            ):
                reader.check = NoRowCheck()
                reader.archive = self._project.make_archive(reader)
                last = state.last(_trust_digest(trust))
                checkpoint = tlog.parse_checkpoint(last_seen)
                # The saved state is valid for exactly one checkpoint: the one that was seen last.
                if last is None or (last.origin, last.size, last.root) != (
                    checkpoint.origin,
                    checkpoint.size,
                    checkpoint.root.hex(),
                ):
                    return "the state is not that of the checkpoint that was seen last"
                done = verify_since(
                    reader,
                    KINDS,
                    trust,
                    now(),
                    last=last,
                    state=state,
                    progress=progress,
                    write_keys=self._project.write_keys,
                )
                if done is None:
                    return "something is wrong with the new entries, or with what they continue"
                report, newest = done
                earlier = self._earlier_logs(trust)
                report = verify_epochs(reader, report, KINDS, now(), logs=earlier)
                note = reader.checkpoint()
                if report.ok and note:
                    # After a crash between these two writes the state and the checkpoint differ,
                    # and the next verification checks everything.
                    state.commit(newest, _trust_digest(trust))
                    self._remember_seen(note, reader.last_entry(LOG_RUN, RUNS_STRAND))
                return report
        except errors.StoreFailed as error:
            return str(error)

    def _save_run_state(
        self, runs: "Iterable[RunSnapshot]", last: "VerifiedCheckpoint", trust: "Trust"
    ) -> None:
        """Save the state of runs for `verify_since_seen`."""
        from forum.stores.run_progress import open_run_progress

        # Saving is optional: a reader without write access can still verify.
        with suppress(errors.StoreFailed), open_run_progress(self._project.run_state_file) as state:
            state.replace(runs)
            state.commit(last, _trust_digest(trust))

    def _remember_seen(self, note: bytes, runs_end: bytes | None) -> None:
        """Remember a verified checkpoint and the end of the directory of runs.

        Neither is ever replaced by a smaller one.
        """
        try:
            if runs_end is not None:
                end = KINDS.read(runs_end)
                self._project.heads.advance({RUNS_STRAND: (end.n, leaf_of(runs_end).hex())})
            # If another reader stores a checkpoint at the same time, that one stays: it was
            # verified too.
            with suppress(errors.ConcurrentUpdate):
                latest = self._project.seen.latest()
                if (
                    latest is None
                    or tlog.parse_checkpoint(latest).size <= tlog.parse_checkpoint(note).size
                ):
                    self._project.seen.advance(latest, note)
        except errors.StoreFailed as error:
            self._project.warn(f"verified, but what was seen could not be remembered: {error}")

    @contextmanager
    def _segment_runner(
        self, reader: ports.TreeReader, jobs: int
    ) -> "Iterator[SegmentRunner | None]":
        """Start processes that verify segments if the log is long enough; otherwise yield None."""
        if jobs < 2 or reader.head().size < _MIN_PARALLEL_ENTRIES:
            yield None
            return
        from forum.stores.parallel_verify import LedgerAddress, SegmentProcesses

        database = self._project.settings.database or ""
        file = "" if database else str(self._project.settings.ledger_file.absolute())
        address = LedgerAddress(self._project.origin, file, database)
        with SegmentProcesses(address, jobs, FEATURES) as runner:
            yield runner
