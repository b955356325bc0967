"""The sections of forum.toml: the same mistake has an error of the same form in each."""

import re
import tomllib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from forum.config import SECTIONS, load_settings
from forum.errors import BadSettings
from forum.runs.policy import Role
from forum.runs.team_settings import read_team_settings
from forum.section_reader import (
    NamedSection,
    Section,
    SectionTables,
    collect_sections,
    list_file_settings,
)

WRONG: dict[str, dict[str, str]] = {
    "ledger": {"type": "origin = 3", "range": "cleanup_days = 0", "bool": "cleanup_days = true"},
    "database": {"type": "url = []"},
    "worker": {"type": "runner = 3", "choice": 'runner = "other"', "empty": 'runner = ""'},
    "keys": {"type": "log = 3"},
    "witness": {"type": "policy = true"},
    "agents": {
        "type": "confine = 1", "empty": 'connect = [""]', "list": "env = [3]", "text": 'read = "x"',
    },
    "server": {
        "type": "host = 3", "list": "allow_hosts = [3]", "range": "port = 70000",
        "bool": "rate = true", "empty": 'port = ""',
    },
    "tenants": {"type": 'weight = "3"', "range": "weight = 0", "bool": "runs_at_once = true"},
    "databases": {"type": "url = 3", "missing": ""},
    "models": {
        "type": "model = 3", "list": "argv = [3]", "range": "max_tokens = -1",
        "bool": "usd = true", "empty": 'api = ""', "choice": 'api = "soap"', "text": 'argv = "x"',
    },
    "panels": {"type": "check = 3", "list": "models = [3]", "range": "seats = 0",
               "bool": "seats = true", "text": 'models = "x"', "empty": 'require = ""'},
    "tools": {"type": "description = 3", "list": "argv = [3]", "range": "seconds = -1",
              "bool": "seconds = true", "text": 'argv = "x"'},
    "servers": {"type": "url = 3", "list": "env = [3]", "text": 'env = "x"'},
    "gates": {"type": "tool = 3", "bool": "above = true", "empty": 'per = ""'},
    "teams": {"type": "within = 3", "list": "members = [3]"},
    "budgets": {"type": 'per = "day"\nkey = 3', "bool": 'per = "day"\nusd = true',
                "missing": "usd = 3", "choice": 'per = "year"', "empty": 'per = ""'},
    "roles": {"type": 'team = "yes"', "list": "validator = []"},
    "roster": {"type": "file = 3", "choice": 'rung = "x"', "empty": 'rung = ""'},
    "submit": {"type": "team = true", "choice": 'team = "x"', "empty": 'team = ""'},
    "clients": {"type": 'usd = "much"', "bool": "calls = true", "empty": 'tokens = ""'},
    "gateway": {
        "type": "openai_url = 3", "list": "allow = [3]", "bool": "usd = true",
        "text": 'allow = "x"', "empty": 'calls = ""',
    },
    "upstreams": {
        "type": "url = 3", "missing": "", "empty": 'url = ""',
        "choice": 'url = "https://x"\napi = "soap"',
    },
    "oidc": {
        "type": 'issuer = 3\naudience = "x"', "missing": 'audience = "x"',
        "empty": 'issuer = "https://x.example"\naudience = ""',
    },
    "webhooks": {
        "type": "url = 3", "missing": "", "list": 'url = "https://x"\nretry_seconds = ["x"]',
        "range": 'url = "https://x"\ntimeout_seconds = 0',
        "empty": 'url = "https://x"\nevents = []',
        "bool": 'url = "https://x"\ntimeout_seconds = true',
        "choice": 'url = "https://x"\nevents = ["x"]',
    },
    "otel": {"type": "endpoint = 3", "range": "idle_seconds = 0", "bool": "quiet_seconds = true"},
}  # fmt: skip
"""Mistakes in the last line of each section."""


def each_mistake() -> Iterator[tuple[str, str]]:
    """Yield sections and what is written in them."""
    for section, mistakes in WRONG.items():
        yield from ((section, text) for text in mistakes.values())
        member = next(iter(SECTIONS[section].__struct_encode_fields__))
        yield section, f"{member}x = 3"


