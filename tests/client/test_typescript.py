"""The TypeScript client: its types are those of the server, and its tests pass under Node."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from forum import __version__
from forum.ledger.kinds import Scope
from tests.docs.pages import saved
from tests.docs.typescript_types import PACKAGE, TYPES, render
from tests.surfaces.serving import served

GUIDE = "docs/guides/use-the-typescript-client.md"
COMPILER = PACKAGE / "node_modules/typescript/bin/tsc"


@pytest.fixture(scope="module")
def node() -> list[str]:
    """Return the command for Node; without it, or without the compiler, there is nothing to run."""
    text = shutil.which("node")
    if text is None or not COMPILER.exists():
        pytest.skip("needs Node and `npm ci` in clients/typescript")
    major = int(run([text, "--version"], PACKAGE).removeprefix("v").split(".")[0])
    # Debian 12 has Node 18, in which `crypto` is not yet global.
    return [text, *(["--experimental-global-webcrypto"] if major < 20 else [])]


def run(argv: Sequence[str | Path], folder: Path, **variables: str) -> str:
    """Run a program to its end, and return what it prints."""
    environ: Mapping[str, str] = {
        **os.environ,
        "FORUM": str(Path(sys.executable).with_name("forum")),
        **variables,
    }
    done = subprocess.run(
        argv, cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_types_are_those_of_the_server() -> None:
    """`just client` writes them anew."""
    assert TYPES.read_text() == render()


def test_the_package_has_the_version_of_forum() -> None:
    """A release is one version of everything; its lock agrees."""
    package, lock = (
        json.loads((PACKAGE / name).read_text()) for name in ("package.json", "package-lock.json")
    )

    assert package["version"] == lock["version"] == __version__
    assert lock["packages"][""]["devDependencies"] == package["devDependencies"]
    assert "dependencies" not in package


@pytest.mark.slow
@pytest.mark.node
def test_its_tests_pass(node: list[str]) -> None:
    """Against a server that they start, kill and start again."""
    run([*node, COMPILER], PACKAGE)
    text = run([*node, "--test", "--test-reporter=tap", "dist/test/client.test.js"], PACKAGE)

    assert "\n# fail 0\n" in text
    assert "\n# skipped 0\n" in text
    assert "\n# pass 0\n" not in text


@pytest.mark.slow
@pytest.mark.node
def test_the_program_of_the_guide_works(node: list[str], tmp_path: Path) -> None:
    """It compiles as a reader would have it, in a project of its own, and does what it says."""
    run([*node, COMPILER], PACKAGE)
    folder = tmp_path / "reader"
    modules = folder / "node_modules"
    modules.mkdir(parents=True)
    (modules / "forumd-client").symlink_to(PACKAGE)
    (modules / "@types").symlink_to(PACKAGE / "node_modules/@types")
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "ask.ts").write_text(saved(GUIDE)["ask.ts"])
    options = ["--strict", "--module", "nodenext", "--target", "es2022", "--types", "node"]
    run([*node, COMPILER, *options, "ask.ts"], folder)
    with served(tmp_path / "server") as found:
        scopes = {Scope.SUBMIT, Scope.READ, Scope.AUDIT}
        key = str(found.project.forum.access.grant("reader", scopes))
        text = run([*node, "ask.js"], folder, FORUM_URL=found.url, FORUM_KEY=key)

    assert " run.close/1\n" in text
    assert "no-such-run" in text.split("\n")[-2]
    assert (folder / "answer.zip").read_bytes().startswith(b"PK")
