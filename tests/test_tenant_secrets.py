"""A tenant names only its own variables and files, in every setting and in every recorded agent."""

import asyncio
import json
from pathlib import Path

import pytest

from forum.app.logs_worker import open_together
from forum.config import SECTIONS, SecretRules, Settings, bind_tenant, load_settings
from forum.engine import ModelCall, RunRequest, ToolInvocation
from forum.errors import BadSettings
from forum.ledger.body import text_content
from forum.ledger.kinds import Outcome
from forum.models import make_model, open_tools
from forum.runs.plan import single_task_plan
from forum.runs.policy import Agent, Chat, Command, Library, McpServer, Policy, ToolSpec
from tests.e2e.project import eventually
from tests.models.provider import say, serving
from tests.surfaces.halls import open_forum

SECRETS = {"OPENAI_API_KEY": "sk-of-the-operator-0123", "FORUM_TENANT_SALES__KEY": "sk-of-sales-01",
           "FORUM_TENANT_RESEARCH_LAB__KEY": "sk-of-the-lab-0123", "PLAIN": "of-the-operator",
           "FORUM_TENANT_RESEARCH__KEY": "sk-of-research-0123"}  # fmt: skip
OWN = "FORUM_TENANT_RESEARCH__KEY"
FOREIGN = ("OPENAI_API_KEY", "FORUM_TENANT_SALES__KEY", "FORUM_TENANT_RESEARCH_LAB__KEY",
           "FORUM_TENANT_RESEARCH", "PLAIN", "")  # fmt: skip
SETTINGS = {
    f"{name}.x" if section.is_named else name: set(section.__struct_encode_fields__)
    for name, section in SECTIONS.items()
    if name not in ("roles", "tenants", "databases")
}
"""Every setting of forum.toml, by section."""
VARIABLES = {("agents", "env"), ("gateway", "anthropic_key_env"), ("gateway", "azure_key_env"),
             ("gateway", "gemini_key_env"), ("gateway", "openai_key_env"),
             ("models.x", "key_env"), ("models.x", "url_env"), ("otel", "headers_env"),
             ("servers.x", "env"), ("servers.x", "key_env"), ("upstreams.x", "key_env"),
             ("webhooks.x", "secret_env")}  # fmt: skip
FILES = {("agents", "read"), ("agents", "write"), ("gateway", "anthropic_key_file"),
         ("gateway", "azure_key_file"), ("gateway", "gemini_key_file"),
         ("gateway", "openai_key_file"), ("keys", "log"), ("keys", "public"), ("keys", "write"),
         ("models.x", "key_file"), ("roster", "file"), ("server", "tls_cert"),
         ("server", "tls_key"), ("upstreams.x", "key_file"), ("webhooks.x", "secret_file"),
         ("witness", "policy")}  # fmt: skip
NEITHER = {
    "agents": "confine connect", "budgets.x": "agent key lane per person runs team tokens usd",
    "clients": "calls depth seconds tokens usd", "database": "url",
    "gates.x": "above argument lane per tool",
    "gateway": "allow anthropic_url azure_url calls deployments first_byte_seconds free_loopback "
    "gemini_url max_repeats openai_url prices quiet_seconds routes tokens untouched usd",
    "ledger": "cleanup_days origin",
    "models.x": "api argv at_once cmd context_tokens extension fallback kind max_tokens model "
    "moves options output_bytes price tokens url usd",
    "oidc": "audience jwks_url ledger_claim scopes scopes_claim issuer",
    "otel": "all_spans content endpoint idle_seconds quiet_seconds trace_forum",
    "panels.x": "baseline check judge models options require rounds seats threshold",
    "roster": "rung", "server": "allow_hosts host max_body open_loopback port rate require_keys",
    "servers.x": "argv cmd url", "submit": "team",
    "teams.x": "members within",
    "tools.x": "argv cmd description extension schema seconds",
    "upstreams.x": "api prices url",
    "webhooks.x": "events retry_seconds timeout_seconds url",
    "worker": "runner temporal_address",
}  # fmt: skip
"""Settings that name neither; programs and addresses have rules of their own."""


