"""The claims that were made in a council, and what the others made of them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from forum.deliberation.ballots import Ballot, StatedClaim
from forum.work import normalize_answer

MAX_ATTACKS = 3
"""How many of the attacks on a claim are shown, the newest."""


class ClaimStatus(StrEnum):
    """How a claim stands."""

    OPEN = "open"
    SUPPORTED = "supported"
    """Others rest on it, too, and nobody attacks it."""
    CONTESTED = "contested"


class CouncilClaim(msgspec.Struct, frozen=True):
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
    def status(self) -> ClaimStatus:
        """How it stands."""
        if self.attacks:
            return ClaimStatus.CONTESTED
        return ClaimStatus.SUPPORTED if self.support else ClaimStatus.OPEN


class ShownClaim(msgspec.Struct, frozen=True, omit_defaults=True):
    """A claim as others are shown it: who made it is not said."""

    id: str
    claim: str
    status: ClaimStatus
    support: int
    evidence: str = ""
    attacks: tuple[str, ...] = ()


class ClaimRegister(msgspec.Struct):
    """All claims of a session, in the order in which they were revealed."""

    claims: dict[str, CouncilClaim] = {}
    names: dict[str, str] = {}
    """Of each claim, by what it says."""

    def add_ballots(self, ballots: Mapping[int, Ballot], seed: str) -> int:
        """Take in the ballots of a round, and return how many claims were new.

        The same claim made again is support for it.  What a seat has said last of a claim holds.
        """
        known = len(self.claims)
        # No order that readers see may tell who sits where.
        order = shuffle_by_seed(ballots, seed, "claims")
        for seat in order:
            for stated in ballots[seat].claims:
                self._add_claim(seat, stated, normalize_answer(ballots[seat].answer))
        for seat in order:
            for name in ballots[seat].supports:
                self._add_support(seat, name)
            for attack in ballots[seat].attacks:
                self._add_attack(seat, attack.claim, attack.why)
        return len(self.claims) - known

    def select_shown(self, counts: Mapping[str, int], most: int) -> tuple[ShownClaim, ...]:
        """Return the claims as they are shown, those of the smallest minority first.

        Where there are too many, every position has its turn, with its newest claims.
        """
        ages: Counter[str] = Counter()
        turns: dict[str, int] = {}
        for claim in reversed(self.claims.values()):
            turns[claim.name] = ages[claim.answer]
            ages[claim.answer] += 1

        def size(claim: CouncilClaim) -> int:
            return counts.get(claim.answer, sum(counts.values()) + 1)

        chosen = sorted(self.claims.values(), key=lambda c: (turns[c.name], size(c)))[:most]
        names = {claim.name for claim in chosen}
        listed = sorted((c for c in self.claims.values() if c.name in names), key=size)
        return tuple(_shown(claim) for claim in listed)

    def _add_claim(self, seat: int, stated: StatedClaim, answer: str) -> None:
        same = self.names.setdefault(normalize_answer(stated.text), f"c{len(self.claims) + 1}")
        if same not in self.claims:
            authors = frozenset({seat})
            self.claims[same] = CouncilClaim(
                same, seat, stated.text, stated.evidence, answer, authors
            )
            return
        claim = self.claims[same]
        evidence, authors = claim.evidence or stated.evidence, claim.authors | {seat}
        self.claims[same] = replace(claim, evidence=evidence, authors=authors)
        self._add_support(seat, same)

    def _add_support(self, seat: int, name: str) -> None:
        claim = self.claims[name]
        if claim.seat != seat:
            support = claim.support | {seat}
            self.claims[name] = replace(
                claim, support=support, attacks=_attacks_without(seat, claim)
            )

    def _add_attack(self, seat: int, name: str, why: str) -> None:
        claim = self.claims[name]
        if claim.seat != seat:
            attacks = (*_attacks_without(seat, claim), (seat, why))
            self.claims[name] = replace(claim, support=claim.support - {seat}, attacks=attacks)


def _attacks_without(seat: int, claim: CouncilClaim) -> tuple[tuple[int, str], ...]:
    return tuple(attack for attack in claim.attacks if attack[0] != seat)


def _shown(claim: CouncilClaim) -> ShownClaim:
    attacks = tuple(why for _, why in claim.attacks[-MAX_ATTACKS:])
    support = len(claim.support)
    return ShownClaim(claim.name, claim.text, claim.status, support, claim.evidence, attacks)


def shuffle_by_seed(items: Iterable[int], seed: str, reader: str) -> list[int]:
    """Return items in an order that nobody could choose, another one for each reader."""

    def key(item: int) -> bytes:
        return sha256(f"{seed}/{reader}/{item}".encode()).digest()

    return sorted(items, key=key)
