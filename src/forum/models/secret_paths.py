"""Find the files and folders with secrets: those of this project, and others near it.

The secrets of this project are those that its settings name.  Others may lie in folders that
confined programs can see: other projects, backups, copies of keys, private keys of other programs,
files with variables.  They are found in two ways: the state directory has a record of each project
of this user, wherever it is; and a search looks at every file of the folders, by its name and its
first 64 kB.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from forum import config
from forum.errors import BadSettings, NotConfined
from forum.ledger.key_forms import KEY_MARKS, has_whole_key

MAX_SEARCHED = 250_000
"""Maximum number of files and folders that are searched before a program is started."""
_HEAD_BYTES = 1 << 16
"""How much of each file is searched for a key."""
_MAX_KNOWN = 500_000
_DATA = ".forum"
_NO_USER_FILES = {"FORUM_CONFIG_DIR": os.devnull, "FORUM_STATE_DIR": os.devnull}
"""An environment in which the settings are those of the project file alone."""


# A file is a secret only if it has the whole shape of a key.  Source code and guides that name the
# header of a key stay visible.  Every repetition is bounded: programs may have written the file.
_BACKUP = re.compile(rb"\s*\{[^}]{0,80}\"forum/backup/1\"")
_PEM_HEADER = rb"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_ESCAPED_LINE_END = rb"(?:\\{1,4}[rn]){1,2}"
_OTHER_KEY = re.compile(
    # A header, then lines such as "Proc-Type: 4,ENCRYPTED", then a line of nothing but base64.
    _PEM_HEADER + rb"[ \t]{0,9}\r?\n(?:[ \t]{0,80}[A-Za-z-]{1,40}: [^\r\n]{0,200}\r?\n){0,8}"
    rb"(?:[ \t]{0,80}\r?\n)?[ \t]{0,80}[A-Za-z0-9+/=]{4,200}[ \t]{0,9}\r?(?:\n|\Z)"
    # The same in a string: of a service account, or of anything else if it is long enough.
    rb"|\"private_key\"\s{0,9}:\s{0,9}\""
    + _PEM_HEADER + _ESCAPED_LINE_END + rb"[A-Za-z0-9+/=]{4,80}[\\\"]|"
    + _PEM_HEADER + _ESCAPED_LINE_END + rb"[A-Za-z0-9+/=]{32}"
    rb"|PuTTY-User-Key-File-\d: [^\r\n]{1,80}\r?\nEncryption: |AGE-SECRET-KEY-1[0-9A-Z]{40}"
    rb"|(?:aws_secret_access_key|AWS_SECRET_ACCESS_KEY|SecretAccessKey)[\"']?\s{0,9}[=:]"
    rb"\s{0,9}[\"']?[A-Za-z0-9/+]{40}\b",
)  # fmt: skip
_AWS_PROFILE = re.compile(
    rb"^\[[^\]\n]{1,100}\][ \t]{0,9}\r?\n(?:[^\n=\[]{0,100}=[^\n]{0,400}\n){0,20}"
    rb"aws_secret_access_key[ \t]{0,9}=[ \t]{0,9}\S",
    re.MULTILINE,
)
_MARKS = (
    *KEY_MARKS, b"forum/backup/1", b"PRIVATE KEY",
    b"PuTTY-User-Key-File-", b"AGE-SECRET-KEY-1", b"aws_secret_access_key",
    b"AWS_SECRET_ACCESS_KEY", b"SecretAccessKey",
)  # fmt: skip
"""Every key has one of them in it.  Most files have none, and are not searched further."""
_VARIABLES_NAME = re.compile(r"(?:\.?#)?\.env(?:rc)?(?![a-z]).*|.+\.env[~#]?", re.DOTALL)
"""Names of files with variables, such as .env, .env.local, .env~ and prod.env."""
_TEMPLATE_NAME = re.compile(
    r".*[._-](?:example|sample|template|dist)|(?:example|sample|template|dist)\.env", re.DOTALL
)
_PRIVATE_FOLDERS = ("/etc/ssl", "/etc/pki")

_known_files: dict[tuple[int, int, int, int], str] = {}
"""What files are, by device, number, time of change and size: each is read once by a worker."""


@dataclass(frozen=True, slots=True)
class FoundSecret:
    """A file or folder with a secret that no setting names, or a way to a process of the host."""

    path: Path
    is_of_forum: bool
    """Whether it gives authority in a ledger; else it belongs to another program."""
    device: int = 0
    number: int = 0
    """Which file it is, wherever that is moved."""


class _ProjectRecord(msgspec.Struct, frozen=True):
    """The part of a record of `forum.stores.project_registry` that locates secrets."""

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


def search_secrets(
    folders: Collection[Path], skipped: Iterable[Path], writable: Collection[Path]
) -> Iterator[FoundSecret]:
    """Yield the secrets in these folders, which are paths without links.

    Programs may change the folders of `writable`.
    Raises `NotConfined` if there is too much to search: a program could fill its folder until
    nothing of the rest is looked at.
    """
    level, seen = list(folders), set(folders)
    left_out = set(skipped)
    entries = 0
    while level:
        folder = level.pop()
        for entry in _list_entries(folder, writable):
            entries += 1
            if entries > MAX_SEARCHED:
                why = f"there are more than {MAX_SEARCHED:,} files to search for secrets"
                raise NotConfined(why, "name smaller folders in [agents] read and write")
            path = Path(folder, entry.name) if entry.is_dir(follow_symlinks=False) else None
            if entry.is_symlink():
                yield from _follow(Path(folder, entry.name), folders, writable)
            elif path is None:
                yield from _inspect(folder, entry, writable)
            elif entry.name == _DATA and _is_project(folder, writable):
                yield from (FoundSecret(path, is_of_forum=True) for path in _list_project(folder))
            elif path not in seen and path not in left_out:
                seen.add(path)
                level.append(path)


def _follow(
    link: Path, folders: Collection[Path], writable: Collection[Path]
) -> Iterator[FoundSecret]:
    """Yield the file that a link leads to, if the link is called like a file with variables."""
    if not _has_variables_name(link.name):
        return
    with suppress(OSError, RuntimeError):  # of a link that leads to itself
        target = link.resolve(strict=True)
        # Else a program could make a link to any file of the project, to hide it from others.
        is_ours = _is_below(target, writable) or not _is_below(link, writable)
        if is_ours and target.is_file() and _is_below(target, folders):
            yield _identify(target)


def _identify(path: Path) -> FoundSecret:
    """Return a secret of another program, with the numbers of the file."""
    status = path.lstat()
    return FoundSecret(path, is_of_forum=False, device=status.st_dev, number=status.st_ino)


def _is_below(path: Path, folders: Iterable[Path]) -> bool:
    return any(map(path.is_relative_to, folders))


def _inspect(
    folder: Path, entry: "os.DirEntry[str]", writable: Iterable[Path]
) -> Iterator[FoundSecret]:
    """Yield a file if it is a secret or leads to a process, or its folder if that is a backup."""
    what = ""
    # A file that this user cannot read is closed to the user's programs as well.
    with suppress(OSError):
        if entry.is_file(follow_symlinks=False):
            what = _recognize(entry)
        # A socket or a named pipe, behind which a process of the host may listen, also to programs
        # that may not write here.  Where they may, it is often their own, and they must remove it.
        elif not _is_below(folder, writable):
            what = "other"
        else:
            return
    # Names change without a trace in the file.
    if not what and _has_variables_name(entry.name):
        what = "other"
    if what:
        path = folder if what == "backup" else folder / entry.name
        with suppress(FileNotFoundError):
            yield _identify(path) if what == "other" else FoundSecret(path, is_of_forum=True)


def _recognize(entry: "os.DirEntry[str]") -> str:
    """Return what `_classify` returns, from memory if the file has not changed."""
    status = entry.stat(follow_symlinks=False)
    # The number of a removed file is used again, but not with the same time of change.
    identity = (status.st_dev, status.st_ino, status.st_ctime_ns, status.st_size)
    what = _known_files.get(identity)
    if what is None:
        what = _classify(entry) if status.st_size else ""
        if len(_known_files) >= _MAX_KNOWN:
            _known_files.clear()
        _known_files[identity] = what
    return what


def _has_variables_name(name: str) -> bool:
    name = name.casefold()
    return bool(_VARIABLES_NAME.fullmatch(name)) and not _TEMPLATE_NAME.fullmatch(name)


def _classify(entry: "os.DirEntry[str]") -> str:
    """Return what a file is by its content: "key", "backup", "other", or nothing."""
    descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        head = os.read(descriptor, _HEAD_BYTES)
    finally:
        os.close(descriptor)
    if not any(mark in head for mark in _MARKS):
        return ""
    if has_whole_key(head):
        return "key"
    if _BACKUP.match(head):
        return "backup"
    return "other" if _OTHER_KEY.search(head) or _AWS_PROFILE.search(head) else ""


def list_private_folders() -> Iterator[Path]:
    """Yield the folders for private keys among the certificates of the system."""
    for top in _PRIVATE_FOLDERS:
        for folder, names, _ in os.walk(top):
            if "private" in names:
                yield Path(folder, "private")


def _is_project(folder: Path, writable: Iterable[Path]) -> bool:
    """Return whether a folder with `.forum` in it has to be taken for a project.

    Where programs may write, one could make an empty folder of that name, and no program would be
    started any more.  Such a folder is searched like others: the keys in it are found.
    """
    marks = (folder / config.PROJECT_FILE, folder / _DATA / "ledger.db", folder / _DATA / "log.pub")
    return not _is_below(folder, writable) or any(map(os.path.lexists, marks))


def _list_project(folder: Path) -> Iterator[Path]:
    """Yield the secrets of the project in a folder, and those that its own file names."""
    yield from (folder / _DATA, folder / config.PROJECT_FILE)
    if (folder / config.PROJECT_FILE).is_file():
        # A file that Forum cannot parse names no key that Forum uses.
        with suppress(BadSettings):
            yield from list_named_secrets(config.load_settings(folder, _NO_USER_FILES))


def _list_entries(folder: Path, writable: Iterable[Path]) -> "list[os.DirEntry[str]]":
    # A folder that this user cannot list is closed to the user's programs as well.
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except PermissionError:
        # But one of them could close its own folder during the search, and open it after that.
        if _is_below(folder, writable):
            why = f"{folder} cannot be searched for secrets, and programs may change it"
            raise NotConfined(why, "make it readable, or remove it") from None
    except OSError:
        pass
    return []
