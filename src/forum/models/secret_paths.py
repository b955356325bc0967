"""Find the files and folders that hold Forum's secrets: of this project, and of others near it.

The secrets of this project are those that its settings name.  Other projects may lie in folders
that confined programs can see.  They are found in two ways: the state directory has a record of
each project of this user, wherever it is; and a search of limited depth finds the `.forum` folders
of projects that were created by other users or with another state directory.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from forum import config
from forum.errors import BadSettings, NotConfined

SEARCH_DEPTH = 3
"""How many levels below a folder other projects are searched for."""
_DATA = ".forum"
_NO_USER_FILES = {"FORUM_CONFIG_DIR": os.devnull, "FORUM_STATE_DIR": os.devnull}
"""An environment in which the settings are those of the project file alone."""


class _ProjectRecord(msgspec.Struct, frozen=True):
    """The part of a record of `forum.backends.project_registry` that locates secrets."""

    path: str
    """The data folder."""
    key_file: str


def list_secrets(settings: config.Settings) -> tuple[Path, ...]:
    """Return the files and folders with secrets of a project."""
    files = (settings.file, settings.user_file)
    return (
        settings.data,
        settings.state,
        *(file for file in files if file),
        *list_named_secrets(settings),
    )


def list_named_secrets(settings: config.Settings) -> tuple[Path, ...]:
    """Return the files with secrets that settings can name, whether or not they exist."""
    named = (path for path, _ in config.list_secret_files(settings))
    return (settings.key_file, settings.write_key_file, *named)


def find_registered(registry: Path) -> Iterator[Path]:
    """Yield the secrets of every project that is recorded in a state directory.

    Raises `NotConfined` if a record cannot be read: its secrets would not be hidden.
    """
    for file in sorted(registry.glob("*.json")):
        try:
            record = msgspec.json.decode(file.read_bytes(), type=_ProjectRecord)
        except FileNotFoundError:  # removed by another process since it was listed
            continue
        except (OSError, msgspec.MsgspecError) as error:
            why = f"the record of a project cannot be read: {file}: {error}"
            raise NotConfined(why, "restore it from a backup, or remove it") from None
        data = Path(record.path)
        yield from (data, Path(record.key_file))
        if data.name == _DATA:
            yield from _list_project(data.parent)


def search_projects(folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the secrets of every project in these folders, down to `SEARCH_DEPTH` levels."""
    level = {folder for folder in folders if folder.is_dir()}
    for depth in range(SEARCH_DEPTH + 1):
        below: set[Path] = set()
        for folder in level:
            inner = _list_folders(folder)
            if folder / _DATA in inner:
                inner.remove(folder / _DATA)
                yield from _list_project(folder)
            below |= inner
        level = below if depth < SEARCH_DEPTH else set()


def _list_project(folder: Path) -> Iterator[Path]:
    """Yield the secrets of the project in a folder, and those that its own file names."""
    yield from (folder / _DATA, folder / config.PROJECT_FILE)
    if (folder / config.PROJECT_FILE).is_file():
        # A file that Forum cannot parse names no key that Forum uses.
        with suppress(BadSettings):
            yield from list_named_secrets(config.load_settings(folder, _NO_USER_FILES))


def _list_folders(folder: Path) -> set[Path]:
    # A folder that this user cannot list is inaccessible to the user's programs as well.
    with suppress(OSError), os.scandir(folder) as entries:
        return {Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)}
    return set()
