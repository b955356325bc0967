"""The claims made in a council, with their support and the attacks on them."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from forum.features.council.ballots import Ballot, StatedClaim
from forum.runs.panel import normalize_answer

MAX_ATTACKS = 3
"""How many attacks on a claim are shown: the newest ones."""


class ClaimStatus(StrEnum):
    """How a claim stands."""

    OPEN = "open"
    SUPPORTED = "supported"
    """Other seats support it, and none attacks it."""
    CONTESTED = "contested"


class CouncilClaim(msgspec.Struct, frozen=True):
    """A claim made by a seat."""

    name: str
    seat: int
    text: str
    evidence: str = ""
    answer: str = ""
    """The position that the claim was made for."""
    authors: frozenset[int] = frozenset()
    """All seats that made the claim. It can be no reason for any of them to change the answer."""
    support: frozenset[int] = frozenset()
    """The other seats that support it."""
    attacks: tuple[tuple[int, str], ...] = ()
    """(seat, reason) of each attack.

    A seat appears here at most once, and then not in `support`.
    """

    @property
    def status(self) -> ClaimStatus:
        """Contested if attacked, else supported if another seat supports it, else open."""
        if self.attacks:
            return ClaimStatus.CONTESTED
        return ClaimStatus.SUPPORTED if self.support else ClaimStatus.OPEN


class ShownClaim(msgspec.Struct, frozen=True, omit_defaults=True):
    """A claim as it is shown to other seats, without its author."""

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
    """Name of each claim by its normalized text."""

    def add_ballots(
        self,
        ballots: Mapping[int, Ballot],
        seed: str,
        position: Callable[[str], str] = normalize_answer,
    ) -> int:
        """Add the ballots of a round and return the number of new claims.

        Repeating a claim of another seat supports it. A seat's last statement about a claim
        replaces its earlier ones.
        """
        before = len(self.claims)
        # The numbering of claims is visible to readers and must not reveal the seats.
        shuffled = shuffle_by_seed(ballots, seed, "claims")
        for seat in shuffled:
            for stated in ballots[seat].claims:
                self._add_claim(seat, stated, position(ballots[seat].answer))
        for seat in shuffled:
            for name in ballots[seat].supports:
                self._add_support(seat, name)
            for attack in ballots[seat].attacks:
                self._add_attack(seat, attack.claim, attack.why)
        return len(self.claims) - before

    def select_shown(self, counts: Mapping[str, int], most: int) -> tuple[ShownClaim, ...]:
        """Return at most `most` claims as they are shown, those of the smallest minority first.

        If there are more, each position contributes its newest claim, then its second newest, and
        so on.
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
                name=same,
                seat=seat,
                text=stated.text,
                evidence=stated.evidence,
                answer=answer,
                authors=authors,
            )
            return
        claim = self.claims[same]
        evidence, authors = claim.evidence or stated.evidence, claim.authors | {seat}
        self.claims[same] = replace(claim, evidence=evidence, authors=authors)
        self._add_support(seat, same)

    # Support and attacks show readers what the other seats think of a claim, so those of its first
    # author are ignored.
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
    return ShownClaim(
        id=claim.name,
        claim=claim.text,
        status=claim.status,
        support=support,
        evidence=claim.evidence,
        attacks=attacks,
    )


def shuffle_by_seed(items: Iterable[int], seed: str, reader: str) -> list[int]:
    """Return items in an order that no seat can choose and that differs between readers."""

    def key(item: int) -> bytes:
        return sha256(f"{seed}/{reader}/{item}".encode()).digest()

    return sorted(items, key=key)
