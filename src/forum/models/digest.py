"""The digest of a file, as a tool: how a check learns that a file is there, and which one it is."""

import asyncio
import hashlib
import os
import stat
from threading import Event
from typing import Final

from forum.engine import Deed, Reply
from forum.ledger import Content, Outcome, text
from forum.work import Tool, Why

MOST_BYTES: Final = 1 << 32
_PIECE = 1 << 20


class DigestTool:
    """Takes a path; says `sha256:HEX SIZE` of the regular file that is there."""

    def __init__(self, spec: Tool) -> None:
        self._spec = spec

    async def use(self, deed: Deed) -> Reply:
        """Read the file, in a thread that ends with this call."""
        over = Event()
        try:
            async with asyncio.timeout(self._spec.seconds):
                said = await asyncio.to_thread(_digest, _path(deed.arguments), over)
        except TimeoutError:
            # To read a file has no effect: there is no doubt for a person to resolve.
            return Reply(Outcome.FAILED, why=Why.DEADLINE, code="digest")
        except (OSError, ValueError) as error:
            told = text(str(error).encode(errors="replace").decode())
            return Reply(Outcome.FAILED, why=Why.ERROR, code="digest", error=told)
        finally:
            over.set()
        return Reply(Outcome.OK, text(said))


def _path(arguments: Content) -> str:
    return os.fsdecode(b"".join(arguments.chunks()).removesuffix(b"\n"))


def _digest(path: str, over: Event) -> str:
    # Not to wait for somebody who writes into a pipe of this name.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{path} is not a regular file")
        found, size = hashlib.sha256(), 0
        while not over.is_set() and (piece := file.read(_PIECE)):
            size += len(piece)
            if size > MOST_BYTES:
                raise ValueError(f"{path} is larger than {MOST_BYTES} bytes")
            found.update(piece)
        return f"sha256:{found.hexdigest()} {size}"
