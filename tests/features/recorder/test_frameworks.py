"""The adapters, against the real frameworks: the code of each guide is run as it stands.

Each framework has an environment of its own in `.ci/frameworks`, made by the gate from a lock.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import indent
from typing import NamedTuple

import pytest

from forum.ledger.kinds import Outcome
from forum.runs.report_kinds import Operation, ReportProvenance
from tests.features.recorder.recording import assert_verified, make_project, read_runs

ROOT = Path(__file__).parent.parent.parent.parent
ENVIRONMENTS = Path(os.environ.get("FORUM_FRAMEWORKS", ROOT / ".ci/frameworks"))
FRAMEWORKS = ("pydantic-ai", "openai-agents", "langgraph", "crewai", "google-adk")
TOLD_TOKENS = ("openai-agents", "langgraph", "google-adk")


def interpreter(framework: str) -> Path:
    """Return the Python of a framework's environment."""
    if framework == "pydantic-ai":
        return Path(sys.executable)  # an extra of Forum's: locked in its own environment
    python = ENVIRONMENTS / framework / "bin/python"
    if not python.exists():
        pytest.skip(f"no environment of {framework} in {ENVIRONMENTS}")
    return python


CAPPED = """
import traceback

try:
    with forum.run("capped", calls=1):
{body}
except BaseException:
    print("refused", traceback.format_exc())
forum.close()
"""


class GuideRun(NamedTuple):
    """The code of a guide was run, and once more under a limit."""

    framework: str
    folder: Path
    printed: str
    """What the code printed."""
    refused: str
    """What it printed under the limit."""
    trouble: str


@pytest.fixture(scope="module", params=FRAMEWORKS)
def guide(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> GuideRun:
    """Run the code of a guide in a project, with a scripted model in the place of a real one."""
    framework, folder = request.param, tmp_path_factory.mktemp(request.param)
    page = (ROOT / f"docs/guides/record-{framework}.md").read_text()
    code = re.findall(r"(?<! -->\n)```python\n(.*?)```", page, re.DOTALL)[0]
    # What the last statement starts is what a limit is put around.
    start = re.search(r"^(print\(|answer = |asyncio\.run)", code, re.MULTILINE)
    assert start is not None
    capped = CAPPED.format(body=indent(code[start.start() :], " " * 8))
    (folder / "agent.py").write_text(code + capped)
    model = f"{framework.replace('-', '_')}_model.py"
    shutil.copy(ROOT / "tests/features/recorder/frameworks" / model, folder / "my_model.py")
    environment = make_project(folder) | {"OTEL_SDK_DISABLED": "true", "HOME": str(folder)}
    done = subprocess.run(
        [interpreter(framework), "agent.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    printed, _, refused = done.stdout.partition("refused")
    return GuideRun(framework, folder, printed, refused, trouble=done.stderr)


@pytest.mark.slow
def test_one_line_records_an_agent(guide: GuideRun) -> None:
    """The agent answers as without it; run, models and tools are in the ledger."""
    assert "12 bolts" in guide.printed, guide.trouble
    (run,) = [run for run in read_runs(guide.folder) if run.entries[0].actor != "capped"]
    tool = run.step("stock")
    ops = [step.op for step in run.steps]
    models = [step for step in run.steps if step.op is Operation.MODEL]
    assert run.source.told is ReportProvenance.WRAPPED
    assert run.closed is not None
    assert run.closed.outcome is Outcome.OK
    assert (tool.op, ops.count(Operation.TOOL)) == (Operation.TOOL, 1)
    assert b"bolts" in run.bodies[tool.span]["input"]
    assert b"12" in run.bodies[tool.span]["output"]
    assert len(models) == 2
    assert {step.model for step in models} == {"scripted-1"}
    assert Operation.AGENT in ops
    spans = {step.span for step in run.steps}
    assert all(step.within in spans for step in run.steps if step.op is not Operation.AGENT)
    if guide.framework in TOLD_TOKENS:
        assert [(step.input_tokens, step.output_tokens) for step in models] == [(40, 7)] * 2
    assert_verified(guide.folder)


@pytest.mark.slow
def test_a_limit_refuses_a_call_of_a_framework(guide: GuideRun) -> None:
    """The second model call would pass the limit: it is not made, and the program is told."""
    assert "would pass its cap" in guide.refused, guide.trouble
    assert "12 bolts" not in guide.refused
    (run,) = [run for run in read_runs(guide.folder) if run.entries[0].actor == "capped"]
    models = [step.outcome for step in run.steps if step.op is Operation.MODEL]
    assert sorted(models) == [Outcome.DENIED, Outcome.OK]
    assert run.closed is not None
    assert run.closed.outcome is not Outcome.OK


@pytest.mark.slow
def test_the_guide_for_python_programs_does_what_it_says(project: Path) -> None:
    """Its blocks run as they stand; the one with a client is run with a provider elsewhere."""
    page = (ROOT / "docs/guides/record-python.md").read_text()
    environment = make_project(project)
    printed = ""
    for code in re.findall(r"(?<! -->\n)```python\n(.*?)```", page, re.DOTALL):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        printed += done.stdout

    assert "intact, complete, self-witnessed; wrapped" in printed
    assert "Rhine" in printed
    assert "12 0.02 {" in printed
    assert "denied It failed: budget: $0.01 more was needed" in printed
