"""Back up a ledger while writers work, and restore it without forking its log.

A backup contains the rows of the ledger, its keys, its policy and the project file. It does not
contain the state directory, which remembers what this machine has signed, verified and cosigned
last. That memory must not be restored together with the ledger, because it is what distinguishes a
restored database from a current one.

A restored log continues only if it is consistent with every checkpoint that this machine remembers.
If it is not, entries were signed after the backup, and signing others in their place would create a
second history of the same log. Such a log is left for good, and its next epoch names the checkpoint
at which it was left.
"""

import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

from forum import __version__, errors, tlog
from forum.app import KINDS, Forum, now
from forum.config import PROJECT_FILE, Settings
from forum.installation import require_extra
from forum.ledger.ports import AuditReader, Reader, TreeHead, TreeReader
from forum.ledger.row_checks import has_tree
from forum.stores.state_files import make_private_folder, read_key, sync_path, write_durably

BACKUP_FORMAT = "forum/backup/1"
MANIFEST, DATA = "manifest.json", "data"
ROWS, LEDGER = "rows", "ledger.db"
POLICY = "policy"
_NOT_COPIED = ("ledger.db", "engine.db")
"""The ledger is copied in another way; the queues are not needed by any worker."""
_CHUNK_BYTES = 1 << 20


class BackupFile(Struct, frozen=True):
    """A file of a backup."""

    path: str
    size: int
    sha256: str


class BackupManifest(Struct, frozen=True, kw_only=True):
    """The manifest of a backup."""

    v: str
    release: str
    made: int
    """When the backup was begun, in microseconds since 1970."""
    origin: str
    key: str
    """The name of the file with the signing key."""
    size: int
    root: str
    """The root of the tree at `size`; the last signed checkpoint may be smaller."""
    signed: int
    """The size of the newest signed checkpoint."""
    tables: Mapping[str, list[str]] = {}
    """The columns of each table, in a backup of Postgres."""
    files: tuple[BackupFile, ...] = ()


class RestoreResult(Struct, frozen=True, kw_only=True):
    """The result of a restoration."""

    origin: str
    size: int
    remembered: int
    """The size of the largest checkpoint that this machine remembers."""
    lost: int
    """How many entries of that checkpoint the backup lacks."""
    continued: bool
    """Whether the backup is consistent with every remembered checkpoint."""
    epoch: str = ""
    """The log that continues this one, if this one was left."""


class _LedgerCopy(Struct, frozen=True):
    """The head, checkpoint and columns of a copied ledger."""

    head: TreeHead
    note: bytes | None
    tables: Mapping[str, list[str]] = {}


def create_backup(forum: Forum, target: Path) -> BackupManifest:
    """Write a backup of a ledger into a new folder, and return its manifest.

    Raises `TamperDetected` for an old or emptied database: a backup of one would replace a better.
    """
    started, key = now(), forum.key  # read before the folder is created, because it may raise
    seen = forum.remembered_trees()
    target.mkdir(mode=0o700, parents=True, exist_ok=False)

    def check(reader: Reader) -> None:
        forum.check_continues(reader, seen)
        _check_tree(reader)

    copied = _copy_ledger(forum.settings, key.name, target, check)
    _copy_files(forum, target)
    manifest = BackupManifest(
        v=BACKUP_FORMAT,
        release=__version__,
        made=started,
        origin=key.name,
        key=forum.settings.key_file.name,
        size=copied.head.size,
        root=copied.head.root.hex(),
        signed=tlog.parse_checkpoint(copied.note).size if copied.note else 0,
        tables=copied.tables,
        files=tuple(_describe_file(target, path) for path in _files_in(target)),
    )
    for path in _files_in(target):
        sync_path(path)
    # The manifest is written last: a backup without one is incomplete.
    write_durably(target / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1))
    return manifest


def read_backup(source: Path) -> BackupManifest:
    """Read the manifest of a backup, and check every file against it. Raises `BackupRejected`."""
    path = source / MANIFEST
    if not path.is_file():
        raise errors.BackupRejected(
            f"{source} has no {MANIFEST}: it is no backup, or was not finished"
        )
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=BackupManifest)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise errors.BackupRejected(f"{path} cannot be read: {error}") from None
    if manifest.v != BACKUP_FORMAT:
        raise errors.BackupRejected(
            f"it is of the form {manifest.v[:40]!r}; this release reads {BACKUP_FORMAT}"
        )
    named = {file.path: file for file in manifest.files}
    there = {path.relative_to(source).as_posix() for path in _files_in(source)} - {MANIFEST}
    # A file that is not in the manifest is refused too: otherwise it would be restored unchecked.
    for name in sorted(named.keys() ^ there):
        raise errors.BackupRejected(
            f"{name} is {'missing' if name in named else 'not in its manifest'}"
        )
    for name, file in named.items():
        if _describe_file(source, source / name) != file:
            raise errors.BackupRejected(f"{name} is not the file that was backed up")
    return manifest


