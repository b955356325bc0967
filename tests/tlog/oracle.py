"""RFC 6962 and the subtree draft as they are written: slow, recursive, and easy to compare.

Nothing here is shared with forum.tlog, so that a mistake would have to be made twice.
"""

from hashlib import sha256


def largest_power_of_two_below(number: int) -> int:
    """Return the k of RFC 6962 section 2.1: k < number <= 2 k."""
    k = 1
    while 2 * k < number:
        k *= 2
    return k


class Oracle:
    """The tree over a list of leaf hashes; a list of leaves D[lo:hi] is written as (lo, hi)."""

    def __init__(self, leaves: list[bytes]) -> None:
        self.leaves = leaves
        self._known: dict[tuple[int, int], bytes] = {}

    def mth(self, lo: int, hi: int) -> bytes:
        """RFC 6962 section 2.1."""
        if lo == hi:
            return sha256().digest()
        if hi - lo == 1:
            return self.leaves[lo]
        if (lo, hi) not in self._known:
            middle = lo + largest_power_of_two_below(hi - lo)
            children = self.mth(lo, middle) + self.mth(middle, hi)
            self._known[lo, hi] = sha256(b"\x01" + children).digest()
        return self._known[lo, hi]

    def path(self, index: int, lo: int, hi: int) -> list[bytes]:
        """RFC 6962 section 2.1.1, with the index counted from 0 and not from lo."""
        if hi - lo == 1:
            return []
        middle = lo + largest_power_of_two_below(hi - lo)
        if index < middle:
            return [*self.path(index, lo, middle), self.mth(middle, hi)]
        return [*self.path(index, middle, hi), self.mth(lo, middle)]

    def subproof(self, start: int, end: int, lo: int, hi: int, *, is_known: bool) -> list[bytes]:
        """Section 4 of the subtree draft, of which RFC 6962 section 2.1.2 is the case start = 0."""
        if (start, end) == (lo, hi):
            return [] if is_known else [self.mth(lo, hi)]
        middle = lo + largest_power_of_two_below(hi - lo)
        if end <= middle:
            return [*self.subproof(start, end, lo, middle, is_known=is_known), self.mth(middle, hi)]
        if middle <= start:
            return [*self.subproof(start, end, middle, hi, is_known=is_known), self.mth(lo, middle)]
        return [*self.subproof(middle, end, middle, hi, is_known=False), self.mth(lo, middle)]

    def consistency(self, old: int, new: int) -> list[bytes]:
        """RFC 6962 section 2.1.2; from the empty tree there is nothing to prove."""
        return self.subproof(0, old, 0, new, is_known=True) if old else []

    def tile(self, level: int, index: int, width: int) -> bytes:
        """C2SP tlog-tiles, section Merkle Tree."""
        span = 256**level
        first = index * 256
        hashes = [self.mth(n * span, (n + 1) * span) for n in range(first, first + width)]
        return b"".join(hashes)
