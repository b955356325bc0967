"""Agents as people write them into forum.toml, and what they are told when it is wrong."""

import tomllib
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.errors import BadSettings
from forum.runs.policy import (
    API_ENDPOINTS,
    Api,
    Chat,
    Command,
    Library,
    McpServer,
    Policy,
    Role,
    Scripted,
    ScriptStep,
    ToolSpec,
    read_policy,
    write_policy,
)
from forum.runs.role_assignment import build_team_policy
from forum.runs.roster import read_roster
from forum.runs.team_settings import TeamSettings, authority_of, chat_agent, read_team_settings
from forum.section_reader import SectionTables


def read(text: str) -> TeamSettings:
    """Return what a settings file says."""
    return read_team_settings(SectionTables(tomllib.loads(text, parse_float=Decimal)))


@pytest.mark.parametrize(
    "model",
    ['model = "gpt-5-mini"', 'kind = "pydantic-ai"\nmodel = "mistral:small"', 'cmd = "agent"'],
)
def test_a_file_says_how_much_a_model_or_program_can_read(model: str) -> None:
    """The table knows few models and no program; without the figure prompts are cut at 32,768."""
    scripted = read(f"[models.default]\n{model}\ncontext_tokens = 200_000").agents[""]
    unknown = read(f"[models.default]\n{model}").agents[""]

    assert (scripted.context_tokens, unknown.context_tokens) == (200_000, 0)  # type: ignore[union-attr]
    with pytest.raises(BadSettings, match="context_tokens"):
        read(f"[models.default]\n{model}\ncontext_tokens = -1")


def test_a_file_names_agents_of_every_kind() -> None:
    """Dollars become nano-dollars exactly; what is of a kind can be seen from the rest."""
    team_settings = read(
        """
        [models.cheap]
        url = "http://127.0.0.1:11434/v1"
        model = "qwen3"
        max_tokens = 512
        at_once = 2
        options = { temperature = 0.2, stop = ["END"] }

        [models.capable]
        url = "https://models.example/v1"
        model = "large"
        key_env = "LARGE_KEY"
        price = { input = 0.15, output = 0.6 }

        [models.frontier]
        api = "anthropic"
        model = "claude"

        [models.other]
        kind = "pydantic-ai"
        model = "mistral:small"

        [models.default]
        cmd = "agent --brief 'two words'"
        usd = 0.02

        [models.test]
        kind = "scripted"
        moves."*" = [{ say = "yes", usd = 0.01 }]
        """
    )

    options = {"temperature": 0.2, "stop": ["END"]}
    assert team_settings.agents == {
        "cheap": Chat(
            "http://127.0.0.1:11434/v1", "qwen3", max_tokens=512, at_once=2, options=options
        ),
        "capable": Chat(
            "https://models.example/v1",
            "large",
            key_env="LARGE_KEY",
            input_usd=150_000,
            output_usd=600_000,
        ),
        "frontier": Chat(
            "https://api.anthropic.com/v1", "claude", Api.ANTHROPIC, "ANTHROPIC_API_KEY"
        ),
        "other": Library("mistral:small"),
        "": Command(("agent", "--brief", "two words"), usd=20_000_000),
        "test": Scripted({"*": (ScriptStep("yes", usd=10_000_000),)}),
    }
    policy = Policy(agents=team_settings.agents)
    assert read_policy(write_policy(policy)) == policy


