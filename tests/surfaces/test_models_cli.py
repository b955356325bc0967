"""Naming models at the command line and in forum.toml: who is then asked, and what is refused.

The models are served on loopback; whatever carries out a run is a process of its own.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from forum.errors import BadSettings
from forum.runs.policy import Api, ToolCall
from tests.models.provider import Provider, refuse, say, serving
from tests.surfaces.terminal import Terminal

pytestmark = pytest.mark.slow

BACKEND = "The checkout endpoint returns 500 since the last database migration"
NOBODYS = "hmm"
KEY = "sk-this-is-the-key-of-nobody"

FRIENDLY = Path(__file__).parent.parent / "models/mcp_servers/friendly.py"

ROSTER = """
[elsewhere]
examples = ["hello"]

[[lane]]
name = "kitchen"
does = "Cooks."
tier = "cheap"
instructions = "Cook with what is there."
terms = ["soup", "stew"]

[[lane]]
name = "garden"
does = "Grows."
tier = "frontier"
tools = ["rake"]
terms = ["roses", "lawn"]
"""


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    """Return a user in a project that nobody is configured for."""
    found = Terminal(tmp_path)
    found.environment |= {"NO_COLOR": "1", "COLUMNS": "80"}
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        found.environment.pop(name, None)
    (found.folder / "forum.toml").touch()
    return found


def configure(terminal: Terminal, text: str) -> None:
    """Write the project's settings."""
    (terminal.folder / "forum.toml").write_text(text)


def at(provider: Provider) -> tuple[str, ...]:
    """Return the options by which a model of this provider is asked."""
    return ("--chat-url", provider.url, "--model", "tiny")


def asked(terminal: Terminal, *words: str, status: int = 0, **variables: str) -> dict[str, Any]:
    """Submit something, and return what came of it."""
    done = terminal.type("submit", *words, "--json", **variables)
    assert done.returncode == status, done.stderr
    document = json.loads(done.stdout)
    assert isinstance(document, dict)
    return document


def refused(terminal: Terminal, *words: str) -> str:
    """Submit something that is refused before anything is recorded, and return why."""
    done = terminal.type("submit", *words)
    assert done.returncode == 2, done.stderr
    assert not terminal.database.exists()
    return done.stderr


def messages(provider: Provider, call: int = 0) -> list[str]:
    """Return what a model was told."""
    return [message["content"] for message in provider.seen[call].body["messages"]]


# One agent


def test_a_request_is_given_to_its_lane(terminal: Terminal) -> None:
    """The lane is found by words, recorded with its reasons, and reaches the model."""
    with serving(say("An index is gone.")) as provider:
        run = asked(terminal, BACKEND, *at(provider))
    shown = terminal.call("show").output

    assert (run["route"]["lane"], run["tasks"][0]["lane"]) == ("backend", "backend")
    assert run["route"]["basis"] in ("lexical", "semantic")
    assert run["route"]["confidence"] > 0.6
    assert "migrations that can run on a live table" in messages(provider)[0]
    assert messages(provider)[1] == BACKEND
    assert f"route    backend, by {run['route']['basis']} routing" in shown
    assert "the request was routed: backend" in terminal.call("why", f"{run['run']}/main/2").output


def test_a_request_that_is_nobodys_is_answered_without_a_lane(terminal: Terminal) -> None:
    """That it was looked for and not found can be seen."""
    with serving(say("Hm?")) as provider:
        run = asked(terminal, NOBODYS, *at(provider))

    assert run["answer"] == "Hm?"
    assert (run["route"]["lane"], run["tasks"][0]["lane"]) == (None, None)
    assert messages(provider) == [NOBODYS]


def test_a_lane_can_be_named(terminal: Terminal) -> None:
    """Also one of a roster of one's own; then nobody guesses."""
    (terminal.folder / "team.toml").write_text(ROSTER)
    with serving(say("Done.")) as provider:
        run = asked(terminal, NOBODYS, *at(provider), "--lane", "kitchen", "--roster", "team.toml")

    assert (run["route"]["lane"], run["route"]["basis"]) == ("kitchen", "given")
    assert messages(provider) == ["Cook with what is there.", NOBODYS]
    assert "route    kitchen, as asked for" in terminal.call("show").output


