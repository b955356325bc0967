"""What can keep a process from reading, writing or signing a log, each with its remedy.

Probes, metrics, logs and `forum doctor` name the same conditions in the same words.
"""

from enum import Enum, StrEnum
from typing import NamedTuple

MAX_CLOCK_SKEW_US = 5_000_000
"""Largest tolerated difference, in microseconds, between the clocks of a process and its database:
deadlines of gates are in seconds, and a signer takes an entry for one that was left behind if it is
dated ten seconds before others."""


class Ability(StrEnum):
    """What a process can or cannot do with its log."""

    READ = "read"
    WRITE = "write"
    SIGN = "sign"


_ALL = frozenset(Ability)
_CHANGES = frozenset({Ability.WRITE, Ability.SIGN})


class StoreCondition(Enum):
    """A condition that stops some abilities: its name, what it stops, what it is, its remedy."""

    DATABASE_AWAY = (
        "database-away",
        _ALL,
        "the database does not answer",
        "Start the database, or repair the network between it and this machine",
    )
    TOO_MANY_CONNECTIONS = (
        "too-many-connections",
        _ALL,
        "the database accepts no further connection",
        "Raise max_connections of the database server, or run fewer processes",
    )
    SHARED_POOLER = (
        "shared-pooler",
        _ALL,
        "a pooler gives sessions of the database to many clients",
        "Set pool_mode = session in the pooler, or name the database server itself",
    )
    OLD_PRIMARY = (
        "old-primary",
        _ALL,
        "the server that answers was replaced by another one",
        "Stop the old primary, and name the new one in the address of the database",
    )
    DISK_FULL = (
        "disk-full",
        _CHANGES,
        "the disk of the database is full",
        "Free some space on the disk of the database",
    )
    READ_ONLY = (
        "read-only",
        _CHANGES,
        "the database is read-only",
        "Let the database be written: default_transaction_read_only, the rights of its files",
    )
    STANDBY = (
        "standby",
        _CHANGES,
        "the database is a standby, which takes no changes",
        "Name the primary in the address of the database, or promote the standby",
    )
    LOCKED = (
        "locked",
        _CHANGES,
        "another session keeps tables or the ledger's file locked",
        "End the session or process that holds the lock",
    )
    COMMITS_HANG = (
        "commits-hang",
        _CHANGES,
        "the database answers, and does not end what is written",
        "Bring its synchronous standby back, or see what its disk waits for",
    )
    DATABASE_FAILING = (
        "database-failing",
        _CHANGES,
        "the database refuses to be written",
        "See the log of the database server, then: forum doctor",
    )
    ROLLED_BACK = (
        "rolled-back",
        _CHANGES,
        "the database is older than what this process has seen of it",
        "Put the newest database back and restart, or begin a new epoch: forum ledger epoch",
    )
    EPOCH_OVER = (
        "epoch-over",
        _CHANGES,
        "the next epoch of the log has begun",
        (
            "Restart this process; on another machine, copy log.pub and write.key there before. "
            "If no later epoch is there: forum ledger epoch"
        ),
    )
    CLOCK_OFF = (
        "clock-off",
        _CHANGES,
        "the clocks of this machine and of the database are apart",
        "Set both clocks: timedatectl set-ntp true",
    )
    SIGNER_STOPPED = (
        "signer-stopped",
        _CHANGES,
        "this process signs the log, and was stopped by an error",
        "See the error in its log, repair it and restart this process",
    )
    NOT_SIGNED = (
        "not-signed",
        frozenset({Ability.SIGN}),
        "entries wait, and nobody gives them an index and a signature",
        "Start a server or worker on the machine that signs; forum doctor says who holds its lock",
    )

    def __init__(self, label: str, stops: frozenset[Ability], text: str, remedy: str) -> None:
        self.label, self.stops = label, stops
        self.text, self.remedy = text, remedy

    @property
    def sentence(self) -> str:
        """What probes say: without details of this installation, because strangers may ask."""
        stopped = " or ".join(ability for ability in Ability if ability in self.stops)
        return f"cannot {stopped}: {self.label}: {self.text}. {self.remedy}"


class Trouble(NamedTuple):
    """A condition that was found, and the error or figures that show it."""

    condition: StoreCondition
    why: str
