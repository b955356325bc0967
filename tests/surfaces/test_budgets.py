"""Caps over many runs, as an operator sets and sees them and as clients meet them."""

import subprocess
import tomllib
from decimal import Decimal
from pathlib import Path
from time import sleep

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.app import KINDS, Forum
from forum.config import load_settings
from forum.errors import BadSettings
from forum.ledger.cap_orders import CapName
from forum.ledger.entry import LOG_RUN
from forum.ledger.kinds import CapSubject, CapUnit, Period, Scope
from forum.ledger.ports import NO_LIMIT, Spend
from forum.runs.shared_caps import (
    Caller,
    SharedCap,
    Team,
)
from forum.runs.team_settings import read_shared_caps
from forum.section_reader import SectionTables
from forum.surfaces.http.auth import ServerConfig, principal_name
from forum.surfaces.http.tenant import Tenant
from tests.support import upgraded, wait_until
from tests.surfaces.command_server import start_command
from tests.surfaces.halls import PROJECT, hall, open_forum, showing
from tests.surfaces.terminal import Terminal


@pytest.fixture
def bare(tmp_path: Path) -> Terminal:
    """Return a terminal in a folder with a ledger."""
    made = Terminal(tmp_path)
    made.call("init")
    return made


RUNS, CHAT = "/api/v1/runs", "/v1/chat/completions"
BUDGETS = "/api/v1/budgets"
TWO_RUNS = f"""{PROJECT}
[budgets.each-key]
per = "day"
key = "*"
runs = 2
"""


def test_a_submission_over_the_cap_is_refused_until_the_day_is_over(tmp_path: Path) -> None:
    """Other keys go on, and asking again for what was taken on is no new run."""
    ask = {"request": "Name a river.", "route": False}
    with open_forum(tmp_path, TWO_RUNS) as forum, hall(ServerConfig([Tenant(forum)])) as client:
        document, other = (showing(forum.access.grant(n, {Scope.SUBMIT})) for n in ("one", "other"))
        reader = showing(forum.access.grant("reader", {Scope.READ}))
        named = {**document, "Idempotency-Key": "first"}
        taken = [
            client.post(RUNS, json=ask, headers=named),
            client.post(RUNS, json=ask, headers=document),
        ]
        refused = client.post(RUNS, json=ask, headers=document)
        members = {"model": "forum", "messages": [{"role": "user", "content": "Hello."}]}
        spoken = client.post(CHAT, json=members, headers=document)
        again = client.post(RUNS, json=ask, headers=named)
        elsewhere = client.post(RUNS, json=ask, headers=other)
        response = client.get(BUDGETS, headers=reader)
        hidden = client.get(BUDGETS, headers=document)

    assert [answer.status_code for answer in taken] == [202, 202]
    assert refused.status_code == 429
    assert refused.json()["type"] == "urn:forum:problem:cap-reached"
    assert "2 runs per day" in refused.json()["detail"]
    assert 0 < int(refused.headers["Retry-After"]) <= 86_400
    assert (spoken.status_code, spoken.json()["error"]["type"]) == (429, "insufficient_quota")
    assert spoken.headers["X-Should-Retry"] == "false"
    assert again.json() == taken[0].json()
    assert elsewhere.status_code == 202
    assert hidden.status_code == 403
    used = {found["scope"]: found["used"]["runs"] for found in response.json()["budgets"]}
    assert sorted(used.values()) == [1, 2]
    assert all(scope.startswith("key:key/") for scope in used)


def test_what_is_left_is_shown_and_a_command_says_what_to_do(bare: Terminal) -> None:
    """Also before anything was used."""
    with (bare.folder / "forum.toml").open("a") as file:
        file.write('[budgets.daily]\nper = "day"\nusd = 0.05\nruns = 3\n')
    (empty,) = bare.ask("budgets")["budgets"]
    submit = ("submit", "x", "--cmd", "cat", "--price-usd", "0.02")
    statuses = [bare.call(*submit).exit_code for _ in range(4)]
    (full,) = bare.ask("budgets")["budgets"]
    printed = bare.call("budgets").stdout
    refused = bare.type(*submit)

    assert empty["left"] == {"usd": "0.05", "tokens": None, "runs": 3}
    assert statuses == [0, 0, 5, 1]
    assert full["used"] == {"usd": "0.04", "tokens": 0, "runs": 3}
    assert full["left"]["runs"] == 0
    assert "daily   ledger" in printed
    assert refused.returncode == 5
    assert "the cap of 3 runs per day for ledger is reached" in refused.stderr
    verified = bare.call("ledger", "verify")
    assert verified.exit_code == 0
    assert "1 accounts under shared caps" in verified.stdout


