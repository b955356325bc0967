"""Settings: who has said them, who wins, and what a shell is offered."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from forum.app.planner import load_team_settings
from forum.config import SECTIONS, load_settings
from forum.errors import BadSettings
from forum.sections import PROJECT_SECTIONS
from forum.surfaces.cli.config import list_settings, mask_passwords
from tests.surfaces.terminal import Terminal

STRANGER = 65534
"""A user who is neither whoever asks nor root."""


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    """Return a user with a project and a configuration directory, both without a word in them."""
    found = Terminal(tmp_path)
    found.environment["FORUM_CONFIG_DIR"] = str(tmp_path / "config")
    (tmp_path / "config").mkdir()
    (found.folder / "forum.toml").touch()
    return found


def say(terminal: Terminal, *, user: str = "", project: str = "") -> None:
    """Write both files."""
    (terminal.folder.parent / "config/config.toml").write_text(user)
    (terminal.folder / "forum.toml").write_text(project)


def shown(terminal: Terminal) -> dict[str, tuple[Any, str]]:
    """Return every setting with its value and its origin."""
    document = terminal.ask("config", "show")
    assert document["schema"] == "forum.config/1"
    return {one["setting"]: (one["value"], one["origin"]) for one in document["settings"]}


# Who wins

USER, PROJECT, VARIABLE = (f"postgresql://{who}@h/d" for who in ("user", "project", "variable"))


@pytest.mark.parametrize(
    ("texts", "value", "origin"),
    [
        ((), None, "default"),
        (("user",), USER, "user file"),
        (("user", "project"), PROJECT, "project file"),
        (("user", "project", "variable"), VARIABLE, "environment"),
        (("user", "variable"), VARIABLE, "environment"),
    ],
)
def test_a_setting_has_the_value_and_the_origin_of_whoever_wins(
    terminal: Terminal, texts: tuple[str, ...], value: str | None, origin: str
) -> None:
    """Environment before project before user before default; and what is told is what holds."""
    urls = {
        who: f'[database]\nurl = "{url}"\n' for who, url in (("user", USER), ("project", PROJECT))
    }
    say(terminal, **{who: text for who, text in urls.items() if who in texts})
    if "variable" in texts:
        terminal.environment["FORUM_DATABASE_URL"] = VARIABLE

    assert shown(terminal)["database.url"] == (value, origin)
    assert load_settings(terminal.folder, terminal.environment).database == value


def test_files_are_taken_together_setting_by_setting(terminal: Terminal) -> None:
    """Each adds what the other does not say; an agent is never made of two halves."""
    say(
        terminal,
        user='[roles]\nteam = true\n[models.cheap]\ncmd = "a"\nusd = 1\n[models.own]\ncmd = "x"\n',
        project='[ledger]\norigin = "a.example/b"\n[models.cheap]\ncmd = "ours"\n',
    )
    document = shown(terminal)

    assert document["ledger.origin"] == ("a.example/b", "project file")
    assert document["roles.team"] == ("true", "user file")
    assert document["models.cheap.cmd"] == ("ours", "project file")
    assert document["models.own.cmd"] == ("x", "user file")
    assert "models.cheap.usd" not in document


def test_a_path_is_relative_to_the_file_that_names_it(terminal: Terminal) -> None:
    """A user's own files are beside the user's file, in whatever project they are used."""
    model = '[models.own]\nmodel = "m"\nurl = "http://127.0.0.1/v1"\nkey_file = "a.key"\n'
    say(
        terminal, user=f'{model}[roster]\nfile = "mine.toml"\n', project='[keys]\nlog = "log.key"\n'
    )
    settings = load_settings(terminal.folder, terminal.environment)
    beside = terminal.folder.parent / "config"

    assert settings.sections.raw("models")["own"]["key_file"] == str(beside / "a.key")
    assert settings.sections.raw("roster")["file"] == str(beside / "mine.toml")
    assert settings.key_file == terminal.folder / "log.key"


@pytest.mark.parametrize("wrong", ["[nonsense]\n", "[database]\nurl = 5\n", "[models]\nx = 1\n"])
def test_a_mistake_is_told_with_the_file_that_it_is_in(terminal: Terminal, wrong: str) -> None:
    """Of two files, one wants to know which to edit."""
    say(terminal, user=wrong)

    with pytest.raises(BadSettings, match=r"config/config\.toml: \["):
        load_settings(terminal.folder, terminal.environment)


@pytest.mark.parametrize(
    ("within", "mode", "obeyed"), [("mine", 0o755, False), (".", 0o777, False), (".", 0o755, True)]
)
def test_a_file_that_a_stranger_could_plant_is_not_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, within: str, mode: int, *, obeyed: bool
) -> None:
    """It names programs: above one's folder, or where all may write, it could be a trap."""
    planted = tmp_path / "forum.toml"
    planted.write_text('[models.default]\ncmd = "steal"\n')
    if os.geteuid() == 0:
        os.chown(planted, STRANGER, STRANGER)
    else:  # who cannot give files away is the stranger
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    (tmp_path / "mine").mkdir()
    tmp_path.chmod(mode)
    try:
        named = load_settings((tmp_path / within).resolve(), {}).sections.raw("models")["default"][
            "cmd"
        ]
    except BadSettings as error:
        named = f"{error.path} is refused"

    assert named == ("steal" if obeyed else f"{planted} is refused")


