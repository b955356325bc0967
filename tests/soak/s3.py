"""The archive in a bucket of a real S3 server: `tests/features/archive/test_archive.py` in short.

`python -m tests.soak.s3 MOTO_SERVER` starts moto's server, a program of its own, and prints one
JSON object: what was archived, what was read back, and what was said while the server was away.
"""

import argparse
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

from forum.app import Forum
from forum.config import Settings
from forum.errors import ArchiveUnreachable
from forum.ledger.body import text_content
from forum.ledger.kinds import RedactionReason
from forum.stores.archive_stores import open_archive
from tests.support import free_port, wait_until

PLACE = "s3://archive/forum"


@contextmanager
def serve_s3(program: str) -> Iterator[str]:
    """Start the server and make a bucket; yield the address of the server."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen([program, "-H", "127.0.0.1", "-p", str(port)]) as server:
        try:
            wait_until(lambda: _answers(url))
            urlopen(Request(f"{url}/archive", method="PUT")).close()  # noqa: S310  our own server
            yield url
        finally:
            server.terminate()


def _answers(url: str) -> bool:
    try:
        urlopen(url).close()  # noqa: S310  our own server
    except OSError:
        return False
    return True


def main() -> None:
    """Archive, read, verify, redact, and lose the server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="moto_server, of `pip install 'moto[server]'`")
    program = parser.parse_args().program
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = Settings(folder / "data", folder / "state", folder / "data" / "log.key")
        with serve_s3(program) as url:
            os.environ |= {
                "AWS_ENDPOINT": url, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1",
                "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
            }  # fmt: skip
            with Forum(settings) as forum:
                forum.keys.initialise()
                for number in range(5):
                    forum.log.record_note(text_content(f"note {number}"))
                result = forum.log.archive_runs(2**60, PLACE)
                entry = f"{result.archived[0]}/main/1"
                texts = [_read(forum, run) for run in result.archived]
                verified = forum.log.verify(forum.log.read_trust()).ok
                forum.log.redact(entry, "text", RedactionReason.REQUEST)
                after = forum.log.verify(forum.log.read_trust())
                copies = len(open_archive(PLACE).list_folder(""))
        with Forum(settings) as forum:
            away = forum.log.verify(forum.log.read_trust())
            error = _read_error(forum, result.archived[1])
    print(
        json.dumps(
            {
                "archived": len(result.archived),
                "texts": sorted(texts),
                "verified": verified,
                "verified_after_redaction": after.ok,
                "redacted": after.bodies.redacted,
                "copies": copies,
                "complete_while_away": away.complete.state.value,
                "error_while_away": error,
            }
        )
    )
    assert len(result.archived) == copies == 5
    assert verified
    assert after.ok
    assert away.complete.state.value == "not checked"


def _read(forum: Forum, run: str) -> str:
    located = forum.ledger.find_entry(f"{run}/main/1")
    body = forum.store.body(located.position, "text")
    return b"".join(body.read()).decode() if body else ""


def _read_error(forum: Forum, run: str) -> str:
    try:
        return _read(forum, run)
    except ArchiveUnreachable as error:
        return str(error)


if __name__ == "__main__":
    main()