def restore_backup(
    settings: Settings, source: Path, *, epoch: bool = False, resume: bool = False
) -> RestoreResult:
    """Restore a backup where there is no ledger, then continue its log or begin the next epoch.

    `epoch` leaves the log if it cannot continue. `resume` lets it continue although this machine
    remembers nothing of it; the operator thereby asserts that nothing was signed after the backup.
    Raises `BackupRejected` and `RestoreRefused`; nothing has changed then.
    """
    manifest = read_backup(source)
    _check_absent(settings)
    with Forum(settings) as forum:
        forum.key = read_key(source / DATA / manifest.key)
        if forum.key.name != manifest.origin:
            raise errors.BackupRejected(
                f"its key is that of {forum.key.name}, not of {manifest.origin}"
            )
        memories = forum.remembered_checkpoints()
        # On Postgres the rows are committed when this block succeeds, and rolled back when it
        # raises.
        with _open_backup(settings, source, manifest) as reader:
            _check_ledger(reader, forum.key.verifier(), source, manifest)
            result = _compare_with_memory(reader, memories, manifest)
            goes_on = result.continued and (bool(memories) or resume)
            if not goes_on and not epoch:
                raise _restore_refusal(result, has_memory=bool(memories))
            note = reader.checkpoint()
        _place_files(forum, source, manifest)
        if not goes_on:
            new_epoch = forum.keys.new_epoch("restored from a backup")
            return msgspec.structs.replace(result, epoch=new_epoch.origin)
        if note and not memories:
            forum.log.remember_signed(note)
        forum.keys.initialise()
        forum.log.publish()
        return result


def write_project_file(source: Path, folder: Path) -> bool:
    """Write the project file of a backup into a folder without one; return whether it did."""
    saved, target = source / PROJECT_FILE, folder / PROJECT_FILE
    if target.exists() or not saved.is_file():
        return False
    target.write_bytes(saved.read_bytes())
    return True


def _check_tree(reader: AuditReader) -> None:
    """Raise `TamperDetected` if a database lacks entries or the tree of its head.

    This is no verification: entries are counted, and not read.
    """
    head = reader.head()
    if reader.count_entries() < head.size or not has_tree(reader.read_tile, head):
        why = (
            f"it lacks some of its {head.size} entries, or their tree; put the newer database back"
        )
        raise errors.TamperDetected(f"the log {reader.origin}", why)


def _copy_ledger(
    settings: Settings, origin: str, target: Path, check: Callable[[Reader], None]
) -> _LedgerCopy:
    """Copy the rows of a log with all of its epochs, as one consistent snapshot."""
    if settings.database:
        with require_extra("postgres"):
            from forum.stores.postgres_backup import copy_rows

        (target / ROWS).mkdir(mode=0o700)
        base = origin.partition("/epoch-")[0]
        with copy_rows(settings.database, base, origin, target / ROWS) as (reader, tables):
            check(reader)
            return _LedgerCopy(reader.head(), reader.checkpoint(), tables)
    from forum.stores.sqlite import copy_ledger, open_copy

    copy_ledger(settings.ledger_file, target / LEDGER)
    with open_copy(target / LEDGER, origin) as reader:
        check(reader)
        return _LedgerCopy(reader.head(), reader.checkpoint())


def _copy_files(forum: Forum, target: Path) -> None:
    """Copy keys, policy and project file, readable by their owner only."""
    settings = forum.settings
    (target / DATA).mkdir(mode=0o700)
    beside = sorted(settings.data.iterdir()) if settings.data.is_dir() else []
    for path in dict.fromkeys((*beside, settings.key_file)):
        skip = path.name.startswith((*_NOT_COPIED, ".")) or path.name.endswith((".lock", ".new"))
        if path.is_file() and not skip:
            write_durably(target / DATA / path.name, path.read_bytes())
    write_durably(target / POLICY, forum.policy.encode())
    if settings.file is not None:
        write_durably(target / PROJECT_FILE, settings.file.read_bytes())


def _files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _describe_file(folder: Path, path: Path) -> BackupFile:
    digest, size = sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(_CHUNK_BYTES):
            digest.update(piece)
            size += len(piece)
    return BackupFile(path.relative_to(folder).as_posix(), size, digest.hexdigest())


def _check_absent(settings: Settings) -> None:
    """Refuse to overwrite a ledger: it may be newer than the backup."""
    for path in (settings.key_file, settings.ledger_file):
        if path.exists():
            raise errors.BackupRejected(f"there is a ledger here already: move {path} away first")


def _open_backup(
    settings: Settings, source: Path, manifest: BackupManifest
) -> AbstractContextManager[Reader]:
    if not manifest.tables:
        if settings.database:
            raise errors.BackupRejected(
                "it is of a ledger file, and a Postgres database is configured"
            )
        from forum.stores.sqlite import open_copy

        return open_copy(source / LEDGER, manifest.origin)
    if not settings.database:
        raise errors.BackupRejected("it is of a Postgres database: set FORUM_DATABASE_URL first")
    with require_extra("postgres"):
        from forum.stores.postgres_backup import restore_rows

    return restore_rows(settings.database, manifest.origin, source / ROWS, manifest.tables)


