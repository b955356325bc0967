"""What the dashboard changes: runs that it submits, forks and cancels, and keys."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import httpx2
import pytest

from tests.surfaces.terminal import Terminal
from tests.web.browsing import UpServer, play, up
from tests.web.test_browser import pytestmark as browser_marks

pytestmark = browser_marks

AGENTS = """
[models.capable]
cmd = "cat"
usd = 0.01

[models.slow]
cmd = "sleep 600"
usd = 0.01
"""
TASKS: list[dict[str, Any]] = [
    {"id": "rivers", "instruction": "Name rivers."},
    {"id": "lakes", "instruction": "Name lakes.", "needs": ["rivers"]},
    {"id": "seas", "instruction": "Name seas.", "needs": ["lakes"], "after": ["rivers"]},
]


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """Begin a project with two agents that are programs."""
    begun = Terminal(tmp_path_factory.mktemp("actions"))
    (begun.folder / "forum.toml").write_text(AGENTS)
    return begun


@pytest.fixture(scope="module")
def server(terminal: Terminal) -> Iterator[UpServer]:
    """Serve the project."""
    with up(terminal) as running:
        yield running


def submit(server: UpServer, request: str, tasks: list[dict[str, Any]]) -> str:
    """Submit a plan, as another client would."""
    ask = {"request": request, "tasks": tasks, "budget": {"usd": "1"}}
    taken = server.client.post("/api/v1/runs", json=ask)
    assert taken.status_code == 202, taken.text
    return str(taken.json()["run"])


def carry_out(server: UpServer, request: str, tasks: list[dict[str, Any]]) -> str:
    """Submit a plan, and wait for its end."""
    run = submit(server, request, tasks)
    server.eventually(lambda: show(server, run)["outcome"] is not None)
    return run


def show(server: UpServer, run: str, **query: int) -> Any:  # noqa: ANN401  JSON
    """Return a run as the API shows it."""
    return server.client.get(f"/api/v1/runs/{run}", params=query).json()


def list_entries(server: UpServer, run: str) -> Any:  # noqa: ANN401  JSON
    """Return the entries of a run that have a place in the log."""
    query: dict[str, str | int] = {"run": run, "limit": 1000}
    listed = server.client.get("/api/v1/entries", params=query).json()["entries"]
    return [line for line in listed if line["index"] is not None]


def list_runs(server: UpServer) -> set[str]:
    """Return the names of all runs."""
    listed = server.client.get("/api/v1/runs", params={"limit": 100}).json()["runs"]
    return {line["run"] for line in listed}


@contextmanager
def as_reader(server: UpServer) -> Iterator[UpServer]:
    """Use the server with a new key that may only read."""
    made = server.client.post("/api/v1/keys", json={"name": "ann", "scopes": ["read"]}).json()
    headers = {"Authorization": f"Bearer {made['secret']}"}
    with httpx2.Client(base_url=server.url, headers=headers) as client:
        yield replace(server, client=client)


def test_pages_with_forms_have_no_fault(server: UpServer) -> None:
    """Light and dark, wide and narrow: nothing for axe, no CSP report, no request elsewhere."""
    assert play(server, "pages.mjs", "#/submit", "#/access") == []


def test_a_run_is_submitted_once_and_followed_to_its_end(server: UpServer) -> None:
    """A cap is required; two presses and a lost reply are one run."""
    before = list_runs(server)
    said = play(server, "submit.mjs", json.dumps(TASKS))
    run = show(server, said["run"])

    assert said["faults"] == []
    assert said["withoutCap"].startswith("Say how many dollars")
    assert said["askedWithoutCap"] == 0
    assert said["plansOfAnotherCap"] == 0
    assert "nobody" in said["withBadPlan"]
    assert [line.split("\n")[-1] for line in said["planned"]] == ["rivers", "lakes", "seas"]
    assert "at most $0.25" in said["ceiling"]
    assert said["lost"] == 1
    assert list_runs(server) - before == {said["run"], said["recorded"]}
    assert "not planned by a model, not judged" in said["care"]
    assert "No worker is running, so it waits" in said["withoutWorker"]
    assert (run["outcome"], run["cap"]["usd"]) == ("ok", "0.25")


def test_a_run_is_forked_where_the_slider_stands(server: UpServer) -> None:
    """The page shows the run as it stood, says what is taken over, and leads to the fork."""
    run = carry_out(server, "Name waters.", TASKS)
    server.eventually(lambda: list_entries(server, run)[-1]["entry"]["kind"] == "run.close/1")
    entries = list_entries(server, run)
    replies = [line["index"] for line in entries if line["entry"]["kind"] == "reply/1"]
    steps = sum(line["index"] > replies[1] for line in entries)
    before = list_runs(server)
    then = show(server, run, until=replies[1])
    spent = f"${then['spent']['usd']} of $1.00"
    said = play(server, "fork.mjs", run, str(len(entries)), str(steps), spent)
    passed = sum(task["state"] == "passed" for task in then["tasks"])
    fork = show(server, said["fork"])
    opened = (line["entry"] for line in list_entries(server, said["fork"]))
    (accepted,) = (entry for entry in opened if entry["kind"] == "accepted/1")

    assert said["faults"] == []
    assert said["until"] == replies[1]
    assert "$0.03 of $1.00" in said["now"]
    assert spent in said["stood"]["facts"]
    assert said["stood"]["plan"] == f"{passed} of 3 tasks passed"
    assert "2 replies for $0.02" in said["promised"]
    assert "1 reply for $0.01" in said["promised"]
    assert said["parent"] == f"#/run/{run}"
    assert list_runs(server) - before == {said["fork"]}
    assert (fork["fork_of"], fork["outcome"], fork["spent"]["usd"]) == (run, "ok", "0.01")
    assert accepted["facts"]["fork_index"] == replies[1]


def has_closed(server: UpServer, run: str) -> bool:
    """Return whether the close of a run is listed; its entries are listed once they are signed."""
    entries = list_entries(server, run)
    return bool(entries) and entries[-1]["entry"]["kind"] == "run.close/1"


def test_a_pack_that_is_taken_in_the_browser_verifies(
    server: UpServer, terminal: Terminal, tmp_path: Path
) -> None:
    """One press saves the evidence of the whole log, with a run that was drawn."""
    run = carry_out(server, "Name waters.", TASKS[:1])
    server.eventually(lambda: has_closed(server, run))
    file = tmp_path / "pack.zip"
    said = play(server, "pack.mjs", str(file))
    verified = terminal.type("verify", str(file), "--policy", str(terminal.policy))
    drawn = [name for name in ZipFile(file).namelist() if name.startswith("runs/")]

    assert said["faults"] == []
    assert said["name"] == "evidence-begin-now.zip"
    assert said["withoutNumber"] == {"isEnabled": False, "hint": "A number up to 200."}
    assert (verified.returncode, len(drawn)) == (0, 1), verified.stdout


def test_a_run_is_cancelled(server: UpServer) -> None:
    """The page follows it to its end, and then offers nothing to cancel."""
    run = submit(server, "Wait.", [{"id": "wait", "instruction": "Wait.", "agent": "slow"}])
    said = play(server, "cancel.mjs", run)

    assert said == {"isOffered": False, "faults": []}
    assert show(server, run)["outcome"] == "cancelled"


def test_filters_are_in_the_address_and_survive_a_reload(server: UpServer) -> None:
    """So a list can be kept as a bookmark, and sent to somebody."""
    easy = {"id": "a", "instruction": "Look around."}
    hard = {**easy, "done_when": "matches ^found$"}
    failed = carry_out(server, "Find the lost glacier.", [hard])
    carry_out(server, "Find the lost glacier.", [easy])
    carry_out(server, "Find the lost island.", [hard])
    said = play(server, "filters.mjs", "failed", "glacier")

    assert said["faults"] == []
    assert len(said["all"]) >= 3
    assert said["filtered"] == said["afterReload"] == [failed]
    assert said["address"] == "/runs?state=failed&text=glacier"
    assert said["kept"] == ["failed", "glacier"]


def test_a_key_that_reads_is_told_which_scope_an_action_needs(server: UpServer) -> None:
    """It is offered no action that the server would refuse."""
    gated = {
        "request": "Name rivers.",
        "gates": {"what": ["plan"]},
        "budget": {"usd": "1"},
        "tasks": TASKS,
    }
    run = server.client.post("/api/v1/runs", json=gated).json()["run"]
    server.eventually(lambda: bool(show(server, run)["waits_for"]))
    with as_reader(server) as reader:
        said = play(reader, "reader.mjs", run)
    pages = said["said"]
    lacked = {
        page: sorted({text.partition(" the scope ")[2].split(".")[0] for text in shown["texts"]})
        for page, shown in pages.items()
    }

    assert said["faults"] == []
    assert [shown["offered"] for shown in pages.values()] == [[]] * len(pages)
    assert lacked == {
        "runs": ["submit"],
        "run": ["approve", "audit", "submit"],
        "access": ["admin"],
        "submit": ["submit"],
        "preview": ["submit"],
    }
    assert "Access" not in said["sections"]


def test_a_key_is_made_used_and_revoked(server: UpServer) -> None:
    """Its secret is shown once and kept nowhere; after the revocation it opens nothing."""
    said = play(server, "access.mjs", "bea")
    keys = server.client.get("/api/v1/keys").json()["keys"]
    (key,) = (key for key in keys if key["name"] == "bea")
    headers = {"Authorization": f"Bearer {said['secret']}"}

    assert said["faults"] == []
    assert len(said["complaints"]) == 2
    assert said["copied"] == said["secret"]
    assert said["who"] == f"key/bea/{key['id']} may read"
    assert not said["isKept"]
    assert said["isValidAfterCancel"]
    assert (key["state"], key["scopes"]) == ("revoked", ["read"])
    assert httpx2.get(f"{server.url}/api/v1/runs", headers=headers).status_code == 401


def test_a_decision_is_about_what_was_read_to_its_end(server: UpServer) -> None:
    """The gate on the screen stays, a program is named, and no part is approved unseen."""
    made = server.client.post("/api/v1/keys", json={"name": "bot", "scopes": ["report"]}).json()
    long = "".join(f"{number} is harmless.\n" for number in range(600)) + "WIRE IT ALL."
    said = play(server, "decide.mjs", made["secret"], long)
    gates = {
        run: server.client.get(f"/api/v1/runs/{run}").json()["gates"][0]
        for run in ("rivers-0001", "transfer-0001")
    }

    assert said["faults"] == []
    assert said["atOnce"] is True
    assert said["first"] == said["second"] == f"{server.url}/ui/#/gates/rivers-0001/plan"
    for text in ("rivers-0001", "List three rivers.", f"reported by key-bot-{made['key']['id']}"):
        assert text in said["dialog"]
    assert "NOT a run of Forum: reported by key-bot" in said["listed"]
    assert (said["unread"], said["early"], said["jumped"]) == (True, 0, True)
    assert "To approve, read what you decide to its end." in said["hint"]
    assert "WIRE IT ALL." in said["whole"]
    assert said["swapped"] == 0
    assert gates["rivers-0001"]["decided"] == "approve"
    assert gates["transfer-0001"]["decided"] is None
    assert gates["transfer-0001"]["provenance"] == "reported"