def test_nothing_is_routed_where_nobody_wants_it(terminal: Terminal) -> None:
    """With the scripted agent, with a program, and where it is said: the request as it is."""
    with serving(say("Done.")) as provider:
        runs = [
            asked(terminal, BACKEND),
            asked(terminal, BACKEND, "--cmd", "cat"),
            asked(terminal, BACKEND, *at(provider), "--no-route"),
        ]

    assert [run["route"] for run in runs] == [None, None, None]
    assert [run["answer"] for run in runs] == [f"Done: {BACKEND}", BACKEND, "Done."]
    assert messages(provider) == [BACKEND]


@pytest.mark.parametrize("api", list(Api))
def test_every_api_can_be_named(terminal: Terminal, api: Api) -> None:
    """With its key in a variable, its price, and the most that it may say."""
    with serving(say("Hello.", api=api)) as provider:
        run = asked(
            terminal,
            *(NOBODYS, *at(provider), "--api", api, "--key-env", "TINY", "--no-route"),
            *("--max-output-tokens", "77", "--price-in", "0.5", "--price-out", "2"),
            TINY=KEY,
        )

    (seen,) = provider.seen
    assert run["answer"] == "Hello."
    assert run["spent"]["usd"] == "0.0000095"
    assert KEY in seen.headers.get("x-api-key", seen.headers.get("authorization", ""))
    assert 77 in seen.body.values()


# forum.toml


def test_the_project_file_names_the_agents(terminal: Terminal) -> None:
    """Lanes are worked for by their tiers, with the tools that they name."""
    (terminal.folder / "team.toml").write_text(ROSTER)
    with serving(say("Soup.")) as cheap, serving(say("Roses.")) as frontier:
        configure(
            terminal,
            f"""
            [models.cheap]
            url = "{cheap.url}"
            model = "tiny"
            [models.frontier]
            url = "{frontier.url}"
            model = "large"
            options = {{ temperature = 0.5 }}
            [tools.rake]
            cmd = "cat"
            [tools.pay]
            cmd = "cat"
            [roster]
            file = "team.toml"
            """,
        )
        soup = asked(terminal, "soup, stew")
        roses = asked(terminal, "roses on the lawn")

    assert [run["answer"] for run in (soup, roses)] == ["Soup.", "Roses."]
    assert [run["tasks"][0]["agent"] for run in (soup, roses)] == ["cheap", "frontier"]
    assert "tools" not in cheap.seen[0].body
    assert [tool["function"]["name"] for tool in frontier.seen[0].body["tools"]] == ["rake"]
    assert frontier.seen[0].body["temperature"] == 0.5


def test_whoever_names_an_agent_means_no_other(terminal: Terminal) -> None:
    """An option counts more than the project file, whose agents are then not asked."""
    configure(terminal, '[models.capable]\nurl = "http://127.0.0.1:1/v1"\nmodel = "tiny"')

    assert asked(terminal, BACKEND, "--cmd", "cat")["answer"] == BACKEND


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[model.big]\nmodel = 'm'", "[model] is not a section; did you mean models?"),
        ("[models]\nbig = 'gpt'", "[models] big: write [models.big] above"),
        ("[models.big]\nmodle = 'm'\nmodel = 'm'", "[models.big] it has no setting 'modle'"),
        (
            "[models.big]\nmodle = 'm'",
            "[models.big] it has no setting 'modle'; did you mean model?",
        ),
        ("[roster]\nfiles = 'x'", "[roster] it has no setting 'files'; did you mean file?"),
    ],
)
def test_a_mistake_in_the_project_file_is_named(terminal: Terminal, text: str, said: str) -> None:
    """With the file, the section and the setting."""
    configure(terminal, text)
    error = terminal.call("models", "check").exception

    assert isinstance(error, BadSettings)
    assert str(error).startswith(f"{terminal.folder / 'forum.toml'}: {said}")


def test_a_plan_may_name_lanes_of_the_roster(terminal: Terminal) -> None:
    """Whoever makes a plan by hand has the same specialists as a Coordinator."""
    plan = {"request": "Dinner", "tasks": [{"id": "a", "instruction": "Cook.", "lane": "kitchen"}]}
    (terminal.folder / "plan.json").write_text(json.dumps(plan))
    (terminal.folder / "team.toml").write_text(ROSTER)
    with serving(say("Done.")) as provider:
        asked(terminal, "--plan", "plan.json", "--roster", "team.toml", *at(provider))

    assert messages(provider) == ["Cook with what is there.", "Cook."]


