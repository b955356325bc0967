"""A run that repeats its whole conversation with each call."""

import json

from forum.app import Forum, new_run_id
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


def write_conversation(forum: Forum, calls: int, changed: int | None = None) -> str:
    """Record a program that sends its whole conversation with each call.

    `changed` is the number of a call in which it says something else than in another run.
    """
    run = new_run_id()
    told = ReportSourceFacts(ReportProvenance.RELAYED, by="forum-run")
    messages: list[dict[str, str]] = []
    with forum.log.open_writer() as ledger:
        main = ledger.open_run(run, "operator", source_draft(run, "python", told), new=True)
        writer = ReportedRunWriter(ledger, run, main.head)
        for n in range(calls):
            asks = "Something" if n == changed else "Question"
            messages.append({"role": "user", "content": f"{asks} {n}. {'word ' * 40}"})
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