def bind(folder: Path, text: str, user_text: str = "") -> Settings:
    """Bind the tenant in a folder with this project file, and this file of the operator."""
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "forum.toml").write_text(text)
    own = folder.parent / "config"
    own.mkdir(exist_ok=True)
    (own / "config.toml").write_text(user_text)
    state = str(folder / "state")
    return bind_tenant(
        load_settings(folder, {"FORUM_STATE_DIR": state, "FORUM_CONFIG_DIR": str(own)})
    )


def test_every_setting_is_known_to_name_a_variable_a_file_or_neither() -> None:
    """A new setting has to be put into one of the three lists."""
    every = {(section, name) for section, names in SETTINGS.items() for name in names}
    neither = {(section, name) for section, names in NEITHER.items() for name in names.split()}
    assert every == VARIABLES | FILES | neither
    assert not neither & (VARIABLES | FILES)


@pytest.mark.parametrize(("section", "name"), sorted(VARIABLES | FILES))
def test_a_tenant_names_only_its_own(tmp_path: Path, section: str, name: str) -> None:
    """In its own file; what the operator's file says for all projects is the operator's."""
    folder = tmp_path / "research"
    folder.mkdir()
    (folder / "own").touch()
    (tmp_path / "other").touch()
    (folder / "link").symlink_to(tmp_path / "other")
    (folder / "folder").symlink_to(tmp_path)
    is_file = (section, name) in FILES
    own = "own" if is_file else OWN
    foreign = ("../other", str(tmp_path / "other"), "link", "folder/other", "/etc/passwd")

    is_list = name == "env" or (section == "agents" and is_file)

    def write(value: str) -> str:
        return f"[{section}]\n{name} = {json.dumps([own, value] if is_list else value)}\n"

    assert bind(folder, write(own)).secrets.tenant == folder
    for value in foreign if is_file else FOREIGN[:-1]:
        with pytest.raises(BadSettings, match="this ledger has only"):
            bind(folder, write(value))
        assert bind(folder, "", write(value)).secrets.tenant == folder


@pytest.mark.parametrize(("first", "second"), [
    ("research", "research-lab"), ("a", "a-b"), ("a-b", "a--b"), ("a-b", "a_b"), ("ab", "AB"),
    ("a", "a-"), ("a", "ä"),
])  # fmt: skip
def test_no_two_names_of_folders_share_a_variable(first: str, second: str) -> None:
    """Whatever their letters; a folder whose name could be ambiguous has no variables."""
    secret_rules, other = SecretRules(Path("/t", first)), SecretRules(Path("/t", second))
    assert secret_rules.prefix
    assert not secret_rules.owns_variable(f"{other.prefix}KEY") if other.prefix else True
    assert not other.owns_variable(f"{secret_rules.prefix}KEY")
    assert not other.owns_variable("")


def test_two_tenants_with_folders_of_one_name_do_not_share_variables(tmp_path: Path) -> None:
    """The second one has none, and is not served if it names one."""
    own = f'[webhooks.w]\nurl = "https://a.example"\nsecret_env = "{OWN}"\n'
    first = bind(tmp_path / "a" / "research", own)
    with open_together([first, bind(tmp_path / "b" / "research", "")]) as forums:
        rules = [forum.settings.secrets for forum in forums]
    assert [each.owns_variable(OWN) for each in rules] == [True, False]
    assert "rename" in rules[1].refuse_variable(OWN)
    both = [first, bind(tmp_path / "b" / "research", own)]
    with pytest.raises(BadSettings, match="rename one"), open_together(both):
        pass


def call_model(agent: Agent, rules: SecretRules) -> tuple[Outcome, str]:
    """Call an agent; return the outcome, and what it said."""
    call = ModelCall(
        "run", task="task", step="step", number=1, prompt=text_content("Go."), seconds=30
    )
    reply = asyncio.run(make_model(agent, rules=rules).reply(call))
    return reply.outcome, b"".join([*reply.output.chunks(), *reply.error.chunks()]).decode()


