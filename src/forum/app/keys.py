"""The signing key and the write keys of a log: making, rotating and replacing them."""

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace as replace_struct

from forum import __version__, errors, tlog
from forum.app import clock_ids_and_kinds
from forum.app.log import LogOperations
from forum.app.project import ProjectContext
from forum.app.reads import RunReads
from forum.app.witnesses import Witnesses, find_witnesses
from forum.ledger import key_rotation, kinds
from forum.ledger.access import ACCESS_STRAND
from forum.ledger.body import text_content
from forum.ledger.entry import LOG_RUN
from forum.ledger.epochs import name_epoch, split_epoch
from forum.ledger.log import Ledger, check_strand_head, read_strand_entries
from forum.ledger.ports import EntryReader, Reader, TreeReader
from forum.ledger.row_checks import has_tree
from forum.ledger.sequencer import Publication
from forum.ledger.strand import (
    LOST_COMMITS_MARK,
    TAGGED_STRANDS,
    WRITE_KEY_MARK,
    Attachment,
    Draft,
)
from forum.ledger.write_tags import WriteKey, WriteKeys

if TYPE_CHECKING:
    from forum.app.epoch_carry import CarriedState
    from forum.stores.project_registry import ProjectEpoch
    from forum.stores.state_files import FileCheckpointStore


_UNSIGNABLE = (
    errors.CommitsLost,
    errors.EntryLost,
    errors.GuardMissing,
    errors.RollbackDetected,
    errors.TamperDetected,
)
"""Errors of a log that cannot be signed any further; its next epoch is the way on."""


class EpochStart(Struct, frozen=True):
    """The log that continues another one."""

    origin: str
    key: tlog.VerifierKey
    has_new_key: bool
    """Whether the old key was lost, so that readers have to pin another public key."""
    left: tlog.Checkpoint
    """The last checkpoint of the log that was left."""
    held: tlog.Checkpoint
    """The newest checkpoint of it that is still in the database: what is missing was lost."""
    unsigned: int
    """The entries of that log which are there, and which no signed tree has."""
    carried: "CarriedState"


class SigningKeyRotation(Struct, frozen=True):
    """The result of replacing a log's signing key."""

    old: tlog.VerifierKey
    key: tlog.VerifierKey
    publication: Publication


