"""A witness: cosigns checkpoints that continue what it has seen before (C2SP tlog-witness).

It remembers one checkpoint for each log, and remembers a new one before it lets anybody see its
cosignature.  There is no authentication but the log's own signature on the checkpoint.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from forum.errors import ConcurrentUpdate, Malformed, ProofRejected, SignatureRejected
from forum.ledger import CheckpointStore
from forum.tlog import (
    Checkpoint,
    Hash,
    Note,
    SigningKey,
    VerifierKey,
    check_consistency,
    cosign,
    parse_checkpoint,
    verify_note,
)

MAX_PROOF_LINES = 63
MAX_DIGITS = 19
TEXT_MEDIA_TYPE = "text/plain; charset=utf-8"
SIZE_MEDIA_TYPE = "text/x.tlog.size"


@dataclass(frozen=True, slots=True)
class WitnessReply:
    """What a witness answers, in the terms of HTTP."""

    status: int
    body: bytes = b""
    type: str = TEXT_MEDIA_TYPE


class _RequestRejected(Exception):
    """Carries the reply out of the checks."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.reply = WitnessReply(status, f"{why}\n".encode())


def encode_request(old_size: int, proof: Sequence[Hash], note: bytes) -> bytes:
    """Return the body of an add-checkpoint request."""
    lines = [f"old {old_size}", *(node.base64() for node in proof), "", ""]
    return "\n".join(lines).encode() + note


def parse_request(body: bytes) -> tuple[int, tuple[Hash, ...], bytes]:
    """Return old size, proof and note of a request that is in the only form we would write."""
    head, gap, note = body.partition(b"\n\n")
    try:
        first, *rest = head.decode("ascii").split("\n")
    except UnicodeDecodeError:
        raise Malformed("request", "its first lines are not ASCII") from None
    if not gap or not first.startswith("old ") or len(rest) > MAX_PROOF_LINES:
        raise Malformed("request", "not an old size, a proof, an empty line and a checkpoint")
    digits = first.removeprefix("old ")
    if not digits.isdecimal() or len(digits) > MAX_DIGITS or str(int(digits)) != digits:
        raise Malformed("request", f"{digits[:MAX_DIGITS]!r} is no size")
    return int(digits), tuple(Hash.from_base64(line) for line in rest), note


@dataclass(frozen=True, slots=True)
class AuditRefusal:
    """Why an auditing witness does not cosign a checkpoint."""

    why: str
    passing: bool = False
    """Whether it could not read the log, and may be asked again."""


AuditCheckpoint = Callable[[Checkpoint], AuditRefusal | None]
"""Checks the content of a log up to a checkpoint; nothing is refused where nothing was found."""


class Witness:
    """One witness with its key, the logs it knows, and what it remembers of each."""

    def __init__(
        self,
        key: SigningKey,
        logs: Callable[[], Mapping[str, tuple[VerifierKey, ...]]],
        memory: Callable[[str], CheckpointStore],
        clock: Callable[[], int],
        audit: AuditCheckpoint | None = None,
    ) -> None:
        self._key, self._logs, self._memory, self._clock = key, logs, memory, clock
        self._audit = audit

    @property
    def verifier(self) -> VerifierKey:
        """The public half of its key."""
        return self._key.verifier()

    def add_checkpoint(self, body: bytes) -> WitnessReply:
        """Cosign a checkpoint, or say why not."""
        try:
            return self._add(body)
        except _RequestRejected as refused:
            return refused.reply

    def latest_checkpoint(self, origin: str) -> bytes | None:
        """Return the last cosigned checkpoint of a log."""
        return self._memory(origin).latest() if origin in self._logs() else None

    def _add(self, body: bytes) -> WitnessReply:
        old_size, proof, note, checkpoint = self._parse(body)
        self._check_signature(note, checkpoint)
        if old_size > checkpoint.size:
            raise _RequestRejected(400, "the old size is larger than the checkpoint's")
        memory = self._memory(checkpoint.origin)
        latest = memory.latest()
        past = parse_checkpoint(latest) if latest else None
        known = past.size if past else 0
        if old_size != known:
            return WitnessReply(409, f"{known}\n".encode(), SIZE_MEDIA_TYPE)
        self._check_growth(past, proof, checkpoint)
        # Last of the checks, for it reads the log: only its owner can make a witness do that.
        refusal = self._audit(checkpoint) if self._audit else None
        if refusal is not None:
            raise _RequestRejected(503 if refusal.passing else 422, refusal.why)
        signature = cosign(note.text, self._key, self._clock() // 1_000_000)
        log = [s for s in note.signatures if s.name == checkpoint.origin]
        kept = Note(note.text, (*log, signature)).encode()
        try:
            # Remember first, answer second: whoever has our cosignature can rely on our memory.
            # The memory compares and replaces at once, so two requests cannot pass each other.
            memory.advance(latest, kept)
        except ConcurrentUpdate:
            return WitnessReply(409, f"{self._known_size(memory)}\n".encode(), SIZE_MEDIA_TYPE)
        return WitnessReply(200, f"{signature}\n".encode())

    def _parse(self, body: bytes) -> tuple[int, tuple[Hash, ...], Note, Checkpoint]:
        try:
            old_size, proof, data = parse_request(body)
            note = Note.parse(data)
        except Malformed as error:
            raise _RequestRejected(400, str(error)) from None
        try:
            return old_size, proof, note, Checkpoint.parse(note.text)
        except Malformed as error:
            # The empty tree has one root; the protocol wants a wrong one named unprocessable.
            empty = note.text.split("\n")[1:2] == ["0"]
            raise _RequestRejected(422 if empty else 400, str(error)) from None

    def _check_signature(self, note: Note, checkpoint: Checkpoint) -> None:
        keys = self._logs().get(checkpoint.origin)
        if keys is None:
            raise _RequestRejected(404, f"{checkpoint.origin} is not known here")
        try:
            verify_note(note, keys)
        except SignatureRejected as error:
            raise _RequestRejected(403, str(error)) from None

    def _check_growth(
        self, past: Checkpoint | None, proof: tuple[Hash, ...], checkpoint: Checkpoint
    ) -> None:
        try:
            if past is None or not past.size:
                if proof:
                    raise _RequestRejected(422, "nothing has to be proven of an empty tree")
                return
            check_consistency(proof, past.size, past.root, checkpoint.size, checkpoint.root)
        except ProofRejected as error:
            raise _RequestRejected(422, str(error)) from None

    def _known_size(self, memory: CheckpointStore) -> int:
        latest = memory.latest()
        return parse_checkpoint(latest).size if latest else 0
