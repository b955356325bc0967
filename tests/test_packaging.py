"""What is handed out: a wheel and an sdist, and the bill of what they need.

Nothing is downloaded: an environment of its own gets the built wheel, and links to those of the
packages of this environment that the wheel's own metadata ask for.
"""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.locked import LOCK, needed_by, read_lock
from deploy.release import Builder
from deploy.sbom import bill_of_materials
from forum import __version__
from forum.runs.model_weights import MODEL_WEIGHTS
from tests.docs import test_readme
from tests.test_repository import ROOT, tracked

UV = Path(sys.executable).with_name("uv")
CLIENT = ROOT / "clients/python"

# What an extra is for, and who cannot be imported without it.
EXTRAS = {
    "agents": "forum.models.pydantic_ai_model",
    "dbos": "forum.stores.dbos_worker",
    "mcp": "forum.models.mcp_client",
    "postgres": "forum.stores.postgres",
    "semantic": "forum.models.embedding",
    "temporal": "forum.stores.temporal_worker",
}


@dataclass(frozen=True, slots=True)
class Handout:
    """What a release consists of."""

    wheel: Path
    sdist: Path


@pytest.fixture(scope="module")
def handout(tmp_path_factory: pytest.TempPathFactory) -> Handout:
    """Build the sdist from this checkout, and the wheel from the sdist."""
    return build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def client_handout(tmp_path_factory: pytest.TempPathFactory) -> Handout:
    """Build the distribution of the client alone."""
    return build(CLIENT, tmp_path_factory.mktemp("client"))


def build(project: Path, folder: Path) -> Handout:
    """Build a sdist, and the wheel from it, into a folder."""
    options = ["--no-build-isolation", "--offline", "--no-cache", "--quiet"]
    subprocess.run(
        [UV, "build", *options, "--python", sys.executable, "--out-dir", folder, project],
        check=True,
    )
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Handout(wheel, sdist)


