"""What a newcomer does: clone, install, and type the README and *Five minutes* top to bottom.

The clone lies in an empty folder with no sibling, HOME is empty, and the path has no Node, no
`just`, no `uv` and no Forum.  Only the package index of the machine is as the tests find it.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import test_readme
from tests.docs.pages import FIRST_PAGES, commands
from tests.test_repository import ROOT

pytestmark = pytest.mark.slow

ABSENT = {"chromium", "forum", "go", "just", "node", "nodejs", "npm", "npx", "pip", "pip3", "uv"}
"""Programs that a newcomer need not have."""
KEPT = {"LANG", "PIP_CERT", "PIP_DEFAULT_TIMEOUT", "PIP_FIND_LINKS", "SSL_CERT_FILE"}
"""Variables that say how this machine reaches packages, and nothing else."""


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of somebody who has Python, git and the tools of a terminal."""
    folder = tmp_path_factory.mktemp("newcomer")
    tools = folder / "bin"
    tools.mkdir()
    for place in ("/usr/bin", "/bin"):
        for program in Path(place).iterdir():
            if program.name not in ABSENT and not os.path.lexists(tools / program.name):
                (tools / program.name).symlink_to(program)
    (tools / "python3").unlink(missing_ok=True)
    (tools / "python3").symlink_to(Path(sys.base_prefix) / "bin/python3")
    (folder / "home").mkdir()
    kept = {name: value for name, value in os.environ.items() if name in KEPT}
    return kept | {"HOME": str(folder / "home"), "PATH": str(tools)}


def type_command(
    line: str, folder: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Type a line in a folder."""
    return subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def clone(newcomer: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a clone of what is committed, with Forum installed as the README says."""
    folder = tmp_path_factory.mktemp("elsewhere") / "forum"
    subprocess.run(["git", "clone", "--quiet", "--no-local", ROOT, folder], check=True)
    lines = (folder / "README.md").read_text().splitlines()
    done = type_command(next(line for line in lines if "-m venv" in line), folder, newcomer)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_nothing_but_python_is_needed(newcomer: dict[str, str], clone: Path) -> None:
    """What is absent is absent, and what was installed is the clone's and no other Forum."""
    found = {name for name in ABSENT if shutil.which(name, path=newcomer["PATH"])}
    version = subprocess.check_output(
        [clone / ".venv/bin/python", "-c", "import forum; print(forum.__file__)"],
        env=newcomer,
        text=True,
    )

    assert found == set()
    assert Path(version.strip()).is_relative_to(clone / ".venv")
    assert not (clone.parent / "shared").exists()
    assert (clone / ".venv/bin/forum").exists()


@pytest.mark.parametrize("page", FIRST_PAGES)
def test_a_page_is_typed_top_to_bottom(
    page: str, newcomer: dict[str, str], clone: Path, tmp_path: Path
) -> None:
    """Every command ends as the page says, in the order of the page, in one new folder."""
    environment = newcomer | {"PATH": f"{clone}/.venv/bin:{newcomer['PATH']}"}
    pasted = test_readme.paste_into(tmp_path, environment, page, None)

    assert len(commands(page, None)) >= 6
    test_readme.check_pasted(pasted, page, None)


def test_the_remedy_for_a_missing_extra_works(
    newcomer: dict[str, str], clone: Path, tmp_path: Path
) -> None:
    """The command that the error names is typed as it stands, and then the extra is there."""
    push = shlex.join([f"{clone}/.venv/bin/forum", "otel", "push"])
    missing = type_command(push, tmp_path, newcomer)
    remedy = missing.stderr.rpartition("install it with: ")[2]
    installed = type_command(remedy, tmp_path, newcomer)

    assert missing.returncode == 1, missing.stderr
    assert f"{clone}[otel]" in remedy
    assert installed.returncode == 0, installed.stdout + installed.stderr
    assert "install it with" not in type_command(push, tmp_path, newcomer).stderr


@pytest.mark.parametrize("is_whole", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_the_clone_tests_itself(newcomer: dict[str, str], clone: Path, *, is_whole: bool) -> None:
    """Without a sibling folder, every test is collected; those with foreign data are left out.

    In the gate, which runs all others, the files that ask for foreign data.
    """
    files = (clone / "tests").rglob("test_*.py")
    foreign = [str(path) for path in files if "foreign_data" in path.read_text()]
    assert len(foreign) > 3
    options = ("--collect-only", "-q", "-p", "no:cacheprovider", "--assert=plain")
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *(["tests"] if is_whole else foreign)],
        cwd=clone,
        env=newcomer | {"PYTHONPATH": str(clone / "src")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert collected.returncode == 0, collected.stdout[-4000:]
    assert "error" not in collected.stdout.splitlines()[-1]
