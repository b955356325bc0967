"""A provider that answers at once, in a process of its own: `python -m benchmarks.answering`."""

import asyncio
import sys

_EVENTS = b"".join(
    b"data: %s\n\n" % event
    for event in (
        *[b'{"model":"instant","choices":[{"index":0,"delta":{"content":"word "}}]}'] * 20,
        b'{"model":"instant","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
        b'{"model":"instant","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":20}}',
        b"[DONE]",
    )
)
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s" % (
    len(_EVENTS),
    _EVENTS,
)


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every request of a connection."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length))
            writer.write(ANSWER)
            await writer.drain()
            if b"connection: close" in head:
                return
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def main() -> None:
    """Say where, and serve until the standard input ends."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=512)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
