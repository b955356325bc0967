"""A long conversation in a real browser: loaded page by page, and each message once."""

from pathlib import Path

from forum.app import Forum
from forum.config import load_settings
from tests.long_conversation import write_conversation
from tests.surfaces.terminal import Terminal
from tests.web.browsing import play, up
from tests.web.test_browser import pytestmark as needs_browser

pytestmark = needs_browser

CALLS = 300


def test_a_long_conversation_is_loaded_where_it_is_looked_at(tmp_path: Path) -> None:
    """Only what is in view exists, and no message stands there twice."""
    terminal = Terminal(tmp_path / "home")
    with Forum(load_settings(terminal.folder, terminal.environment)) as forum:
        forum.keys.initialise()
        run = write_conversation(forum, CALLS)

    with up(terminal) as server:
        seen = play(server, "conversation.mjs", run)

    assert seen["faults"] == []
    assert seen["first"] < seen["pages"] < CALLS // 50
    assert min(seen["shown"]) > 2
    assert seen["nodes"] < 3000
