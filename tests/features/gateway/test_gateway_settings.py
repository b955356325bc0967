"""Whose key goes where: provider keys belong to a ledger."""

from pathlib import Path

import pytest

from forum.config import bind_tenant, list_secret_files, load_settings
from forum.errors import BadSettings
from forum.features.gateway.routes import ApiProvider
from forum.features.gateway.settings import GatewaySettings, read_gateway_settings

SERVER = {"OPENAI_API_KEY": "sk-of-the-server", "ANTHROPIC_AUTH_TOKEN": "token-of-the-server",
          "FORUM_TENANT_RESEARCH__OPENAI_KEY": "sk-of-research",
          "FORUM_TENANT_SALES__OPENAI_KEY": "sk-of-sales"}  # fmt: skip
OWN = 'openai_key_env = "FORUM_TENANT_RESEARCH__OPENAI_KEY"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a tenant."""
    research = tmp_path / "research"
    research.mkdir()
    return research


def read(folder: Path, text: str, *, is_tenant: bool = True, **environ: str) -> GatewaySettings:
    """Read the settings of a project with this section."""
    (folder / "forum.toml").write_text("[gateway]\n" + text)
    settings = load_settings(folder, {"FORUM_STATE_DIR": str(folder / "state")})
    bound = bind_tenant(settings) if is_tenant else settings
    return read_gateway_settings(bound, SERVER | environ)


def keys(settings: GatewaySettings) -> dict[str, str]:
    """Return the secrets by provider."""
    return {
        a.provider.value: a.key_header[1].decode().removeprefix("Bearer ")
        for a in settings.addresses
        if a.key_header is not None
    }


def test_the_servers_own_keys_are_no_keys_of_its_tenants(tmp_path: Path) -> None:
    """A tenant that names an address would get the key of the server there."""
    for text in ("", 'openai_url = "https://evil.example"\nanthropic_url = "https://evil.example"'):
        tenant = read(tmp_path, text)
        assert keys(tenant) == {}
        for provider in ApiProvider:
            assert "has no key" in tenant.find_keyless(provider)
    operator = read(tmp_path, "", is_tenant=False)
    assert keys(operator) == {"openai": "sk-of-the-server", "anthropic": "token-of-the-server"}
    assert operator.find_keyless(ApiProvider.OPENAI) == ""


def test_a_tenant_names_a_key_of_its_own(folder: Path) -> None:
    """By its variable of the server, or by a file beside its settings, hidden from programs."""
    (folder / "anthropic.key").write_text("sk-in-a-file\n")
    tenant = read(
        folder, f'{OWN}anthropic_key_file = "anthropic.key"\n'
        'openai_url = "https://proxy.example/v1"',
    )  # fmt: skip
    settings = load_settings(folder, {"FORUM_STATE_DIR": str(folder / "state")})

    assert keys(tenant) == {"openai": "sk-of-research", "anthropic": "sk-in-a-file"}
    assert tenant.find_keyless(ApiProvider.ANTHROPIC) == ""
    assert folder / "anthropic.key" in [path for path, _ in list_secret_files(settings)]
    assert "sk-in" not in repr(tenant)


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "COPY", "DATABASE_URL", "MISSING",
                                  "FORUM_TENANT_SALES__OPENAI_KEY"])  # fmt: skip
def test_a_tenant_names_no_other_variable(folder: Path, name: str) -> None:
    """Whatever the server has in its environment would go to the address that the tenant names."""
    with pytest.raises(BadSettings, match="FORUM_TENANT_RESEARCH__"):
        read(folder, f'openai_key_env = "{name}"', COPY="sk-of-the-server", DATABASE_URL="p")


@pytest.mark.parametrize(
    "name", ["../other.key", "/etc/hostname", "linked.key", "linked/other.key"]
)
def test_a_tenant_names_no_file_outside_of_its_folder(folder: Path, name: str) -> None:
    """Not by a link either."""
    (folder.parent / "other.key").write_text("sk-of-another")
    (folder / "linked.key").symlink_to(folder.parent / "other.key")
    (folder / "linked").symlink_to(folder.parent)
    with pytest.raises(BadSettings, match="only files in its own folder"):
        read(folder, f'openai_key_file = "{name}"')


def test_the_operators_key_is_refused_by_its_content(folder: Path) -> None:
    """In a file of the tenant, and in its variable."""
    (folder / "copy").write_text("sk-of-the-server")
    for text in ('openai_key_file = "copy"', OWN):
        with pytest.raises(BadSettings, match="not the server's own key"):
            read(folder, text, FORUM_TENANT_RESEARCH__OPENAI_KEY="sk-of-the-server")
    # The address of a tenant that names none is that of the server.
    own = read(folder, 'openai_url = "https://a.example"', OPENAI_BASE_URL="https://b.example")
    assert own.addresses[0].url == "https://a.example"


def test_what_is_no_key_of_a_provider_goes_to_none(folder: Path) -> None:
    """Keys of Forum, and files that hold more than one word."""
    for text in ("PRIVATE+KEY+x+1+A", "forum-operator_x", "forum_0123abcd_ef_01", "a b", "a\nb"):
        (folder / "named").write_text(text)
        for is_tenant in (False, True):
            with pytest.raises(BadSettings, match="the key of a provider"):
                read(folder, 'openai_key_file = "named"', is_tenant=is_tenant)


@pytest.mark.parametrize(("text", "why"), [
    ('anthropic_key_env = "FORUM_TENANT_RESEARCH__ANTHROPIC_KEY"', "is not set"),
    ('openai_key_file = "missing"', "a file with a key"),
    ('openai_key_file = "empty"', "empty is empty"),
    (OWN + 'openai_key_file = "empty"', "leave it out"),
    ("openai_key_env = 5", "a text"),
])  # fmt: skip
def test_a_key_that_is_not_there_is_an_error(folder: Path, text: str, why: str) -> None:
    """A server that starts without it would refuse every call later."""
    (folder / "empty").touch()
    with pytest.raises(BadSettings, match=why):
        read(folder, text)


def test_the_address_of_anthropic_may_end_in_v1(tmp_path: Path) -> None:
    """The variable is read with `/v1` by some clients, and without by others."""
    for url in ("https://proxy.example", "https://proxy.example/v1", "https://proxy.example/v1/"):
        found = read(tmp_path, "", is_tenant=False, ANTHROPIC_BASE_URL=url)
        assert {a.url for a in found.addresses if a.provider is ApiProvider.ANTHROPIC} == {
            "https://proxy.example"
        }


def test_a_server_on_this_machine_needs_no_key(tmp_path: Path) -> None:
    """Ollama and llama.cpp ask for none."""
    local = read(tmp_path, 'openai_url = "http://127.0.0.1:11434/v1"')
    assert local.find_keyless(ApiProvider.OPENAI) == ""