def test_a_file_names_tools_servers_roles_and_a_roster() -> None:
    """All that a run needs can be kept with the project."""
    team_settings = read(
        """
        [models.default]
        model = "gpt"
        [models.judge]
        model = "other"
        [tools.pay]
        cmd = "pay --now"
        seconds = 5
        schema = { type = "object" }
        [servers.notes]
        cmd = "notes-server"
        env = ["NOTES_HOME"]
        [servers.web]
        url = "https://tools.example/mcp"
        key_env = "WEB_KEY"
        [roles]
        team = true
        validator = "judge"
        reviser = "default"
        [roster]
        file = "team.toml"
        """
    )

    assert team_settings.tools == {
        "pay": ToolSpec(("pay", "--now"), seconds=5, schema={"type": "object"})
    }
    assert team_settings.servers == {
        "notes": McpServer(("notes-server",), env=("NOTES_HOME",)),
        "web": McpServer(url="https://tools.example/mcp", key_env="WEB_KEY"),
    }
    assert team_settings.roles == {Role.VALIDATOR: "judge", Role.REVISER: ""}
    assert team_settings.team
    assert team_settings.roster == "team.toml"


@pytest.mark.parametrize(
    ("names", "default"),
    [(["judge", "capable", "cheap"], "capable"), (["cheap"], "cheap"), (["b", "a"], "b")],
)
def test_somebody_works_for_tasks_that_name_nobody(names: list[str], default: str) -> None:
    """Who is called default, else the tier capable or its nearest, else the first in the file."""
    team_settings = read("".join(f"[models.{name}]\nmodel = '{name}'\n" for name in names))

    assert team_settings.agents[""] == team_settings.agents[default]


WRONG = {
    "url = 'x'\nmodel = 'm'": "url: 'x' is no address of an API; write http://HOST:PORT/v1",
    "url = 'http://me:pw@host/v1'\nmodel = 'm'": "with the key in key_env or key_file",
    "url = 'http://host/v1'": "model: name the model",
    "kind = 'chat'": "model: name the model",
    "model = 3": "model: write a text",
    "model = 'm'\nmax_tokens = -1": "max_tokens: write a whole number, 0 or more",
    "model = 'm'\napi = 'soap'": "api: 'soap' is unknown; write one of chat, responses, anthropic",
    "model = 'm'\nurll = 'x'": "no setting 'urll'; did you mean url?",
    "model = 'm'\nprice = 3": "price: write { input = 0.15, output = 0.60 }",
    "model = 'm'\nprice = { input = 1 }": "price.output: it is missing; write { input = 0.15",
    "model = 'm'\nprice = { input = -1, output = 1 }": "price.input: -1 is out of range",
    "model = 'm'\nprice = { input = 1, output = 1e-9 }": "price.output: 1E-9 is more exact",
    "model = 'm'\noptions = { temperature = nan }": "NaN is not a number",
    "key_env = 'K'": "it says neither model nor cmd: name a model, or a program",
    "kind = 'oracle'": "kind: 'oracle' is none of chat, pydantic-ai, command, scripted, extension",
    "kind = 'pydantic-ai'": "model: it is missing; write a text",
    "cmd = ''": "cmd: no program is named",
    "cmd = 'a \"b'": "cmd: No closing quotation",
    "cmd = 'a'\nargv = ['a']": "cmd: write one text, and no argv beside it",
    "cmd = 'a'\nusd = 'much'": "usd: write a number",
    "cmd = 'a'\nmodel = 'm'": "it has no setting 'model'",
}


@pytest.mark.parametrize("lines", WRONG)
def test_what_is_wrong_with_an_agent_is_said_with_its_place(lines: str) -> None:
    """A message names the file, the section and the setting, and what would be right."""
    with pytest.raises(BadSettings) as refused:
        read(f"[models.big]\n{lines}")

    text = str(refused.value)
    assert text.startswith("forum.toml: [models.big] ")
    assert WRONG[lines] in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[roles]\nvalidator = 'x'", "[roles] validator: no model is called 'x'; [models] and"),
        ("[roles]\njester = 'x'", "[roles] it has no setting 'jester'; known: classifier"),
        ("[roles]\nteam = 'yes'", "[roles] team: write true or false"),
        ("[roster]\nfile = 3", "[roster] file: write a text"),
        ("[servers.a]\nenv = ['X']", "[servers.a] a server is a program (cmd) or an address"),
        ("[servers.a]\nurl = 'ftp://x'", "[servers.a] url: 'ftp://x' is no address"),
        ("[tools.a]\nargv = 'x'", "[tools.a] argv: write a list, each item a text"),
    ],
)
def test_what_is_wrong_elsewhere_is_said_as_well(text: str, said: str) -> None:
    """The same for roles, servers, tools and the roster."""
    with pytest.raises(BadSettings) as refused:
        read(text)

    assert str(refused.value).startswith(f"forum.toml: {said}")


