"""The tool that says which file is there."""

import os
from hashlib import sha256
from pathlib import Path

import pytest

from forum.engine import CallReply, ToolInvocation
from forum.ledger.body import BytesContent
from forum.ledger.kinds import Outcome
from forum.models import file_digest
from forum.runs.kinds import Why
from forum.runs.policy import ToolSpec
from tests.models.asking import use_tool


def use(path: Path | str, seconds: int = 30) -> CallReply:
    """Ask for the digest of a file."""
    invocation = ToolInvocation(
        "run-1",
        task="task-1",
        step="use/1/outcome",
        tool="digest",
        arguments=BytesContent(os.fsencode(f"{path}\n")),
        key="key",
    )
    return use_tool(ToolSpec(("forum:digest",), seconds=seconds), invocation)


def test_a_file_is_told_by_its_digest_and_size(tmp_path: Path) -> None:
    """It is what `sha256sum` says, so that a person can check it; names need not be text."""
    file = tmp_path / os.fsdecode(b"\xff report")
    file.write_bytes(bytes(3_000_001))
    reply = use(file)

    text = f"sha256:{sha256(bytes(3_000_001)).hexdigest()} 3000001"
    assert (reply.outcome, b"".join(reply.output.chunks()).decode()) == (Outcome.OK, text)


def test_what_is_not_a_file_has_no_digest(tmp_path: Path) -> None:
    """A pipe would wait for somebody who writes, and /dev/zero never ends."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "none", "/dev/zero", "", "a\0b"):
        assert (use(path).outcome, use(path).code) == (Outcome.FAILED, "digest")


def test_a_file_without_end_is_not_read_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is a bound for its size, and one for the time."""
    file = tmp_path / "large"
    with file.open("wb") as opened:
        opened.truncate(1 << 32)
    late = use(file, seconds=0)
    monkeypatch.setattr(file_digest, "MAX_FILE_BYTES", 1 << 20)

    assert (late.outcome, late.why) == (Outcome.FAILED, Why.DEADLINE)
    assert use(file).outcome is Outcome.FAILED
