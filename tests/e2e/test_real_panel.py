"""Deliberations of a real model, typed as a user would: recorded, verified, and read by others.

The model is very small.  Nothing is asserted of what it says, everything of what becomes of it.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from forum.features.symposium.artifact_rules import check_artifact
from tests.e2e.project import Project, project
from tests.e2e.test_real_model import MODEL, forum

pytestmark = pytest.mark.slow

MAX_TOKENS = 96
"""Of a reply; one that is cut short is told so, as a long one of a larger model would be."""


@pytest.fixture
def home(tmp_path: Path, smollm2: str) -> Any:  # noqa: ANN401  a generator of a project
    """Make a project with two agents that are the same model, one of them in another mood."""
    with project(tmp_path / "project", None) as made:
        (made.home / "forum.toml").write_text(
            "".join(
                f'[models.{name}]\nurl = "{smollm2}"\nmodel = "{MODEL}"\n'
                f"max_tokens = {MAX_TOKENS}\noptions = {{ temperature = {warmth}, seed = 3 }}\n"
                for name, warmth in (("cold", 0), ("warm", 0.9))
            )
        )
        yield made


@pytest.mark.nightly  # in the gate, a symposium sits: its seats are asked, read and recorded alike
def test_a_council_of_a_real_model(home: Project) -> None:
    """Two seats, one exchange: everything that was asked is what the protocol asks."""
    completed = forum(
        home, "deliberate", "Is seven a prime number?", "--option", "yes", "--option", "no",
        "--seats", "2", "--baseline", "0", "--rounds", "1", "--json",
    )  # fmt: skip
    document = json.loads(completed.stdout)
    verified = forum(home, "ledger", "verify", "--json")
    entries = home.forum.reads.read_run(document["run"]).tasks

    # A model of this size may end split or blocked, which has a status of its own.
    assert completed.returncode in (0, 8, 9), completed.stderr
    assert document["answer"] in ("yes", "no")
    assert {f"~ballot.0.{seat}" for seat in (1, 2)} <= entries.keys()
    assert all(task.calls for task in entries.values())
    assert json.loads(verified.stdout)["ok"], verified.stdout


def test_a_symposium_of_a_real_model(home: Project) -> None:
    """However it ends, its artifact keeps to the protocol."""
    config = {
        "schema_version": "1.0.0",
        "session_id": "real-1",
        "originator": "user",
        "problem_statement": "Should a small team write tests first?",
        "selector": {
            "strategy": "fixed",
            "default_deliberation_panel": ["critic"],
            "coordinator_agent": "coordinator",
        },
        "agents": [
            {"id": "critic", "persona_ref": "critic", "provider": "local", "model": "warm"}
        ],
        "coordinator": {
            "id": "coordinator", "persona_ref": "coordinator", "provider": "local", "model": "cold",
        },
        "budget": {
            "max_total_tokens": 20_000, "max_total_cost_usd": 1, "max_rounds": 1,
            "max_wallclock_seconds": 200,
        },
        "runtime": {"synthesize_on_terminate": True, "per_agent_retry_budget": 1},
    }  # fmt: skip
    (home.home / "config.json").write_text(json.dumps(config))
    completed = forum(
        home, "deliberate", "--protocol", "symposium", "--config", "config.json",
        "--output", "out", "--json",
    )  # fmt: skip
    artifact = (home.home / "out" / "real-1" / "artifact.json").read_bytes()
    valid = forum(home, "deliberate", "validate", "out/real-1/artifact.json")
    verified = forum(home, "ledger", "verify", "--json")

    assert completed.stdout, completed.stderr
    assert check_artifact(artifact) == ()
    assert valid.returncode == 0, valid.stderr
    assert json.loads(verified.stdout)["ok"], verified.stdout
