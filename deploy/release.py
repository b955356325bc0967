"""Make what a release consists of, twice in two places, and compare it byte by byte.

    python -m deploy.release --dry-run   of any commit; says what it lacks to be a release
    python -m deploy.release             of a tagged commit, into dist/

Version, changelog and tags must agree.  Both copies are of the commit, in folders with paths of
other lengths, in other time zones, with other file modes and other hash seeds; the dates in what
is built are that of the commit.  Each holds the sdist and the wheel of every distribution, the
dashboard built anew, the bill of materials and, where buildah is, the image.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from datetime import date
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from deploy.changelog import UNRELEASED, fragment_files, read_sections, stated_versions

ROOT = Path(__file__).parent.parent
UI = "src/forum/features/dashboard/ui"
BILL = "forumd.cdx.json"
IMAGE = "forumd-image.tar"
DIGESTS = "SHA256SUMS"

_RELEASED = re.compile(r"\[(\d+[.]\d+[.]\d+)\] - (\d{4}-\d\d-\d\d)")
_VERSION = re.compile(r'^__version__ = "(.+)"$', flags=re.MULTILINE)
_QUIETLY = ("--no-audit", "--no-fund", "--loglevel", "error")
_PLACES = (
    ("a", {"TZ": "UTC", "PYTHONHASHSEED": "1"}, 0o022),
    ("another/folder", {"TZ": "Pacific/Kiritimati", "PYTHONHASHSEED": "2"}, 0o077),
)
"""Where each copy is built, what is different in its environment, and its umask."""

Versions = Mapping[str, list[str]]


def find_disagreements(versions: Versions, changelog: str, tags: Mapping[str, str]) -> list[str]:
    """Return what versions, changelog and tags say against each other.

    A tag is given with the version that its commit states.  Without tags, as in an sdist, nothing
    is expected of them.
    """
    stated = {version for texts in versions.values() for version in texts}
    if len(stated) != 1:
        return [f"the version is stated as {' and '.join(sorted(stated))}: {dict(versions)}"]
    return [
        *_find_order_faults([title for title, _ in read_sections(changelog)], stated.pop()),
        *_find_tag_faults(changelog, tags),
    ]


def _find_order_faults(titles: list[str], version: str) -> Iterator[str]:
    if titles[:1] != [UNRELEASED]:
        yield f"CHANGELOG.md does not begin with {UNRELEASED}"
    released = [match.groups() for title in titles[1:] if (match := _RELEASED.fullmatch(title))]
    if len(released) < len(titles) - 1:
        yield "a section of CHANGELOG.md is not called [X.Y.Z] - YYYY-MM-DD"
    if not released or released[0][0] != version:
        yield f"the newest section of CHANGELOG.md is not that of {version}"
    for newer, older in pairwise(released):
        if _numbers(newer[0]) <= _numbers(older[0]) or newer[1] < older[1]:
            yield f"CHANGELOG.md has {newer[0]} of {newer[1]} before {older[0]} of {older[1]}"
    for name, day in released:
        try:
            date.fromisoformat(day)
        except ValueError:
            yield f"{name} has no date of the calendar: {day}"


def _find_tag_faults(changelog: str, tags: Mapping[str, str]) -> Iterator[str]:
    named = ["v" + name for name, _ in _RELEASED.findall(changelog)]
    for tag, version in tags.items():
        if tag != f"v{version}":
            yield f"the commit of tag {tag} states version {version}"
        if tag not in named:
            yield f"tag {tag} has no section in CHANGELOG.md"
    for tag in named[1:] if tags else ():  # the newest may be about to get its tag
        if tag not in tags:
            yield f"{tag.removeprefix('v')} has a section in CHANGELOG.md, and no tag {tag}"


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def read_tags(root: Path) -> dict[str, str]:
    """Return the tags of releases, with the versions that their commits state."""
    tags = _git(root, "tag", "--list", "v[0-9]*").split()
    states = (_git(root, "show", f"{tag}:src/forum/__init__.py") for tag in tags)
    return {
        tag: match[1] if (match := _VERSION.search(text)) else ""
        for tag, text in zip(tags, states, strict=True)
    }


def find_missing(root: Path, version: str, changelog: str) -> Iterator[str]:
    """Say what a commit lacks to be the release of its version."""
    head = _git(root, "rev-parse", "HEAD")
    tag = f"refs/tags/v{version}"
    objects = _git(root, "for-each-ref", "--format=%(objecttype) %(*objectname)", tag)
    if objects != f"tag {head}":
        yield f"HEAD has no annotated tag v{version}"
    if dict(read_sections(changelog))[UNRELEASED].strip():
        yield f"CHANGELOG.md has items under {UNRELEASED}"
    if waiting := len(fragment_files(root / "changelog.d")):
        yield f"{waiting} files of changelog.d are not collected"
    if _git(root, "status", "--porcelain", "--untracked-files=no"):
        yield "there are changes that are not committed"


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def copy_commit(root: Path, folder: Path) -> None:
    """Copy what is committed, and nothing else of the folder."""
    packed = subprocess.run(
        ["git", "-C", root, "archive", "HEAD"], check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")


class Builder:
    """Builds in one copy of the sources, with one environment and umask."""

    def __init__(self, source: Path, out: Path, variables: Mapping[str, str], umask: int) -> None:
        self.source = source
        self.out = out
        self.variables = {**os.environ, **variables, "PYTHONPATH": str(source / "src")}
        self.umask = umask

    def build_dashboard(self) -> None:
        """Build the dashboard from web/, and see that it is the one that is committed."""
        committed = digests(self.source / UI)
        self.run("npm", "ci", "--prefix", "web", "--ignore-scripts", *_QUIETLY)
        self.run("npm", "run", "--silent", "--prefix", "web", "build")
        if digests(self.source / UI) != committed:
            raise SystemExit(f"{UI} is not what web/ builds: run `just web`, and commit it.")

    def build_distributions(self) -> None:
        """Build the sdist and from it the wheel of every distribution of the repository."""
        tools = ("--no-build-isolation", "--no-create-gitignore", "--offline", "--no-cache")
        projects = sorted(self.source.glob("clients/*/pyproject.toml"))
        for project in (self.source / "pyproject.toml", *projects):
            python = ("--python", sys.executable)
            where = ("--out-dir", str(self.out), str(project.parent))
            self.run(str(_tool("uv")), "build", "--quiet", *tools, *python, *where)

    def write_bill(self) -> None:
        """Write the bill of materials."""
        bill = self.run(sys.executable, "-m", "deploy.sbom")
        (self.out / BILL).write_bytes(bill)

    def build_image(self, python_digest: str, version: str) -> None:
        """Build the image on a base image of a digest, and write it as an archive of OCI.

        The form of Docker would hold the random name of the machine on which it was built.
        """
        epoch, name = self.variables["SOURCE_DATE_EPOCH"], f"forumd:{version}"
        self.run(
            "buildah", "build", "--quiet", "--no-cache", "--format", "oci", "--timestamp", epoch,
            "--file", "deploy/Dockerfile", "--ignorefile", "deploy/Dockerfile.dockerignore",
            "--build-arg", f"PYTHON_DIGEST={python_digest}",
            "--build-arg", f"SOURCE_DATE_EPOCH={epoch}", "--tag", name, ".",
        )  # fmt: skip
        with TemporaryDirectory() as folder:
            self.run("buildah", "push", "--quiet", name, f"oci:{folder}:{version}")
            write_archive(Path(folder), self.out / IMAGE)

    def run(self, *command: str) -> bytes:
        """Run a command in the copy, and return what it prints; what goes wrong ends the build."""
        done = subprocess.run(
            command,
            cwd=self.source,
            env=self.variables,
            umask=self.umask,
            stdout=subprocess.PIPE,
            check=False,
        )
        if done.returncode != 0:
            sys.stderr.buffer.write(done.stdout)
            raise SystemExit(f"{' '.join(command[:3])} ended with status {done.returncode}.")
        return done.stdout


def write_archive(folder: Path, archive: Path) -> None:
    """Pack the files of a folder in the order of their names, without dates and owners."""
    with tarfile.open(archive, "w") as packed:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = tarfile.TarInfo(str(path.relative_to(folder)))
            entry.size = path.stat().st_size
            with path.open("rb") as content:
                packed.addfile(entry, content)


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def find_differences(first: Path, second: Path) -> list[str]:
    """Return the names of what is not the same in both folders, or only in one."""
    here, there = digests(first), digests(second)
    return sorted(name for name in here | there if here.get(name) != there.get(name))


def find_misnamed(folder: Path, version: str) -> list[str]:
    """Return the wheels and sdists whose own version is another one."""
    return [
        path.name
        for pattern, end in (("*.whl", "-"), ("*.tar.gz", ".tar.gz"))
        for path in sorted(folder.glob(pattern))
        if f"-{version}{end}" not in path.name
    ]


def _tool(name: str) -> Path:
    return Path(sys.executable).with_name(name)


def why_no_image() -> str:
    """Return why the image cannot be built here; nothing if it can."""
    if not os.environ.get("PYTHON_DIGEST"):
        return "PYTHON_DIGEST does not name its base image (docs/guides/on-one-server.md)"
    return "" if shutil.which("buildah") else "there is no buildah"


def make_twice(out: Path, version: str, *, with_image: bool) -> None:
    """Build everything at two places, and leave the first of each in a folder if they are equal."""
    epoch = _git(ROOT, "log", "-1", "--format=%ct")
    with TemporaryDirectory() as name:
        made = []
        for place, variables, umask in _PLACES:
            source, result = Path(name) / place / "forum", Path(name) / place / "made"
            result.mkdir(parents=True)
            copy_commit(ROOT, source)
            builder = Builder(source, result, {**variables, "SOURCE_DATE_EPOCH": epoch}, umask)
            builder.build_dashboard()
            builder.build_distributions()
            builder.write_bill()
            if with_image:
                builder.build_image(os.environ["PYTHON_DIGEST"], version)
            made.append(result)
        if different := find_differences(*made):
            raise SystemExit(f"Built twice, these are different: {', '.join(different)}.")
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(made[0], out)
    lines = [f"{digest}  {name}\n" for name, digest in digests(out).items()]
    (out / DIGESTS).write_text("".join(lines))


def main(arguments: list[str]) -> None:
    """Check, build, compare, and print the digests."""
    if arguments not in ([], ["--dry-run"]):
        raise SystemExit(__doc__)
    versions, changelog = stated_versions(ROOT), (ROOT / "CHANGELOG.md").read_text()
    if faults := find_disagreements(versions, changelog, read_tags(ROOT)):
        raise SystemExit("\n".join(["Version, changelog and tags do not agree:", *faults]))
    version = versions["src/forum/__init__.py"][0]
    missing = list(find_missing(ROOT, version, changelog))
    if no_image := why_no_image():
        missing.append(f"the image is not built: {no_image}")
    if missing and not arguments:
        raise SystemExit("\n".join([f"This is not yet release {version}:", *missing]))
    out = ROOT / ("build/release" if arguments else "dist")
    make_twice(out, version, with_image=not no_image)
    if misnamed := find_misnamed(out, version):
        raise SystemExit(f"These are not of version {version}: {', '.join(misnamed)}.")
    print(f"Built twice with the same bytes, in {out.relative_to(ROOT)}:")
    print((out / DIGESTS).read_text(), end="")
    for fault in missing:
        print(f"Not yet release {version}: {fault}.")


if __name__ == "__main__":
    main(sys.argv[1:])
