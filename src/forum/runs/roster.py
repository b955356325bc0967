"""The roster: the lanes that exist, and the texts by which requests are routed to them.

A roster is a TOML file with one `[[lane]]` for each specialist, and under `[elsewhere]` examples of
messages that no lane handles. The terms, phrases and examples of a lane are all that routing knows
of it. They are data; nothing in them is executed.
"""

import re
import tomllib
from collections import Counter
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from typing import Any

import msgspec

from forum.errors import BadRoster

ELSEWHERE = "elsewhere"
"""The class of messages that no lane handles; no lane can have this name."""

_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}").fullmatch


class Tier(StrEnum):
    """How strong a model the work of a lane usually needs."""

    CHEAP = "cheap"
    CAPABLE = "capable"
    FRONTIER = "frontier"


class Lane(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A specialist: what it does, how it works, and by what a request for it is known."""

    name: str
    does: str
    group: str = ""
    tier: Tier = Tier.CAPABLE
    tools: tuple[str, ...] = ()
    instructions: str = ""
    """Instructions for the prompt of its agent."""
    terms: tuple[str, ...] = ()
    """Single words that indicate this lane."""
    phrases: tuple[str, ...] = ()
    """Short sequences of words that indicate this lane."""
    examples: tuple[str, ...] = ()
    """Complete requests, as people write them."""

    def __post_init__(self) -> None:
        if not _NAME(self.name) or self.name == ELSEWHERE:
            raise BadRoster(
                f"lane {self.name!r}",
                f"this is no name for a lane: up to 40 of a-z, 0-9 and -, a letter first, "
                f"and not {ELSEWHERE!r}",
            )
        if not self.does.strip():
            raise BadRoster(f"lane {self.name!r}", "`does` is empty: say what it is for")
        known_by = (*self.terms, *self.phrases, *self.examples)
        if not known_by:
            raise BadRoster(
                f"lane {self.name!r}",
                "it has no terms, phrases or examples: no request could be known to be its",
            )
        if not all(text.strip() for text in known_by):
            raise BadRoster(f"lane {self.name!r}", "one of its terms, phrases or examples is empty")


class ElsewhereSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Messages that no lane handles."""

    examples: tuple[str, ...] = ()


class Roster(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """All specialists, in the order in which the file has them."""

    lanes: tuple[Lane, ...] = msgspec.field(name="lane")
    elsewhere: ElsewhereSection = ElsewhereSection()

    def __post_init__(self) -> None:
        if len(self.lanes) < 2:
            raise BadRoster("lanes", f"there are {len(self.lanes)}; choosing needs two at least")
        for name, count in Counter(lane.name for lane in self.lanes).items():
            if count > 1:
                raise BadRoster(f"lane {name!r}", f"{count} lanes have this name")

    @cached_property
    def by_name(self) -> dict[str, Lane]:
        """The lanes by name."""
        return {lane.name: lane for lane in self.lanes}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the roster in one fixed form; the key of caches for this roster."""
        return sha256(msgspec.json.encode(self)).hexdigest()


def _with_lanes(table: dict[str, Any]) -> dict[str, Any]:
    """Return a roster of forum-engine, which has agents, with their lanes in the form of Forum.

    How many turns an agent has and which program answers are not the roster's to say here.
    """
    agents = table.get("agent")
    if "lane" in table or not isinstance(agents, list):
        return table
    members = {
        "name": "name",
        "does": "domain",
        "group": "category",
        "tier": "model_tier",
        "terms": "keywords",
    }
    lanes = [
        {new: agent[old] for new, old in members.items() if old in agent}
        for agent in agents
        if isinstance(agent, dict)
    ]
    return {**{name: value for name, value in table.items() if name != "agent"}, "lane": lanes}


def read_roster(data: bytes) -> Roster:
    """Return the roster in a TOML file, of Forum or of forum-engine.

    Raises `BadRoster` with the place and the reason.
    """
    try:
        table = tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        raise BadRoster(f"byte {error.start}", "this is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise BadRoster("TOML", str(error)) from None
    try:
        return msgspec.convert(_with_lanes(table), Roster)
    except msgspec.ValidationError as error:
        # An error raised by `Lane` or `Roster` itself is more specific than msgspec's.
        if isinstance(error.__cause__, BadRoster):
            raise error.__cause__ from None
        what, _, where = str(error).partition(" - at ")
        raise BadRoster(where.strip("`") or "top level", what) from None
