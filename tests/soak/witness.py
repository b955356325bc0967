"""A witness in a file: cosigns what continues the last checkpoint that it saw."""

from collections.abc import Callable, Sequence

from forum.errors import ConcurrentUpdate, ProofRejected, WitnessRefused
from forum.ledger.ports import CheckpointStore, Clock
from forum.tlog import Checkpoint, Hash, Note, check_consistency, cosign, open_checkpoint
from tests.soak.orders import LOG_KEY, WITNESS_KEY


class FileWitness:
    """Keeps its memory outside the database, as the signer does, and apart from the signer's."""

    name = WITNESS_KEY.name

    def __init__(self, memory: CheckpointStore, clock: Clock) -> None:
        self._memory, self._clock = memory, clock

    def cosign(self, note: bytes, prove: Callable[[int, int], Sequence[Hash]]) -> str:
        """Return the cosignature line for a checkpoint that continues what was seen before."""
        checkpoint, parsed = open_checkpoint(note, [LOG_KEY.verifier()])
        last = self._memory.latest()
        if last is not None:
            self._check(Checkpoint.parse(Note.parse(last).text), checkpoint, prove)
        try:
            # Remember first: a witness that has cosigned must know it after any crash.
            self._memory.advance(last, note)
        except ConcurrentUpdate as error:
            raise WitnessRefused(self.name, str(error)) from None
        return f"{cosign(parsed.text, WITNESS_KEY, self._clock() // 1_000_000)}\n"

    def _check(
        self, seen: Checkpoint, new: Checkpoint, prove: Callable[[int, int], Sequence[Hash]]
    ) -> None:
        try:
            proof = prove(seen.size, new.size) if seen.size <= new.size else []
            check_consistency(proof, seen.size, seen.root, new.size, new_root=new.root)
        except ProofRejected as error:
            raise WitnessRefused(self.name, str(error)) from None
