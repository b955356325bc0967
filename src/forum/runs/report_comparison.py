"""Compare a step that is reported again with what is on record."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from forum.ledger.body import Content
from forum.ledger.entry import Entry, change_texts
from forum.ledger.log import Ledger, read_body
from forum.ledger.strand import Attachment
from forum.runs.report_kinds import ReportBeginFacts, ReportStepFacts
from forum.untrusted_text import replace_hidden


def says_same(
    ledger: Ledger,
    entry: Entry[Any],
    facts: object,
    bodies: Sequence[Attachment],
    *,
    with_costs: bool = True,
) -> bool:
    """Return whether an entry says of a step what these facts and bodies say.

    Costs are left aside where the server computes them: prices differ from one day to the next.
    """
    mask = ledger.mask
    if type(entry.facts) is not type(facts):
        return False
    if not isinstance(facts, ReportBeginFacts | ReportStepFacts):
        return False
    shown = change_texts(mask.mask_facts(facts) if mask else facts, replace_hidden)
    if not with_costs and isinstance(entry.facts, ReportStepFacts):
        shown = replace(shown, usd=entry.facts.usd, prices=entry.facts.prices)
    by_name = {body.name: body for body in bodies}
    if entry.facts != shown or entry.bodies.keys() != by_name.keys():
        return False
    return all(
        holds_same_body(ledger, entry, name, body.content) is not False
        for name, body in by_name.items()
    )


def holds_same_body(ledger: Ledger, entry: Entry[Any], name: str, content: Content) -> bool | None:
    """Return whether a recorded body has this content; None if it was erased."""
    recorded = read_body(ledger.store, entry, name)
    if recorded is None:
        return None
    masked = ledger.mask.mask_content(content) if ledger.mask else content
    return recorded == b"".join(masked.chunks())
