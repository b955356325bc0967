"""What a model says while it is still saying it: passed on without secrets, and recorded nowhere.

The record is made of replies, and nothing here changes one.  What is passed on may be lost.
"""

import asyncio
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from forum.engine.ports import DeltaCallback, DeltaSink, ModelCall
from forum.ledger import SecretMask

MAX_STREAMED_BYTES_PER_S = 1 << 16
"""How many bytes of one call are passed on in a second.  The rest is in its reply only."""

_utf8_decoder = getincrementaldecoder("utf-8")


class RedactingStream:
    """Passes a text on with marks in place of secrets, wherever its pieces were cut.

    What may still turn out to be the beginning of a secret is held back, until more is known.
    """

    def __init__(self, mask: SecretMask, hear: DeltaCallback) -> None:
        self._on_delta, self._decoder = hear, _utf8_decoder(errors="replace")
        self._given: deque[bytes | None] = deque(maxlen=1)
        self._hidden = mask.mask_chunks(iter(self._given.popleft, None))

    def __call__(self, text: str) -> None:
        """Take in a piece."""
        self._redact(text.encode(errors="replace"))

    def flush(self) -> None:
        """Pass on what was held back: nothing more will come."""
        self._redact(None)

    def _redact(self, piece: bytes | None) -> None:
        # The mask yields one piece for each that it is given, and one more at the end.
        self._given.append(piece)
        told = self._decoder.decode(next(self._hidden, b""), final=piece is None)
        if told:
            self._on_delta(told)


class ThrottledStream:
    """Passes on as much of a text as anybody can read in a second, and drops the rest."""

    def __init__(self, hear: DeltaCallback, clock: Callable[[], float]) -> None:
        self._on_delta, self._clock = hear, clock
        self._second, self._room = -1, 0

    def __call__(self, text: str) -> None:
        """Take in a piece."""
        second = int(self._clock())
        if second != self._second:
            self._second, self._room = second, MAX_STREAMED_BYTES_PER_S
        if self._room <= 0:
            return
        data = text.encode()
        told = data[: self._room].decode(errors="ignore")
        self._room -= len(data)
        if told:
            self._on_delta(told)


@contextmanager
def stream_reply(
    call: ModelCall, whispers: DeltaSink | None, mask: SecretMask
) -> Iterator[ModelCall]:
    """Return the call in a form in which it is listened to, if anybody does, until it is over."""
    if whispers is None:
        yield call
        return
    say = partial(whispers.publish, call.run, call.task, call.step)
    # First the mask: of a secret that is cut by the measure, nothing could be told any more.
    veiled = RedactingStream(mask, ThrottledStream(say, asyncio.get_running_loop().time))
    try:
        yield replace(call, hear=veiled)
    finally:
        veiled.flush()