def decode(section: str, text: str) -> str:
    """Return the error of a section."""
    name = f"{section}.x" if SECTIONS[section].is_named else section
    tables = SectionTables(tomllib.loads(f"[{name}]\n{text}", parse_float=Decimal))
    read = tables.read_named if SECTIONS[section].is_named else tables.read
    with pytest.raises(BadSettings) as refused:
        read(section, SECTIONS[section])
    return str(refused.value)


def test_every_section_has_a_row() -> None:
    """A new section is tested as well."""
    assert WRONG.keys() == SECTIONS.keys()


@pytest.mark.parametrize(("section", "text"), list(each_mistake()))
def test_a_mistake_has_an_error_of_one_form_in_every_section(section: str, text: str) -> None:
    """It names the file, the section, the setting, and what to write there."""
    error = decode(section, text)
    name = re.escape(f"{section}.x" if SECTIONS[section].is_named else section)
    why = r"(it is missing; |'[^']*' is unknown; )?write .+"
    wanted = rf"([a-z_]+[^ ]*: {why}|it has no setting '\w+'; (did you|known).+)"

    assert re.fullmatch(rf"forum\.toml: \[{name}\] {wanted}", error), error
    assert "`" not in error


def test_the_setting_that_was_probably_meant_is_named() -> None:
    """In sections that are checked at once, and in those that are checked when they are used."""
    assert decode("otel", 'endpont = "x"').endswith("no setting 'endpont'; did you mean endpoint?")
    assert decode("tools", 'secnds = "x"').endswith("no setting 'secnds'; did you mean seconds?")


@pytest.mark.parametrize(("section", "text"), [("oidc", "scops = 3"), ("server", "prot = 3")])
def test_an_unknown_setting_is_refused_when_the_file_is_read(
    tmp_path: Path, section: str, text: str
) -> None:
    """Also in sections that only the server reads."""
    (tmp_path / "forum.toml").write_text(f"[{section}]\n{text}\n")

    with pytest.raises(BadSettings, match="it has no setting"):
        load_settings(tmp_path, {})


def test_of_two_files_the_one_with_the_mistake_is_named(tmp_path: Path) -> None:
    """Also for sections that are decoded later."""
    user, project = tmp_path / "user", tmp_path / "project"
    for folder, file, text in (
        (user, "config.toml", "quiet_seconds = true"),
        (project, "forum.toml", 'endpoint = "https://x.example"'),
    ):
        folder.mkdir()
        (folder / file).write_text(f"[otel]\n{text}\n")
    settings = load_settings(project, {"FORUM_CONFIG_DIR": str(user)})

    with pytest.raises(BadSettings, match=r"user/config\.toml: \[otel\] quiet_seconds: write"):
        settings.sections.read("otel", SECTIONS["otel"])


def test_a_text_may_be_an_amount_in_every_section() -> None:
    """A price in quotes was an error in one section, and right in the others."""
    for section in ("clients", "gateway"):
        tables = SectionTables({section: {"usd": "0.5"}})
        assert msgspec.structs.asdict(tables.read(section, SECTIONS[section]))["usd"] == Decimal(
            "0.5"
        )


def test_a_part_adds_its_sections_and_none_that_exists() -> None:
    """The table is made from parts, so that a part can be left out."""

    class Weather(NamedSection, frozen=True):
        city: str

    assert collect_sections({}, {"weather": Weather}) == {"weather": Weather}
    with pytest.raises(ValueError, match="declared twice: weather"):
        collect_sections({"weather": Weather}, {"weather": Section})


def test_every_role_is_a_setting() -> None:
    """And `team`, which switches all of them on."""
    assert {*Role, "team"} == {*SECTIONS["roles"].__struct_encode_fields__}


def test_every_setting_with_the_name_of_a_file_is_relative_to_its_file() -> None:
    """A struct says which settings are files; one that was forgotten would be read elsewhere."""
    for name, section in SECTIONS.items():
        named = {n for n in section.__struct_encode_fields__ if n.endswith("_file")}
        assert named <= list_file_settings(section), name


def test_an_empty_kind_of_model_is_named(tmp_path: Path) -> None:
    """The kind is no member of the struct that it chooses."""
    (tmp_path / "forum.toml").write_text(
        '[models.m]\nurl = "http://h/v1"\nmodel = "q"\nkind = ""\n'
    )
    with pytest.raises(BadSettings, match=r"\[models\.m\] kind: write a text"):
        read_team_settings(load_settings(tmp_path, {}).sections)