# What is not shown


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("postgresql://me:s3cret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:s3:c@ret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://host/db?password=s3cret&x=1", "postgresql://host/db?password=***&x=1"),
        ("host=h password='s3 cret' user=me", "host=h password=*** user=me"),
        ("host=h PASSWORD = s3cret user=me", "host=h PASSWORD = *** user=me"),
        (r"password='s3\' cret' user=me", "password=*** user=me"),
        (r"password=s3\ cret user=me", "password=*** user=me"),
        ("password='s3 cret, not closed", "password=***"),
        ("host/db?sslpassword=s3cret&x=1", "host/db?sslpassword=***&x=1"),
        ("agent --api-key=s3cret --token=s3cret -v", "agent --api-key=*** --token=*** -v"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        (
            "failed: postgresql://:s3cret@host/db is gone",
            "failed: postgresql://:***@host/db is gone",
        ),
    ],
)
def test_a_password_is_masked_and_nothing_else(text: str, safe: str) -> None:
    """What is shown is pasted into bug reports."""
    assert mask_passwords(text) == safe


def test_settings_fit_the_screen_and_keep_their_secrets(terminal: Terminal) -> None:
    """A table of 80 columns; a password stands nowhere in it, however it was given."""
    say(
        terminal,
        user='[database]\nurl = "postgresql://me:s3cret@host/db"\n',
        project='[models.own]\nmodel = "m"\nkey_env = "K_ENV"\noptions = { key = "s3cret" }\n',
    )
    printed = terminal.call("config", "show").stdout

    assert "postgresql://me:***@host/db" in printed
    assert "K_ENV" in printed
    assert "s3cret" not in printed + json.dumps(terminal.ask("config", "show"))
    assert max(map(len, printed.split("\n"))) <= 80


# Beginning


def test_init_writes_settings_that_say_nothing_yet(terminal: Terminal) -> None:
    """All is commented out, in every section that there is; uncommented, all of it is valid."""
    (terminal.folder / "forum.toml").unlink()
    terminal.call("init")
    text = (terminal.folder / "forum.toml").read_text()
    plain = load_settings(terminal.folder, terminal.environment)
    settled = [line.removeprefix("# ") for line in text.split("\n") if "=" in line or "[" in line]
    (terminal.folder / "forum.toml").write_text("\n".join(settled))
    full = load_settings(terminal.folder, terminal.environment)
    team_settings = load_team_settings(full)

    assert (plain.origin, plain.database, plain.policy) == (None, None, None)
    assert plain.sections.tables == {}
    shown = SECTIONS.keys() - PROJECT_SECTIONS.keys() - {"otel"} | {"tenants"}
    assert full.sections.tables.keys() == shown
    assert team_settings.agents.keys() == {"", "cheap", "capable", "frontier"}
    assert (full.origin, full.key_file) == ("example.com/agents", Path("/etc/forum/log.key"))


