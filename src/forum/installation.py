"""How this copy of Forum was installed, and the command that adds an extra to it.

`direct_url.json` (PEP 610) says where the distribution came from: a folder, a repository, a file,
or, if it is absent, a package index.  `forumd` may not be on any index, so a remedy that names one
would find nothing.
"""

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import msgspec

from forum.errors import MissingExtra

if TYPE_CHECKING:
    from importlib.metadata import Distribution

DISTRIBUTION = "forumd"


class DirectoryInfo(msgspec.Struct, frozen=True):
    """What PEP 610 says about a folder."""

    editable: bool = False


class RepositoryInfo(msgspec.Struct, frozen=True):
    """What PEP 610 says about a repository."""

    vcs: str = "git"
    commit_id: str = ""


class DirectUrl(msgspec.Struct, frozen=True):
    """The content of `direct_url.json`, as far as it is needed here."""

    url: str
    dir_info: DirectoryInfo | None = None
    vcs_info: RepositoryInfo | None = None


def installed_distribution() -> "Distribution | None":
    """Return the metadata of this installation; None where the sources were only put on a path."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return None


def install_command(*extras: str) -> str:
    """Return the command that installs extras into this installation, from where it came."""
    distribution = installed_distribution()
    requirement, editable = requirement_of(distribution, ",".join(extras))
    words = [*installer_of(distribution), *(["--editable"] if editable else []), requirement]
    return shlex.join(words)


def requirement_of(distribution: "Distribution | None", extras: str) -> tuple[str, bool]:
    """Return the requirement that names the source of an installation, and if it is editable."""
    if distribution is None:
        return f"{Path(__file__).resolve().parents[2]}[{extras}]", False
    text = distribution.read_text("direct_url.json")
    if text is None:
        return f"{DISTRIBUTION}[{extras}]", False
    source = msgspec.json.decode(text, type=DirectUrl)
    if source.dir_info is not None:
        folder = unquote(urlsplit(source.url).path)
        return f"{folder}[{extras}]", source.dir_info.editable
    url = source.url
    if source.vcs_info is not None:
        url = f"{source.vcs_info.vcs}+{url}@{source.vcs_info.commit_id}"
    return f"{DISTRIBUTION}[{extras}] @ {url}", False


def installer_of(distribution: "Distribution | None") -> list[str]:
    """Return the command of the tool that made this environment, up to the requirement."""
    prefix = Path(sys.prefix)
    if (prefix / "pipx_metadata.json").exists():
        return ["pipx", "install", "--force"]
    if (prefix / "uv-receipt.toml").exists():
        return ["uv", "tool", "install", "--force"]
    made_by = (distribution.read_text("INSTALLER") or "").strip() if distribution else ""
    if made_by == "uv":
        return ["uv", "pip", "install", "--python", sys.executable]
    if os.environ.get("VIRTUAL_ENV") == sys.prefix:
        return ["pip", "install"]
    return [sys.executable, "-m", "pip", "install"]


def missing_extra(name: str, why: str) -> MissingExtra:
    """Return the error for an extra that is not installed, with the command that installs it."""
    return MissingExtra(name, why, install_command(name))


@contextmanager
def require_extra(name: str) -> Iterator[None]:
    """Raise `MissingExtra`, which names the command to type, for a failed import in the block."""
    try:
        yield
    except ImportError as error:
        raise missing_extra(name, str(error)) from None
