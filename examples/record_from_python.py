"""Record a run from a program of your own: two agents at work at the same time.

Run it in a folder of its own, then look at what it left:

    python record_from_python.py
    forum ledger show
    forum ledger verify
"""

import asyncio
import os
from pathlib import Path

from forum.app import Forum, new_run_id
from forum.config import load_settings
from forum.ledger.body import text_content
from forum.ledger.kinds import NoteFacts, Outcome
from forum.ledger.log import Ledger
from forum.ledger.strand import Attachment, Draft, RecordedEntry


def remark(step: str, actor: str, words: str, *causes: RecordedEntry) -> Draft:
    """Return a step with one body; its causes are entries that led to it."""
    parents = tuple(cause.leaf for cause in causes)
    return Draft(step, actor, NoteFacts(), parents, (Attachment("text", text_content(words)),))


async def work(ledger: Ledger, run: str, name: str, request: RecordedEntry) -> RecordedEntry:
    """Let one agent work on a strand of its own: each strand has one writer at a time."""
    strand = ledger.open_strand(run, f"task/{name}")
    actor = f"agent:{name}"
    (begun,) = await strand.append_async(remark("begin", actor, f"{name} begins", request))
    await asyncio.sleep(0.01)  # the agent thinks; others go on
    (done,) = await strand.append_async(remark("result", actor, f"{name} is done", begun))
    return done


async def record(ledger: Ledger) -> str:
    """Open a run, let the agents work, and close it with what came out."""
    main = ledger.open_run(new_run_id(), "agent:lead")
    (request,) = await main.append_async(remark("request", "agent:lead", "Compare two suppliers."))
    results = await asyncio.gather(*(work(ledger, main.run, n, request) for n in ("acme", "bolt")))
    await main.append_async(remark("answer", "agent:lead", "Take ACME.", *results))
    ledger.close_run(main, "agent:lead", Outcome.OK)
    return main.run


def main() -> None:
    """Record one run, and verify the ledger that holds it."""
    with Forum(load_settings(Path.cwd(), os.environ)) as forum:
        forum.keys.initialise()
        with forum.log.open_writer() as ledger:
            run = asyncio.run(record(ledger))
        report = forum.log.verify(forum.log.read_trust())
    print(f"{run}: intact {report.intact.state}, complete {report.complete.state}")
    print(f"independent {report.independent.state}: {report.independent.reason}")


if __name__ == "__main__":
    main()
