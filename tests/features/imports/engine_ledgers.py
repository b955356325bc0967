"""Ledgers in the format of forum-engine, written as its own program writes them."""

import hashlib
import json
from pathlib import Path
from typing import Any

Step = tuple[str, str, int | None, Any]
"""The actor, the kind, the cause, and the payload of an entry."""

RUN: list[Step] = [
    ("client", "request", None, {"text": "ship a login API — soon"}),
    ("router", "route_frame", 0, {"agent": "backend", "signals": ["api"]}),
    ("coordinator", "plan", 0, {"tasks": [{"id": "a", "instruction": "Write it."}]}),
    ("engine", "task", 2, {"id": "a"}),
    ("backend", "result", 3, {"task_id": "a", "ok": True, "output": "Two tables.", "model": "m"}),
    ("validator", "verdict", 4, {"ok": True, "reason": "complete"}),
]


def write_ledger(folder: Path, steps: list[Step]) -> Path:
    """Write a ledger into a folder, and return the folder."""
    folder.mkdir(exist_ok=True)
    previous, entries = "0" * 64, list[str]()
    payloads = dict[str, str]()
    for seq, (actor, kind, cause, payload) in enumerate(steps):
        canonical = json.dumps(payload, sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        payloads[digest] = json.dumps({"hash": digest, "body": payload}, ensure_ascii=False)
        ts = 1_794_980_691.585744 + seq / 7
        row = {
            "seq": seq,
            "ts": ts,
            "actor": actor,
            "kind": kind,
            "causal_parent": cause,
            "payload_hash": digest,
            "prev_hash": previous,
        }
        parts = (seq, f"{ts:.6f}", actor, kind, "" if cause is None else cause, digest, previous)
        previous = hashlib.sha256("\x1f".join(map(str, parts)).encode()).hexdigest()
        entries.append(json.dumps(row | {"entry_hash": previous}, ensure_ascii=False))
    (folder / "entries.jsonl").write_text("".join(f"{line}\n" for line in entries))
    (folder / "payloads.jsonl").write_text("".join(f"{line}\n" for line in payloads.values()))
    return folder


def edit_line(file: Path, number: int, old: str, new: str) -> None:
    """Replace a text in one line of a file."""
    lines = file.read_text().splitlines()
    assert old in lines[number]
    lines[number] = lines[number].replace(old, new)
    file.write_text("".join(f"{line}\n" for line in lines))
