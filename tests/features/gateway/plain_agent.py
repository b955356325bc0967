"""An agent without any SDK, which starts fast: threads that call models until refused or cut off.

Run as `python plain_agent.py THREADS TURNS`.
"""

import http.client
import json
import os
import sys
from threading import Thread
from urllib.parse import urlsplit


def loop(number: int, turns: int) -> None:
    """Ask until a call is refused, or the gateway is gone."""
    base = urlsplit(os.environ["OPENAI_BASE_URL"])
    headers = {
        "authorization": f"Bearer {os.environ['OPENAI_API_KEY']}",
        "content-type": "application/json",
    }
    for turn in range(turns):
        content = {"role": "user", "content": f"{os.getpid()} {number} {turn}"}
        body = {"model": "gpt-4o-mini", "messages": [content], "max_tokens": 200}
        body["stream"] = turn % 2 == 0
        connection = http.client.HTTPConnection(base.netloc, timeout=60)
        try:
            connection.request("POST", f"{base.path}/chat/completions", json.dumps(body), headers)
            reply = connection.getresponse()
            reply.read()
        except (OSError, http.client.HTTPException):
            continue
        finally:
            connection.close()
        if reply.status == 402:
            return


def main() -> None:
    """Ask from many threads."""
    threads = [
        Thread(target=loop, args=(n, int(sys.argv[2])), daemon=True)
        for n in range(int(sys.argv[1]))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
