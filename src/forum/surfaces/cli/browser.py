"""Open the dashboard in the user's browser, signed in."""

import os
import tempfile
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from threading import Thread

_PAGE = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
<title>Forum</title>
<p>Opening <a href="{address}">the dashboard</a>.</p>
"""


@contextmanager
def private_page() -> Iterator[Path]:
    """Yield an empty HTML file that its owner alone can read (0600); remove it in the end."""
    handle, name = tempfile.mkstemp(prefix="forum-", suffix=".html")
    os.close(handle)
    path = Path(name)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def open_in_browser(page: Path, address: str, say: Callable[[str], None]) -> None:
    """Start the user's browser with a page that redirects to an address; do not wait for it.

    The arguments of a process are visible to every user of the machine.  So the browser is started
    with the name of a file, and not with an address that holds a code.
    """
    page.write_text(_PAGE.format(address=escape(address)))

    def start() -> None:
        if not webbrowser.open(page.as_uri()):
            say(f"No browser could be started. Open {page} in yours.")

    # Some browsers run in the foreground until they are closed.
    Thread(target=start, daemon=True, name="browser").start()