def test_an_mcp_server_is_asked_for_its_tools_when_a_request_is_taken_on(
    terminal: Terminal,
) -> None:
    """They are recorded with the run; a lane gets them all by the name of the server."""
    (terminal.folder / "team.toml").write_text(ROSTER.replace('["rake"]', '["friend"]'))
    with serving(say("Roses.")) as provider:
        configure(
            terminal,
            f"""
            [servers.friend]
            cmd = "{sys.executable} {FRIENDLY}"
            [models.default]
            url = "{provider.url}"
            model = "tiny"
            [roster]
            file = "team.toml"
            """,
        )
        asked(terminal, "roses on the lawn")

    offered = [tool["function"]["name"] for tool in provider.seen[0].body["tools"]]
    assert offered
    assert all(name.startswith("friend-") for name in offered)


def test_a_fork_is_gone_on_with_by_who_is_named(terminal: Terminal) -> None:
    """Also where the run was done in a lane, by the agent of its tier."""
    with serving(say("One.")) as provider, serving(say("Two.")) as two:
        configure(terminal, f'[models.capable]\nurl = "{provider.url}"\nmodel = "tiny"')
        run = asked(terminal, BACKEND)
        begun = str(run["route"]["entry"])
        forked = terminal.type("fork", run["run"], "--at", begun, *at(two), "--json")

    assert json.loads(forked.stdout)["answer"] == "Two.", forked.stderr
    assert messages(provider) == messages(two)


# A team


def plan_of(*tasks: str) -> str:
    """Return what a Coordinator says."""
    drafted = [
        {"id": task, "instruction": f"Do the {task}.", "lane": "kitchen", "done_when": "It is hot."}
        for task in tasks
    ]
    return json.dumps({"tasks": drafted})


VERDICT = '{"passed": true, "reason": ""}'


@pytest.mark.parametrize(
    ("judge", "who", "independence"),
    [
        # The provider gives all its models one name: it says that they are the same.
        ('url = "{url}"\nmodel = "other"', "judge/other", "not independent"),
        (f"""argv = ["printf", '{VERDICT}']""", "judge/printf", "independent"),
    ],
    ids=["the same", "another"],
)
def test_a_team_plans_works_and_judges(
    terminal: Terminal, judge: str, who: str, independence: str
) -> None:
    """Every part of a role is told with who played it, and whether a judge was somebody else."""
    (terminal.folder / "team.toml").write_text(ROSTER)
    with serving(say(plan_of("soup")), say("The soup is hot."), say(VERDICT)) as provider:
        configure(
            terminal,
            f"""
[models.capable]
url = "{provider.url}"
model = "tiny"
[models.judge]
{judge.replace("{url}", provider.url)}
[roster]
file = "team.toml"
[roles]
team = true
""",
        )
        run = asked(terminal, "Name the soup, and name the stew.", "--max-calls", "9")
    shown = terminal.call("show").output

    assert run["answer"] == "The soup is hot."
    assert run["route"]["lane"] == "kitchen"
    assert [(task["id"], task["agent"]) for task in run["tasks"]] == [("soup", "capable")]
    roles = {role["role"]: role["who"] for role in run["roles"]}
    assert (roles["coordinator"], roles["validator"]) == ("capable/tiny", who)
    verdict = run["tasks"][0]["verdicts"][0]
    assert (verdict["judge"], verdict["independence"]) == ("judge", independence.replace(" ", "-"))
    assert f"attempt 1 accepted, by judge, {independence}\n" in shown
    assert "1 of 1 task passed" in shown
    assert all(len(line) <= 80 for line in shown.split("\n"))


