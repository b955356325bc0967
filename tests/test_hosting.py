"""What the host of the repository runs: the gate as it is, with few rights, and fixed actions."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.test_repository import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
CONFIGURATION = ROOT / ".github/ISSUE_TEMPLATE/config.yml"
FORMS = sorted(set((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")) - {CONFIGURATION})
RECIPE = re.compile(r"^([a-z][\w-]*)[^:=\n]*:(?!=)", flags=re.MULTILINE)
PINNED = re.compile(r"\./\S+|[\w./-]+@[0-9a-f]{40}")
CHECKS = re.compile(r"\b(?:pytest|ruff|mypy|lint-imports|npm)\b")


def load(path: Path) -> dict[str, Any]:
    """Read a file of the host; `on` stays a word, and no truth value as in YAML 1.1."""
    loaded: dict[str, Any] = yaml.load(path.read_text(), Loader=yaml.BaseLoader)  # noqa: S506
    return loaded


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all that the jobs of a workflow do; a job may be another workflow."""
    jobs = workflow["jobs"].values()
    return [step for job in jobs for step in job.get("steps", [job])]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_no_rights_but_those_that_a_job_names(path: Path) -> None:
    """Whatever gets into a job can do no more than the job, and nothing with secrets of ours."""
    workflow = load(path)
    writing = {
        (name, right)
        for name, job in workflow["jobs"].items()
        for right, level in job["permissions"].items()
        if level != "read"
    }

    assert workflow["permissions"] == {}
    assert "pull_request_target" not in workflow["on"]
    assert "secrets." not in path.read_text()
    assert writing <= {
        ("attest", "attestations"),
        ("attest", "id-token"),
        ("attest", "packages"),
        ("publish", "id-token"),
        ("announce", "contents"),
    }


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_an_action_is_named_by_its_commit(path: Path) -> None:
    """A tag is whatever its owner says tomorrow."""
    used = [step["uses"] for step in steps(load(path)) if "uses" in step]

    assert used
    assert [action for action in used if not PINNED.fullmatch(action)] == []


def test_jobs_with_rights_run_nothing_of_the_repository() -> None:
    """What signs and publishes takes finished files, and has no checkout."""
    jobs = load(ROOT / ".github/workflows/release.yml")["jobs"]
    for name in ("attest", "publish", "announce"):
        assert not re.search(r"checkout|[.]venv|\bdeploy\b|\./", str(jobs[name]["steps"]))


def test_workflows_repeat_nothing_of_the_gate() -> None:
    """What is checked stands in .ci/run, and what a release is in a recipe."""
    commands = [step["run"] for path in WORKFLOWS for step in steps(load(path)) if "run" in step]
    recipes = set(RECIPE.findall((ROOT / "justfile").read_text()))
    called = {name for text in commands for name in re.findall(r"/just ([\w-]+)", text)}

    assert ".ci/run" in commands
    assert [text for text in commands if CHECKS.search(text)] == []
    assert called == {"release"}
    assert called <= recipes


def test_the_hooks_before_a_commit_are_recipes_and_tools_of_the_environment() -> None:
    """They download nothing, and check what `just check` does."""
    (repository,) = load(ROOT / ".pre-commit-config.yaml")["repos"]
    hooks = {hook["id"]: hook for hook in repository["hooks"]}

    assert repository["repo"] == "local"
    assert {hook["language"] for hook in hooks.values()} == {"system"}
    assert hooks["check"]["entry"] == ".venv/bin/just check"


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_for_issues_asks_something(path: Path) -> None:
    """A field without a name is left out by the host, and nobody is told."""
    form = load(path)
    fields = [field for field in form["body"] if field["type"] != "markdown"]

    assert form["name"]
    assert form["description"]
    assert len({field["id"] for field in fields}) == len(fields) > 2
    assert all(field["attributes"]["label"] for field in fields)
