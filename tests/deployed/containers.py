"""Containers as processes of this machine: their command lines, variables and mounts.

The root of a container is a folder, in which its mounts are links.  Of a command line and of the
variables, nothing is changed but paths below mounts, ports, and the address to listen at.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.pages import ROOT
from tests.support import free_port

WORKDIR = "/var/lib/forum"
"""That of the image, as `deploy/Dockerfile` says."""


@dataclass(frozen=True)
class Mount:
    """A volume at a path of a container."""

    path: str
    volume: str
    """Containers that name the same one share it."""
    file: str = ""
    """The file of the volume that is mounted; the whole folder if it is empty."""


@dataclass(frozen=True)
class Container:
    """What is started in a container."""

    name: str
    command: tuple[str, ...]
    mounts: tuple[Mount, ...]
    variables: Mapping[str, str]


@dataclass
class Host:
    """A machine whose containers share volumes, and find each other at ports of the loopback."""

    folder: Path
    variables: Mapping[str, str]
    """What every process is given beside the variables of its container."""
    ports: dict[tuple[str, str], int] = field(default_factory=dict)
    """The real port of each container and port."""
    stack: ExitStack = field(default_factory=ExitStack)

    def volume(self, name: str) -> Path:
        """Return the folder of a volume."""
        path = self.folder / "volumes" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def run(self, container: Container) -> None:
        """Run a container to its end."""
        ended = self._run(container)
        assert ended.returncode == 0, f"{container.name}: {ended.stderr}"

    def status(self, container: Container) -> int:
        """Run a container to its end, and return its exit status."""
        return self._run(container).returncode

    def _run(self, container: Container) -> "subprocess.CompletedProcess[str]":
        arguments = self._prepare(container)
        return subprocess.run(
            arguments.command, cwd=arguments.folder, env=arguments.environment,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def start(self, container: Container) -> "subprocess.Popen[bytes]":
        """Start a container that runs until it is told to stop."""
        arguments = self._prepare(container)
        log = self.stack.enter_context((self.folder / f"{container.name}.log").open("ab"))
        process = subprocess.Popen(
            arguments.command, cwd=arguments.folder, env=arguments.environment, stderr=log
        )
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process

    def port(self, container: str, port: str) -> int:
        """Return the real port of a container's port."""
        return self.ports.setdefault((container, port), free_port())

    def written_outside_of_mounts(self, name: str) -> list[str]:
        """Return what a container has written where its root file system is read-only."""
        root = self.folder / "roots" / name
        written = (path for path in root.rglob("*") if not path.is_symlink() and path.is_file())
        return [str(path.relative_to(root)) for path in written if path.stat().st_nlink == 1]

    def _prepare(self, container: Container) -> "_Arguments":
        root = self.folder / "roots" / container.name
        folder = root / WORKDIR[1:]
        folder.mkdir(parents=True, exist_ok=True)
        for mount in container.mounts:
            at, volume = root / mount.path[1:], self.volume(mount.volume)
            at.parent.mkdir(parents=True, exist_ok=True)
            if mount.file and not at.exists():
                os.link(volume / mount.file, at)  # a project file is found in its real folder
            elif not mount.file and not at.is_symlink():
                at.symlink_to(volume)
        return _Arguments(
            [self._place(word, container, root) for word in container.command],
            {
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "HOME": str(folder),
                **{k: self._place(v, container, root) for k, v in container.variables.items()},
                **self.variables,
            },
            folder,
        )

    def _place(self, word: str, container: Container, root: Path) -> str:
        paths = "|".join(re.escape(mount.path) for mount in container.mounts)
        word = re.sub(rf"(?<![\w/])({paths})(?=/|\s|$)", rf"{root}\1", word)
        word = word.replace("0.0.0.0", "127.0.0.1")  # noqa: S104  never listened at
        ports = r"\b(8080|9464|8732)\b"
        return re.sub(ports, lambda match: str(self.port(container.name, match[0])), word)


@dataclass(frozen=True)
class _Arguments:
    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path


def image_variables() -> dict[str, str]:
    """Return the variables of the image, but for its PATH."""
    text = (ROOT / "deploy/Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.removeprefix("ENV ") for line in text.split("\n") if line.startswith("ENV ")]
    pairs = (pair.partition("=") for line in lines for pair in shlex.split(line))
    return {name: value for name, _, value in pairs if name != "PATH"}


def image_probe() -> tuple[str, ...]:
    """Return the command by which the image says whether it is healthy."""
    text = (ROOT / "deploy/Dockerfile").read_text().replace("\\\n", " ")
    (found,) = re.findall(r"^HEALTHCHECK .*?CMD (\[.*\])$", text, re.MULTILINE)
    return tuple(map(str, json.loads(found)))


def copy_secret(source: Path, target: Path, *names: str) -> None:
    """Copy files of a volume into a secret, as an operator does once."""
    for name in names:
        shutil.copy(source / name, target / name)