class KeyOperations:
    """Makes, rotates and replaces the signing key and the write keys of a log."""

    def __init__(self, project: ProjectContext, log: LogOperations, witnesses: Witnesses) -> None:
        self._project, self._log = project, log
        self._witnesses = witnesses

    def initialise(self) -> bool:
        """Create the key, policy, witness and log that are missing; return whether the log is new.

        Raises `LogKeyMissing` if this machine remembers a log here whose key is gone, and
        `TamperDetected` if it remembers a tree of this log and the database is empty.
        """
        from forum.stores.state_files import lock_file

        # One process at a time: of two keys made at once one would be overwritten, and with it the
        # ability to continue what it had signed.
        with lock_file(self._project.settings.key_file):
            files = (self._project.settings.key_file, self._project.settings.public_key_file)
            fresh = not any(path.exists() for path in files)
            if fresh:
                with suppress(errors.NoLedger):
                    self._project.key  # noqa: B018  raises if this machine remembers a log here
                self._make_key()
            self.write_public_key()
            self._make_write_key(new=fresh)
            self._witnesses.trust_locally()
        if not fresh:
            self._project.check_not_lost()
            self._project.set_aside_foreign_rows()
        self._make_control_key()
        self._project.ledger.initialize(f"forumd/{__version__}", self._project.verifier)
        self._project.ledger.check_write_key()
        if fresh:
            self._project.ledger.mark_write_key()
            self._log.publish_or_warn()
        elif (
            self._project.write_keys is not None
            and not self._project.write_keys.is_enforced
            and self._project.is_signer
        ):
            self._project.ledger.mark_write_key()
        if not self._project.settings.database:
            self._log.enforce_tags_when_alone()
        return fresh

    def start_over(self) -> None:
        """Replace this project's log by a new one, at the operator's request.

        The database keeps the entries of the old log, and the registry records that it was
        replaced.
        """
        from forum.stores.project_registry import Project, ProjectEpoch, ReplacedLogs
        from forum.stores.state_files import lock_file, write_key

        place = self._project.place
        with lock_file(self._project.settings.key_file):
            project = self._project.registry.find(
                place
            ) or self._project.registry.find_with_lost_key(place)
            old_key = self._set_key_aside()
            epochs: tuple[ProjectEpoch, ...] = project.epochs if project else ()
            if project is None and old_key is not None:
                epochs = (ProjectEpoch(old_key.name, (str(old_key.verifier()),)),)
            replaced = project.replaced if project else ()
            if epochs:
                replaced = (*replaced, ReplacedLogs(epochs, clock_ids_and_kinds.now()))
            names = {epoch.origin for past in replaced for epoch in past.epochs}
            key = tlog.SigningKey(os.urandom(32), self._unused_origin(names))
            self._make_folder()
            # The registry is written first: after a crash before the key is written, the next
            # command reports a missing key, and starting over again repairs that.
            here = (place.path, place.database, place.key_file)
            epoch = ProjectEpoch(key.name, (str(key.verifier()),))
            self._project.registry.save(Project(*here, (epoch,), replaced))
            if project is not None and (project.path, project.database) != here[:2]:
                self._project.registry.forget(project)
            tags = self._project.settings.write_key_file
            if tags.exists():
                tags.replace(tags.with_name(f"{tags.name}.replaced-{clock_ids_and_kinds.now()}"))
            write_key(self._project.settings.key_file, key)
            self._close_log()
            self._witnesses.trust_locally()
            self._warn_of_policy_gaps(key.verifier())

    def _unused_origin(self, used: Collection[str]) -> str:
        """Return a name for a new log that no log of this project has had."""
        named = self._project.settings.origin
        if named is None:
            return f"forum.local/{os.urandom(4).hex()}"
        number = 2
        while named in used:
            named = f"{self._project.settings.origin}/log-{number}"
            number += 1
        return named

    def _make_folder(self) -> None:
        from forum.stores.state_files import make_private_folder

        make_private_folder(self._project.settings.data)
        (self._project.settings.data / ".gitignore").write_text("*\n")

    def write_public_key(self) -> None:
        """Write the public key to its file, for machines that only read or write."""
        from forum.stores.state_files import make_private_folder, write_durably

        path, line = self._project.settings.public_key_file, f"{self._project.verifier}\n"
        if not path.exists() or path.read_text() != line:
            make_private_folder(path.parent)
            write_durably(path, line.encode())

    def _make_write_key(self, *, new: bool) -> None:
        """Create the write key of a log that has none, on the signing machine only.

        If two machines had a key each, each one's entries would be quarantined by the other. Raises
        `WrongWriteKey` if the log already uses a write key and its file is gone.
        """
        from forum.stores.state_files import write_write_keys

        if self._project.write_keys is not None:
            return
        # Another process may have created the key since this one looked; use its key then.
        existing = self._project.reload_write_keys()
        if existing is not None:
            self._project.use_write_keys(existing)
            return
        if not new and self._project.store.strand_head(WRITE_KEY_MARK) is not None:
            why = "its file is gone; restore it, or make a new key: forum keys rotate-write"
            raise errors.WrongWriteKey(self._project.origin, "-", why)
        if not new and not self._project.is_signer:
            return  # a log of an earlier release, which is still written without tags
        keys = WriteKeys(self._project.origin, (WriteKey(os.urandom(32)),), 0 if new else None)
        write_write_keys(self._project.settings.write_key_file, keys)
        self._project.use_write_keys(keys)

    def _make_control_key(self) -> None:
        """Create the key for control entries, if this machine signs the log and has none."""
        from forum.stores.state_files import lock_file, write_write_keys

        project, path = self._project, self._project.control_key_file
        if path.exists() or project.write_keys is None or not project.is_signer:
            return
        # What an earlier release has recorded is signed before: it has no such tag.
        try:
            project.sequencer.drain()
            if project.store.head().size:
                self._log.publisher.sign()
        except errors.ForumError:
            return  # the command itself meets the error, and says what to do
        with lock_file(path):
            if not path.exists():
                write_write_keys(path, WriteKeys(project.origin, (WriteKey(os.urandom(32)),), 0))
        project.__dict__.pop("control_keys", None)
        project.use_write_keys(project.write_keys)  # and with the new key
        self._log.drop_publisher()

    def rotate_write_key(self) -> str:
        """Tag entries with a new write key from now on, and return its id.

        Tags of the older keys stay valid. Raises `WrongWriteKey` on a machine that does not sign.
        """
        from forum.stores.state_files import write_write_keys

        if not self._project.is_signer:
            raise errors.WrongWriteKey(
                self._project.origin, "-", "only the machine that signs makes write keys"
            )
        # After a crash near the end of an epoch, its keys are still in the file beside this one.
        self._set_write_keys(self._project.origin)
        # If the key file was lost, entries of the signed tree are accepted without a tag. Unsigned
        # entries are quarantined by the next sequencer.
        old = self._project.write_keys or WriteKeys(
            self._project.origin, (), self._project.store.head().size
        )
        # The signing machine's file is written before any tag is made: an entry tagged with the new
        # key, here or on a machine that received the file, must be known to the sequencer.
        keys = replace_struct(old, keys=(WriteKey(os.urandom(32)), *old.keys))
        write_write_keys(self._project.settings.write_key_file, keys)
        self._project.use_write_keys(keys)
        self._project.ledger.mark_write_key()
        for strand in TAGGED_STRANDS:
            self._log.tag_head(strand, keys)
        self._log.publish()
        return keys.current.id.hex()

    def _make_key(self) -> None:
        from forum.stores.state_files import write_key

        self._make_folder()
        write_key(
            self._project.settings.key_file,
            tlog.SigningKey(os.urandom(32), self._unused_origin(())),
        )

    def _close_log(self) -> None:
        """Close the log, so that the next use opens it with its new keys."""
        self._project.close_log()
        self._log.drop_publisher()

    def _set_key_aside(self) -> tlog.SigningKey | None:
        """Copy the key file to another name, and return the key if it can be read."""
        from forum.stores.state_files import read_key, write_durably

        path = self._project.settings.key_file
        if not path.exists():
            return None
        write_durably(
            path.with_name(f"{path.name}.replaced-{clock_ids_and_kinds.now()}"), path.read_bytes()
        )
        try:
            return read_key(path)
        except errors.KeyUnreadable:
            return None

    def new_epoch(self, reason: str = "") -> EpochStart:
        """Leave the log at its last signed checkpoint, and begin its next epoch.

        The old key keeps signing if it is available. If it was lost or exchanged, a new key is
        made, which readers have to pin again; that requires a reason.
        """
        from forum.stores.state_files import lock_file

        old, origin = self._key_to_leave(reason)
        with lock_file(self._project.settings.key_file.with_name("epoch")):
            self._check_in_use(origin)
            self._set_write_keys(origin)  # an attempt that crashed near its end has left them
            return self._begin_epoch(old, origin, reason)

    def _check_in_use(self, origin: str) -> None:
        """Raise `LogEnded` if another process has begun the next epoch since this one started."""
        from forum.stores.state_files import read_key

        path = self._project.settings.key_file
        with suppress(errors.KeyUnreadable):
            base, number = split_epoch(read_key(path).name if path.exists() else origin)
            if base == split_epoch(origin)[0] and number > split_epoch(origin)[1]:
                raise errors.LogEnded(origin)

    def _begin_epoch(self, old: tlog.SigningKey | None, origin: str, reason: str) -> EpochStart:
        """Leave a log and begin its next epoch; a second attempt completes what a crash has cut.

        A crash behind each step leaves this:

        | step | the log that is left | the next epoch |
        |---|---|---|
        | 1 prepare keys and policy, in files | goes on | has keys, which are used again |
        | 2 stop appends | takes nothing; is sequenced and signed | |
        | 3 sign what was appended | the same, and all of it is signed | |
        | 4 end the guard | the same, and nobody signs it | |
        | 5 end the log | takes nothing, not even an index | |
        | 6 record the next epoch | the same, for ever | has its first entries |
        | 7 carry what goes on | the same | has all, and waits for its keys |
        | 8 put the keys into their places | the same | is in use |

        A second attempt repeats all of steps 1 to 5; once step 6 has begun, it goes on with step 4.
        An error before step 6 is undone, and the log goes on.  What was acknowledged is signed in
        step 3.  If the log cannot be signed any further, the result says how many entries are not.
        """
        self._find_end(origin)  # what raises here leaves everything as it is
        base, number = split_epoch(origin)
        name = name_epoch(base, number + 1)
        key = tlog.SigningKey(old.seed, name) if old else self._pending_key(name)
        self._prepare_epoch(origin, key)
        with ProjectContext(self._project.settings, register=False) as successor:
            successor.key = key
            successor.write_keys = self._prepare_write_keys(name)
            witnesses = find_witnesses(successor)
            log = LogOperations(successor, witnesses, RunReads(successor))
            has_begun = bool(successor.store.strands(LOG_RUN))
            try:
                if not has_begun:
                    self._project.stop_appends(origin)
                    self._sign_rest(origin, has_key=old is not None)
                self._end_log(origin, has_key=old is not None)
                left, held = self._find_end(origin)
                witnesses.trust_locally()
                with self._project.open_log(origin) as reader:
                    carry = self._find_carried(origin, reader, is_cut=held.size < left.size)
                    unsigned = _count_unsigned(reader, held)
                    has_begun = True
                    draft = _draft_epoch(old, held, reason)
                    ledger = successor.ledger
                    ledger.initialize(f"forumd/{__version__}", key.verifier(), left, draft)
                    ledger.mark_write_key()
                    carried = carry(ledger)
            except BaseException as error:
                if not (has_begun and _may_be_recorded(successor.store, error)):
                    self._reopen_log(origin)
                raise
            # The signing key is written last. After a crash before it, a second attempt finds
            # everything prepared here. Of the two files with write keys, the one of the log in use
            # is read.
            self._use_key(old, number, key)
            self._set_write_keys(name)
            KeyOperations(successor, log, witnesses).write_public_key()
            self._complete_project()
            log.publish()
        self._warn_of_policy_gaps(key.verifier())
        return EpochStart(
            origin=name,
            key=key.verifier(),
            has_new_key=old is None,
            left=left,
            held=held,
            unsigned=unsigned,
            carried=carried,
        )

    def _prepare_epoch(self, origin: str, key: tlog.SigningKey) -> None:
        """Keep the policy of the log that is left, and remember its next epoch."""
        from forum.stores.project_registry import ProjectEpoch

        self._save_policy(origin)
        self._make_folder()
        self._change_project(ProjectEpoch(key.name, (str(key.verifier()),)), origin)

    def _use_key(self, old: tlog.SigningKey | None, number: int, key: tlog.SigningKey) -> None:
        """Put the signing key of the next epoch into its place, and keep the one before."""
        from forum.stores.state_files import write_key

        path = self._project.settings.key_file
        if old is not None:
            write_key(path.with_suffix(f".{number}"), old)
        else:
            self._set_key_aside()
        write_key(path, key)

    def _guard_of(self, origin: str) -> "FileCheckpointStore":
        return self._project.memory(origin, "guard.note", "the signer's guard")

    def _sign_rest(self, origin: str, *, has_key: bool) -> None:
        """Sign what was appended, and publish it, unless the log cannot be signed any further.

        Such a log is left where it was signed last.  Any other error raises: it can pass.
        """
        self._guard_of(origin).reopen()  # an attempt that was stopped behind this has ended it
        if not has_key:
            return
        try:
            self._project.store.head()
            self._project.store.check_history()
            self._log.publisher.sign()  # raises if the tree does not continue the one signed last
            self._project.sequencer.drain()
            note = self._log.publisher.sign()
        except _UNSIGNABLE:
            return
        with suppress(errors.ForumError):  # the next epoch does not wait for a witness
            self._log.publisher.publish(note)

    def _end_log(self, origin: str, *, has_key: bool) -> None:
        """Let no process sign a log from now on, nor change it."""
        guard = self._guard_of(origin)
        # First: what a process signs after the end would have no place in the database, and every
        # reader who has seen it would find that the log was cut.
        guard.end()
        if has_key:
            with suppress(errors.CommitsLost, errors.LogEnded):
                self._store_signed(guard.latest())
        self._project.end_log(origin)

    def _store_signed(self, note: bytes | None) -> None:
        """Store the last note, if a signer was stopped before it did."""
        store = self._project.store
        signed = tlog.parse_checkpoint(note) if note else None
        if note is None or signed is None or not has_tree(store.read_tile, signed):
            return
        stored = store.checkpoint(signed.size)
        if stored is None or tlog.parse_checkpoint(stored).size < signed.size:
            store.save_checkpoint(signed.size, note)

    def _reopen_log(self, origin: str) -> None:
        """Let a log go on whose next epoch could not begin."""
        try:
            # First: a log that takes entries must have somebody who can sign them.
            self._guard_of(origin).reopen()
            self._project.reopen_log(origin)
        except errors.ForumError as error:
            self._project.warn(f"{origin} takes nothing until this command succeeds: {error}")

    def _find_carried(
        self, origin: str, reader: Reader | None, *, is_cut: bool
    ) -> "Callable[[Ledger], CarriedState]":
        """Find what goes on of a log; return a function that records it again in the next."""
        # Imported here because it loads the engine, which no other command of keys needs.
        from forum.app.epoch_carry import CarriedState, Carrier, SourceCheck, carry_state
        from forum.stores.state_files import read_write_keys

        if reader is None:
            return lambda _ledger: CarriedState(0, (), 0, (), interrupted=False)
        project, path = self._project, self._project.control_key_file_of(origin)
        write_keys = project.read_old_write_keys(origin)
        control = read_write_keys(path) if path.exists() else None
        vkeys = [vkey for e in project.known_epochs() if e.origin == origin for vkey in e.vkeys]
        log_keys = tuple(map(tlog.VerifierKey.parse, vkeys))
        reader.check = SourceCheck(reader, log_keys, write_keys, control)
        is_cut = is_cut or reader.strand_head(LOST_COMMITS_MARK) is not None
        seen = project.heads_of(origin).latest(ACCESS_STRAND)
        # A revocation that was deleted must not make its key valid in the next epoch.
        check_strand_head(reader, write_keys, ACCESS_STRAND, None if is_cut else seen)
        last = reader.last_entry(LOG_RUN, ACCESS_STRAND)
        lost = max(
            0, (seen[0] if seen else -1) - (clock_ids_and_kinds.KINDS.read(last).n if last else -1)
        )
        carrier = Carrier(reader, write_keys)
        return partial(carry_state, carrier, is_cut=is_cut, lost_access=lost)

    def _key_to_leave(self, reason: str) -> tuple[tlog.SigningKey | None, str]:
        """Return the key of the log to leave (None if it was lost) and the log's name."""
        try:
            key = self._project.key
        except (errors.LogKeyMissing, errors.LogKeyChanged) as error:
            if not reason:
                raise
            return None, error.origin
        except errors.KeyUnreadable:
            project = self._project.registry.find(self._project.place)
            if project is None or not reason:
                raise
            return None, project.current.origin
        self._project.register()  # also completes an earlier rotation that crashed near its end
        return key, key.name

    def _set_write_keys(self, origin: str) -> None:
        """Use the write keys that were prepared for a log, unless it has got some since."""
        from forum.stores.state_files import read_write_keys

        path = self._project.settings.write_key_file
        prepared = clock_ids_and_kinds.pending_write_keys_path(path)
        if not prepared.exists() or read_write_keys(prepared).origin != origin:
            return
        if path.exists() and read_write_keys(path).origin == origin:
            prepared.unlink()  # a later key in the file has tagged entries meanwhile
        else:
            prepared.replace(path)

    def _pending_key(self, name: str) -> tlog.SigningKey:
        """Return the new key of a log: the same one until it is in use.

        After a crash, a second attempt must find the key that witnesses already know.
        """
        from forum.stores.state_files import read_key, write_key

        path = self._project.settings.key_file.with_name(
            f"{self._project.settings.key_file.name}.next"
        )
        if path.exists():
            key = read_key(path)
            project = self._project.registry.find(self._project.place)
            used = {vkey for epoch in project.epochs for vkey in epoch.vkeys} if project else set()
            if key.name == name and str(key.verifier()) not in used:
                return key
        key = tlog.SigningKey(os.urandom(32), name)
        write_key(path, key)
        return key

    def _find_end(self, origin: str) -> tuple[tlog.Checkpoint, tlog.Checkpoint]:
        """Return the last signed checkpoint of a log, and the last one still in the database."""
        notes = (
            self._project.memory(origin, "guard.note").latest(),
            self._project.witness_memory(origin).latest(),
        )
        signed = [tlog.parse_checkpoint(note) for note in notes if note]
        with self._project.open_log(origin) as reader:
            stored = _find_stored(reader, origin)
            # The guard is advanced before a signed checkpoint is stored, so it knows the last one.
            # Without a guard, take the largest checkpoint that this machine knows.
            left = signed[0] if notes[0] else max([stored, *signed], key=lambda c: c.size)
            # Where the tree is, nothing is lost, whatever the table of checkpoints says.
            held = left if reader is not None and has_tree(reader.read_tile, left) else stored
        return left, held

    def _save_policy(self, origin: str) -> None:
        """Store the policy under which a log was witnessed: its successor may get another one."""
        from forum.stores.state_files import lock_file, write_durably

        own = self._project.log_folder(origin) / "policy"
        if (
            self._project.settings.policy is not None
            and self._project.settings.policy.exists()
            and not own.exists()
        ):
            with lock_file(own):
                write_durably(own, self._project.settings.policy.read_bytes())

    def _warn_of_policy_gaps(self, key: tlog.VerifierKey) -> None:
        if self._project.settings.policy is not None and key not in self._project.policy.log_keys:
            place = f"in the place of the log's own in {self._project.settings.policy}"
            self._project.notify(f"put this line {place}: log {key}")

    def rotate_key(self) -> SigningKeyRotation:
        """Replace the log's signing key; the old key signs the handover to the new one.

        Raises `RotationRefused` on a machine that does not sign.
        """
        from forum.stores.project_registry import ProjectEpoch
        from forum.stores.state_files import lock_file, write_key

        self._project.register()  # also completes an earlier rotation that crashed near its end
        if not self._project.is_signer:
            raise errors.RotationRefused(
                self._project.origin, "another machine signs it; rotate the key there"
            )
        path = self._project.settings.key_file
        epochs = self._project.known_epochs()
        if not epochs:
            raise errors.RotationRefused(
                self._project.origin, f"{self._project.settings.state} cannot be written"
            )
        with lock_file(path):
            self._check_rotation_count()
            old, new = self._project.key, self._pending_key(self._project.origin)
            key, earlier = new.verifier(), epochs[-1].vkeys
            # After a crash before the new key is in its place, the old key keeps signing, and a
            # second attempt finds the same new key.
            self._change_project(
                ProjectEpoch(self._project.origin, (*earlier, str(key))), self._project.origin
            )
            self._witnesses.trust_key(key, follows=old.verifier())
            hand_over = self._record_hand_over(old, new)
            # The old key signs the handover; before that the new key must not sign anything.
            self._log.publish()
            aside = path.with_name(f"{path.name}.rotated-{old.verifier().key_id.hex()}")
            write_key(aside, old)
            # After a crash beyond this point, the new key is the log's key and signs the next tree.
            write_key(path, new)
            path.with_name(f"{path.name}.next").unlink(missing_ok=True)
            self._complete_project()
            self._close_log()
            self.write_public_key()
        draft = Draft(
            f"add/{key.key_id.hex()}",
            clock_ids_and_kinds.OPERATOR,
            kinds.KeyAddFacts(str(key)),
            (hand_over,),
        )
        self._project.ledger.append_log_entry(draft, key_rotation.KEYS_STRAND)
        publication = self._log.publish()
        # Only now: for a reader who pins both keys, the old one signs nothing behind the handover.
        # After a crash before this line the policy names the old key, and readers follow it.
        self._add_to_policy(key)
        # The witness forgets the old key last: after a crash before the new key was in place, the
        # old key keeps signing, and its checkpoints still need this witness.
        self._witnesses.trust_key(key, follows=old.verifier(), alone=True)
        self._warn_of_policy_gaps(key)
        return SigningKeyRotation(old.verifier(), key, publication)

    def _check_rotation_count(self) -> None:
        """Raise `RotationRefused` if no verifier would follow one more hand-over of this log."""
        recorded = list(
            key_rotation.find_key_rotations(self._project.store, clock_ids_and_kinds.KINDS)
        )
        own = str(self._project.verifier)
        # One that is recorded and was stopped before its end is completed.
        if len(recorded) < key_rotation.MAX_ROTATIONS or own in {
            e.entry.facts.old for e in recorded
        }:
            return
        why = (
            f"it was handed over {len(recorded)} times, and verifiers follow "
            f"{key_rotation.MAX_ROTATIONS}. "
            "Continue in a new epoch: forum ledger epoch; then rotate its key"
        )
        raise errors.RotationRefused(self._project.origin, why)

    def _record_hand_over(self, old: tlog.SigningKey, new: tlog.SigningKey) -> tlog.Hash:
        """Record the handover between two keys unless it is recorded; return the entry's id."""
        keys = (str(old.verifier()), str(new.verifier()))
        for leaf, entry in read_strand_entries(
            self._project.ledger, LOG_RUN, key_rotation.KEYS_STRAND
        ):
            if isinstance(entry.facts, kinds.KeyRotationV2Facts) and keys == (
                entry.facts.old,
                entry.facts.vkey,
            ):
                return leaf
        facts = key_rotation.sign_rotation(
            self._project.origin, self._project.store.head().size, old, new
        )
        draft = Draft(f"rotate/{new.verifier().key_id.hex()}", clock_ids_and_kinds.OPERATOR, facts)
        return self._project.ledger.append_log_entry(draft, key_rotation.KEYS_STRAND).leaf

    def _add_to_policy(self, key: tlog.VerifierKey) -> None:
        """Add a key of this log to the policy, if this machine wrote the policy itself."""
        from forum.stores.state_files import lock_file, write_durably

        path = self._project.state / "policy"
        if self._project.settings.policy is not None or not path.exists():
            return
        with lock_file(path):
            policy = tlog.WitnessPolicy.parse(path.read_bytes())
            if key not in policy.log_keys:
                logs = (tlog.KnownLog(key), *policy.logs)
                write_durably(path, replace(policy, logs=logs).encode())

    def _change_project(self, pending: "ProjectEpoch", origin: str) -> None:
        """Record the epoch or key that is about to be used, beside the one in use."""
        from forum.stores.project_registry import Project, ProjectEpoch

        place, project = self._project.place, self._project.registry.find(self._project.place)
        lost = None
        if project is None:
            lost = self._project.registry.find_with_lost_key(place)
            epochs = (
                lost.epochs
                if lost
                else (ProjectEpoch(origin, (str(self._project.key.verifier()),)),)
            )
            project = Project(place.path, place.database, place.key_file, epochs)
        self._project.registry.save(replace_struct(project, pending=pending))
        if lost is not None:
            self._project.registry.forget(lost)  # its history continues under the new location

    def _complete_project(self) -> None:
        """Record that the pending epoch or key is now in use."""
        project = self._project.registry.find(self._project.place)
        if project is not None:
            self._project.registry.save(project.complete_pending())

    def _prepare_write_keys(self, origin: str) -> WriteKeys:
        """Return the write keys of the next epoch, in a file beside those in use.

        After an earlier attempt that crashed, the new log already holds entries tagged with them,
        so the same keys must be used again.
        """
        from forum.stores.state_files import read_write_keys, write_write_keys

        path = clock_ids_and_kinds.pending_write_keys_path(self._project.settings.write_key_file)
        keys = read_write_keys(path) if path.exists() else None
        if keys is None or keys.origin != origin:
            keys = WriteKeys(origin, (WriteKey(os.urandom(32)),), 0)
            write_write_keys(path, keys)
        return keys