def test_a_team_chooses_the_lane_that_words_do_not_tell(terminal: Terminal) -> None:
    """The Classifier is asked, among the lanes that are nearest; its choice is recorded."""
    (terminal.folder / "team.toml").write_text(ROSTER)
    with serving(say('{"lane": "garden"}'), say(plan_of("dig")), say("Dug.")) as provider:
        run = asked(
            terminal,
            *("What would you do? And why?", *at(provider), "--team", "--roster", "team.toml"),
            *("--max-calls", "5"),
            status=5,
        )

    assert (run["route"]["lane"], run["route"]["basis"]) == ("garden", "classifier")
    assert "- kitchen (router's confidence" in messages(provider)[1]
    assert ": Cooks." in messages(provider)[1]
    assert [role["role"] for role in run["roles"]][:2] == ["classifier", "coordinator"]


_CLASSIFIER = """
[models.capable]
url = "{url}"
model = "tiny"
[models.cheap]
url = "{url}"
model = "tiny"
[roster]
file = "team.toml"
rung = "lexical"
[roles]
classifier = "cheap"
"""


@pytest.mark.parametrize(
    ("lane", "agent"), [("garden", "capable"), ("none", "capable"), ("kitchen", "cheap")]
)
def test_a_classifier_is_asked_without_a_team(terminal: Terminal, lane: str, agent: str) -> None:
    """`forum route` says that it will be; its choice and its call are recorded and verified."""
    (terminal.folder / "team.toml").write_text(ROSTER)
    with serving(say(json.dumps({"lane": lane})), say("Dug.")) as provider:
        configure(terminal, _CLASSIFIER.format(url=provider.url))
        document = terminal.ask("route", "What would you do?")
        run = asked(terminal, "What would you do?", "--max-calls", "2")

    chosen = None if lane == "none" else lane
    assert (document["lane"], document["next"]) == (None, "classifier")
    assert (run["route"]["lane"], run["route"]["basis"]) == (chosen, "classifier")
    assert run["answer"] == "Dug."
    assert [(task["lane"], task["agent"]) for task in run["tasks"]] == [(chosen, agent)]
    assert [role["role"] for role in run["roles"]] == ["classifier"]
    assert run["spent"]["calls"] == 2
    assert terminal.ask("ledger", "verify")["intact"]["state"] == "holds"


def test_a_classifier_is_paid_from_the_budget_of_the_run(terminal: Terminal) -> None:
    """With one call left for both, the run stops before the task is carried out."""
    (terminal.folder / "team.toml").write_text(ROSTER)
    with serving(say('{"lane": "garden"}'), say("Dug.")) as provider:
        configure(terminal, _CLASSIFIER.format(url=provider.url))
        run = asked(terminal, "What would you do?", "--max-calls", "1", status=5)

    assert run["route"]["lane"] == "garden"
    assert len(provider.seen) == 1


# What was done


def test_what_an_answer_says_was_done_is_shown_with_what_shows_it(terminal: Terminal) -> None:
    """A claim has the entry of the effect beside it, or the word unverified."""
    configure(terminal, '[tools.note]\ncmd = "cat"')
    tool_call = ToolCall("note", json.dumps({"text": "plan.md"}))
    text = "I wrote the file plan.md. All tests pass."
    with serving(say("", tool_call, finish="tool_calls"), say(text)) as provider:
        run = asked(terminal, "Keep the plan", *at(provider), "--no-route")
    shown = terminal.call("show").output

    (effect,) = run["effects"]
    assert (effect["tool"], effect["task"], effect["outcome"]) == ("note", "answer", "ok")
    assert [claim["entry"] for claim in run["claims"]] == [effect["entry"], None]
    assert f"note: ok, in answer  #{effect['entry']}" in shown
    assert f"says: I wrote the file plan.md -> entry {effect['entry']}" in shown
    assert "says: All tests pass -> unverified" in shown
    assert "1 of 2 claims unverified" in terminal.call("why", str(effect["entry"] + 3)).output


