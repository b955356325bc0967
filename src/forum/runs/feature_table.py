"""Packed counts of features by class, with lookup by binary search.

Counting the features of a roster takes a thousand times as long as looking up those of a request.
The table is therefore computed once and cached, and a lookup reads only the rows it needs.

    magic, classes: u32, size of each class: u32, features: u32
    key of each feature: 8 bytes of BLAKE2b, ascending; offset of its counts: u32, in that order
    counts of each feature: number of pairs: u16, then class: u16 and count: u32 for each
"""

import sys
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from struct import Struct, error, pack, unpack_from

from forum.errors import Malformed

MAGIC = b"forum-features/1"
_KEY_BYTES = 8
_COUNT = Struct(">HI")


def pack_features(counts: Sequence[Counter[str]]) -> bytes:
    """Return the packed table of these classes."""
    places: dict[str, list[bytes]] = {}
    for place, counter in enumerate(counts):
        for feature, count in counter.items():
            places.setdefault(feature, []).append(_COUNT.pack(place, count))
    rows = sorted((_key(feature), b"".join(packed)) for feature, packed in places.items())
    starts, data = [], bytearray()
    for _, packed in rows:
        starts.append(len(data))
        data += pack(">H", len(packed) // _COUNT.size) + packed
    sizes = [counter.total() for counter in counts]
    head = pack(f">I{len(sizes)}II", len(sizes), *sizes, len(rows))
    keys = b"".join(key for key, _ in rows)
    return b"".join((MAGIC, head, keys, pack(f">{len(starts)}I", *starts), data))


class FeatureTable:
    """Finds the counts of features in packed bytes."""

    def __init__(self, data: bytes) -> None:
        """Read the header of a table. Raises `Malformed` if the bytes are not a complete table."""
        self._data = data
        try:
            if not data.startswith(MAGIC):
                raise Malformed("features", "this is no table of features")
            (classes,) = unpack_from(">I", data, len(MAGIC))
            *sizes, self._features = unpack_from(f">{classes}II", data, len(MAGIC) + 4)
            keys = len(MAGIC) + 8 + 4 * classes
            self._starts = keys + _KEY_BYTES * self._features
            self._counts: int = self._starts + 4 * self._features
            self.sizes: tuple[int, ...] = tuple(sizes)
            last = self._end_of(self._features - 1) if self._features else self._counts
        except error:
            raise Malformed("features", "the table is cut off") from None
        # A truncated or extended table must not be used: lookups would return wrong counts.
        if last != len(data):
            raise Malformed("features", "the table is cut off")
        # As numbers of this machine: a search over bytes calls a function at every step, which
        # takes ten times as long.
        self._keys = array("Q", data[keys : self._starts])
        if sys.byteorder == "little":
            self._keys.byteswap()

    def find(self, feature: str) -> list[tuple[int, int]]:
        """Return (class, count) for each class that has a feature, in class order."""
        key, data = int.from_bytes(_key(feature), "big"), self._data
        row = bisect_left(self._keys, key)
        if row == self._features or self._keys[row] != key:
            return []
        (start,) = unpack_from(">I", data, self._starts + 4 * row)
        (many,) = unpack_from(">H", data, self._counts + start)
        first = self._counts + start + 2
        return [_COUNT.unpack_from(data, first + n * _COUNT.size) for n in range(many)]

    def _end_of(self, row: int) -> int:
        """Return the offset behind the counts of a row."""
        (start,) = unpack_from(">I", self._data, self._starts + 4 * row)
        (many,) = unpack_from(">H", self._data, self._counts + start)
        return self._counts + int(start) + 2 + int(many) * _COUNT.size


def _key(feature: str) -> bytes:
    return blake2b(feature.encode(errors="surrogatepass"), digest_size=_KEY_BYTES).digest()
