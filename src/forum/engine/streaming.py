"""Stream the output of a model call while it is produced, with secrets masked.

The stream is not recorded and may lose data.  Replies are recorded separately, and nothing here
changes them.
"""

import asyncio
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from forum.engine.ports import DeltaCallback, DeltaSink, ModelCall
from forum.ledger.secret_mask import SecretMask

MAX_STREAMED_BYTES_PER_S = 1 << 16
"""The number of bytes per second streamed from one call; the rest is in its reply only."""

_utf8_decoder = getincrementaldecoder("utf-8")


class RedactingStream:
    """Forwards a text with its secrets masked, even where a secret spans several pieces.

    Text that may be the beginning of a secret is held back until more is known.
    """

    def __init__(self, mask: SecretMask, hear: DeltaCallback) -> None:
        self._on_delta, self._decoder = hear, _utf8_decoder(errors="replace")
        self._given: deque[bytes | None] = deque(maxlen=1)
        self._hidden = mask.mask_chunks(iter(self._given.popleft, None))

    def __call__(self, text: str) -> None:
        """Mask a piece, and forward what cannot be part of a secret."""
        self._redact(text.encode(errors="replace"))

    def flush(self) -> None:
        """Forward what was held back, at the end of the text."""
        self._redact(None)

    def _redact(self, piece: bytes | None) -> None:
        # The mask yields one piece for each that it reads, and one more when the iterator ends, so
        # one `next` per call never makes it read from an empty deque.
        self._given.append(piece)
        text = self._decoder.decode(next(self._hidden, b""), final=piece is None)
        if text:
            self._on_delta(text)


class ThrottledStream:
    """Forwards at most `MAX_STREAMED_BYTES_PER_S` in each second, and drops the rest."""

    def __init__(self, hear: DeltaCallback, clock: Callable[[], float]) -> None:
        self._on_delta, self._clock = hear, clock
        self._second, self._room = -1, 0

    def __call__(self, text: str) -> None:
        """Forward a piece, or the part of it that fits into the current second."""
        second = int(self._clock())
        if second != self._second:
            self._second, self._room = second, MAX_STREAMED_BYTES_PER_S
        if self._room <= 0:
            return
        data = text.encode()
        part = data[: self._room].decode(errors="ignore")
        self._room -= len(data)
        if part:
            self._on_delta(part)


@contextmanager
def stream_reply(
    call: ModelCall, delta_sink: DeltaSink | None, mask: SecretMask
) -> Iterator[ModelCall]:
    """Yield the call with a callback that streams its output to the sink, if there is one."""
    if delta_sink is None:
        yield call
        return
    say = partial(delta_sink.publish, call.run, call.task, call.step)
    # Mask before throttling: a secret that is cut by the throttle would not be recognized.
    veiled = RedactingStream(mask, ThrottledStream(say, asyncio.get_running_loop().time))
    try:
        yield replace(call, hear=veiled)
    finally:
        veiled.flush()