NESTED = """
request = "Nested."
[[tasks]]
id = "n1"
instruction = "outer"
[[tasks.tasks]]
id = "x"
instruction = "inner"
[[tasks.tasks.tasks]]
id = "deep"
instruction = "deepest"
"""


def test_a_cap_that_is_met_within_a_nested_plan_is_told_as_one(bare: Terminal) -> None:
    """By the exit status and in words: whoever reads "error" looks for a broken agent."""
    with (bare.folder / "forum.toml").open("a") as file:
        file.write('[budgets.daily]\nper = "day"\nusd = 1\n')
    (bare.folder / "nest.toml").write_text(NESTED)
    submit = ("submit", "--plan", "nest.toml", "--cmd", "cat", "--price-usd", "0.7")
    first, second = (bare.type(*submit) for _ in range(2))
    document = bare.ask("show", second.stderr.split()[1])

    assert (first.returncode, second.returncode) == (0, 5)
    words = " ".join(second.stderr.split())
    assert (
        "n1 was given up after 1 attempt, because budget: $0.70 more was needed, and $0.70" in words
    )
    assert "of $1.00 per day for ledger was used" in words
    assert (document["status"], "budget: $0.70 more" in document["why"]) == (5, True)
    assert bare.call("ledger", "verify").exit_code == 0


def test_a_cap_that_is_set_counts_at_once_for_processes_that_run(tmp_path: Path) -> None:
    """Over HTTP by an admin, and by command; the server is not started again."""
    ask = {"request": "Name a river.", "route": False}
    with open_forum(tmp_path, PROJECT) as forum, hall(ServerConfig([Tenant(forum)])) as client:
        key = showing(forum.access.grant("ann", {Scope.SUBMIT}))
        admin = showing(forum.access.grant("admin", {Scope.ADMIN}))
        before = client.post(RUNS, json=ask, headers=key)
        cap = {"subject": "key:ann", "amount": "1runs/day"}
        refused = client.post(BUDGETS, json=cap, headers=key)
        with Forum(forum.settings) as other:
            other.budgets.set_team(Team("research", ("ann",)))
            other.budgets.set_cap(CapName(CapSubject.TEAM, "research", Period.DAY, CapUnit.RUNS), 2)
        forum.runs.budgets.refresh()
        taken = [client.post(RUNS, json=ask, headers=key).status_code for _ in range(3)]
        set_ = client.post(BUDGETS, json=cap, headers=admin)
        raised = client.post(
            BUDGETS,
            json={"subject": "team:research", "amount": "1runs/day", "act": "raise"},
            headers=admin,
        )
        frozen = client.post(f"{BUDGETS}/freeze", json={"act": "freeze"}, headers=admin)
        stopped = client.post(RUNS, json=ask, headers=key)
        wrong = client.post(BUDGETS, json=cap | {"amount": "5"}, headers=admin)

    assert (before.status_code, refused.status_code) == (202, 403)
    assert taken == [202, 202, 429]
    assert set_.json()["budgets"][1]["cap"]["runs"] == 2
    assert raised.json()["budgets"][-1]["cap"]["runs"] == 3
    assert frozen.json()["frozen"] is True
    assert (stopped.status_code, "forum budgets unfreeze" in stopped.text) == (429, True)
    assert (wrong.status_code, "write 500/month" in wrong.text) == (400, True)


def test_each_share_of_a_cap_is_told_once_in_a_period(bare: Terminal) -> None:
    """By an entry, whichever of the processes sees it first; a quarter is not told."""
    bare.call("budgets", "set", "ledger", "0.08/day")
    bare.call("budgets", "set", "team:none", "1/day")
    submit = ("submit", "x", "--cmd", "cat", "--price-usd", "0.02")
    told = []
    for _ in range(4):
        bare.call(*submit)
        bare.call("submit", "x", "--cmd", "cat")
        with Forum(load_settings(bare.folder, bare.environment)) as forum:
            forum.runs.budgets.refresh()
            strands = [s for s in forum.store.strands(LOG_RUN) if s.startswith("alerts/")]
            (lengths,) = {forum.store.strand_lengths(LOG_RUN)[s] for s in strands} or {1}
            facts = [
                KINDS.read(d).facts for s in strands for d in forum.store.read_strand(LOG_RUN, s)
            ]
        assert lengths == 1
        told.append(sorted(f.percent for f in facts))

    assert told == [[], [50], [50, 75], [50, 75, 90]]
    assert {(f.scope, f.unit.value, f.cap) for f in facts} == {("ledger", "usd", 80_000_000)}
    assert bare.call("ledger", "verify").exit_code == 0