# What a shell is offered


def offered(terminal: Terminal, line: str) -> set[str]:
    """Return how a line could go on, as bash asks for it."""
    words = line.split(" ")
    done = terminal.type(
        _FORUM_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1)
    )
    assert (done.returncode, done.stderr) == (0, "")
    return {text.partition(",")[2] for text in done.stdout.split()}


@pytest.mark.slow
def test_a_shell_completes_what_is_there(terminal: Terminal) -> None:
    """Commands, runs, what waits in them, and lanes."""
    (terminal.folder / "plan.toml").write_text(
        'request = "x"\n[[tasks]]\nid = "a"\ninstruction = "b"'
    )
    waits = terminal.type("submit", "--plan", "plan.toml", "--gate", "plan", "--json")
    run = json.loads(waits.stdout)["run"]

    assert {"submit", "show"} <= offered(terminal, "forum s")
    assert offered(terminal, "forum show ") == {run}
    assert offered(terminal, f"forum diff {run} {run[:9]}") == {run}
    assert offered(terminal, f"forum gate approve {run[:18]} ") == {"plan"}
    assert "backend" in offered(terminal, "forum submit --lane ")


@pytest.mark.slow
@pytest.mark.parametrize("project", ["", "[[[", '[database]\nurl = "postgresql://127.0.0.1:9/x"'])
def test_a_shell_that_asks_is_never_told_of_an_error(terminal: Terminal, project: str) -> None:
    """Without a ledger, with broken settings, with a database that is away: nothing is offered."""
    say(terminal, project=project)

    assert offered(terminal, "forum show ") == set()
    assert offered(terminal, "forum gate show x ") == set()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_calls_us(terminal: Terminal, shell: str) -> None:
    """It is click's own, under the name by which we listen."""
    script = terminal.ask("completion", shell)["script"]

    assert f"_FORUM_COMPLETE={shell}_complete" in script


def test_every_setting_of_the_kernel_is_shown(tmp_path: Path) -> None:
    """Also one that is not set; the names of some members differ from those of the settings."""
    (tmp_path / "forum.toml").write_text("[ledger]\ncleanup_days = 9\n")
    settings = load_settings(tmp_path, {"FORUM_CONFIG_DIR": str(tmp_path / "config")})
    shown = {setting.setting: setting.value for setting in list_settings(settings)}

    named = {
        f"{section}.{name}"
        for section, form in PROJECT_SECTIONS.items()
        if not form.is_named and section != "agents"  # its lists are shown if they are set
        for name in form.__struct_fields__
    }
    assert named <= shown.keys()
    assert (shown["ledger.cleanup_days"], shown["worker.temporal_address"]) == ("9", None)


def test_rows_beside_a_run_are_kept_for_a_week_or_as_long_as_is_set(tmp_path: Path) -> None:
    """A promise to clients is not broken by a zero, a fraction or a word."""
    environ = {"FORUM_CONFIG_DIR": str(tmp_path / "config")}
    kept = [load_settings(tmp_path, environ).cleanup_days]
    for value in ("30", "0", "-1", "1.5", '"a week"', "true"):
        (tmp_path / "forum.toml").write_text(f"[ledger]\ncleanup_days = {value}\n")
        if value == "30":
            kept.append(load_settings(tmp_path, environ).cleanup_days)
            continue
        with pytest.raises(
            BadSettings, match="cleanup_days: write a whole number from 1 to 100,000"
        ):
            load_settings(tmp_path, environ)

    assert kept == [7, 30]
