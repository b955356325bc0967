"""A real language model for tests and demos: SmolLM2-135M, served on this machine only.

``python -m forum.features.demo.smollm2`` speaks the OpenAI API on loopback, without a key or a
graphics card.  The package ``xllamacpp`` of the extra ``demo`` is the server of llama.cpp; the
weights are those of ``forum models pull smollm2``.  The model is very small: it shows that the way
from a prompt to a recorded reply works, and not how good replies are.

One thread, no temperature, and no cache of prompts: the same request has the same reply, however
busy the machine is and whatever was asked before.
"""

import argparse
import os
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from subprocess import PIPE, Popen, TimeoutExpired
from tempfile import TemporaryFile
from threading import Thread
from typing import IO, Any, Final

from forum.app.planner import load_weights
from forum.errors import ForumError, NotServing
from forum.installation import missing_extra
from forum.runs.model_weights import SMOLLM2, SMOLLM2_GGUF

MODEL: Final = "smollm2-135m"
LOOPBACK: Final = "127.0.0.1"
PORT: Final = 8801
READY_TIMEOUT_S: Final = 60.0
EXIT_GRACE_S: Final = 3.0
"""Seconds that the process has to exit after SIGTERM."""

_SLOTS = 4  # concurrent requests
CONTEXT_TOKENS = 2048
"""The number of tokens of a prompt with its reply."""
_STOPS = (signal.SIGTERM, signal.SIGINT)
_READY = "ready"


@contextmanager
def start_smollm2() -> Iterator[str]:
    """Serve the model from a separate process, and yield its base URL once it answers.

    The process ends with the block.  It also ends if this process is killed, because its standard
    input is then closed.
    """
    _find_weights()
    command = [sys.executable, "-P", "-m", "forum.features.demo.smollm2", "--port=0", "--until-eof"]
    with (
        TemporaryFile() as log,
        Popen(command, stdin=PIPE, stdout=PIPE, stderr=log) as process,  # noqa: S603  # no shell
    ):
        try:
            yield _base_url(process, log)
        finally:
            _stop_process(process)


def _base_url(process: Popen[bytes], log: IO[bytes]) -> str:
    """Wait for the line with the base URL.  Raises `NotServing`."""
    assert process.stdout is not None  # noqa: S101  # it is a pipe
    if not select.select([process.stdout], [], [], READY_TIMEOUT_S)[0]:
        raise NotServing(MODEL, f"it was not ready after {READY_TIMEOUT_S:.0f} seconds")
    match process.stdout.readline().decode().split():
        case [word, url, *_] if word == _READY:
            return url
        case _:
            _stop_process(process)
            log.seek(0)
            last = log.read().decode(errors="replace").strip().rpartition("\n")[2]
            raise NotServing(MODEL, last or f"its process ended with {process.returncode}")


def _stop_process(process: Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(EXIT_GRACE_S)
    except TimeoutExpired:
        process.kill()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve the model until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="forum.features.demo.smollm2", description=__doc__)
    parser.add_argument("--host", type=_loopback, default=LOOPBACK, help="an address of loopback")
    parser.add_argument("--port", type=int, default=PORT, help="0 for any that is free")
    parser.add_argument("--until-eof", action="store_true", help="end with standard input, too")
    options = parser.parse_args(arguments)
    try:
        _serve(options.host, options.port, until_eof=options.until_eof)
    except ForumError as error:
        parser.exit(2, f"{error}\n")


def _loopback(host: str) -> str:
    try:
        if ip_address(host).is_loopback:
            return host
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{host} is not an address of loopback, like {LOOPBACK}")


def _serve(host: str, port: int, *, until_eof: bool) -> None:
    weights = _find_weights()
    xllamacpp: Any = import_module("xllamacpp")  # has no type hints
    # Block the signals before the server starts its threads: they inherit the mask, so that only
    # `sigwait` receives the signals.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    if until_eof:
        Thread(target=_stop_at_eof, daemon=True).start()
    try:
        server = xllamacpp.Server(_parameters(xllamacpp, weights, host, port))
    except RuntimeError:  # the reason is printed on stderr, and not in the exception
        raise NotServing(MODEL, f"port {port} may be taken; choose another with --port") from None
    sys.stdout.write(f"{_READY} {server.listening_address}/v1 model {MODEL}\n")
    sys.stdout.flush()
    signal.sigwait(_STOPS)
    # The server's own shutdown waits for requests in progress, or crashes on them.
    os._exit(0)


def _stop_at_eof() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


def _find_weights() -> Path:
    """Return the file of the weights.

    Raises `MissingExtra` without the server, and `WeightsMissing` or `WeightsRejected`.
    """
    if find_spec("xllamacpp") is None:
        raise missing_extra("demo", "the package xllamacpp is not installed")
    return load_weights(SMOLLM2) / SMOLLM2_GGUF.name


def _parameters(xllamacpp: Any, weights: Path, host: str, port: int) -> Any:  # noqa: ANN401  # has no type hints
    chosen = xllamacpp.CommonParams()
    chosen.model.path = str(weights)
    chosen.model_alias = {MODEL}
    chosen.hostnames, chosen.port = [host], port
    chosen.offline, chosen.ui = True, False
    chosen.endpoint_slots = False
    chosen.cors_origins = f"http://{LOOPBACK}"  # keeps web pages in a browser from calling it
    chosen.verbosity = 1  # errors only
    chosen.n_parallel, chosen.n_ctx = _SLOTS, _SLOTS * CONTEXT_TOKENS
    chosen.use_jinja = True
    chosen.chat_template = files("forum.features.demo").joinpath("smollm2.jinja").read_text()
    # These settings make a reply depend on the request alone, not on chance or earlier requests.
    # There is only one thread, because a second one makes replies slower on a busy machine.
    chosen.cpuparams.n_threads = chosen.cpuparams_batch.n_threads = 1
    chosen.sampling.temp, chosen.sampling.seed = 0.0, 1
    chosen.cache_prompt, chosen.cache_ram_mib = False, 0
    return chosen


if __name__ == "__main__":
    main()
