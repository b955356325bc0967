"""Client that requests cosignatures from a witness.

Deployed witnesses deviate from the protocol: a fork may be answered with 409 and no size, a wrong
key with 500.  So a request is repeated once after a 409, and only if the reply names a size from
which the log can prove consistency.
"""

from collections.abc import Callable, Sequence
from http.client import HTTPException, HTTPResponse
from queue import Empty, SimpleQueue
from threading import Thread
from urllib.parse import urlsplit
from urllib.request import HTTPErrorProcessor, Request, build_opener

from forum.errors import Malformed, WitnessRefused, WitnessUnreachable
from forum.features.witness.witness import WitnessReply, encode_request
from forum.tlog import Hash, parse_checkpoint

_MAX_REPLY_BYTES = 1 << 16
_TIMEOUT_S = 5.0

SendRequest = Callable[[bytes], WitnessReply]


class WitnessClient:
    """A cosigner that forwards requests to one witness, over HTTP or in this process."""

    def __init__(self, name: str, send: SendRequest) -> None:
        self._name, self._send = name, send
        self._known_size = 0
        """The assumed size of the witness's last checkpoint; a 409 reply corrects it."""

    @property
    def name(self) -> str:
        """The name of the witness's key."""
        return self._name

    def cosign(self, note: bytes, prove: Callable[[int, int], Sequence[Hash]]) -> str:
        """Return the cosignature lines for a checkpoint.

        Raises `WitnessRefused`, `WitnessUnreachable`.
        """
        size = parse_checkpoint(note).size
        reply = self._ask(note, min(self._known_size, size), size, prove)
        if reply.status == 409:
            known_size = _known_size(reply)
            if known_size is None or known_size > size:
                tree = "another tree" if known_size is None else f"a tree of size {known_size}"
                raise WitnessRefused(self._name, f"it has already seen {tree}")
            reply = self._ask(note, known_size, size, prove)
        if reply.status >= 500:
            raise WitnessUnreachable(self._name, f"it answered {reply.status}")
        if reply.status != 200:
            why = reply.body.decode(errors="replace").strip()[:200]
            raise WitnessRefused(self._name, f"{reply.status} {why}".strip())
        self._known_size = size
        return reply.body.decode(errors="replace")

    def _ask(
        self, note: bytes, old: int, size: int, prove: Callable[[int, int], Sequence[Hash]]
    ) -> WitnessReply:
        proof = prove(old, size) if 0 < old < size else ()
        return self._send(encode_request(old, proof, note))


def http_sender(name: str, url: str) -> SendRequest:
    """Return a function that posts requests to the witness at this submission prefix.

    It raises `WitnessUnreachable` if there is no reply within twice the socket timeout.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise Malformed("witness address", f"{url} is not http or https")
    opener = build_opener(_AnyStatusProcessor)
    target = f"{url.rstrip('/')}/add-checkpoint"

    def post(body: bytes) -> WitnessReply | str:
        request = Request(target, body, {"Content-Type": "text/plain"}, method="POST")  # noqa: S310
        try:
            with opener.open(request, timeout=_TIMEOUT_S) as response:
                return WitnessReply(response.status, response.read(_MAX_REPLY_BYTES))
        except (HTTPException, OSError) as error:  # URLError is an OSError
            return str(getattr(error, "reason", error))

    def send(body: bytes) -> WitnessReply:
        # A socket timeout restarts with every byte, so a witness that sends slowly could block the
        # publisher far longer.  The request runs in a daemon thread that can be abandoned.
        answers: SimpleQueue[WitnessReply | str] = SimpleQueue()
        Thread(target=lambda: answers.put(post(body)), daemon=True).start()
        try:
            answer = answers.get(timeout=2 * _TIMEOUT_S)
        except Empty:
            answer = "it takes too long to answer"
        if isinstance(answer, WitnessReply):
            return answer
        raise WitnessUnreachable(name, answer)

    return send


class _AnyStatusProcessor(HTTPErrorProcessor):
    """Returns every status as a reply instead of raising, and does not follow redirects."""

    def http_response(self, request: Request, response: HTTPResponse) -> HTTPResponse:  # noqa: ARG002
        return response

    https_response = http_response


def _known_size(reply: WitnessReply) -> int | None:
    text = reply.body.decode("ascii", errors="replace").strip()
    return int(text) if text.isdecimal() and len(text) < 20 else None
