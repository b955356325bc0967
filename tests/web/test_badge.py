"""The badge: the browser proves what a page shows, and says so when the server lies."""

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.terminal import Terminal
from tests.web.browsing import needs_browser, play, up
from tests.web.sample_data import write_gate_run

pytestmark = [*needs_browser, pytest.mark.slow]

NOTES = 3


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:  # noqa: ANN401  what the script prints
    """Show a run to a browser: from the log, from an older copy, and from another continuation."""
    home = tmp_path_factory.mktemp("badge")
    true = Terminal(home / "true")
    run = write_gate_run(true)
    old, other = (copy_project(true, home / name) for name in ("old", "other"))
    for number in range(NOTES):
        true.call("ledger", "note", f"paid {number} euros")
    for number in range(NOTES + 2):
        other.call("ledger", "note", f"paid {number} dollars")
    policy = home / "policy"
    policy.write_text(true.type("ledger", "policy").stdout)
    with ExitStack() as stack:
        honest, *liars = (stack.enter_context(up(terminal)) for terminal in (true, old, other))
        copies = [word for server in liars for word in (server.url, server.key)]
        found = play(honest, "badge.mjs", run, str(policy), *copies)
        page = honest.client.get("/api/v1/entries", params={"run": run, "limit": 1000}).json()
    found["entries"] = len(page["entries"])
    return found


def copy_project(terminal: Terminal, home: Path) -> Terminal:
    """Return the user of a copy of a project with its keys."""
    copied = Terminal(home)
    shutil.copytree(terminal.folder.parent, home, dirs_exist_ok=True)
    return copied


def test_what_an_honest_server_shows_is_proven(seen: Any) -> None:  # noqa: ANN401
    """With the keys that the reader has compared and pinned, and not before."""
    assert seen["before"] == "check in this browser"
    assert "witness on the writer's own machine" in seen["keys"]
    assert seen["honest"]["tone"] == "ok"
    assert "entries proven here" in seen["honest"]["label"]
    assert "1 of 1 pinned witnesses cosigned it, on the writer's own machine" in seen["details"]
    assert "cannot prove itself" in seen["details"]


def test_each_lie_has_a_red_badge_of_its_own(seen: Any) -> None:  # noqa: ANN401
    """A tile, an entry, the checkpoint, the history: the badge says what was altered."""
    labels = {
        "tile": "a tile of the log was altered",
        "entry": "an entry was altered",
        "missing": "an entry is left out",
        "checkpoint": "the checkpoint was altered",
        "shorter": "the log is shorter than before",
        "history": "another history than before",
    }

    assert {name: seen[name]["label"] for name in labels} == labels
    assert {seen[name]["tone"] for name in labels} == {"bad"}
    assert len({seen[name]["sentence"].split("\n")[0] for name in labels}) == len(labels)
    assert all("verify.html" in seen[name]["sentence"] for name in labels)


def test_what_cannot_be_checked_is_not_green(seen: Any) -> None:  # noqa: ANN401
    """A server that refuses the log, or the worker, proves nothing."""
    for name in ("refused", "noWorker"):
        assert (seen[name]["label"], seen[name]["tone"]) == ("could not check", "wait")


def test_a_checkpoint_without_the_quorum_of_the_policy_is_not_green(seen: Any) -> None:  # noqa: ANN401
    """The reader has asked for a witness."""
    assert seen["uncosigned"]["tone"] == "wait"
    assert "proven here · quorum not reached" in seen["uncosigned"]["label"]


def test_a_text_of_the_transcript_that_was_altered_says_so(seen: Any) -> None:  # noqa: ANN401
    """The entry is proven, and its text is not what it commits to."""
    assert seen["body"] == "This text is not the one that the entry commits to."


def test_nothing_is_decided_about_bytes_that_the_server_keeps_back(seen: Any) -> None:  # noqa: ANN401
    """The text of a gate is compared with its digest, or it cannot be decided about."""
    assert "nothing can be decided here" in seen["withheld"]["text"]
    assert seen["withheld"]["buttons"] == 0


def test_new_entries_are_not_called_proven_before_they_are(seen: Any) -> None:  # noqa: ANN401
    """The badge speaks of what is on the screen."""
    assert seen["arriving"]["tone"] == "busy"
    assert "not checked yet" in seen["arriving"]["label"]
    assert seen["ended"]["label"] == f"{seen['entries']} entries proven here"


def test_the_page_of_the_log_is_proven_and_can_be_forgotten(seen: Any) -> None:  # noqa: ANN401
    """It shows the life of the log, finds an entry by its index, and forgets keys and tree."""
    assert "entries proven here" in seen["log"]
    assert "key.add/1" in seen["logEntry"]
    assert "in the signed log, byte for byte" in seen["logEntry"]
    assert "Log opened" in seen["life"]
    assert seen["forgotten"] == "check in this browser"


def test_the_badge_has_no_fault(seen: Any) -> None:  # noqa: ANN401
    """No script error, no report of the content security policy, and nothing for axe."""
    assert seen["faults"] == []
