"""Functions that run a witness or an auditor of foreign logs on this machine."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from forum import tlog
from forum.app.clock_ids_and_kinds import KINDS, bind_sockets, now, origin_file_name, witness_memory
from forum.errors import ForumError, NoLedger, WitnessRefused

if TYPE_CHECKING:
    from forum.features.witness.witness import AuditCheckpoint, Witness
    from forum.stores.log_auditor import LogAuditor
    from forum.verify import (
        AuditReport,
    )


_MAX_CONNECTIONS = 500


def open_witness(
    folder: Path, name: str | None = None, auditor: "LogAuditor | None" = None
) -> "Witness":
    """Open the witness in a folder, creating its key if there is none.

    With an auditor, it cosigns only checkpoints whose audit has no findings.
    """
    from forum.features.witness.witness import Witness
    from forum.stores.state_files import lock_file, read_key, write_key
    from forum.tlog import LOCAL_WITNESS

    path = folder / "witness.key"
    if not path.exists():
        with lock_file(path):
            if not path.exists():
                name = name or f"{LOCAL_WITNESS}{os.urandom(4).hex()}"
                write_key(path, tlog.SigningKey(os.urandom(32), name, tlog.ED25519_COSIGNATURE))
    return Witness(
        key=read_key(path),
        logs=lambda: trusted_logs(folder),
        memory=lambda o: witness_memory(folder, o),
        clock=now,
        audit=audit_with(auditor) if auditor else None,
    )


def audit_with(auditor: "LogAuditor") -> "AuditCheckpoint":
    """Return the check that an auditing witness makes before it cosigns."""
    from forum.features.witness.witness import AuditRefusal

    def audit(checkpoint: tlog.Checkpoint) -> AuditRefusal | None:
        try:
            report = auditor.audit(checkpoint)
        except ForumError as error:
            return AuditRefusal(f"the log cannot be read: {error}", passing=True)
        if report.held:
            return None
        return AuditRefusal(f"{report.found} findings, the first: {report.findings[0]}")

    return audit


def open_auditor(
    folder: Path, sources: Sequence[str], report: "Callable[[AuditReport], None]"
) -> "LogAuditor":
    """Return the auditor of a witness, for logs in these projects and databases.

    Raises `NoLedger` for a folder without a ledger.
    """
    from forum.stores.log_auditor import LogAuditor
    from forum.stores.parallel_verify import LedgerAddress

    addresses = []
    for source in sources:
        if "://" in source:
            addresses.append(LedgerAddress("", database=source))
            continue
        files = [Path(source) / name for name in (".forum/ledger.db", "ledger.db")]
        ledger = next((file for file in files if file.is_file()), None)
        if ledger is None:
            raise NoLedger(source)
        addresses.append(LedgerAddress("", file=str(ledger.absolute())))
    return LogAuditor(folder, sources=addresses, kinds=KINDS, clock=now, report=report)


def serve_witness(
    witness: "Witness", folder: Path, host: str, port: int, auditor: "LogAuditor | None" = None
) -> None:
    """Serve a witness over HTTP until the process is stopped."""
    import uvicorn

    from forum.features.witness.server import build_witness_app

    app = build_witness_app(
        witness, trusted_logs(folder), auditor.latest_report if auditor else None
    )
    sockets = bind_sockets(host, port)
    config = uvicorn.Config(
        app, log_level="error", access_log=False, limit_concurrency=_MAX_CONNECTIONS
    )
    uvicorn.Server(config).run(sockets)


def trust_log(
    folder: Path,
    key: tlog.VerifierKey,
    follows: tlog.VerifierKey | None = None,
    *,
    rotated: bool = False,
    alone: bool = False,
) -> None:
    """Let a witness cosign the log with this key.

    A further key of a known log must follow a key that the witness knows; otherwise the operator
    confirms with `rotated` that the log's key was rotated. Afterwards the witness trusts the known
    keys and the new one, or with `alone` only the new one. Raises `WitnessRefused`.
    """
    from forum.stores.state_files import lock_file, write_durably

    path = folder / "logs" / f"{origin_file_name(key.name)}.vkey"
    with lock_file(path):
        keys = trusted_logs(folder).get(key.name, ())
        if keys and key not in keys and follows not in keys and not rotated:
            raise WitnessRefused(folder.name, f"it knows {key.name} by another key; see {path}")
        trusted = (key,) if alone else tuple(dict.fromkeys((*keys, key)))
        if trusted != keys:
            write_durably(path, "".join(f"{vkey}\n" for vkey in trusted).encode())


def trusted_logs(folder: Path) -> dict[str, tuple[tlog.VerifierKey, ...]]:
    """Return the logs that a witness cosigns, with their keys."""
    files = [p.read_text().split() for p in (folder / "logs").glob("*.vkey")]
    keys = [tuple(tlog.VerifierKey.parse(line) for line in lines) for lines in files if lines]
    return {log_keys[0].name: log_keys for log_keys in keys}
