"""Serve a model from a GGUF file until standard input ends: `python -m benchmarks.local_model`.

The settings are those of `forum.features.demo.smollm2`: no temperature and no cache of prompts, so
that a reply depends on the request alone.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

CONTEXT_TOKENS = 4096
LOOPBACK = "127.0.0.1"


@contextmanager
def serve_model(
    file: Path, name: str, template: str = "", threads: int = 1
) -> Iterator[tuple[str, int]]:
    """Serve a model from a process of its own; yield its base URL and the id of the process."""
    command = [sys.executable, "-m", "benchmarks.local_model", str(file), name, template]
    with subprocess.Popen(
        [*command, str(threads)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout
        try:
            url = process.stdout.readline().decode().strip()
            if not url:
                raise SystemExit(f"{file} cannot be served: is it a whole GGUF file?")
            yield url, process.pid
        finally:
            process.kill()


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.local_model", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("name")
    parser.add_argument("template", help="a file with a chat template; empty: that of the model")
    parser.add_argument("threads", type=int)
    options = parser.parse_args()
    xllamacpp: Any = import_module("xllamacpp")  # has no type hints
    chosen = xllamacpp.CommonParams()
    chosen.model.path = str(options.file)
    chosen.model_alias = {options.name}
    chosen.hostnames, chosen.port = [LOOPBACK], 0
    chosen.offline, chosen.ui = True, False
    chosen.endpoint_slots = False
    chosen.verbosity = 1
    chosen.n_parallel, chosen.n_ctx = 1, CONTEXT_TOKENS
    chosen.use_jinja = True
    if options.template:
        chosen.chat_template = Path(options.template).read_text()
    chosen.cpuparams.n_threads = chosen.cpuparams_batch.n_threads = options.threads
    chosen.sampling.temp, chosen.sampling.seed = 0.0, 1
    chosen.cache_prompt, chosen.cache_ram_mib = False, 0
    server = xllamacpp.Server(chosen)
    print(f"{server.listening_address}/v1", flush=True)
    sys.stdin.buffer.read()
    os._exit(0)  # the server's own shutdown waits for requests in progress


if __name__ == "__main__":
    main()
