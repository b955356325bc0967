"""Decode requests of OTLP/HTTP: protobuf or JSON, gzip or none.

Sizes are limited while a body is unpacked, because a few kilobytes of gzip can hold gigabytes.
"""

import zlib
from base64 import b64encode
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

import msgspec
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from forum.features.telemetry.intake import MAX_REQUEST_SPANS
from forum.features.telemetry.refusals import RefusedExport
from forum.features.telemetry.spans import MalformedSpan, SpanSource, is_trace_id

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
MAX_BODY_BYTES: Final = 16 << 20
"""Limit of a request when it is unpacked; a server may accept less."""
MAX_REQUEST_OBJECTS: Final = 20 * MAX_REQUEST_SPANS
"""The number of objects in a body of JSON, those of attributes included."""
_GZIP_WINDOW: Final = 31
"""The value for zlib that stands for the gzip format with the largest window."""
_HEX_MEMBERS: Final = frozenset({"traceId", "spanId", "parentSpanId"})
_MAX_PART_DEPTH: Final = 90
"""Levels of a part; a whole request may have 100."""
_PARTS: Final = (
    ("resourceSpans", "scopeSpans", "spans", Span),
    ("resourceLogs", "scopeLogs", "logRecords", LogRecord),
)


class ContentEncoding(StrEnum):
    """The encodings of bodies that are understood."""

    NONE = "identity"
    GZIP = "gzip"


def check_headers(content_type: str, encoding: str) -> tuple[str, ContentEncoding]:
    """Return the media type and the encoding of a request.  Raises `RefusedExport` (415)."""
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type not in (PROTOBUF, JSON):
        shown = media_type or "a body without a type"
        raise RefusedExport(415, f"send {PROTOBUF} or {JSON}, not {shown}")
    try:
        return media_type, ContentEncoding(encoding.strip().lower() or ContentEncoding.NONE)
    except ValueError:
        raise RefusedExport(415, "send gzip or no content encoding") from None


def decode_message(body: bytes, media_type: str, message: Message) -> list[MalformedSpan]:
    """Fill a message from an unpacked body; return the parts that have no valid form.

    Raises `RefusedExport` (400, 413).
    """
    if len(body) > MAX_BODY_BYTES:
        raise _too_large()
    try:
        if media_type == JSON:
            return _decode_json(body, message)
        message.ParseFromString(body)
    except (DecodeError, ParseError, msgspec.MsgspecError, ValueError, RecursionError) as error:
        # The text of these errors can quote the body, which may hold content of the program.
        why = f"the body is not a valid {type(message).__name__} ({type(error).__name__})"
        raise RefusedExport(400, why) from None
    return []


def unpack_gzip(packed: bytes, limit: int) -> bytes:
    """Return the content of gzip data.  Raises `RefusedExport` as soon as it passes the limit."""
    parts, size = [], 0
    while packed:
        unpacker = zlib.decompressobj(_GZIP_WINDOW)
        try:
            # One byte more than is left: reaching it shows that the content is too large, and no
            # more than that is ever unpacked.
            part = unpacker.decompress(packed, limit - size + 1)
        except zlib.error:
            raise RefusedExport(400, "the body is not valid gzip") from None
        size += len(part)
        if size > limit:
            raise _too_large()
        if not unpacker.eof:
            raise RefusedExport(400, "the gzip body ends too early")
        parts.append(part)
        packed = unpacker.unused_data  # RFC 1952, section 2.2: several members may follow another
    return b"".join(parts)


def _too_large() -> RefusedExport:
    return RefusedExport(413, f"at most {MAX_BODY_BYTES} bytes; set a smaller batch size")


def _decode_json(body: bytes, message: Message) -> list[MalformedSpan]:
    document = msgspec.json.decode(body)
    _check_count(document)
    try:
        ParseDict(_encode_ids(document), message, ignore_unknown_fields=True)
    except (ParseError, ValueError, RecursionError):
        # One span of many may be at fault.  The others are recorded (OTLP, partial success).
        message.Clear()
    else:
        return []
    malformed = _remove_malformed(document)
    ParseDict(_encode_ids(document), message, ignore_unknown_fields=True)
    return malformed


def _check_count(document: Any) -> None:  # noqa: ANN401  any JSON
    """Raise `RefusedExport` (413) for too many objects, before each of them costs something.

    Wherever they are: each costs microseconds, and a body has room for millions.
    """
    left, waiting = MAX_REQUEST_OBJECTS, [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            left -= 1
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        if left < 0:
            why = f"more than {MAX_REQUEST_OBJECTS} objects in one request; send smaller batches"
            raise RefusedExport(413, why)


def _remove_malformed(document: Any) -> list[MalformedSpan]:  # noqa: ANN401  any JSON
    """Remove the spans and log records that have no valid form, and return them."""
    malformed: list[MalformedSpan] = []
    for groups, scopes, parts, make in _PARTS:
        for group in _members(document, groups):
            for scope in _members(group, scopes):
                items = _members(scope, parts)
                valid = [_is_valid(part, make()) for part in items]
                bad = [part for part, good in zip(items, valid, strict=True) if not good]
                malformed += map(_describe_malformed, bad)
                if bad:
                    scope[parts] = [p for p, good in zip(items, valid, strict=True) if good]
    return malformed


def _members(node: Any, name: str) -> list[Any]:  # noqa: ANN401  any JSON
    members = node.get(name) if isinstance(node, dict) else None
    return members if isinstance(members, list) else []


def _is_valid(part: Any, message: Message) -> bool:  # noqa: ANN401  any JSON
    try:
        ParseDict(
            _encode_ids(part),
            message,
            ignore_unknown_fields=True,
            max_recursion_depth=_MAX_PART_DEPTH,
        )
    except (ParseError, ValueError, TypeError, AttributeError, RecursionError):
        # `ParseDict` leaves what is no object to fail by itself.
        return False
    return isinstance(part, dict)


def _describe_malformed(part: Any) -> MalformedSpan:  # noqa: ANN401  any JSON
    trace = part.get("traceId") if isinstance(part, dict) else None
    try:
        raw = bytes.fromhex(trace) if isinstance(trace, str) else b""
    except ValueError:
        raw = b""
    digest = sha256(msgspec.json.encode(part)).hexdigest()[:16]
    return MalformedSpan(raw.hex() if is_trace_id(raw) else "", digest, SpanSource("unknown", ""))


def _encode_ids(value: Any) -> Any:  # noqa: ANN401  any JSON
    """Return a document whose ids are in base64, as the JSON form of protobuf wants them.

    OTLP writes ids in hexadecimal, unlike every other field of bytes.
    """
    if isinstance(value, dict):
        return {
            name: b64encode(bytes.fromhex(member)).decode()
            if name in _HEX_MEMBERS and isinstance(member, str)
            else _encode_ids(member)
            for name, member in value.items()
        }
    return [_encode_ids(member) for member in value] if isinstance(value, list) else value
