"""A zip archive with only one possible form: the same files are always the same bytes.

Stored without compression, in the order of the names, with the earliest date a zip can have.  The
standard library could write it, but promises no stable bytes; and it reads many forms, some of
them differently on another platform.  Here a reader goes from header to header, rebuilds the
archive from the files and compares, so that nothing can hide between them.
"""

from collections.abc import Mapping
from struct import Struct
from zlib import crc32

from forum.errors import Malformed

_LOCAL = Struct("<4s5H3I2H")
_CENTRAL = Struct("<4s6H3I5H2I")
_END = Struct("<4s4H2IH")
_VERSION = 20
_UTF8_NAMES = 1 << 11
_EARLIEST = (1 << 5) | 1  # 1 January 1980, in the calendar of DOS
_MOST = 0xFFFFFFFF
_MOST_FILES = 0xFFFF


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return the archive of these files."""
    if len(files) > _MOST_FILES:
        raise Malformed("archive", f"more than {_MOST_FILES:,} files in one bundle")
    if sum(map(len, files.values())) > _MOST:
        raise Malformed("archive", "more than 4 GiB in one bundle")
    body, directory = bytearray(), bytearray()
    for name in sorted(files):
        data, encoded = files[name], name.encode()
        sizes = (crc32(data), len(data), len(data), len(encoded), 0)
        common = (_VERSION, _UTF8_NAMES, 0, 0, _EARLIEST, *sizes)
        directory += _CENTRAL.pack(b"PK\1\2", _VERSION, *common, 0, 0, 0, 0, len(body)) + encoded
        body += _LOCAL.pack(b"PK\3\4", *common) + encoded + data
        if len(body) + len(directory) + _END.size > _MOST:
            raise Malformed("archive", "more than 4 GiB in one bundle")
    end = (0, 0, len(files), len(files), len(directory), len(body), 0)
    return bytes(body + directory + _END.pack(b"PK\5\6", *end))


def unpack(data: bytes) -> dict[str, bytes]:
    """Return the files of an archive that has exactly the bytes which `pack` gives it."""
    files: dict[str, bytes] = {}
    at = 0
    while data.startswith(b"PK\3\4", at) and at + _LOCAL.size <= len(data):
        *_, size, length, _ = _LOCAL.unpack_from(data, at)
        start = at + _LOCAL.size + length
        try:
            files[data[at + _LOCAL.size : start].decode()] = data[start : start + size]
        except UnicodeDecodeError:
            raise Malformed("archive", "a file name that is not UTF-8") from None
        at = start + size
    if pack(files) != data:
        raise Malformed("archive", "its bytes are not the only form of its files")
    return files