def _check_ledger(
    reader: Reader, key: tlog.VerifierKey, source: Path, manifest: BackupManifest
) -> None:
    """Verify the log of a backup as of the time of the backup. Raises `BackupRejected`."""
    from forum.ledger.archive import ArchiveLookup
    from forum.stores.archive_stores import ArchiveReader
    from forum.verify import Problem, State, Trust, verify_ledger

    trust = Trust(keys=(key,), policy=tlog.WitnessPolicy.parse((source / POLICY).read_bytes()))
    reader.archive = ArchiveLookup(reader, KINDS, ArchiveReader().fetch)
    report = verify_ledger(reader, KINDS, trust, manifest.made)
    # Quarantined rows are in no tree; they are no reason to reject the rest.
    findings = [f for f in report.findings if f.problem is not Problem.ROW_QUARANTINED]
    for answer in (report.intact, report.complete):
        if answer.state is State.NOT_CHECKED or (answer.state is State.FAILS and findings):
            raise errors.BackupRejected(f"its ledger does not verify: {answer.reason}")
    head = reader.head()
    if (head.size, head.root.hex()) != (manifest.size, manifest.root):
        raise errors.BackupRejected("its ledger is not the one that its manifest names")


def _compare_with_memory(
    reader: TreeReader, memories: tuple[bytes, ...], manifest: BackupManifest
) -> RestoreResult:
    """Compare the tree of a backup with every checkpoint that this machine remembers."""
    head = reader.head()
    checkpoints = [tlog.parse_checkpoint(note) for note in memories]
    largest = max((checkpoint.size for checkpoint in checkpoints), default=0)
    return RestoreResult(
        origin=manifest.origin,
        size=head.size,
        remembered=largest,
        lost=max(0, largest - head.size),
        continued=all(_is_continued(reader, head, checkpoint) for checkpoint in checkpoints),
    )


def _is_continued(reader: TreeReader, head: TreeHead, checkpoint: tlog.Checkpoint) -> bool:
    """Tell whether a tree is an append-only extension of a checkpoint."""
    if not checkpoint.size:
        return True
    if checkpoint.size > head.size:
        return False
    try:
        proof = tlog.prove_consistency(tlog.TreeView(head.size, reader.read_tile), checkpoint.size)
        tlog.check_consistency(
            proof, checkpoint.size, checkpoint.root, head.size, new_root=head.root
        )
    except (errors.ProofRejected, errors.Malformed):
        return False
    return True


def _restore_refusal(result: RestoreResult, *, has_memory: bool) -> errors.RestoreRefused:
    if not has_memory:
        why = (
            "this machine remembers nothing of this log, so entries may have been signed after "
            "the backup. Bring back the state directory of the machine that signed; or begin a "
            "new epoch with --epoch; or, if you know that nothing was signed after the backup, "
            "go on with --resume"
        )
    elif result.lost:
        why = (
            f"a checkpoint of size {result.remembered} was signed or seen here. To go on would "
            f"fork the log, and {result.lost} entries that were recorded after the backup are not "
            "in it. Restore a newer backup, or begin a new epoch with --epoch"
        )
    else:
        why = (
            "this machine remembers another history of this log. Restore a backup of that one, or "
            "begin a new epoch with --epoch"
        )
    return errors.RestoreRefused(result.origin, result.size, why)


def _place_files(forum: Forum, source: Path, manifest: BackupManifest) -> None:
    """Put ledger, policy and keys in their places; the signing key is written last.

    Without it no command treats the folder as a ledger.
    """
    settings = forum.settings
    make_private_folder(settings.data)
    write_durably(settings.data / ".gitignore", b"*\n")
    if not manifest.tables:
        draft = settings.ledger_file.with_name(f"{LEDGER}.restoring")
        # Created with private permissions before the content is copied, and renamed when it is
        # durable: a crash leaves no partial ledger under the final name.
        draft.touch(mode=0o600)
        shutil.copyfile(source / LEDGER, draft)
        sync_path(draft)
        draft.replace(settings.ledger_file)
    _place_policy(forum, source)
    saved = sorted((source / DATA).iterdir(), key=lambda path: path.name == manifest.key)
    for path in saved:
        target = settings.key_file if path.name == manifest.key else settings.data / path.name
        make_private_folder(target.parent)
        write_durably(target, path.read_bytes())


def _place_policy(forum: Forum, source: Path) -> None:
    """Restore the policy, unless it requires the local witness of another machine."""
    from forum.tlog import is_local_witness

    data = (source / POLICY).read_bytes()
    keys = [witness.key for witness in tlog.WitnessPolicy.parse(data).witnesses]
    local = [key for key in keys if is_local_witness(key.name)]
    if not forum.policy_file.exists() and all(key == forum.witnesses.own_key for key in local):
        make_private_folder(forum.policy_file.parent)
        write_durably(forum.policy_file, data)
