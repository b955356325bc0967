"""The configuration of an agent as it can be checked before a run depends on it."""

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
    """The price table that is used."""
    read_usd: int | None = None
    """The price of a thousand input tokens, in nano-dollars."""
    said_usd: int | None = None
    call_usd: int | None = None
    """The price of a call, for agents that are paid by the call."""
    problem: str = ""
    """Why the agent cannot be called."""
    warning: str = ""
    """What the operator should know before using the agent."""
