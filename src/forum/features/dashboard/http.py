"""The dashboard: its built files at `/ui/`, and the redirect from `/`.

The files are built from `web/` and committed, so that nobody needs Node to install Forum; the gate
builds them again and compares.  They hold no data of a ledger, so everybody may have them: the
pages ask for a key and show it to the API.
"""

import gzip
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from forum.surfaces.http.auth import ServerConfig
from forum.surfaces.http.extensions import ServerExtension
from forum.surfaces.http.problems import ProblemError, ProblemType, problem_response
from forum.surfaces.http.request_pipeline import SECURITY_HEADERS, accepts_gzip

PREFIX = "/ui/"
BUILT_FILES = Path(__file__).parent / "ui"
_INDEX = "index.html"
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
# Vite names a file by its content, so that another content has another address.
_is_hashed = re.compile(r"assets/.+-[\w-]{8}\.\w+").fullmatch

DASHBOARD_HEADERS = {
    **SECURITY_HEADERS,
    # Pages show recorded content, which is untrusted: whatever it contains, no script of another
    # origin runs, nothing is sent elsewhere, and no text becomes a script (trusted types).
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; "
        "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types forum"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A built file, as it is sent."""

    content: bytes
    compressed: bytes
    media_type: str
    caching: str
    etag: str


def read_built_files(folder: Path = BUILT_FILES) -> Mapping[str, StaticFile]:
    """Return the files of the dashboard by their path below `/ui/`."""
    return {
        path.relative_to(folder).as_posix(): _read_file(path, path.relative_to(folder).as_posix())
        for path in sorted(folder.rglob("*"))
        if path.suffix in _MEDIA_TYPES
    }


def _read_file(path: Path, name: str) -> StaticFile:
    content = path.read_bytes()
    return StaticFile(
        content=content,
        compressed=gzip.compress(content, mtime=0),
        media_type=_MEDIA_TYPES[path.suffix],
        caching="public, max-age=31536000, immutable" if _is_hashed(name) else "no-cache",
        etag=f'"{sha256(content).hexdigest()}"',
    )


class DashboardExtension(ServerExtension):
    """The files of the dashboard on a server."""

    home = PREFIX

    def __init__(self, _config: ServerConfig) -> None:
        """Take nothing of the configuration: the files are the same everywhere."""

    def routes(self) -> Sequence[Route]:
        """Return the routes of the files."""
        return dashboard_routes()


def dashboard_routes(folder: Path = BUILT_FILES) -> list[Route]:
    """Return the routes of the dashboard, which are no operations of the API."""
    files = read_built_files(folder)

    async def send_file(request: Request) -> Response:
        file = files.get(request.path_params["path"] or _INDEX)
        if file is None:
            return _not_found(request)
        return _send(request, file)

    async def redirect(_: Request) -> Response:
        # A path alone: the Host header is chosen by the client.
        return RedirectResponse(PREFIX, 307, {**SECURITY_HEADERS, "Vary": "Accept"})

    async def redirect_browser(request: Request) -> Response:
        """Send a browser to the dashboard; programs get the same 404 as elsewhere."""
        is_browser = "text/html" in request.headers.get("accept", "")
        return await redirect(request) if is_browser else _not_found(request)

    return [
        Route("/", redirect_browser, methods=["GET"]),
        Route(PREFIX.rstrip("/"), redirect, methods=["GET"]),
        Route(PREFIX + "{path:path}", send_file, methods=["GET"]),
    ]


def _send(request: Request, file: StaticFile) -> Response:
    headers = {
        **DASHBOARD_HEADERS,
        "Cache-Control": file.caching,
        "ETag": file.etag,
        "Vary": "Accept-Encoding",
    }
    if request.headers.get("if-none-match") == file.etag:
        return Response(None, 304, headers)
    if accepts_gzip(request):
        headers["Content-Encoding"] = "gzip"
        return Response(file.compressed, 200, headers, file.media_type)
    return Response(file.content, 200, headers, file.media_type)


def _not_found(request: Request) -> Response:
    refusal = ProblemError(ProblemType.NOT_FOUND, "", SECURITY_HEADERS)
    return problem_response(refusal, request.url.path)
