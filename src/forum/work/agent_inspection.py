"""What can be told of an agent before a run depends on it."""

from enum import StrEnum

import msgspec


class KeyStatus(StrEnum):
    """Whether there is a key; what it is, is told nowhere."""

    SET = "set"
    MISSING = "missing"
    NONE = "none needed"
    PROVIDER = "where pydantic-ai looks"


class AgentInspection(msgspec.Struct, frozen=True):
    """What is known of an agent without asking it anything."""

    kind: str
    model: str
    where: str
    """The host, or the program."""
    key: KeyStatus = KeyStatus.NONE
    key_name: str = ""
    """The variable or the file that holds the key."""
    prices: str = ""
    """The table of its price."""
    read_usd: int | None = None
    """The price of a thousand tokens that it reads, in nano-dollars."""
    said_usd: int | None = None
    call_usd: int | None = None
    """The price of a call, where that is what is paid for."""
    problem: str = ""
    """Why it could not be asked."""
    warning: str = ""
    """What somebody should know who has it asked."""
