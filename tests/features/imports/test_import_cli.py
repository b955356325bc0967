"""`forum import forum-engine`: checked first, recorded in order, once, and as reported only."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.features.imports.engine_ledgers import RUN, Step, edit_line, write_ledger
from tests.surfaces.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    """Return a terminal in a new project."""
    made = Terminal(tmp_path / "project")
    made.call("init")
    return made


def import_ledger(terminal: Terminal, folder: Path) -> dict[str, Any]:
    """Import a ledger, and return what the command says."""
    done = terminal.call("import", "forum-engine", str(folder), "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def entries_of(terminal: Terminal, run: str) -> list[dict[str, Any]]:
    """Return the entries of a run in the order of the log."""
    lines = terminal.call("ledger", "show", "--json", "--limit", "1000").stdout
    entries = [entry for entry in json.loads(lines)["entries"] if entry["entry"]["run"] == run]
    return sorted(entries, key=lambda entry: entry["index"])


def test_a_ledger_becomes_reported_steps_in_its_order(terminal: Terminal, tmp_path: Path) -> None:
    """And the log that holds them verifies."""
    document = import_ledger(terminal, write_ledger(tmp_path / "led", [*RUN, *RUN]))

    assert (document["entries"], document["recorded"], len(document["runs"])) == (12, 12, 2)
    for run in document["runs"]:
        steps = [
            entry["entry"]["facts"]
            for entry in entries_of(terminal, run["run"])
            if entry["entry"]["kind"] == "report.step/1"
        ]
        assert [step["name"] for step in steps] == [kind for _, kind, _, _ in RUN]
        shown = json.loads(terminal.call("show", run["run"], "--json").stdout)
        assert shown["provenance"] == "reported"
        assert shown["outcome"] == "ok"
    verified = terminal.call("ledger", "verify")
    assert verified.exit_code == 0, verified.output
    assert "2 reported" in verified.output


def test_a_second_import_records_only_what_is_new(terminal: Terminal, tmp_path: Path) -> None:
    """A ledger that goes on, in the middle of a request, is continued by another run."""
    folder = tmp_path / "led"
    first = import_ledger(terminal, write_ledger(folder, RUN[:4]))
    again = import_ledger(terminal, folder)
    grown = import_ledger(terminal, write_ledger(folder, [*RUN, *RUN[:1]]))

    assert (first["recorded"], again["recorded"], grown["recorded"]) == (4, 0, 3)
    assert [run["entries"] for run in grown["runs"]] == [4, 2, 1]
    assert grown["runs"][0] == again["runs"][0]
    (source,) = [
        entry["entry"]["facts"]
        for entry in entries_of(terminal, grown["runs"][1]["run"])
        if entry["entry"]["kind"] == "report.source/1"
    ]
    assert source["continues"] == first["runs"][0]["run"]
    assert terminal.call("ledger", "verify").exit_code == 0


def test_the_causes_of_an_imported_entry_are_those_of_its_ledger(
    terminal: Terminal, tmp_path: Path
) -> None:
    """`forum why` leads from the result over task and plan to the request."""
    (run,) = import_ledger(terminal, write_ledger(tmp_path / "led", RUN))["runs"]
    (index,) = [
        entry["index"]
        for entry in entries_of(terminal, run["run"])
        if entry["entry"]["facts"].get("name") == "result"
    ]
    causes = terminal.call("why", str(index)).output

    assert all(kind in causes for kind in ("request", "plan", "task"))
    assert "route_frame" not in causes


Damage = Callable[[Path], None]


def _drop(folder: Path, number: int) -> None:
    lines = (folder / "entries.jsonl").read_text().splitlines(keepends=True)
    (folder / "entries.jsonl").write_text("".join(lines[:number] + lines[number + 1 :]))


def _swap(folder: Path) -> None:
    lines = (folder / "entries.jsonl").read_text().splitlines(keepends=True)
    lines[2], lines[3] = lines[3], lines[2]
    (folder / "entries.jsonl").write_text("".join(lines))


BROKEN: dict[str, tuple[Damage, str]] = {
    "an actor": (
        lambda folder: edit_line(folder / "entries.jsonl", 4, "backend", "frontend"),
        "entry 4",
    ),
    "a time": (lambda folder: edit_line(folder / "entries.jsonl", 1, "1794", "1795"), "entry 1"),
    "a cause": (
        lambda folder: edit_line(
            folder / "entries.jsonl", 3, '"causal_parent": 2', '"causal_parent": 1'
        ),
        "entry 3",
    ),
    "a payload": (lambda folder: edit_line(folder / "payloads.jsonl", 4, "Two", "Six"), "entry 4"),
    "a dropped entry": (lambda folder: _drop(folder, 2), "entry 2"),
    "an exchanged order": (_swap, "entry 2"),
    "a line that is not JSON": (
        lambda folder: edit_line(folder / "entries.jsonl", 2, '{"seq"', '"seq"'),
        "entries.jsonl, line 3",
    ),
    "a member of another type": (
        lambda folder: edit_line(folder / "entries.jsonl", 2, '"seq": 2', '"seq": "2"'),
        "entry 2",
    ),
}


@pytest.mark.parametrize("damage", BROKEN)
def test_a_broken_ledger_is_refused_with_the_entry(
    damage: str, terminal: Terminal, tmp_path: Path
) -> None:
    """Before anything is recorded; the status is that of a failed verification."""
    folder = write_ledger(tmp_path / "led", RUN)
    change, place = BROKEN[damage]
    change(folder)
    done = terminal.type("import", "forum-engine", str(folder))

    assert done.returncode == 3
    assert f"{place}:" in done.stderr
    assert "Nothing was imported" in done.stderr
    assert not json.loads(terminal.call("runs", "--json").stdout)["runs"]


def test_another_past_of_an_imported_ledger_is_refused(terminal: Terminal, tmp_path: Path) -> None:
    """A chain that was computed again is consistent, and still not what was imported."""
    folder = tmp_path / "led"
    import_ledger(terminal, write_ledger(folder, RUN))
    forged: list[Step] = [*RUN[:5], ("validator", "verdict", 4, {"ok": False})]
    done = terminal.type("import", "forum-engine", str(write_ledger(folder, forged)))

    assert done.returncode == 3
    assert "continues differently" in done.stderr


def test_what_was_redacted_or_torn_is_said(terminal: Terminal, tmp_path: Path) -> None:
    """Both are allowed in its format, and no reason to refuse it."""
    folder = write_ledger(tmp_path / "led", RUN)
    lines = (folder / "payloads.jsonl").read_text().splitlines(keepends=True)
    (folder / "payloads.jsonl").write_text("".join(lines[:4] + lines[5:]))
    with (folder / "entries.jsonl").open("a") as file:
        file.write('{"seq": 6, "ts"')
    document = import_ledger(terminal, folder)

    assert (document["entries"], document["missing_payloads"], document["torn_lines"]) == (6, 1, 1)


def test_a_folder_without_a_ledger_is_named(terminal: Terminal, tmp_path: Path) -> None:
    """A mistake is answered with what belongs there."""
    done = terminal.type("import", "forum-engine", str(tmp_path))

    assert done.returncode == 2
    assert "has no entries.jsonl" in done.stderr
