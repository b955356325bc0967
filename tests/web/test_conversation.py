"""A long conversation in a real browser: loaded page by page, and each message once."""

import json
from pathlib import Path

from forum.app import Forum, new_run_id
from forum.config import load_settings
from forum.ledger.body import BytesContent
from forum.ledger.kinds import Outcome
from forum.ledger.strand import Attachment
from forum.runs.report_drafts import source_draft
from forum.runs.report_kinds import (
    Operation,
    ReportProvenance,
    ReportSourceFacts,
    ReportStepFacts,
)
from forum.runs.reported_run import ReportedRunWriter
from tests.surfaces.terminal import Terminal
from tests.web.browsing import play, up
from tests.web.test_browser import pytestmark as needs_browser

pytestmark = needs_browser

CALLS = 300


def write_conversation(forum: Forum, calls: int) -> str:
    """Record a program that sends its whole conversation with each call."""
    run = new_run_id()
    told = ReportSourceFacts(ReportProvenance.RELAYED, by="forum-run")
    messages: list[dict[str, str]] = []
    with forum.log.open_writer() as ledger:
        main = ledger.open_run(run, "operator", source_draft(run, "python", told), new=True)
        writer = ReportedRunWriter(ledger, run, main.head)
        for n in range(calls):
            messages.append({"role": "user", "content": f"Question {n}. {'word ' * 40}"})
            reply = {"role": "assistant", "content": f"Answer {n}."}
            bodies = {"input": {"messages": messages}, "output": {"choices": [{"message": reply}]}}
            step = ReportStepFacts(Operation.MODEL, "m", Outcome.OK, f"c{n}", began=n + 1)
            writer.new_strand(f"c{n}").append(
                writer.step_draft(
                    step,
                    [
                        Attachment(
                            name, BytesContent(json.dumps(body).encode()), "application/json"
                        )
                        for name, body in bodies.items()
                    ],
                )
            )
            messages.append(reply)
        ledger.close_run(main, "operator", Outcome.OK)
    forum.log.publish()
    return run


def test_a_long_conversation_is_loaded_where_it_is_looked_at(tmp_path: Path) -> None:
    """Only what is in view exists, and no message stands there twice."""
    terminal = Terminal(tmp_path / "home")
    with Forum(load_settings(terminal.folder, terminal.environment)) as forum:
        forum.keys.initialise()
        run = write_conversation(forum, CALLS)

    with up(terminal) as server:
        seen = play(server, "conversation.mjs", run)

    assert seen["faults"] == []
    assert seen["first"] < seen["pages"] < CALLS // 50
    assert min(seen["shown"]) > 2
    assert seen["nodes"] < 3000
