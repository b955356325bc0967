"""Sign a person in to the dashboard: by an address on the terminal, and by starting a browser.

The arguments of a process are visible to every user of a machine, and a log may be read by others.
So an address that holds a code is written to a terminal or into a file of the user's own, never to
a log and never to a command line.
"""

import os
import tempfile
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread, Timer

from forum import platform_calls
from forum.surfaces.cli.console import echo, style
from forum.untrusted_text import escape_html

_PAGE = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
<title>Forum</title>
<p>Opening <a href="{address}">the dashboard</a>.</p>
"""


def print_sign_in(dashboard: str, code: str, again: str) -> None:
    """Print on the terminal where the dashboard is, and an address that signs in once.

    `again` says how to sign in after that.
    """
    echo(
        "",
        f"  Dashboard  {dashboard}",
        f"  Sign in    {style(f'{dashboard}#/sign-in/{code}', bold=True)}",
        f"             This address works once, within 5 minutes. {again}",
        err=True,
    )
    if os.environ.get("SSH_CONNECTION"):
        port = dashboard.rpartition(":")[2].partition("/")[0]
        echo(
            f"             From your own machine, first: ssh -L {port}:127.0.0.1:{port} HOST",
            err=True,
        )
    echo("  Ctrl-C ends it.", "", err=True)


def can_open_browser() -> bool:
    """Return whether a browser with a window can be started here.

    Without a display, Python would start a browser of text in the terminal.
    """
    names = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    return platform_calls.SYSTEM != "linux" or any(os.environ.get(name) for name in names)


@contextmanager
def private_page(lifetime_s: float) -> Iterator[Path]:
    """Yield an empty HTML file that its owner alone can read (0600); remove it after a while.

    It is in the home folder, and its name is not hidden: a browser that is confined as a snap can
    read nothing else, neither the folder for temporary files nor hidden ones.
    """
    home = Path.home()
    folder = home if os.access(home, os.W_OK) else None
    handle, name = tempfile.mkstemp(prefix="forum-sign-in-", suffix=".html", dir=folder)
    os.close(handle)
    path = Path(name)
    timer = Timer(lifetime_s, path.unlink, kwargs={"missing_ok": True})
    timer.daemon = True
    timer.start()
    try:
        yield path
    finally:
        timer.cancel()
        path.unlink(missing_ok=True)


def open_in_browser(page: Path, address: str, say: Callable[[str], None]) -> None:
    """Start the user's browser with a page that redirects to an address; do not wait for it."""
    page.write_text(_PAGE.format(address=escape_html(address)))

    def start() -> None:
        opened = False
        with suppress(webbrowser.Error):
            opened = webbrowser.open(page.as_uri())
        if not opened:
            say("No browser could be started.")

    # Some browsers run in the foreground until they are closed.
    Thread(target=start, daemon=True, name="browser").start()
