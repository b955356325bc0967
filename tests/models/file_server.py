"""A real HTTPS server of files on loopback, which serves them well or badly, as it is told to.

`with serving_files(folder, files) as server:` serves at `server.url`.  Clients trust it if
SSL_CERT_FILE names `server.authority`, the certificate of an authority made for this server.
"""

import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

Send = Callable[["FileRequest"], None]
"""A way to answer a request."""


@dataclass
class FileServer:
    """The server, how it answers, and what it was asked for."""

    files: Mapping[str, bytes]
    authority: Path
    url: str = ""
    answer: Send = field(default_factory=lambda: serve)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    """The path and the range of each request."""
    over: Event = field(default_factory=Event)
    """Set at the end, so that no answer goes on."""


@dataclass
class FileRequest:
    """A request for a file, from a position on."""

    server: FileServer
    handler: BaseHTTPRequestHandler
    name: str
    content: bytes
    start: int | None
    """Where the range begins that is asked for, if one is."""

    def head(self, status: int, **headers: str) -> None:
        """Send the status and the headers."""
        self.handler.send_response(status)
        for name, value in headers.items():
            self.handler.send_header(name.replace("_", "-"), value)
        self.handler.end_headers()

    def write(self, data: bytes) -> None:
        """Send a part of the body."""
        self.handler.wfile.write(data)
        self.handler.wfile.flush()

    def begin(self, length: int | None = None) -> bytes:
        """Send the head of a good answer, and return what its body has to be."""
        rest = self.content[self.start or 0 :]
        headers = {"Content_Length": str(len(rest) if length is None else length)}
        if self.start is not None:
            end = len(self.content) - 1
            headers["Content_Range"] = f"bytes {self.start}-{end}/{len(self.content)}"
        self.head(200 if self.start is None else 206, **headers)
        return rest


def serve(request: FileRequest) -> None:
    """Send the file, or the range of it that is asked for."""
    request.write(request.begin())


def serve_without_ranges(request: FileRequest) -> None:
    """Send the whole file whatever is asked for."""
    request.start = None
    request.write(request.begin())


def serve_without_length(request: FileRequest) -> None:
    """Send the file; where it ends is where the connection does."""
    request.head(200)
    request.write(request.content)


def alter(request: FileRequest) -> None:
    """Send the file with another last byte."""
    rest = request.begin()
    request.write(rest[:-1] + bytes([rest[-1] ^ 1]))


def truncate(size: int) -> Send:
    """Announce the whole file, and end the connection after some bytes."""
    return lambda request: request.write(request.begin()[:size])


def stall(size: int) -> Send:
    """Send some bytes, and then nothing, for as long as the client waits."""

    def send(request: FileRequest) -> None:
        request.write(request.begin()[:size])
        request.server.over.wait()

    return send


def send_forever(request: FileRequest) -> None:
    """Send a body that does not end, and does not say how long it is."""
    request.head(200)
    while not request.server.over.is_set():
        request.write(b"\0" * 65536)


def redirect(location: str = "", *, endless: bool = False) -> Send:
    """Send the client elsewhere: without a location, to a folder of this server with the file."""

    def send(request: FileRequest) -> None:
        moved = f"/moved/{request.name}"
        if request.handler.path == moved:
            serve(request)
            return
        request.head(302, Location=location or f"{request.server.url}{moved}")
        while endless and not request.server.over.is_set():
            request.write(b"\0" * 65536)

    return send


@contextmanager
def serving_files(folder: Path, files: Mapping[str, bytes]) -> Iterator[FileServer]:
    """Serve files from a thread; the certificates are written into a folder."""
    context = _make_certificates(folder)
    server = FileServer(files, folder / "authority.pem")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            server.asked.append((self.path, wanted))
            begun = re.fullmatch(r"bytes=(\d+)-", wanted or "")
            name = self.path.partition("?")[0].rpartition("/")[2]
            content = server.files.get(name)
            with suppress(OSError):  # a client may leave in the middle
                if content is None:
                    self.send_error(404)
                else:
                    start = int(begun[1]) if begun else None
                    server.answer(
                        FileRequest(server, handler=self, name=name, content=content, start=start)
                    )

        def log_message(self, *_: object, **__: object) -> None:
            """Print nothing."""

    class Listener(ThreadingHTTPServer):
        def handle_error(self, *_: object, **__: object) -> None:
            """Print nothing: a client may end a handshake."""

    with Listener(("127.0.0.1", 0), Handler) as listener:
        listener.socket = context.wrap_socket(
            listener.socket, server_side=True, do_handshake_on_connect=False
        )
        server.url = f"https://localhost:{listener.server_port}"
        thread = Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            listener.shutdown()
            thread.join()


def _make_certificates(folder: Path) -> ssl.SSLContext:
    """Make an authority, and a certificate of it for this machine."""
    authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root = _certificate("Authority of a test", authority, authority, "Authority of a test")
    root = root.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    leaf = _certificate("localhost", own, authority, "Authority of a test")
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    leaf = leaf.add_extension(names, critical=False)
    (folder / "authority.pem").write_bytes(
        root.sign(authority, SHA256()).public_bytes(Encoding.PEM)
    )
    secret = own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "server.pem").write_bytes(
        leaf.sign(authority, SHA256()).public_bytes(Encoding.PEM) + secret
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    return context


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    authority: ec.EllipticCurvePrivateKey,
    issuer: str,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    subject, issued_by = (
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)]) for text in (name, issuer)
    )
    builder = x509.CertificateBuilder(
        issued_by, subject, key.public_key(), x509.random_serial_number()
    )
    builder = builder.not_valid_before(now - timedelta(hours=1))
    builder = builder.not_valid_after(now + timedelta(days=1))
    identity = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    return builder.add_extension(identity, critical=False).add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    )