@pytest.fixture(scope="module")
def base(handout: Handout, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel without extras, and return where its commands are."""
    return install(tmp_path_factory.mktemp("base"), handout.wheel)


def install(folder: Path, wheel: Path, *extras: str) -> Path:
    """Make an environment with the wheel and what it asks for, and return where its commands are.

    A package comes as links to its files here.  So what is not asked for is not there.
    """
    venv.create(folder, symlinks=True)
    python = folder / "bin/python"
    options = ["--no-deps", "--offline", "--no-cache", "--quiet"]
    subprocess.run([UV, "pip", "install", *options, "--python", python, wheel], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (ours,) = Distribution.discover(name=wheel.name.partition("-")[0], path=[str(site)])
    for found in {one.name: one for one in asked_for(ours, {*extras, ""})}.values():
        link(found, site)
    return python.parent


def asked_for(asking: Distribution, extras: set[str]) -> Iterator[Distribution]:
    """Return what a package asks for with some of its extras, and what that asks for."""
    seen: set[tuple[str, str]] = set()
    waiting = [(asking, extra) for extra in extras]
    while waiting:
        current, extra = waiting.pop()
        for line in current.requires or []:
            wanted = Requirement(line)
            if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
                continue
            found = distribution(wanted.name)
            fresh = {(found.name, more) for more in ("", *wanted.extras)} - seen
            seen |= fresh
            waiting += [(found, more) for _, more in fresh]
            yield found


def link(package: Distribution, site: Path) -> None:
    """Put a package into an environment."""
    tops = {file.parts[0] for file in package.files or [] if file.parts[0] not in ("..", ".")}
    for top in tops - {"__pycache__"}:
        (site / top).symlink_to(str(package.locate_file(top)))


def imports(commands: Path, module: str) -> subprocess.CompletedProcess[str]:
    """Import a module in an environment, and say where it is."""
    code = f"import {module} as found; print(found.__file__)"
    return subprocess.run(
        [commands / "python", "-I", "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else(handout: Handout) -> None:
    """SQL, roster and types are files like the code; caches and tests are not for users."""
    names = set(zipfile.ZipFile(handout.wheel).namelist())
    copy = "forum/client/_forum_client/"
    inside = {name for name in names if name.startswith("forum/")}
    client = {name.removeprefix("forum/client/_") for name in inside if name.startswith(copy)}
    tree = {str(path.relative_to(ROOT / "src")) for path in tracked("src/forum")}

    assert {name for name in inside ^ tree if not name.startswith(copy)} == set()
    assert client == client_files()
    assert {"py.typed", "roster.toml", "index.html"} <= {Path(name).name for name in inside}
    assert {".sql", ".bits", ".jinja", ".js", ".css"} <= {Path(name).suffix for name in inside}
    assert {name.split("/")[0] for name in names - inside} == {f"forumd-{__version__}.dist-info"}


def client_files() -> set[str]:
    """Return the files of the package of the client."""
    return {str(path.relative_to(CLIENT / "src")) for path in tracked(f"{CLIENT}/src")}


@pytest.mark.slow
def test_the_client_is_a_distribution_that_needs_nothing_of_forum(
    client_handout: Handout, tmp_path: Path
) -> None:
    """Two packages are all that a program needs that only speaks to a server."""
    names = set(zipfile.ZipFile(client_handout.wheel).namelist())
    commands = install(tmp_path, client_handout.wheel)
    code = "import forum_client; print(forum_client.Client('http://localhost', 'k'))"

    assert {name for name in names if name.startswith("forum_client/")} == client_files()
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "forum_client/py.typed" in names
    assert subprocess.check_output([commands / "python", "-I", "-c", code], text=True) == (
        "Client('http://localhost')\n"
    )
    assert "ModuleNotFoundError" in imports(commands, "forum").stderr


@pytest.mark.slow
def test_the_client_comes_and_goes_beside_forum(
    handout: Handout, client_handout: Handout, tmp_path: Path
) -> None:
    """They share no file, so whoever removes one of them leaves the other whole."""
    commands = install(tmp_path, handout.wheel)
    code = "import forum; print(forum.Client('http://localhost', 'k'))"
    quietly = ["--no-cache", "--quiet", "--python", str(commands / "python")]
    added, removed = ["install", "--no-deps", client_handout.wheel], ["uninstall", "forumd-client"]
    made: list[object] = []
    for step in (added, removed):
        subprocess.run([UV, "pip", *map(str, step), *quietly], check=True)
        made.append(subprocess.check_output([commands / "python", "-I", "-c", code], text=True))
        made.append(imports(commands, "forum_client").stderr.splitlines()[-1:])

    no_client = "ModuleNotFoundError: No module named 'forum_client'"
    assert made == ["Client('http://localhost')\n", [], "Client('http://localhost')\n", [no_client]]


def test_the_client_has_the_version_the_licence_and_the_bounds_of_forum() -> None:
    """A release is one version of everything, and both can be in one environment."""
    ours, theirs = (
        tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        for folder in (ROOT, CLIENT)
    )

    assert theirs["version"] == __version__
    assert set(theirs["dependencies"]) < set(ours["dependencies"])
    assert {Requirement(line).name for line in theirs["dependencies"]} == {"httpx2", "msgspec"}
    assert theirs["requires-python"] == ours["requires-python"]
    assert (CLIENT / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


@pytest.mark.slow
def test_the_sdist_holds_what_is_committed_and_nothing_else(handout: Handout) -> None:
    """Whoever packages Forum builds, tests and documents it from this file alone."""
    with tarfile.open(handout.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert names == {str(path.relative_to(ROOT)) for path in tracked()} | {"PKG-INFO"}


@pytest.mark.slow
def test_built_in_another_place_it_has_the_same_bytes(handout: Handout, tmp_path: Path) -> None:
    """Whoever doubts a release builds it himself, and compares digests."""
    source, out = tmp_path / "another/forum", tmp_path / "out"
    for path in tracked():
        target = source / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)

    elsewhere = {"TZ": "Pacific/Kiritimati", "PYTHONHASHSEED": "2"}
    Builder(source, out, elsewhere, umask=0o077).build_distributions()

    for made in (handout.wheel, handout.sdist):
        assert (out / made.name).read_bytes() == made.read_bytes()


@pytest.mark.slow
def test_five_minutes_work_with_nothing_but_the_wheel(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newcomer has the base installation: no extra, no checkout, no tool of ours."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setattr(test_readme, "FORUM", base / "forum")

    version = subprocess.check_output([base / "forum", "--version"], text=True)
    pasted = test_readme.paste("docs/guides/five-minutes.md", tmp_path, None)

    assert version == f"forum, version {__version__}\n"
    assert imports(base, "forum").stdout.startswith(str(base.parent / "lib"))
    assert pasted.returncode == 0, pasted.stdout


@pytest.mark.slow
@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_brings_what_it_says(
    extra: str, handout: Handout, base: Path, tmp_path: Path
) -> None:
    """It is enough without the others; and without it the base is told from what it adds."""
    alone = imports(install(tmp_path, handout.wheel, extra), EXTRAS[extra])

    assert alone.returncode == 0, alone.stderr
    assert re.search("ModuleNotFoundError|MissingExtra", imports(base, EXTRAS[extra]).stderr)


# The lock, and what is made of it


def test_the_locked_part_is_what_the_metadata_ask_for() -> None:
    """The image is installed without looking at dependencies: what is missing here is missing."""
    locked = {canonicalize_name(one.name) for one in needed_by("forumd[all]", read_lock(LOCK))}
    asked = {
        canonicalize_name(one.name)
        for one in asked_for(distribution("forumd"), {"all", ""})
        if one.name != "forumd"
    }
    tools = {"pytest", "ruff", "mypy", "hypothesis", "uv", "pip", "hatchling"}

    assert asked - locked == set()
    assert locked & tools == set()


def test_the_locked_part_is_text_of_the_lock() -> None:
    """Versions, markers and hashes are those that were tested."""
    text = LOCK.read_text()
    tools = needed_by("hatchling", read_lock(LOCK))

    assert all(
        tool.text in text and tool.hashes for tool in needed_by("forumd[all]", read_lock(LOCK))
    )
    assert {"hatchling", "packaging", "pathspec"} <= {tool.name for tool in tools}
    assert "".join(tool.text for tool in read_lock(LOCK)) == text


def test_the_bill_of_materials_names_every_package_with_its_hashes() -> None:
    """Whoever asks what is in it compares this with what was installed."""
    bill = bill_of_materials()
    told = {
        (part["name"], part["version"], digest["content"])
        for part in bill["components"]
        for files in part["externalReferences"]
        for digest in files["hashes"]
    }
    parts = needed_by("forumd[all]", read_lock(LOCK))
    packages = {(part.name, part.version, digest) for part in parts for digest in part.hashes}
    weights = {
        (model.title, model.revision, file.sha256)
        for model in MODEL_WEIGHTS.values()
        for file in model.files
    }

    assert told == packages | weights
    assert all(part.hashes for part in parts)


def test_the_bill_of_materials_says_what_needs_what() -> None:
    """Every part is there because of another one, up to Forum; no reference leads nowhere."""
    bill = bill_of_materials()
    wants = {one["ref"]: set(one["dependsOn"]) for one in bill["dependencies"]}
    root = bill["metadata"]["component"]["bom-ref"]
    reached, waiting = {root}, [root]
    while waiting:
        fresh = wants.get(waiting.pop(), set()) - reached
        reached |= fresh
        waiting += fresh

    assert reached == {root} | {part["bom-ref"] for part in bill["components"]}


def test_the_bill_of_materials_is_the_same_each_time() -> None:
    """Made again from the same locks, perhaps by somebody else, it has the same bytes."""
    command = [sys.executable, "-m", "deploy.sbom"]
    first, second = (
        subprocess.check_output(command, cwd=ROOT, env={"PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    )

    assert first == second
    assert b"timestamp" not in first
    assert b"serialNumber" not in first
