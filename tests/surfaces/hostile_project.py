"""A project in which every text that others wrote attacks whoever prints it."""

import json
import unicodedata
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import msgspec
import pytest

from forum.app import Forum
from forum.app.clock_ids_and_kinds import KINDS
from forum.config import load_settings
from forum.features.recorder.report_items import RunEnd, RunStart, StepReport
from forum.features.recorder.report_writer import ReportWriter
from forum.ledger import strand
from forum.ledger.body import text_content
from forum.ledger.entry import Facts
from forum.ledger.kinds import Outcome
from forum.ledger.strand import Attachment, Draft
from forum.ledger.zip_archive import pack_archive, unpack_archive
from forum.runs.report_kinds import Operation, ReportProvenance
from forum.untrusted_text import HIDDEN_RANGES
from tests.ledger.samples import members_of
from tests.surfaces.terminal import Terminal

SEEN = "\u202e\u2066\u200b\u061c\ufeff\u2028\u3164\U000e0041\u0301\u2713 FORGED"
"""What the facts of an entry may hold: everything but control characters."""
HOSTILE = f"\x1b[2J\x1b[H\x1b[35;45m\x9b31m\x1b]0;x\x07\x1b]8;;http://x\x1b\\\r\x08\x7f\t{SEEN}"
LINES = f"{HOSTILE}\n\u2713 FORGED\r\n\u2713 FORGED"
"""Also with lines that try to look like those of a command."""
LABEL = "FORGED/~!#$%&'()*+,;<=>?@[]^`{|}"
"""What a label may hold."""
RUN = "run-hostile"

PLAN = {
    "request": HOSTILE,
    "tasks": [
        {"id": "draft", "instruction": HOSTILE},
        {"id": "publish", "instruction": LINES, "needs": ["draft"]},
    ],
}


def _value_of(hint: Any) -> Any:  # noqa: ANN401  a type of any form
    """Return a hostile value of a type that facts may have."""
    if get_origin(hint) is Annotated:
        return 7
    if get_origin(hint) in (list, tuple):
        return get_origin(hint)([_value_of(get_args(hint)[0])])
    return next(iter(hint)) if issubclass(hint, Enum) else SEEN


def facts_of(facts: type[Facts]) -> Facts:
    """Return facts with a hostile text in every place."""
    return facts(**{name: _value_of(hint) for name, hint in members_of(facts).items()})


def _json(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def is_obeyed(character: str) -> bool:
    """Return whether a terminal obeys a character, or nobody sees it."""
    if character in "\n\t":
        return False
    listed = any(first <= ord(character) <= last for first, last in HIDDEN_RANGES)
    return listed or unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


class HostileProject:
    """The project, and the files that commands read."""

    def __init__(self, home: Path) -> None:
        self.user = user = Terminal(home)
        self.folder = user.folder
        self._do("init")
        self._write("plan.json", json.dumps(PLAN))
        script = {"moves": {"draft": [{"say": LINES}], "publish": [{"say": HOSTILE}]}}
        self._write("script.json", json.dumps(script))
        self.run = self._submit("--gate", "task:publish")
        self.other = self._submit()
        self._record()
        self.policy = str(user.policy)
        self._do("ledger", "note", LINES)
        self._do("incident", "open", "--severity", "high", LINES)
        self._do("score", self.other, "--name", "good", "--value", "1", "--comment", LINES)
        self._do("ledger", "export", self.other, "--output", "run.zip")
        self._do("ledger", "export", RUN, "--output", "reported.zip")
        self._forge_files()

    def _do(self, *words: str) -> Any:  # noqa: ANN401
        result = self.user.call(*words)
        assert result.exit_code in (0, 6), (words, result.output)
        return result

    def _submit(self, *words: str) -> str:
        """Carry out the plan, and return the id of the run."""
        options = ("--plan", "plan.json", "--script", "script.json", "--json")
        return str(json.loads(self._do("submit", *options, *words).stdout)["run"])

    def _write(self, name: str, content: str | bytes) -> None:
        data = content if isinstance(content, bytes) else content.encode()
        (self.folder / name).write_bytes(data)

    def _record(self) -> None:
        """Record a reported run, and an entry of every kind that has no rule for who writes it."""
        with (
            pytest.MonkeyPatch.context() as patch,
            Forum(load_settings(self.folder, self.user.environment)) as forum,
        ):
            writer = ReportWriter(forum.ledger, "ci")
            start = RunStart(run=RUN, name=LINES, told=ReportProvenance.REPORTED, framework=SEEN)
            step = StepReport(
                run=RUN,
                span="s1",
                op=Operation.MODEL,
                name=LINES,
                outcome=Outcome.FAILED,
                agent=LINES,
                model=SEEN,
                provider=SEEN,
                prices=SEEN,
                code=SEEN,
                input=_json(LINES),
                output=_json(LINES),
                error=_json(LINES),
                attributes=_json({HOSTILE: LINES}),
            )
            end = RunEnd(run=RUN, name=LINES, outcome=Outcome.FAILED, handed_in=1)
            result = writer.write([start, step, end])
            assert not result.refused, result
            # As release 0.2 wrote them: newer writers make these characters visible.
            patch.setattr(strand, "replace_hidden", str)
            main = forum.ledger.open_run("run-kinds", LABEL)
            for kind in KINDS:
                writer_of = forum.ledger.open_strand("run-kinds", f"kind/{kind.name}")
                bodies = tuple(
                    Attachment(name, text_content(LINES)) for name in sorted(kind.bodies)
                )
                writer_of.append(
                    Draft(LABEL, actor=LABEL, facts=facts_of(kind.facts), parents=(), bodies=bodies)
                )
            forum.ledger.close_run(main, LABEL, Outcome.FAILED)
            forum.log.publish()

    def _forge_files(self) -> None:
        """Write the files that are no evidence, or another's."""
        files = unpack_archive((self.folder / "run.zip").read_bytes())
        manifest = json.loads(files["manifest.json"])
        for member in ("v", "origin", "run"):
            forged = json.dumps({**manifest, member: LINES}, separators=(",", ":"))
            self._write(f"{member}.zip", pack_archive({**files, "manifest.json": forged.encode()}))
        origin = files["checkpoint"].split(b"\n")[0]
        note = files["checkpoint"].replace(origin, HOSTILE.encode())
        self._write("note.zip", pack_archive({**files, "checkpoint": note}))
        self._write("note", note)
        self._write("name.zip", pack_archive({**files, "x": b""}).replace(b"x", b"\x1b"))
        policy = Path(self.policy).read_text()
        self._write("policy", f"{policy}\n{HOSTILE}\n")
        self._write("hostile.txt", LINES)
        self._write("hostile.json", json.dumps({HOSTILE: LINES}))
        self._write("hostile.jsonl", json.dumps({HOSTILE: LINES}) + "\n")
        self._write(f"{HOSTILE.replace('/', '')}\n\u2713 FORGED.zip", b"no zip")
