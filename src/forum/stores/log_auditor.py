"""An auditor of logs that this machine can read, which a witness calls before it cosigns.

The folder of the witness has two files for each log: the progress of its runs at the last
checkpoint without findings, and the last report.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from threading import Lock

import msgspec

from forum.errors import NoSuchLog
from forum.ledger.archive import ArchiveLookup
from forum.ledger.kinds import Kinds
from forum.ledger.ports import Reader
from forum.stores.archive_stores import ArchiveReader
from forum.stores.parallel_verify import LedgerAddress
from forum.stores.run_progress import open_run_progress
from forum.stores.state_files import write_durably
from forum.tlog import Checkpoint
from forum.verify import AuditReport, GrowthReport, audit_growth

_NO_TRUST = "the log's own key"


OnReport = Callable[[AuditReport], None]


class LogAuditor:
    """An auditor of logs in files or databases that checks each entry once."""

    def __init__(
        self,
        folder: Path,
        sources: Sequence[LedgerAddress],
        kinds: Kinds,
        clock: Callable[[], int],
        report: OnReport = lambda _: None,
    ) -> None:
        self._folder, self._sources = folder, sources
        self._clock = clock
        self._report, self._kinds = report, kinds
        self._lock = Lock()

    def audit(self, checkpoint: Checkpoint) -> AuditReport:
        """Check a log up to a checkpoint, and store and return the report.

        Raises `NoSuchLog`, `StoreFailed` or `ArchiveUnreachable` if the log cannot be read.
        """
        # One audit at a time: a second one for the same log reuses the result of the first.
        with self._lock, ExitStack() as stack:
            reader = self._open(checkpoint.origin, stack)
            reader.archive = ArchiveLookup(reader, self._kinds, ArchiveReader().fetch)
            state = stack.enter_context(open_run_progress(self._path(checkpoint.origin, "db")))
            now, last = self._clock(), state.last(_NO_TRUST)
            if last is not None and last.size > checkpoint.size:
                # The witness crashed after an audit and before it stored the checkpoint.  The
                # audited state is of no use for a smaller tree, so start from the beginning.
                state.replace(())
                last = None
            done = audit_growth(reader, self._kinds, checkpoint, now, last=last, state=state)
            if done.holds:
                state.commit(done.audited, _NO_TRUST)
            return self._save_report(checkpoint, done, now)

    def latest_report(self, origin: str) -> bytes | None:
        """Return the last report about a log as JSON, or None."""
        path = self._path(origin, "json")
        return path.read_bytes() if path.exists() else None

    def _open(self, origin: str, stack: ExitStack) -> Reader:
        for source in self._sources:
            try:
                return stack.enter_context(msgspec.structs.replace(source, origin=origin).open())
            except NoSuchLog:
                continue
        raise NoSuchLog(origin)

    def _save_report(self, checkpoint: Checkpoint, done: GrowthReport, now: int) -> AuditReport:
        report = AuditReport(
            schema="forum.audit/1",
            origin=checkpoint.origin,
            asked_size=checkpoint.size,
            asked_root=checkpoint.root.hex(),
            held=done.holds,
            audited_size=done.audited.size,
            entries=done.entries,
            bodies_seen=done.bodies.ok,
            bodies_redacted=done.bodies.redacted,
            findings=done.findings,
            found=done.found,
            time=now,
        )
        write_durably(self._path(checkpoint.origin, "json"), msgspec.json.encode(report))
        self._report(report)
        return report

    def _path(self, origin: str, ending: str) -> Path:
        name = sha256(origin.encode()).hexdigest()[:16]
        return self._folder / "logs" / f"{name}.audit.{ending}"
