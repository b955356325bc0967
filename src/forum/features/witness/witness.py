"""A witness: cosigns checkpoints consistent with those it cosigned before (C2SP tlog-witness).

It stores the last checkpoint of each log, and stores a new one before it releases its cosignature.
The only authentication is the log's signature on the checkpoint.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from forum import errors, tlog
from forum.ledger.ports import CheckpointStore

MAX_PROOF_LINES = 63  # the limit of C2SP tlog-witness
MAX_DIGITS = 19  # 2^63 - 1 has 19 digits
TEXT_MEDIA_TYPE = "text/plain; charset=utf-8"
SIZE_MEDIA_TYPE = "text/x.tlog.size"


@dataclass(frozen=True, slots=True)
class WitnessReply:
    """The reply of a witness: HTTP status, body and media type."""

    status: int
    body: bytes = b""
    type: str = TEXT_MEDIA_TYPE


class _RequestRejected(Exception):
    """Raised by a failed check; carries the reply to the client."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.reply = WitnessReply(status, f"{why}\n".encode())


def encode_request(old_size: int, proof: Sequence[tlog.Hash], note: bytes) -> bytes:
    """Return the body of an add-checkpoint request."""
    lines = [f"old {old_size}", *(node.base64() for node in proof), "", ""]
    return "\n".join(lines).encode() + note


def parse_request(body: bytes) -> tuple[int, tuple[tlog.Hash, ...], bytes]:
    """Return the old size, the proof and the note of an add-checkpoint request.

    Raises `Malformed` for a request not in the form that `encode_request` writes.
    """
    head, gap, note = body.partition(b"\n\n")
    try:
        first, *rest = head.decode("ascii").split("\n")
    except UnicodeDecodeError:
        raise errors.Malformed("request", "its first lines are not ASCII") from None
    if not gap or not first.startswith("old ") or len(rest) > MAX_PROOF_LINES:
        raise errors.Malformed(
            "request", "not an old size, a proof, an empty line and a checkpoint"
        )
    digits = first.removeprefix("old ")
    if not digits.isdecimal() or len(digits) > MAX_DIGITS or str(int(digits)) != digits:
        raise errors.Malformed("request", f"{digits[:MAX_DIGITS]!r} is no size")
    return int(digits), tuple(tlog.Hash.from_base64(line) for line in rest), note


@dataclass(frozen=True, slots=True)
class AuditRefusal:
    """The reason why an auditing witness does not cosign a checkpoint."""

    why: str
    passing: bool = False
    """Whether the refusal is temporary: the witness could not read the log."""


AuditCheckpoint = Callable[[tlog.Checkpoint], AuditRefusal | None]
"""Audits the content of a log up to a checkpoint; returns None if there is no finding."""


class Witness:
    """One witness: its key, the logs that it knows, and the last checkpoint of each."""

    def __init__(
        self,
        key: tlog.SigningKey,
        logs: Callable[[], Mapping[str, tuple[tlog.VerifierKey, ...]]],
        memory: Callable[[str], CheckpointStore],
        clock: Callable[[], int],
        audit: AuditCheckpoint | None = None,
    ) -> None:
        self._key, self._logs = key, logs
        self._memory, self._clock = memory, clock
        self._audit = audit

    @property
    def verifier(self) -> tlog.VerifierKey:
        """The public key of the witness."""
        return self._key.verifier()

    def add_checkpoint(self, body: bytes) -> WitnessReply:
        """Return the reply to an add-checkpoint request: a cosignature or a refusal."""
        try:
            return self._add(body)
        except _RequestRejected as refused:
            return refused.reply

    def latest_checkpoint(self, origin: str) -> bytes | None:
        """Return the last cosigned checkpoint of a log, or None if there is none."""
        return self._memory(origin).latest() if origin in self._logs() else None

    def _add(self, body: bytes) -> WitnessReply:
        old_size, proof, note, checkpoint = self._parse(body)
        self._check_signature(note, checkpoint)
        if old_size > checkpoint.size:
            raise _RequestRejected(400, "the old size is larger than the checkpoint's")
        memory = self._memory(checkpoint.origin)
        latest = memory.latest()
        past = tlog.parse_checkpoint(latest) if latest else None
        known_size = past.size if past else 0
        if old_size != known_size:
            return WitnessReply(409, f"{known_size}\n".encode(), SIZE_MEDIA_TYPE)
        self._check_growth(past, proof, checkpoint)
        # The audit reads the log, which is expensive.  It is the last check, so that only the owner
        # of the log's signing key can trigger it.
        refusal = self._audit(checkpoint) if self._audit else None
        if refusal is not None:
            raise _RequestRejected(503 if refusal.passing else 422, refusal.why)
        signature = tlog.cosign(note.text, self._key, self._clock() // 1_000_000)
        log = [s for s in note.signatures if s.name == checkpoint.origin]
        cosigned = tlog.Note(note.text, (*log, signature)).encode()
        try:
            # Store first, reply second.  In the other order, a crash in between would let the
            # witness cosign a fork of a tree that it has already cosigned.  `advance` is a
            # compare-and-swap, so of two concurrent requests only one succeeds.
            memory.advance(latest, cosigned)
        except errors.ConcurrentUpdate:
            return WitnessReply(409, f"{self._known_size(memory)}\n".encode(), SIZE_MEDIA_TYPE)
        return WitnessReply(200, f"{signature}\n".encode())

    def _parse(self, body: bytes) -> tuple[int, tuple[tlog.Hash, ...], tlog.Note, tlog.Checkpoint]:
        try:
            old_size, proof, data = parse_request(body)
            note = tlog.Note.parse(data)
        except errors.Malformed as error:
            raise _RequestRejected(400, str(error)) from None
        try:
            return old_size, proof, note, tlog.Checkpoint.parse(note.text)
        except errors.Malformed as error:
            # The protocol requires 422 for a checkpoint of the empty tree with a wrong root.
            empty = note.text.split("\n")[1:2] == ["0"]
            raise _RequestRejected(422 if empty else 400, str(error)) from None

    def _check_signature(self, note: tlog.Note, checkpoint: tlog.Checkpoint) -> None:
        keys = self._logs().get(checkpoint.origin)
        if keys is None:
            raise _RequestRejected(404, f"{checkpoint.origin} is not known here")
        try:
            tlog.verify_note(note, keys)
        except errors.SignatureRejected as error:
            raise _RequestRejected(403, str(error)) from None

    def _check_growth(
        self,
        past: tlog.Checkpoint | None,
        proof: tuple[tlog.Hash, ...],
        checkpoint: tlog.Checkpoint,
    ) -> None:
        try:
            if past is None or not past.size:
                if proof:
                    raise _RequestRejected(422, "nothing has to be proven of an empty tree")
                return
            tlog.check_consistency(
                proof, past.size, past.root, checkpoint.size, new_root=checkpoint.root
            )
        except errors.ProofRejected as error:
            raise _RequestRejected(422, str(error)) from None

    def _known_size(self, memory: CheckpointStore) -> int:
        latest = memory.latest()
        return tlog.parse_checkpoint(latest).size if latest else 0
