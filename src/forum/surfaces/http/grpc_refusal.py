"""Refuse clients of gRPC, which speak HTTP/2, with a status and a text that they show.

Closing the connection would not do: such a client connects again at once, without end.  So the
first call is answered with the status UNIMPLEMENTED, after which exporters do not try again.  Only
frames are read here, and no header of the request (RFC 9113, sections 3.4 and 4.1).
"""

from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HINT: Final = "this port speaks HTTP, not gRPC; set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
_MAX_BYTES: Final = 64 << 10
"""Bytes that are kept while the first call is awaited."""
_FRAME_HEAD: Final = 9
_HEADERS, _SETTINGS = 1, 4
_GOAWAY = 7
_ACK, _END_STREAM_AND_HEADERS = 1, 5
_UNIMPLEMENTED: Final = "12"


class GrpcRefusal:
    """Answers one connection of a client of gRPC."""

    def __init__(self) -> None:
        self._received = b""
        self._is_greeted = False
        self.is_over = False
        """Whether the connection is to be closed."""

    def receive(self, data: bytes) -> bytes:
        """Take what the client has sent, and return what it is to be sent."""
        self._received += data
        answer = b""
        if not self._is_greeted:
            if len(self._received) < len(PREFACE):
                return b""
            self._received = self._received[len(PREFACE) :]
            self._is_greeted = True
            # The client sends no call before it has seen our settings.
            answer = _frame(_SETTINGS)
        while (frame := self._take_frame()) is not None:
            kind, flags, stream = frame
            if kind == _SETTINGS and not flags & _ACK:
                answer += _frame(_SETTINGS, flags=_ACK)
            elif kind == _HEADERS:
                self.is_over = True
                return answer + _refuse_call(stream)
        self.is_over = len(self._received) > _MAX_BYTES
        return answer

    def _take_frame(self) -> tuple[int, int, int] | None:
        """Remove the next whole frame, and return its kind, flags and stream."""
        head = self._received[:_FRAME_HEAD]
        size = int.from_bytes(head[:3], "big")
        if len(head) < _FRAME_HEAD or len(self._received) < _FRAME_HEAD + size:
            return None
        self._received = self._received[_FRAME_HEAD + size :]
        return head[3], head[4], int.from_bytes(head[5:], "big") & 0x7FFFFFFF


def _refuse_call(stream: int) -> bytes:
    """Return the answer to a call, which has trailers only, and the end of the connection."""
    trailers = b"\x88" + b"".join(  # entry 8 of the static table: `:status: 200`
        _header(name, value)
        for name, value in (
            ("content-type", "application/grpc"),
            ("grpc-status", _UNIMPLEMENTED),
            ("grpc-message", HINT),
        )
    )
    end = stream.to_bytes(4, "big") + bytes(4)
    return (
        _frame(_HEADERS, trailers, flags=_END_STREAM_AND_HEADERS, stream=stream)
        + _frame(_GOAWAY, end)
    )  # fmt: skip


def _header(name: str, value: str) -> bytes:
    """Return a header field without indexing or compression (RFC 7541, section 6.2.2)."""
    # Both are shorter than 127 bytes, so that each length is one byte.
    return b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def _frame(kind: int, payload: bytes = b"", *, flags: int = 0, stream: int = 0) -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags])
    return head + stream.to_bytes(4, "big") + payload