@pytest.fixture
def tenant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SecretRules:
    """Return the rules of a tenant of a process with these variables."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "research"
    folder.mkdir()
    return SecretRules(folder)


@pytest.mark.parametrize("name", FOREIGN[:-1])
def test_a_recorded_agent_gets_no_foreign_key(tenant: SecretRules, name: str) -> None:
    """A run that was recorded elsewhere names what it likes; the worker decides."""
    with serving(say("hello")) as provider:
        outcome, why = call_model(Chat(provider.url, "tiny-1", key_env=name), tenant)
        assert outcome is Outcome.DENIED
        assert "FORUM_TENANT_RESEARCH__" in why
        outcome, _ = call_model(
            Chat(provider.url, "tiny-1", key_file=str(Path("/etc/hostname"))), tenant
        )
        assert outcome is Outcome.DENIED
        assert provider.seen == []
        outcome, _ = call_model(Chat(provider.url, "tiny-1", key_env=OWN), tenant)
        assert outcome is Outcome.OK
        assert [seen.headers["authorization"] for seen in provider.seen] == [
            f"Bearer {SECRETS[OWN]}"
        ]


def test_a_recorded_program_gets_no_foreign_variable(tenant: SecretRules) -> None:
    """Neither an agent nor a tool; a library that reads the process's keys is not called."""
    _, text = call_model(Command(("env",)), tenant)
    assert [value for value in SECRETS.values() if value in text] == [SECRETS[OWN]]

    async def use_tool() -> str:
        async with open_tools(rules=tenant) as make_tool:
            spec = ToolSpec(argv=("env",), env=tuple(SECRETS))
            used = ToolInvocation(
                "run", task="task", step="step", tool="tool", arguments=text_content(""), key="key"
            )
            reply = await make_tool(spec).invoke(used)
            return b"".join(reply.output.chunks()).decode()

    text = asyncio.run(use_tool())
    assert [value for value in SECRETS.values() if value in text] == [SECRETS[OWN]]
    outcome, why = call_model(Library("openai:gpt-5-mini"), tenant)
    assert outcome is Outcome.DENIED
    assert "not those of this ledger" in why


def test_a_server_of_tools_gets_no_foreign_token(tenant: SecretRules) -> None:
    """The address of the server is the tenant's choice."""

    async def use_tool(url: str) -> str:
        async with open_tools(rules=tenant) as make_tool:
            server = McpServer(url=url, key_env="OPENAI_API_KEY")
            used = ToolInvocation(
                "run",
                task="task",
                step="step",
                tool="tool",
                arguments=text_content("{}"),
                key="key",
            )
            reply = await make_tool(ToolSpec(server=server, name="pay")).invoke(used)
            return b"".join([*reply.output.chunks(), *reply.error.chunks()]).decode()

    with serving(say("hello")) as provider:
        text = asyncio.run(use_tool(provider.url))
        assert provider.seen == []
    assert "FORUM_TENANT_RESEARCH__" in text


def test_a_worker_keeps_the_operators_key_from_a_tenants_run(
    tenant: SecretRules,
) -> None:
    """The run's own policy names the variable and the address."""
    assert tenant.tenant is not None
    with serving(say("hello")) as provider, open_forum(tenant.tenant) as forum:
        policy = Policy(agents={"": Chat(provider.url, "tiny-1", key_env="OPENAI_API_KEY")})
        request = RunRequest("Go.", single_task_plan("Go."), policy)
        run = forum.runs.submit(request)
        forum.close()
        bound = bind_tenant(forum.settings)
        with type(forum)(bound) as served, served.runs.run_worker():
            eventually(lambda: served.reads.read_run(run).outcome is not None)
            assert served.reads.read_run(run).outcome is not Outcome.OK
        assert provider.seen == []
