"""A built-in tool that returns the digest of a file, so that checks can verify its content."""

import asyncio
import hashlib
import os
import stat
from threading import Event
from typing import Final

from forum.engine import CallReply, ToolInvocation
from forum.ledger.body import Content, text_content
from forum.ledger.kinds import Outcome
from forum.runs.kinds import Why
from forum.runs.policy import ToolSpec

MAX_FILE_BYTES: Final = 1 << 32
_CHUNK_BYTES = 1 << 20


class FileDigestTool:
    """Takes a path; returns `sha256:HEX SIZE` of the regular file at that path."""

    def __init__(self, spec: ToolSpec) -> None:
        self._spec = spec

    async def invoke(self, invocation: ToolInvocation) -> CallReply:
        """Read the file in a thread, which stops when this call ends."""
        over = Event()
        try:
            async with asyncio.timeout(self._spec.seconds):
                digest = await asyncio.to_thread(
                    _digest_file, _read_path(invocation.arguments), over
                )
        except TimeoutError:
            # Reading a file has no effect, so a timeout is a
            # plain failure and no human has to resolve it.
            return CallReply(Outcome.FAILED, why=Why.DEADLINE, code="digest")
        except (OSError, ValueError) as error:
            message = text_content(str(error).encode(errors="replace").decode())
            return CallReply(Outcome.FAILED, why=Why.ERROR, code="digest", error=message)
        finally:
            over.set()
        return CallReply(Outcome.OK, text_content(digest))


def _read_path(arguments: Content) -> str:
    return os.fsdecode(b"".join(arguments.chunks()).removesuffix(b"\n"))


def _digest_file(path: str, over: Event) -> str:
    # O_NONBLOCK: if the path is a FIFO, opening it must not wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{path} is not a regular file")
        digest, size = hashlib.sha256(), 0
        while not over.is_set() and (piece := file.read(_CHUNK_BYTES)):
            size += len(piece)
            if size > MAX_FILE_BYTES:
                raise ValueError(f"{path} is larger than {MAX_FILE_BYTES} bytes")
            digest.update(piece)
        return f"sha256:{digest.hexdigest()} {size}"