def test_caps_are_set_by_command(bare: Terminal) -> None:
    """Each change is an entry, which the ledger verifies."""
    bare.call("budgets", "set", "team:research", "500/month")
    bare.call("budgets", "raise", "team:research", "50/month")
    bare.call("budgets", "team", "research", "ann")
    (budget,) = bare.ask("budgets")["budgets"]
    bare.call("budgets", "unset", "team:research", "month")
    frozen = bare.ask("budgets", "freeze")
    submitted = bare.type("submit", "x", "--cmd", "cat")

    assert (budget["scope"], budget["cap"]["usd"]) == ("team:research", "550.00")
    assert (frozen["budgets"], frozen["frozen"]) == ([], True)
    assert (submitted.returncode, "all spending is frozen" in submitted.stderr) == (5, True)
    assert bare.call("ledger", "verify").exit_code == 0


def test_caps_are_read_from_the_project_file() -> None:
    """Dollars are exact."""
    text = '[budgets.a]\nper = "month"\nlane = "law"\nusd = 0.1\ntokens = 5'
    caps = read_shared_caps(SectionTables(tomllib.loads(text, parse_float=Decimal)))

    assert caps == (SharedCap("a", Period.MONTH, lane="law", cap=Spend(100_000_000, 5, NO_LIMIT)),)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("usd = 1", "per: it is missing; write one of hour, day, week, month, ever"),
        ("per = 'year'\nusd = 1", "per: 'year' is unknown; write one of"),
        ("per = 'day'", "it caps nothing"),
        ("per = 'day'\nkey = '*'\nlane = '*'\nruns = 1", "write two sections"),
        ("per = 'day'\nruns = 1.5", "1.5 is not a whole number"),
        ("per = 'day'\ncalls = 1", "no setting 'calls'"),
    ],
)
def test_a_cap_that_caps_nothing_is_refused(text: str, why: str) -> None:
    """It would be believed to."""
    with pytest.raises(BadSettings, match=why):
        read_shared_caps(SectionTables(tomllib.loads(f"[budgets.x]\n{text}", parse_float=Decimal)))


@given(
    st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=8),
    st.sampled_from(["key", "person", "team"]),
)
def test_a_cap_for_a_name_holds_for_whoever_has_it(name: str, subject: str) -> None:
    """Whatever characters of patterns it has, and however it is recorded."""
    cap = SharedCap("c", Period.DAY, cap=Spend(1), **{subject: name})
    source = "oidc" if subject == "person" else "key"
    actor = principal_name(source, name) if source == "oidc" else principal_name(source, name, "id")
    teams = {name: Team(name, (name,))} if subject == "team" else {}
    (scope,) = cap.scopes(Caller(actor), teams)
    assert cap.holds_for(scope)


SLOW_ONCE = "if [ -e {0} ]; then echo Danube; else echo $$ > {0}; exec sleep 100; fi"


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_a_freeze_cuts_the_calls_of_driven_runs_until_it_ends(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Another process sees it within seconds, pays what was reserved, and then calls again."""
    user = Terminal(tmp_path)
    if kind == "postgres":
        user.environment["FORUM_DATABASE_URL"] = upgraded(request.getfixturevalue("postgres_url"))
    user.call("init")
    begun = tmp_path / "begun"
    agent = ("--cmd", f"sh -c '{SLOW_ONCE.format(begun)}'", "--price-usd", "0.02")
    words = ("submit", "Name a river.", *agent, "--json")
    driving = start_command(words, user.folder, user.environment, stdout=subprocess.DEVNULL)
    wait_until(lambda: begun.exists() and begun.read_text().endswith("\n"))
    program = Path("/proc", begun.read_text().strip())
    user.type("budgets", "freeze")
    wait_until(lambda: not program.exists())
    sleep(1.5)
    (waiting,) = user.ask("runs")["runs"]
    assert driving.poll() is None
    user.type("budgets", "unfreeze")
    driving.wait(timeout=60)
    (ended,) = user.ask("runs")["runs"]

    assert driving.returncode == 0
    assert (waiting["outcome"], ended["outcome"]) == (None, "ok")
    assert (waiting["spent"]["usd"], ended["spent"]["usd"]) == ("0.02", "0.04")
    assert user.call("ledger", "verify").exit_code == 0