@pytest.mark.parametrize(
    ("given", "url", "key_env"),
    [
        ({}, "https://api.openai.com/v1", "OPENAI_API_KEY"),
        ({"api": "responses"}, "https://api.openai.com/v1", "OPENAI_API_KEY"),
        ({"api": "anthropic"}, "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
        ({"url": "https://api.openai.com/v1", "key_env": "MINE"}, None, "MINE"),
        ({"url": "https://api.openai.com/v1", "key_file": "key"}, None, ""),
        ({"url": "https://api.openai.com.evil.example/v1"}, None, ""),
        ({"url": "http://127.0.0.1:8080/v1"}, None, ""),
    ],
)
def test_a_key_goes_to_the_cloud_that_it_belongs_to(
    given: dict[str, Any], url: str | None, key_env: str
) -> None:
    """The usual variable is read for the usual address, and for no other host."""
    agent = chat_agent({"model": "m", **given})

    assert agent.url == (url or given["url"])
    assert agent.key_env == key_env


@pytest.mark.parametrize("api", Api)
@pytest.mark.parametrize("end", ["", "/"])
def test_the_address_of_an_operation_is_that_of_its_api(api: Api, end: str) -> None:
    """Documentation of servers shows whole addresses, and people paste them."""
    base = "http://127.0.0.1:11434/v1"
    pasted = chat_agent({"model": "m", "url": base + API_ENDPOINTS[api].path + end})

    assert (pasted.url, pasted.api) == (base, api)
    assert pasted == chat_agent({"model": "m", "url": base, "api": api.value})
    assert read(f'[models.a]\nmodel = "m"\nurl = "{base}{API_ENDPOINTS[api].path}{end}"').agents[
        ""
    ] == (pasted)


@pytest.mark.parametrize(("api", "other"), [(a, b) for a in Api for b in Api if a is not b])
def test_an_address_of_another_api_is_refused(api: Api, other: Api) -> None:
    """Two settings that contradict each other are not resolved by a guess."""
    url = f"http://127.0.0.1/v1{API_ENDPOINTS[other].path}"

    with pytest.raises(ValueError, match=f'api: it is "{api}".*ends with .*"{other}"'):
        chat_agent({"model": "m", "url": url, "api": api.value})


@given(st.text())
def test_what_is_no_address_has_no_host(text: str) -> None:
    """Any text may stand where an address belongs."""
    host = authority_of(text)

    assert not host or text.startswith((f"http://{host}", f"https://{host}"))
    assert "@" not in host


ROSTER = b"".join(
    b"[[lane]]\nname = '%s'\ndoes = 'Works.'\nexamples = ['Work.']\n" % name
    for name in (b"a", b"b")
)


@pytest.mark.parametrize("value", ["false", "''"])
def test_a_role_can_be_switched_off(value: str) -> None:
    """A team does without it; the others are assigned as ever."""
    team_settings = read(f"[models.a]\nmodel = 'm'\n[roles]\nteam = true\nintent = {value}")

    assert (team_settings.roles, team_settings.off, team_settings.team) == (
        {},
        frozenset({Role.INTENT}),
        True,
    )
    policy = build_team_policy(
        Policy(agents=team_settings.agents),
        read_roster(ROSTER),
        {},
        roles=True,
        off=team_settings.off,
    )
    assert set(policy.roles) == set(Role) - {Role.INTENT}
