"""A pgbouncer of our own before a database, as long as a test needs it."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

PGBOUNCER = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"


@contextmanager
def pooled(url: str, mode: str, **settings: str) -> Iterator[str]:
    """Yield the address of a pooler in a mode: session, transaction or statement."""
    database = urlsplit(url)
    folder = Path(tempfile.mkdtemp(prefix="forum-pgbouncer-"))
    port = _free_port()
    (folder / "users").write_text(f'"{database.username}" ""\n')
    lines = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "any",
        "auth_file": folder / "users",
        "pool_mode": mode,
        "max_client_conn": 200,
        "default_pool_size": 40,
        **settings,
    }
    name = database.path.strip("/")
    target = f"host={database.hostname} port={database.port} dbname={name} user={database.username}"
    text = "\n".join(f"{name} = {value}" for name, value in lines.items())
    (folder / "pgbouncer.ini").write_text(f"[databases]\n{name} = {target}\n[pgbouncer]\n{text}\n")
    user: list[str] = []
    if os.geteuid() == 0:  # which it refuses to run as
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        for path in (folder, *folder.iterdir()):
            shutil.chown(path, "postgres", "postgres")
    with (folder / "log").open("ab") as log:
        pooler = subprocess.Popen(
            [*user, PGBOUNCER, str(folder / "pgbouncer.ini")], stdout=log, stderr=log
        )
    try:
        _wait_for(port, pooler, folder / "log")
        yield database._replace(netloc=f"{database.username}@127.0.0.1:{port}").geturl()
    finally:
        pooler.kill()
        pooler.wait()
        shutil.rmtree(folder)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int, pooler: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if pooler.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(log.read_text()) from None
            time.sleep(0.05)
        else:
            return
