"""A zip archive in a canonical form: the same files always give the same bytes.

Files are stored without compression, in the order of their names, with the earliest date of the
format.  The standard library does not guarantee stable bytes when it writes, and it reads many
forms, some of them differently on other platforms.  The reader here walks from header to header,
compares each with the only header that its file can have, and does the same with the central
directory, so that no data can be hidden between them.

An archive of more than 65,535 files or more than 4 GiB is *wide*: it ends with ZIP64 records.  A
smaller archive must not have them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from struct import Struct
from typing import NamedTuple, Protocol
from zlib import crc32

from forum.errors import Malformed

MAX_FILES = 0xFFFF
"""The largest number of files in an archive that is not wide."""
MAX_BYTES = 0xFFFFFFFF
"""The largest size in bytes of an archive that is not wide, and of a file in any archive."""

_LOCAL = Struct("<4s5H3I2H")
_CENTRAL = Struct("<4s6H3I5H2I")
_WIDE_OFFSET = Struct("<2HQ")
_WIDE_END = Struct("<4sQ2H2I4Q")
_WIDE_LOCATOR = Struct("<4sIQI")
_END = Struct("<4s4H2IH")
_VERSION, _WIDE_VERSION = 20, 45
_UTF8_NAMES = 1 << 11
_EARLIEST_DOS_DATE = (1 << 5) | 1  # 1 January 1980 in the DOS date format
_CHUNK_BYTES = 1 << 20
_AHEAD_BYTES = 1 << 16
_NOT_A_ZIP = "not-a-zip: it does not begin as a zip file does, so it is no evidence bundle"
_TRUNCATED = "truncated: it ends before its directory does; copy or download it again"
_REZIPPED = (
    "re-zipped: another program has packed its files again; ask for the file as Forum wrote it"
)
NOT_A_BUNDLE = (
    "not-a-bundle: it is a zip file, but none that forum ledger export or forum evidence wrote"
)
_ALTERED = "altered: its bytes are not those that were packed"
_MAX_END_DISTANCE = _END.size + 0xFFFF
"""Maximum distance of the end record from the end of a zip file, with the longest comment."""
_LISTED = re.compile(
    rb"PK\x01\x02.{42}(?:[^\x00]{0,255}/)?(?:(?:entries|proofs)/[0-9]{16}\.|log/end\.note)",
    re.DOTALL,
).search
"""Finds a directory header that every bundle (an entry, a proof) or every evidence pack has."""


class ByteSource(Protocol):
    """Random access to bytes in memory or in a file."""

    def __len__(self) -> int:
        """Return the number of bytes."""

    def __getitem__(self, piece: slice) -> bytes:
        """Return the bytes of a slice; fewer beyond the end."""


class _ReadAhead:
    """Reads a source from its beginning to its end, many small pieces at once."""

    def __init__(self, source: ByteSource) -> None:
        self._source, self._at = source, 0
        self._window = b""

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, piece: slice) -> bytes:
        start, stop, _ = piece.indices(len(self._source))
        if not self._at <= start <= stop <= self._at + len(self._window):
            self._at, self._window = start, self._source[start : max(stop, start + _AHEAD_BYTES)]
        return self._window[start - self._at : stop - self._at]


class ArchiveMember(NamedTuple):
    """One file of an archive: offset, size, CRC-32 and SHA-256 of its content."""

    start: int
    size: int
    crc: int
    digest: bytes


class Archive:
    """An archive in canonical form.  Opening it reads and checks every file.

    Contents are not kept in memory but read again on demand.  Raises `Malformed`.
    """

    def __init__(self, source: ByteSource) -> None:
        # A bundle of many small entries would cost three calls of the system for each of its files.
        self._source: ByteSource = _ReadAhead(source)
        self.members: dict[str, ArchiveMember] = {}
        """The files by name, in ascending order."""
        at = self._read_members()
        self.is_wide = is_wide((name, member.size) for name, member in self.members.items())
        self._check_end(at)
        self._source = source

    def read(self, name: str) -> bytes:
        """Return the content of a file.  Raises `KeyError`."""
        member = self.members[name]
        return self._source[member.start : member.start + member.size]

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        """Return a range of a file.  Raises `KeyError`."""
        member = self.members[name]
        stop = member.start + min(offset + length, member.size)
        return self._source[member.start + offset : stop]

    def read_chunks(self, name: str) -> Iterator[bytes]:
        """Yield the content of a file in chunks; an empty file is one empty chunk."""
        member = self.members[name]
        return self._read_chunks(member.start, member.size)

    def _read_chunks(self, start: int, size: int) -> Iterator[bytes]:
        for at in range(start, start + (size or 1), _CHUNK_BYTES):
            yield self._source[at : min(at + _CHUNK_BYTES, start + size)]

    def _read_members(self) -> int:
        """Read and check every file in order, and return the offset of the directory."""
        at, before = 0, ""
        while (header := self._source[at : at + _LOCAL.size])[:4] == b"PK\3\4":
            if len(header) < _LOCAL.size:
                break
            *_, size, length, _ = _LOCAL.unpack(header)
            start = at + _LOCAL.size + length
            try:
                name = self._source[at + _LOCAL.size : start].decode()
            except UnicodeDecodeError:
                fault = self._explain_fault("a file name that is not UTF-8")
                raise Malformed("archive", fault) from None
            if start + size > len(self._source):
                raise Malformed("archive", self._explain_fault(_ALTERED))
            # If a name occurred twice, another program could extract a file that was not verified
            # here.  Strictly ascending names rule that out.
            if self.members and name <= before:
                raise Malformed("archive", self._explain_fault(_REZIPPED))
            member = self._read_member(start, size)
            if _local_header(name.encode(), member) != header:
                raise Malformed("archive", self._explain_fault(_header_fault(name, member, header)))
            self.members[name] = member
            at, before = start + size, name
        return at

    def _read_member(self, start: int, size: int) -> ArchiveMember:
        crc, digest = 0, sha256()
        for piece in self._read_chunks(start, size):
            crc = crc32(piece, crc)
            digest.update(piece)
        return ArchiveMember(start, size, crc, digest.digest())

    def _check_end(self, at: int) -> None:
        """Compare the directory with the canonical one for these files.  Raises `Malformed`."""
        for piece in _directory(self.members, at, wide=self.is_wide):
            if self._source[at : at + len(piece)] != piece:
                raise Malformed("archive", self._explain_fault(_ALTERED))
            at += len(piece)
        if at != len(self._source):
            raise Malformed("archive", self._explain_fault(_ALTERED))

    def _explain_fault(self, otherwise: str) -> str:
        """Return the most likely reason why the bytes are not a canonical archive."""
        source = self._source
        if source[:4] not in (b"PK\3\4", b"PK\5\6"):
            return _NOT_A_ZIP
        end = source[max(0, len(source) - _MAX_END_DISTANCE) :].rfind(b"PK\5\6")
        rest = min(len(source), _MAX_END_DISTANCE) - end
        if end < 0 or rest < _END.size:
            return _TRUNCATED
        # Every program that writes zip files puts the directory at the end.
        return otherwise if _LISTED(source[max(0, len(source) - _CHUNK_BYTES) :]) else NOT_A_BUNDLE


def _header_fault(name: str, member: ArchiveMember, header: bytes) -> str:
    """Return whether a file was altered in place, or packed again by another program.

    If only the checksum differs from the expected header, the content was altered in place.
    """
    here = _LOCAL.unpack(header)
    ours = _LOCAL.unpack(_local_header(name.encode(), member))
    checksum = 6
    same = here[:checksum] + here[checksum + 1 :] == ours[:checksum] + ours[checksum + 1 :]
    return f"{_ALTERED} ({name[:80]!r})" if same else _REZIPPED


def is_wide(files: Iterable[tuple[str, int]]) -> bool:
    """Return whether an archive of files with these names and sizes is wide."""
    count, total = 0, _END.size
    for name, size in files:
        count += 1
        total += _LOCAL.size + _CENTRAL.size + 2 * len(name.encode()) + size
    return count > MAX_FILES or total > MAX_BYTES


def pack_archive(files: Mapping[str, bytes]) -> bytes:
    """Return the archive of these files."""
    members: dict[str, ArchiveMember] = {}
    pieces: list[bytes] = []
    at = 0
    for name in sorted(files):
        data, encoded = files[name], name.encode()
        if len(data) >= MAX_BYTES:
            raise Malformed("archive", f"{name} is longer than 4 GiB")
        member = ArchiveMember(at + _LOCAL.size + len(encoded), len(data), crc32(data), b"")
        members[name] = member
        pieces += (_local_header(encoded, member), encoded, data)
        at = member.start + member.size
    wide = is_wide((name, len(data)) for name, data in files.items())
    return b"".join([*pieces, *_directory(members, at, wide=wide)])


def _local_header(name: bytes, member: ArchiveMember) -> bytes:
    return _LOCAL.pack(b"PK\3\4", *_common_fields(_VERSION, name, member), 0)


def _common_fields(version: int, name: bytes, member: ArchiveMember) -> tuple[int, ...]:
    sizes = (member.crc, member.size, member.size, len(name))
    return (version, _UTF8_NAMES, 0, 0, _EARLIEST_DOS_DATE, *sizes)


def _directory(members: Mapping[str, ArchiveMember], start: int, *, wide: bool) -> Iterator[bytes]:
    """Yield the central directory: a header for each file, then the end records."""
    size = 0
    for name, member in members.items():
        line = _central_header(name.encode(), member)
        size += len(line)
        yield line
    count = len(members)
    if wide:
        record = (_WIDE_END.size - 12, _WIDE_VERSION, _WIDE_VERSION, 0, 0)
        yield _WIDE_END.pack(b"PK\6\6", *record, count, count, size, start)
        yield _WIDE_LOCATOR.pack(b"PK\6\7", 0, start + size, 1)
    few = min(count, 0xFFFF)
    yield _END.pack(b"PK\5\6", 0, 0, few, few, min(size, 0xFFFFFFFF), min(start, 0xFFFFFFFF), 0)


def _central_header(name: bytes, member: ArchiveMember) -> bytes:
    offset = member.start - _LOCAL.size - len(name)
    version, extra = _VERSION, b""
    if offset >= 0xFFFFFFFF:
        # An offset that does not fit into four bytes goes into a ZIP64 extra field of eight
        # (APPNOTE.TXT section 4.5.3).
        version, extra = _WIDE_VERSION, _WIDE_OFFSET.pack(1, 8, offset)
        offset = 0xFFFFFFFF
    common = _common_fields(version, name, member)
    head = _CENTRAL.pack(b"PK\1\2", version, *common, len(extra), 0, 0, 0, 0, offset)
    return head + name + extra


def unpack_archive(data: bytes) -> dict[str, bytes]:
    """Return the files of an archive in canonical form.  Raises `Malformed` for any other."""
    archive = Archive(data)
    return {name: archive.read(name) for name in archive.members}
