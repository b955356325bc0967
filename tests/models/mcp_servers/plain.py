"""A server without a library, for the tests of the gateway: it does what a file tells it to.

The file `tools.json` in its folder is its list of tools.  What it hears is in `heard`, and its
environment in `environment.json`.
"""

import json
import os
import sys
from pathlib import Path

folder = Path(sys.argv[1])
(folder / "environment.json").write_text(json.dumps(dict(os.environ)))


def answer(message: dict[str, object]) -> str:
    """Return the answer to a request."""
    match message["method"]:
        case "tools/list":
            result = f'{{"tools": {(folder / "tools.json").read_text()}}}'
        case "tools/call":
            result = '{"content": [], "structuredContent": {"exact": 1.00000000000000000001}}'
        case "initialize":
            result = (
                '{"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},'
                ' "serverInfo": {"name": "plain", "version": "0"}}'
            )
        case _:
            result = "{}"
    return f'{{"jsonrpc": "2.0", "id": {json.dumps(message["id"])}, "result": {result}}}'


for line in sys.stdin:
    with (folder / "heard").open("a") as heard:
        heard.write(line)
    document = json.loads(line)
    if document.get("method") == "tell":
        print(document["params"]["line"], flush=True)  # noqa: T201
    elif "answer" in document.get("params", {}):
        print(document["params"]["answer"], flush=True)  # noqa: T201
    elif "id" in document:
        print(answer(document), flush=True)  # noqa: T201
