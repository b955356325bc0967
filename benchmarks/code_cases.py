"""Run code that a model wrote, in the sandbox of Forum's agents, and return what it returns.

The code sees the inputs, and not what is expected of it. It reaches no network and no file of the
user, and has two seconds of CPU and 512 MB.
"""

import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from forum.models.sandbox import Sandbox

MAX_CPU_SECONDS = 2
MAX_SECONDS = 20
MAX_BYTES = 512 * 1024 * 1024
MAX_OUTPUT = 1024 * 1024

# It runs in the sandbox only. The last line is ours: what the code prints stands before it.
_RUNNER = """\
import copy, json, sys
job = json.load(sys.stdin)
names = {"__name__": "solution"}
exec(compile(job["code"], "solution", "exec"), names)
outputs = [names[job["function"]](copy.deepcopy(value)) for value in job["inputs"]]
print("\\n" + json.dumps(outputs))
"""


def run_cases(code: str, function: str, inputs: Sequence[Any]) -> list[Any] | None:
    """Return the output for each input; None if the code fails, or takes too long.

    Raises `NotConfined` where there is no sandbox: code of a model is not run without one.
    """
    sandbox = Sandbox(folder=None, hidden=())
    job = json.dumps({"code": code, "function": function, "inputs": inputs})
    try:
        done = subprocess.run(
            sandbox.command((sys.executable, "-I", "-S", "-c", _RUNNER)),
            input=job.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            timeout=MAX_SECONDS,
            preexec_fn=_limit_resources,
            check=False,
        )
        lines = done.stdout[-MAX_OUTPUT:].decode().splitlines()
        outputs = json.loads(lines[-1]) if done.returncode == 0 and lines else None
    except (subprocess.TimeoutExpired, ValueError):
        return None
    return outputs if isinstance(outputs, list) else None


def _limit_resources() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
