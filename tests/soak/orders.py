"""What the parent tells a worker, and the names that both have for the places of a crash."""

from enum import StrEnum
from hashlib import sha256

import msgspec

from forum.tlog import ED25519_COSIGNATURE, KnownLog, KnownWitness, SigningKey, WitnessPolicy

ORIGIN = "soak.forum.test/ledger"
LOG_KEY = SigningKey(sha256(b"the log of the soak").digest(), ORIGIN)
WITNESS_KEY = SigningKey(
    sha256(b"its witness").digest(), "soak.forum.test/witness", ED25519_COSIGNATURE
)
POLICY = WitnessPolicy(
    (KnownLog(LOG_KEY.verifier()),), (KnownWitness("w", WITNESS_KEY.verifier()),), (), "w"
)

SLOTS = 5
"""How many workers there are at once in a soak."""
ROLLED_BACK = 3
"""The exit status of a worker whose signer refused the database."""


class Point(StrEnum):
    """An effect of a port: what a crash can come before or after."""

    APPEND = "append"
    WAITING = "pending_entries"
    SWAP = "advance_head"
    SAVE_CHECKPOINT = "save_checkpoint"
    ADVANCE = "guard.advance"
    COSIGN = "cosign"


class Moment(StrEnum):
    """When the trap springs."""

    BEFORE = "failed"
    AFTER = "failed but persisted"
    STOP = "stopped"
    """Before the effect, which takes place after all when the process is continued."""


class Plan(msgspec.Struct, frozen=True):
    """Where a worker ends its own life: at the k-th call of one effect."""

    point: Point
    moment: Moment
    k: int
    rest: float
    """Seconds during which calls do not count yet."""


class Role(StrEnum):
    """What a worker does for the log besides writing."""

    KEEPER = "keeper"
    """Runs the product's keeper: leads where the database allows one leader only."""
    ROGUE = "rogue"
    """Sequences and publishes without asking whether it may lead."""
    GROWER = "grower"
    """Sequences, and signs nothing."""
    WRITER = "writer"
    """Nothing."""


class Orders(msgspec.Struct, frozen=True):
    """One life of one worker."""

    database: str
    """An address of Postgres, or the path of a ledger file."""
    state: str
    """The folder of what signer and witness remember, outside the database."""
    evidence: str
    """The folder in which the worker notes down what it was told."""
    slot: int
    life: int
    role: Role
    lanes: int = 4
    plan: Plan | None = None

    @property
    def name(self) -> str:
        """The name of this life in files and entries."""
        return f"{self.slot}.{self.life}"
