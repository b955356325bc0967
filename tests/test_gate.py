"""The gate itself: what it refuses, and that it can start."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

SKIPPING = """
import pytest

@pytest.mark.skip(reason="no server")
def test_marked():
    pass

def test_skips_itself():
    pytest.skip("no toolchain")

@pytest.mark.xfail(reason="known", strict=True)
def test_expected_to_fail():
    raise AssertionError

def test_runs():
    pass
"""
FAILING = """
from tests.support import flaky

tries = []

@flaky("the clock decides")
def test_fails_once():
    tries.append(1)
    assert len(tries) > 1, "somebody was faster"

@flaky("the clock decides")
def test_fails():
    raise AssertionError

def test_is_a_race():
    tries.append(1)
    assert len(tries) > 3, "it is tried once"
"""
DRAWING = """
from pathlib import Path
from hypothesis import given, settings, strategies

def keep(drawn):
    with Path(__file__).with_name("drawn").open("a") as file:
        file.write(f"{drawn} ")

@given(strategies.lists(strategies.booleans(), min_size=9))
def test_draws(drawn):
    assert not settings.default.derandomize, "others are drawn where there is no seed"
    keep(drawn)

def test_fails():
    raise AssertionError
"""
LEAVING_OUT = """
from tests.foreign_data import foreign

def test_compares_with_others():
    assert foreign("vectors").is_dir()
"""
SKIPPED_WHOLE = "import pytest; pytest.skip('no module', allow_module_level=True)"


def run_pytest(
    folder: Path, module: str, *options: str, ci: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run one test module under this suite's conftest, with FORUM_CI set to `ci`."""
    shutil.copy(ROOT / "tests/conftest.py", folder)
    (folder / "test_module.py").write_text(module)
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:schemathesis",
            "-ra",
            *options,
            str(folder),
        ],
        cwd=folder,
        env=os.environ | {"FORUM_CI": ci, "PYTHONPATH": str(ROOT)} | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_skipped_test_is_red_in_ci(tmp_path: Path) -> None:
    """A test that did not run proves nothing, so CI names it and fails; xfail is no skip."""
    run = run_pytest(tmp_path, SKIPPING, ci="1")

    assert run.returncode == pytest.ExitCode.TESTS_FAILED
    assert "test_module.py::test_marked did not run in CI: " in run.stdout
    assert "test_module.py::test_skips_itself did not run in CI: " in run.stdout
    closing = run.stdout.splitlines()[-1]
    assert all(part in closing for part in ("1 failed", "1 passed", "1 xfailed", "1 error"))


def test_a_module_that_skips_itself_is_red_in_ci(tmp_path: Path) -> None:
    """A module that is skipped while it is collected hides all its tests at once."""
    run = run_pytest(tmp_path, SKIPPED_WHOLE, ci="1")

    assert run.returncode == pytest.ExitCode.INTERRUPTED
    assert "test_module.py did not run in CI: " in run.stdout


def test_a_skipped_test_is_no_failure_elsewhere(tmp_path: Path) -> None:
    """A developer without Postgres or Go can still run the suite."""
    run = run_pytest(tmp_path, SKIPPING, ci="")

    assert run.returncode == pytest.ExitCode.OK
    assert "2 skipped" in run.stdout.splitlines()[-1]


def test_foreign_data_are_left_out_only_where_they_are_not(tmp_path: Path) -> None:
    """A clone elsewhere passes and says what it left out; with the folder, nothing is left out."""
    foreign = tmp_path / "foreign"
    for name in ("vectors", "symposium", "routing"):
        (foreign / name).mkdir(parents=True)
    (tmp_path / "suite").mkdir()
    absent = run_pytest(
        tmp_path / "suite", LEAVING_OUT, ci="1", FORUM_SHARED=str(tmp_path / "nowhere")
    )
    present = run_pytest(tmp_path / "suite", LEAVING_OUT, ci="1", FORUM_SHARED=str(foreign))

    assert absent.returncode == pytest.ExitCode.OK
    assert "1 skipped" in absent.stdout.splitlines()[-1]
    assert "1 tests or files compare with data of other projects" in absent.stdout
    assert "1 passed" in present.stdout.splitlines()[-1]


def test_what_was_tried_again_is_told(tmp_path: Path) -> None:
    """A race that is met once in ten runs must not hide in a green gate; a fault stays one."""
    run = run_pytest(tmp_path, FAILING, ci="1")

    assert "tried again: test_module.py::test_fails_once" in run.stdout
    assert "AssertionError: somebody was faster" in run.stdout
    closing = run.stdout.splitlines()[-1]
    assert all(part in closing for part in ("2 failed", "1 passed", "3 rerun"))
    assert "3 times a test was tried again" in run.stdout


def test_only_tests_with_a_name_and_a_reason_are_tried_again() -> None:
    """Where everything has three tries, a race of one in ten passes 999 times in 1,000."""
    asking = subprocess.run(
        [
            "git",
            "grep",
            "-lE",
            "mark[.]flaky|--reru[n]s",
            "--",
            "tests",
            ".ci",
            "*.toml",
            "justfile",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert asking.stdout.split() == ["tests/support.py"]


def test_properties_are_drawn_anew_and_the_same_when_asked(tmp_path: Path) -> None:
    """Examples that are the same for ever find nothing more; one that failed must be met again."""
    drawn, texts = [], [""]
    for number, options in enumerate((["-n1"], ["--hypothesis-seed={}"])):
        folder = tmp_path / str(number)
        folder.mkdir()
        given = [option.format(texts[-1]) for option in options]
        run = run_pytest(folder, DRAWING, *given, ci="1", CI="1")
        texts += re.findall(r"--hypothesis-seed=(\d+) draws the same", run.stdout)
        drawn.append((folder / "drawn").read_text())

    assert texts[1] == texts[2]
    assert drawn[0] == drawn[1]


def test_the_gate_can_be_started() -> None:
    """A lost mode bit or a syntax error would stop CI before it says anything."""
    gate = ROOT / ".ci/run"

    assert os.access(gate, os.X_OK)
    subprocess.run(["bash", "-n", gate], check=True)
