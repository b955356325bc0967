"""Installed weights: for each model a plain folder with the files that `forum.runs` pins.

A file is used only if its digest is the pinned one.  The digest is computed once for each file:
what the operating system reports of a file changes with its content.
"""

import os
from hashlib import file_digest
from io import BufferedReader
from pathlib import Path
from typing import Final

import msgspec

from forum.errors import WeightsMissing, WeightsRejected
from forum.models.user_cache import cache_folder, read_cached, write_cached
from forum.runs.model_weights import ModelWeights, WeightFile, WeightsInspection

FOLDER_VARIABLE: Final = "FORUM_MODELS_DIR"


def weights_folder(model: ModelWeights) -> Path:
    """Return the folder of a model's weights; it need not exist."""
    named = os.environ.get(FOLDER_VARIABLE)
    return (Path(named) if named else cache_folder() / "models") / model.name


def inspect_weights(model: ModelWeights) -> WeightsInspection:
    """Return which files of a model are installed, without reading them."""
    folder = weights_folder(model)
    missing = tuple(file.name for file in model.files if not _has_size(folder / file.name, file))
    return WeightsInspection(model, str(folder), missing)


def find_weights(model: ModelWeights) -> Path:
    """Return the folder with all files of a model.  Raises `WeightsMissing`."""
    inspection = inspect_weights(model)
    if inspection.missing:
        raise WeightsMissing(model.name, inspection.folder)
    return Path(inspection.folder)


def load_weights(model: ModelWeights) -> Path:
    """Return the folder of a model, with verified files.

    Raises `WeightsMissing` and `WeightsRejected`.
    """
    folder = find_weights(model)
    for file in model.files:
        with (folder / file.name).open("rb") as opened:
            verify_weights(opened, model, file)
    return folder


class _VerifiedFile(msgspec.Struct, frozen=True):
    """Identity of a file whose digest was verified, as reported by the operating system.

    A change of the content changes the ctime, which no program can set back.
    """

    path: str
    device: int
    inode: int
    size: int
    mtime: int
    ctime: int


_verified_file = msgspec.json.Decoder(_VerifiedFile)


def verify_weights(opened: BufferedReader, model: ModelWeights, file: WeightFile) -> None:
    """Verify the digest of an open file, unless this very file was verified before.

    Raises `WeightsRejected`.
    """
    status = os.fstat(opened.fileno())
    identity = _VerifiedFile(
        path=opened.name,
        device=status.st_dev,
        inode=status.st_ino,
        size=status.st_size,
        mtime=status.st_mtime_ns,
        ctime=status.st_ctime_ns,
    )
    cached = cache_folder() / f"weights-{file.sha256[:16]}.json"
    try:
        if _verified_file.decode(read_cached(cached) or b"") == identity:
            return
    except msgspec.MsgspecError:
        pass  # not verified yet
    digest = file_digest(opened, "sha256").hexdigest()
    if digest != file.sha256:
        step = f"Get the right one with: forum models pull {model.name}"
        raise WeightsRejected(model.name, opened.name, describe_digest(digest, file), step)
    write_cached(cached, msgspec.json.encode(identity))


def describe_digest(digest: str, file: WeightFile) -> str:
    """Return in what a digest differs from the pinned one."""
    return f"the SHA-256 of {file.name} is {file.sha256}, and that of this file is {digest}"


def _has_size(path: Path, file: WeightFile) -> bool:
    try:
        return path.stat().st_size == file.size
    except OSError:
        return False
