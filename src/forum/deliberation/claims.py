"""The claims that were made in a council, and what the others made of them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from forum.deliberation.ballots import Ballot, Stated
from forum.work import position

MOST_ATTACKS = 3
"""How many of the attacks on a claim are shown, the newest."""


class Status(StrEnum):
    """How a claim stands."""

    OPEN = "open"
    SUPPORTED = "supported"
    """Others rest on it, too, and nobody attacks it."""
    CONTESTED = "contested"


class Claim(msgspec.Struct, frozen=True):
    """Something that a seat has claimed."""

    name: str
    seat: int
    text: str
    evidence: str = ""
    answer: str = ""
    """The position that it was made for."""
    authors: frozenset[int] = frozenset()
    """Who has made it, in whatever order: to none of them is it news."""
    support: frozenset[int] = frozenset()
    """Who else rests on it."""
    attacks: tuple[tuple[int, str], ...] = ()
    """Who attacks it, and why: nobody stands here twice, nor among its support."""

    @property
    def status(self) -> Status:
        """How it stands."""
        if self.attacks:
            return Status.CONTESTED
        return Status.SUPPORTED if self.support else Status.OPEN


class Shown(msgspec.Struct, frozen=True, omit_defaults=True):
    """A claim as others are shown it: who made it is not said."""

    id: str
    claim: str
    status: Status
    support: int
    evidence: str = ""
    attacks: tuple[str, ...] = ()


class ClaimLedger(msgspec.Struct):
    """All claims of a session, in the order in which they were revealed."""

    claims: dict[str, Claim] = {}
    names: dict[str, str] = {}
    """Of each claim, by what it says."""

    def take(self, ballots: Mapping[int, Ballot], seed: str) -> int:
        """Take in the ballots of a round, and return how many claims were new.

        The same claim made again is support for it.  What a seat has said last of a claim holds.
        """
        known = len(self.claims)
        # No order that readers see may tell who sits where.
        order = shuffled(ballots, seed, "claims")
        for seat in order:
            for stated in ballots[seat].claims:
                self._state(seat, stated, position(ballots[seat].answer))
        for seat in order:
            for name in ballots[seat].supports:
                self._support(seat, name)
            for attack in ballots[seat].attacks:
                self._attack(seat, attack.claim, attack.why)
        return len(self.claims) - known

    def shown(self, counts: Mapping[str, int], most: int) -> tuple[Shown, ...]:
        """Return the claims as they are shown, those of the smallest minority first.

        Where there are too many, every position has its turn, with its newest claims.
        """
        ages: Counter[str] = Counter()
        turns: dict[str, int] = {}
        for claim in reversed(self.claims.values()):
            turns[claim.name] = ages[claim.answer]
            ages[claim.answer] += 1

        def size(claim: Claim) -> int:
            return counts.get(claim.answer, sum(counts.values()) + 1)

        chosen = sorted(self.claims.values(), key=lambda c: (turns[c.name], size(c)))[:most]
        names = {claim.name for claim in chosen}
        listed = sorted((c for c in self.claims.values() if c.name in names), key=size)
        return tuple(_shown(claim) for claim in listed)

    def _state(self, seat: int, stated: Stated, answer: str) -> None:
        same = self.names.setdefault(position(stated.text), f"c{len(self.claims) + 1}")
        if same not in self.claims:
            authors = frozenset({seat})
            self.claims[same] = Claim(same, seat, stated.text, stated.evidence, answer, authors)
            return
        claim = self.claims[same]
        evidence, authors = claim.evidence or stated.evidence, claim.authors | {seat}
        self.claims[same] = replace(claim, evidence=evidence, authors=authors)
        self._support(seat, same)

    def _support(self, seat: int, name: str) -> None:
        claim = self.claims[name]
        if claim.seat != seat:
            support = claim.support | {seat}
            self.claims[name] = replace(claim, support=support, attacks=_without(seat, claim))

    def _attack(self, seat: int, name: str, why: str) -> None:
        claim = self.claims[name]
        if claim.seat != seat:
            attacks = (*_without(seat, claim), (seat, why))
            self.claims[name] = replace(claim, support=claim.support - {seat}, attacks=attacks)


def _without(seat: int, claim: Claim) -> tuple[tuple[int, str], ...]:
    return tuple(attack for attack in claim.attacks if attack[0] != seat)


def _shown(claim: Claim) -> Shown:
    attacks = tuple(why for _, why in claim.attacks[-MOST_ATTACKS:])
    support = len(claim.support)
    return Shown(claim.name, claim.text, claim.status, support, claim.evidence, attacks)


def shuffled(items: Iterable[int], seed: str, reader: str) -> list[int]:
    """Return items in an order that nobody could choose, another one for each reader."""

    def key(item: int) -> bytes:
        return sha256(f"{seed}/{reader}/{item}".encode()).digest()

    return sorted(items, key=key)
