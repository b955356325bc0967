"""A zip archive with only one possible form: the same files are always the same bytes.

Stored without compression, in the order of the names, with the earliest date a zip can have.  The
standard library could write it, but promises no stable bytes; here a reader rebuilds the archive
from its files and compares, so that nothing can hide between them.
"""

import zipfile
from collections.abc import Mapping
from io import BytesIO
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


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return the archive of these files."""
    body, directory = bytearray(), bytearray()
    for name in sorted(files):
        data, encoded = files[name], name.encode()
        sizes = (crc32(data), len(data), len(data), len(encoded), 0)
        common = (_VERSION, _UTF8_NAMES, 0, 0, _EARLIEST, *sizes)
        directory += _CENTRAL.pack(b"PK\1\2", _VERSION, *common, 0, 0, 0, 0, len(body)) + encoded
        body += _LOCAL.pack(b"PK\3\4", *common) + encoded + data
        if len(body) > _MOST:
            raise Malformed("archive", "more than 4 GiB in one bundle")
    end = (0, 0, len(files), len(files), len(directory), len(body), 0)
    return bytes(body + directory + _END.pack(b"PK\5\6", *end))


def unpack(data: bytes) -> dict[str, bytes]:
    """Return the files of an archive that has exactly the bytes which `pack` gives it."""
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            if any(info.compress_type or info.flag_bits & 1 for info in archive.infolist()):
                raise Malformed("archive", "a compressed or encrypted file")
            files = {info.filename: archive.read(info) for info in archive.infolist()}
        again = pack(files)
    except (zipfile.BadZipFile, ValueError, EOFError, OSError, NotImplementedError) as error:
        raise Malformed("archive", str(error)) from None
    if again != data:
        raise Malformed("archive", "its bytes are not the only form of its files")
    return files
