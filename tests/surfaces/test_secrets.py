"""A secret in the environment: agents may use it and let it slip, and no trace of it is left."""

import base64
import json
from pathlib import Path

import pytest

from forum.app import build_secret_mask
from tests.surfaces.terminal import Terminal

CANARY = 'c4n4ry/of"the+mine'
SHOW = "import json, os; print(json.dumps(dict(os.environ)))"
PLAN = {
    "request": f"Do not tell that it is {CANARY}",
    "tasks": [
        {"id": "env", "instruction": f"Not {CANARY}", "agent": "env"},
        {"id": "json", "instruction": "b", "agent": "json"},
        {"id": "base64", "instruction": "c", "agent": "base64"},
        {"id": "fails", "instruction": "d", "agent": "fails"},
        {"id": "again", "instruction": "e", "needs": ["env", "json", "base64"], "agent": "again"},
    ],
}
AGENTS = {
    "env": "env",
    "json": f"python3 -c {SHOW!r}".replace("'", '"'),
    "base64": "sh -c 'printenv MINE_API_KEY | tr -d \"\\n\" | base64 -w0'",
    "fails": "sh -c 'printenv MINE_API_KEY >&2; exit 3'",
    "again": "cat",
}


def traces(text: bytes) -> list[bytes]:
    """Return the ways in which the secret can be read in something."""
    escaped = json.dumps(CANARY)[1:-1].encode()
    forms = (b"c4n4ry", CANARY.encode(), escaped, base64.b64encode(CANARY.encode()))
    return [form for form in forms if form in text]


@pytest.mark.slow
def test_a_secret_of_the_environment_is_nowhere(tmp_path: Path) -> None:
    """Not in a file of ours, not in a bundle, and not in anything that a command prints."""
    user = Terminal(tmp_path)
    user.environment["MINE_API_KEY"] = CANARY
    (user.folder / "plan.json").write_text(json.dumps(PLAN))
    agents = [word for name, cmd in AGENTS.items() for word in ("--agent", f"{name}={cmd}")]
    outputs = [user.type("submit", "--plan", "plan.json", *agents, "--retries", "0", "--json")]
    (user.folder / "plan.json").unlink()
    assert outputs[0].stdout, outputs[0].stderr
    run = json.loads(outputs[0].stdout)["run"]
    outputs += [
        user.type(*words)
        for words in (
            ("submit", "x", "--cmd", "env"),
            ("show", run),
            ("show", run, "--json"),
            ("show", run, "--answer"),
            ("runs", "--json"),
            ("why", "9"),
            ("replay", run),
            ("ledger", "note", f"It is {CANARY}."),
            ("ledger", "verify", "--json"),
            ("ledger", "export", run, "--output", "run.zip"),
        )
    ]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    answer = outputs[3].stdout

    assert {path.name for path in files} >= {"ledger.db", "run.zip"}
    assert [path for path in files if traces(path.read_bytes())] == []
    assert [s.args for s in outputs if traces((s.stdout + s.stderr).encode())] == []
    assert [s.returncode for s in outputs[1:]] == [0] * 10, outputs
    assert "MINE_API_KEY=[secret MINE_API_KEY]" in outputs[1].stdout
    assert outputs[7].stdout == "the replay is the same, step by step\n"
    # Every agent had it, and the last one was given what the others said.
    assert answer.count("[secret MINE_API_KEY]") >= 3


@pytest.mark.parametrize(
    ("name", "value", "hidden"),
    [
        ("OPENAI_API_KEY", CANARY, CANARY),
        ("openai_api_key", f" {CANARY}\n", CANARY),
        ("GITHUB_TOKEN", CANARY, CANARY),
        ("PGPASSWORD", CANARY, CANARY),
        ("AWS_SECRET_ACCESS_KEY", "/" + CANARY, "/" + CANARY),
        ("FORUM_DATABASE_URL", "postgresql://me:can%61ry!x@db/forum", "canary!x"),
        ("FORUM_DATABASE_URL", "postgresql://me:can%61ry!x@db/forum", "can%61ry!x"),
    ],
)
def test_secrets_are_told_by_their_names(name: str, value: str, hidden: str) -> None:
    """Whoever calls something a key means it."""
    assert build_secret_mask({name: value}).mask_text(f"<{hidden}>").startswith("<[secret ")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FORUM_KEY", "0123456789abcdef"),
        ("FORUM_KEY_FILE", "/keys/log.key"),
        ("GOOGLE_APPLICATION_CREDENTIALS", __file__),
        ("HOME", "/house/canary"),
        ("SHORT_KEY", "canary"),
        ("FORUM_DATABASE_URL", "postgresql://canary@canary.example/canary"),
        ("FORUM_DATABASE_URL", "postgresql://[canary"),
        ("LONG_TOKEN", "/" * 5000 + "\0"),
    ],
)
def test_what_only_looks_like_a_secret_is_left_alone(name: str, value: str) -> None:
    """Ids, paths, names and short words stand in every record; nor does any of them stop us."""
    assert (
        build_secret_mask({name: value}).mask_text("canary " + value[:200])
        == "canary " + value[:200]
    )
