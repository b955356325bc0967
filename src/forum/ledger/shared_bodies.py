"""Bodies of a run in memory, with what they share held once.

They are taken one after the other and given back by name, so that the evidence of a long
conversation is gathered without holding every prompt.  The result depends only on the bodies and
their order, not on how a store keeps them.
"""

from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping

import msgspec

from forum.ledger.span_files import (
    BYTES_PER_SPAN,
    MAX_BODY_BYTES,
    MAX_LISTED_BYTES,
    Place,
    SpanFile,
)
from forum.ledger.spans import (
    MIN_SHARED_BYTES,
    ByteSpan,
    KnownBody,
    SharedBody,
    SpanList,
    resolve_chain,
    share_body,
)

_MAX_KNOWN = 8
"""How many earlier bodies of one name a body is compared with."""

_MAX_KNOWN_BYTES = 64 << 20
_MAX_OWN_SPANS = 4096
"""A body of more spans is written anew: a history in many small parts would cost its readers."""

SaltedBody = tuple[bytes, bytes]


class _RecentBodies:
    """The last bodies of each name, with which later ones are compared."""

    def __init__(self) -> None:
        self._bodies: deque[KnownBody] = deque()

    def __iter__(self) -> Iterator[KnownBody]:
        return iter(self._bodies)

    def add(self, body: KnownBody, contained: Container[int]) -> None:
        """Add a body; forget those that it contains, and the oldest if there are too many."""
        kept = [earlier for earlier in self._bodies if earlier.number not in contained]
        kept.append(body)
        same = [earlier for earlier in kept if earlier.name == body.name]
        if len(same) > _MAX_KNOWN:
            kept.remove(same[0])
        self._bodies = deque(kept)
        while sum(len(earlier.content) for earlier in self._bodies) > _MAX_KNOWN_BYTES:
            self._bodies.popleft()


class _ListedBody(msgspec.Struct, frozen=True):
    place: Place
    salt: bytes
    size: int


class GatheredBodies(Mapping[Place, SaltedBody]):
    """Salt and content of bodies, by the index of the entry and the name of the body.

    What is shared is held once, and put together when it is asked for.
    """

    def __init__(self, bodies: Iterable[tuple[Place, SaltedBody]]) -> None:
        """Take bodies in the order of their places."""
        self._whole: dict[Place, SaltedBody] = {}
        self._listed: dict[int, _ListedBody] = {}
        self._lists: dict[int, SpanList] = {}
        self._pieces: dict[int, bytes] = {}
        self._bytes = self._spans = 0
        recent = _RecentBodies()
        for number, (place, (salt, content)) in enumerate(bodies):
            self._bytes += len(content)
            shared = self._share(number, content, list(recent))
            if shared is None:
                self._whole[place] = salt, content
                continue
            self._listed[number] = _ListedBody(place, salt, len(content))
            self._lists[number] = shared.list
            self._spans += len(shared.spans)
            if shared.piece:
                self._pieces[number] = shared.piece
            body = KnownBody(number, content, shared.spans, shared.depth, name=place[1])
            recent.add(body, shared.contained)
        self._write_lone_bodies_whole()
        self._numbers = {body.place: number for number, body in self._listed.items()}

    def __getitem__(self, place: Place) -> SaltedBody:
        if place in self._whole:
            return self._whole[place]
        number = self._numbers[place]
        spans = resolve_chain(number, self._lists, {})
        parts = [self._pieces[p][offset : offset + length] for p, offset, length in spans]
        return self._listed[number].salt, b"".join(parts)

    def __iter__(self) -> Iterator[Place]:
        return iter(sorted([*self._whole, *self._numbers]))

    def __len__(self) -> int:
        return len(self._whole) + len(self._numbers)

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the files of a bundle that hold these bodies, without their salts."""
        for (index, name), (_, content) in self._whole.items():
            yield f"bodies/{index:016}/{name}", content
        ranks = {number: rank for rank, number in enumerate(self._pieces)}
        for number, rank in ranks.items():
            yield f"pieces/{rank:016}", self._pieces[number]
        for number, body in self._listed.items():
            index, name = body.place
            listed = self._span_file(self._lists[number], body.size, ranks)
            yield f"spans/{index:016}/{name}", msgspec.json.encode(listed)

    def salts(self) -> Iterator[tuple[Place, bytes]]:
        """Yield the salt of each body."""
        yield from ((place, salt) for place, (salt, _) in self._whole.items())
        yield from ((body.place, body.salt) for body in self._listed.values())

    def _share(self, number: int, content: bytes, bodies: list[KnownBody]) -> SharedBody | None:
        """Return how to hold a body; None if it gets no list.

        A reader with the usual limit must be able to follow all lists.
        """
        if not MIN_SHARED_BYTES <= len(content) <= MAX_LISTED_BYTES:
            return None
        shared = share_body(number, content, bodies)
        if len(shared.spans) > _MAX_OWN_SPANS:
            shared = share_body(number, content, ())
        most = max(MAX_BODY_BYTES, self._bytes) // BYTES_PER_SPAN
        return shared if self._spans + len(shared.spans) <= most else None

    def _write_lone_bodies_whole(self) -> None:
        """Take out the bodies that share nothing: they need neither a list nor a piece."""
        used = {
            piece
            for number, listed in self._lists.items()
            for piece in (listed.base, *(span.piece for span in listed.tail))
            if piece != number
        }
        for number, body in list(self._listed.items()):
            lone = self._lists[number].tail == (ByteSpan(number, 0, body.size),)
            if lone and number not in used:
                self._whole[body.place] = body.salt, self._pieces.pop(number)
                del self._listed[number], self._lists[number]

    def _span_file(self, listed: SpanList, size: int, ranks: Mapping[int, int]) -> SpanFile:
        """Return a list with the numbers that its pieces have in a bundle."""
        return SpanFile(
            size=size,
            base=None if listed.base is None else self._listed[listed.base].place,
            kept=listed.kept,
            spans=tuple(ByteSpan(ranks[span.piece], *span[1:]) for span in listed.tail),
        )