def _draft_epoch(old: tlog.SigningKey | None, held: tlog.Checkpoint, reason: str) -> Draft:
    """Return the entry that says why an epoch begins, and what it has of the log before it."""
    facts = kinds.LogEpochFacts(
        kinds.EpochKey.KEPT if old else kinds.EpochKey.NEW,
        held.size,
        held.root.hex() if held.size else "",
    )
    bodies = (Attachment("reason", text_content(reason), "text/plain"),) if reason else ()
    return Draft(
        step="log/epoch", actor=clock_ids_and_kinds.OPERATOR, facts=facts, parents=(), bodies=bodies
    )


def _count_unsigned(reader: EntryReader | None, held: tlog.Checkpoint) -> int:
    """Return how many entries of an ended log no signed tree has."""
    if reader is None:
        return 0
    waiting = sum(1 for _ in reader.unsequenced_rows())
    return waiting + max(0, reader.head().size - held.size)


def _may_be_recorded(following: EntryReader, error: BaseException) -> bool:
    """Return whether the next epoch may have an entry, which says how the log before it ended."""
    if isinstance(error, errors.StoreConnectionLost):
        return True  # a commit that was sent may still succeed
    try:
        return bool(following.strands(LOG_RUN))
    except errors.ForumError:
        return True


def _find_stored(reader: TreeReader | None, origin: str) -> tlog.Checkpoint:
    """Return the largest stored checkpoint whose tree is there; that of no entries without one."""
    most: int | None = None
    while reader is not None and (note := reader.checkpoint(most)) is not None:
        checkpoint = tlog.parse_checkpoint(note)
        if checkpoint.origin == origin and has_tree(reader.read_tile, checkpoint):
            return checkpoint
        most = checkpoint.size - 1
    return tlog.Checkpoint(origin, 0, tlog.EMPTY_ROOT)