# What is refused


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--chat-url", "http://192.0.2.1/v1", "--model", "m"], "or --price-in and --price-out"),
        (["--model", "gpt-4o"], "set the variable OPENAI_API_KEY where the worker runs"),
        (["--api", "anthropic", "--model", "claude-sonnet-4-5"], "variable ANTHROPIC_API_KEY"),
        (["--chat-url", "127.0.0.1", "--model", "m"], "is no address of an API"),
        (["--chat-url", "http://127.0.0.1/v1"], "--model is missing"),
        (["--model", "m", "--cmd", "cat"], "--cmd and --model: one agent cannot be both"),
        (["--chat-url", "http://127.0.0.1/v1", "--model", "m", "--price-usd", "1"], "--price-in"),
        (["--lane", "kitchn"], "no lane is called 'kitchn'; the roster has: backend"),
        (["--team", "--no-route"], "--no-route: then no lane is looked for"),
        (["--plan", "plan.json", "--lane", "backend"], "--lane, --route: not with a plan"),
        (["--roster", "forum.toml"], "forum.toml: this roster cannot be used"),
    ],
)
def test_what_could_not_be_done_is_refused(terminal: Terminal, words: list[str], text: str) -> None:
    """Before anything is recorded, with the next step."""
    plan = {"tasks": [{"id": "a", "instruction": "Do it."}]}
    (terminal.folder / "plan.json").write_text(json.dumps(plan))

    assert text in refused(terminal, NOBODYS, *words)


def test_a_key_that_is_elsewhere_is_no_reason_to_refuse(terminal: Terminal) -> None:
    """Whoever only hands a request over need not have the key of the worker."""
    handed = terminal.type("submit", NOBODYS, "--model", "gpt-4o", "--detach")

    assert handed.returncode == 0, handed.stderr


# forum models check


def test_every_agent_is_shown_with_all_but_its_key(terminal: Terminal) -> None:
    """Where it is, what it costs by which table, what it is for, and where that is written."""
    configure(
        terminal,
        """
[models.cheap]
url = "http://127.0.0.1:1/v1"
model = "tiny"

[models.frontier]
model = "gpt-4o"

[models.judge]
cmd = "no-such-program --fast"
usd = 0.01

[roles]
validator = "judge"
""",
    )
    terminal.environment["OPENAI_API_KEY"] = KEY
    shown = terminal.call("models", "check")
    document = {
        one["name"]: one
        for one in json.loads(terminal.call("models", "check", "--json").stdout)["agents"]
    }

    assert shown.exit_code == 1
    assert KEY not in shown.output
    assert "set: OPENAI_API_KEY" in shown.output
    assert all(len(line) <= 80 for line in shown.stdout.split("\n"))
    cheap, frontier, judge = (document[name] for name in ("cheap", "frontier", "judge"))
    assert (cheap["origin"], cheap["key"], cheap["usable"]) == ("forum.toml:2", "none", True)
    assert (cheap["price"]["table"], cheap["tiers"]) == ("free", ["cheap"])
    assert frontier["price"]["table"].startswith("genai-prices/")
    assert (frontier["tiers"], frontier["default"]) == (["capable", "frontier"], True)
    assert "backend" in frontier["lanes"]
    assert (judge["price"]["call_usd"], judge["roles"]) == ("0.01", ["validator", "intent"])
    assert judge["problem"] == "there is no program 'no-such-program' on this machine"


def test_agents_can_be_tried(terminal: Terminal) -> None:
    """Each is asked once, outside of every run, and says what it took or why it failed."""
    with serving(say("ready")) as good, serving(refuse(401, b'{"error": "who?"}')) as bad:
        configure(
            terminal,
            f"""
            [models.good]
            url = "{good.url}"
            model = "tiny"
            price = {{ input = 1, output = 2 }}
            [models.bad]
            url = "{bad.url}"
            model = "tiny"
            [models.program]
            cmd = "cat"
            """,
        )
        tried = terminal.type("models", "check", "--call", "--json")
        completed = terminal.type("models", "check", "--call", *at(good))

    calls = {process["name"]: process["call"] for process in json.loads(tried.stdout)["agents"]}
    assert tried.returncode == 1
    assert (calls["good"]["outcome"], calls["good"]["tokens"]) == ("ok", 10)
    assert calls["good"]["usd"] == "0.000013"
    assert (calls["bad"]["outcome"], calls["bad"]["code"]) == ("denied", "http 401")
    assert calls["program"]["outcome"] == "ok"
    assert completed.returncode == 0, completed.stdout
    assert "✓ (default)  --model" in completed.stdout
    assert not terminal.database.exists()


def test_whoever_has_configured_nobody_is_told_how(terminal: Terminal) -> None:
    """The scripted agent can always be asked, and answers nothing."""
    shown = terminal.call("models", "check")

    assert shown.exit_code == 0
    assert "no agent is configured: name one in forum.toml" in shown.stderr
