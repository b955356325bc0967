"""The roster: which specialists there are, and by what a request for one of them is known.

A roster is a TOML file: one `[[lane]]` for each specialist, and under `[elsewhere]` examples of
messages that are nobody's work here.  The words, phrases and examples of a lane are all that
routing knows of it; everything in them is data, and nothing in them is code.
"""

import re
import tomllib
from collections import Counter
from enum import StrEnum
from functools import cached_property
from hashlib import sha256

import msgspec

from forum.errors import BadRoster

ELSEWHERE = "elsewhere"
"""The name of what is nobody's work here; no lane can have it."""

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
    """How it works and answers, for the prompt of its agent."""
    terms: tuple[str, ...] = ()
    """Single words that point to it."""
    phrases: tuple[str, ...] = ()
    """A few words in a row that give it away."""
    examples: tuple[str, ...] = ()
    """Whole requests, as people write them."""

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
    """What is nobody's work here."""

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
        """The lanes by their names."""
        return {lane.name: lane for lane in self.lanes}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that it says, in one fixed form: what was fitted to it is kept by this."""
        return sha256(msgspec.json.encode(self)).hexdigest()


def read_roster(data: bytes) -> Roster:
    """Return the roster in a TOML file, or say what is wrong with it and where."""
    try:
        table = tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        raise BadRoster(f"byte {error.start}", "this is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise BadRoster("TOML", str(error)) from None
    try:
        return msgspec.convert(table, Roster)
    except msgspec.ValidationError as error:
        # An error of ours, raised while a lane was being made, is more to the point.
        if isinstance(error.__cause__, BadRoster):
            raise error.__cause__ from None
        what, _, where = str(error).partition(" - at ")
        raise BadRoster(where.strip("`") or "top level", what) from None
