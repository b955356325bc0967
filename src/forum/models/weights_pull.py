"""Install the weights of a model: download them from the hub or a mirror, or copy them.

A file is written beside its place, compared with the pinned digest, and only then renamed into its
place.  So whatever a server sends, and wherever this process is stopped, an installed file is whole
and the right one.  A download that was stopped leaves its part, and the next one continues it.

Only HTTPS is used, also after redirects, although the digest alone decides whether a file is the
right one: nobody on the way can see what is fetched, or keep this process busy with other bytes.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, LOCK_NB, flock
from functools import partial
from hashlib import file_digest
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx2

from forum.errors import WeightsRejected, WeightsUnavailable
from forum.models.provider_http import is_tls_error
from forum.models.urls import host_of, is_loopback
from forum.models.weights import describe_digest, weights_folder
from forum.platform_calls import sync_file
from forum.runs.model_weights import ModelWeights, WeightFile

STALL_TIMEOUT_S: Final = 30.0
"""Seconds without a byte after which a download is given up."""
_MAX_REDIRECTS = 5
_CHUNK_BYTES = 1 << 20
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(?:\d+|\*)")

Progress = Callable[[str, int, int], None]
"""Called with the name of a file, the bytes that are there, and its size."""


def pull_weights(
    model: ModelWeights, source: str | Path, tell: Callable[[str], None], progress: Progress
) -> list[str]:
    """Install the files of a model that are not installed, and return their names.

    The source is the address of a folder or of a file, or a folder or a file on this machine.
    Raises `WeightsUnavailable`, `WeightsRejected` and `OSError`.
    """
    folder = weights_folder(model)
    if not _list_wanted(model, folder):
        return []  # without writing: the folder may be read-only
    folder.mkdir(parents=True, exist_ok=True)
    with _lock_folder(folder, lambda: tell(f"another process is installing {model.name}; waiting")):
        wanted = _list_wanted(model, folder)  # again: the other process may have installed some
        installer = _WeightsInstaller(model, folder, progress)
        if isinstance(source, Path):
            installed = installer.copy_files(wanted, source)
        else:
            installed = installer.download_files(wanted, source)
    missing = [file.name for file in wanted if file not in installed]
    if missing:
        why = f"{source} is one of their files only, still missing: {', '.join(missing)}"
        raise WeightsUnavailable(model.name, why, model.manual_steps)
    return [file.name for file in installed]


def _list_wanted(model: ModelWeights, folder: Path) -> list[WeightFile]:
    """Return the files that are not installed, or not as they are pinned.

    All digests are computed, although loading remembers them: this also finds a file that the disk
    has damaged.
    """
    return [file for file in model.files if not _is_installed(folder / file.name, file)]


def _is_installed(path: Path, file: WeightFile) -> bool:
    try:
        return path.stat().st_size == file.size and _digest_of(path) == file.sha256
    except OSError:
        return False


@contextmanager
def _lock_folder(folder: Path, tell_waiting: Callable[[], None]) -> Iterator[None]:
    """Let one process at a time write to a folder.  The lock ends with the process."""
    with (folder / ".lock").open("w") as lock:
        try:
            flock(lock, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            tell_waiting()
            flock(lock, LOCK_EX)
        yield


class _DownloadError(Exception):
    """Raised when a download does not end well, with the reason in words."""


@dataclass(frozen=True, slots=True)
class _WeightsInstaller:
    """Writes files of a model into its folder, which nobody else writes to meanwhile."""

    model: ModelWeights
    folder: Path
    progress: Progress

    def copy_files(self, wanted: list[WeightFile], source: Path) -> list[WeightFile]:
        """Install files from a folder, or the one file that is named."""
        paths = self._find_files(wanted, source)
        for file, path in paths.items():
            part = self.folder / f"{file.name}.copy"
            try:
                with path.open("rb") as opened:
                    self._check_size(file, str(path), os.fstat(opened.fileno()).st_size)
                    chunks = iter(partial(opened.read, _CHUNK_BYTES), b"")
                    self._write_part(file, part, 0, chunks, origin=str(path))
                self._install_file(file, part, str(path))
            finally:
                part.unlink(missing_ok=True)
        return list(paths)

    def _find_files(self, wanted: list[WeightFile], source: Path) -> dict[WeightFile, Path]:
        if not source.is_dir():
            file = self._recognize_file(source)
            return {file: source} if file in wanted else {}
        missing = [file.name for file in wanted if not (source / file.name).is_file()]
        if missing:
            why = f"{source} has no {' and no '.join(missing)}"
            raise WeightsUnavailable(self.model.name, why, self.model.manual_steps)
        return {file: source / file.name for file in wanted}

    def _recognize_file(self, path: Path) -> WeightFile:
        """Return the file of the model that this one could be by its size: it may have any name."""
        size = path.stat().st_size
        for file in self.model.files:
            if file.size == size:
                return file
        sizes = ", ".join(f"{file.name} has {file.size:,}" for file in self.model.files)
        raise self._reject(str(path), f"it has {size:,} bytes, and {sizes}")

    def download_files(self, wanted: list[WeightFile], source: str) -> list[WeightFile]:
        """Install files from a server."""
        names = {file.name for file in self.model.files}
        for file in wanted:
            url = _address_of(file.name, source, names)
            # Named after the digest, so that a part is never continued with another version.
            part = self.folder / f"{file.name}.{file.sha256[:16]}.part"
            try:
                self._download_and_install(file, url, part)
            except _DownloadError as error:
                steps = self.model.manual_steps
                raise WeightsUnavailable(self.model.name, str(error), steps) from None
        return wanted

    def _download_and_install(self, file: WeightFile, url: str, part: Path) -> None:
        was_continued = part.exists()
        self._download_file(file, url, part)
        try:
            self._install_file(file, part, _public_url(url))
        except WeightsRejected:
            # The beginning may have come from another source, and be all that is wrong.
            if not was_continued:
                raise
            self._download_file(file, url, part)
            self._install_file(file, part, _public_url(url))

    def _download_file(self, file: WeightFile, url: str, part: Path) -> None:
        """Download a file, or the rest of it if a part is there."""
        present = part.stat().st_size if part.exists() else 0
        if present >= file.size:
            return  # stopped before its digest was computed, which decides
        try:
            with _make_client(url) as client, _open_response(client, url, present) as response:
                start = _find_start(response, present)
                length = response.headers.get("content-length")
                if length is not None:
                    self._check_size(file, _public_url(url), start + int(length))
                self._write_part(file, part, start, response.iter_raw(), origin=_public_url(url))
        except httpx2.InvalidURL:
            raise _DownloadError(f"{_public_url(url)} is not a valid address") from None
        except httpx2.HTTPError as error:
            why = f"{_explain_failure(error, host_of(url))}{_describe_part(part, file)}"
            raise _DownloadError(why) from None
        if part.stat().st_size < file.size:
            why = f"{host_of(url)} ended the transfer early{_describe_part(part, file)}"
            raise _DownloadError(why)

    def _write_part(
        self, file: WeightFile, part: Path, start: int, chunks: Iterable[bytes], origin: str
    ) -> None:
        """Write chunks from a position on, and never more than the file has."""
        # A crash leaves what was written until then; a download continues it.
        with part.open("ab" if start else "wb") as target:
            done = start
            for chunk in chunks:
                done += len(chunk)
                if done > file.size:
                    part.unlink()
                    raise self._reject(origin, f"it is longer than {file.size:,} bytes")
                target.write(chunk)
                self.progress(file.name, done, file.size)

    def _install_file(self, file: WeightFile, part: Path, origin: str) -> None:
        """Rename a file into its place if its digest is the pinned one, else delete it."""
        digest = _digest_of(part)
        if digest != file.sha256:
            part.unlink()
            raise self._reject(origin, describe_digest(digest, file))
        with part.open("rb") as written:
            # Before the rename: after a power failure the name must not lead to a file of zeros.
            sync_file(written.fileno())
        part.replace(self.folder / file.name)

    def _check_size(self, file: WeightFile, origin: str, size: int) -> None:
        if size != file.size:
            why = f"{file.name} has {file.size:,} bytes, and this file has {size:,}"
            raise self._reject(origin, why)

    def _reject(self, origin: str, why: str) -> WeightsRejected:
        step = "Nothing was installed; name another source with --from"
        return WeightsRejected(self.model.name, origin, why, step)


def _digest_of(path: Path) -> str:
    with path.open("rb") as opened:
        return file_digest(opened, "sha256").hexdigest()


def _address_of(name: str, source: str, names: set[str]) -> str:
    """Return the address of a file in the folder that is named, or beside the file that is."""
    parts = urlsplit(source)
    folder, _, last = parts.path.rpartition("/")
    if last not in names:
        folder = parts.path.rstrip("/")
    return parts._replace(path=f"{folder}/{name}").geturl()


def _make_client(url: str) -> httpx2.Client:
    try:
        return httpx2.Client(
            verify=httpx2.create_ssl_context(),
            # A proxy from the environment is meant for other hosts, not for this machine.
            trust_env=not is_loopback(url),
            timeout=STALL_TIMEOUT_S,
            # A compressed body could expand to more than is counted.
            headers={"Accept-Encoding": "identity"},
        )
    except (ImportError, OSError, ValueError):
        # The text of these errors may quote the URL of a proxy, including its password.
        raise _DownloadError("the configured proxy or certificates cannot be used") from None


@contextmanager
def _open_response(client: httpx2.Client, url: str, start: int) -> Iterator[httpx2.Response]:
    """Request a file from a position on, and follow redirects to HTTPS.

    The client would follow them by itself, but reads the whole body of each redirect, however long
    it is.
    """
    headers = {"Range": f"bytes={start}-"} if start else {}
    request = client.build_request("GET", url, headers=headers)
    for _ in range(_MAX_REDIRECTS + 1):
        if request.url.scheme != "https":
            address = _public_url(str(request.url))
            raise _DownloadError(f"{host_of(url)} leads to {address}, which is not encrypted")
        response = client.send(request, stream=True)
        try:
            if response.next_request is None:
                yield response
                return
            request = response.next_request
        finally:
            response.close()
    raise _DownloadError(f"{host_of(url)} redirects more than {_MAX_REDIRECTS} times")


def _find_start(response: httpx2.Response, asked: int) -> int:
    """Return the position in the file at which a response begins."""
    host, status = response.url.host, response.status_code
    if response.headers.get("content-encoding", "identity") != "identity":
        raise _DownloadError(f"{host} sends the file compressed, although it was asked not to")
    if status == 200:
        return 0  # also from a server that does not support ranges
    if status != 206 or not asked:
        address = _public_url(str(response.url))
        raise _DownloadError(f"the answer from {address} has the status {status}")
    sent = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
    if sent is None or int(sent[1]) != asked:
        raise _DownloadError(f"{host} sends another range of the file than was asked for")
    return asked


def _explain_failure(error: httpx2.HTTPError, host: str) -> str:
    """Return what went wrong, in words."""
    match error:
        case httpx2.ReadTimeout():
            return f"{host} sent nothing for {STALL_TIMEOUT_S:g} seconds"
        case httpx2.ConnectTimeout():
            return f"{host} did not answer within {STALL_TIMEOUT_S:g} seconds"
        case httpx2.ProxyError():
            # Its text may quote the password of the proxy.
            return f"the configured proxy does not connect to {host}"
        case httpx2.ConnectError() if is_tls_error(error):
            return f"{host} has no certificate that is trusted here ({error}); see SSL_CERT_FILE"
        case httpx2.ConnectError():
            # The text of an error of the system begins with its number, which says nothing.
            return f"{host} cannot be reached ({str(error).partition('] ')[2] or error})"
        case _:
            return f"the connection to {host} broke"


def _describe_part(part: Path, file: WeightFile) -> str:
    """Return how much of a file is there, as the end of a sentence."""
    size = part.stat().st_size if part.exists() else 0
    if not size:
        return ""
    return f"; {size:,} of {file.size:,} bytes are there, and the same command continues"


def _public_url(url: str) -> str:
    """Return an address without the password and the signature that it may hold."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
