"""Compare a step that is reported again with what is on record."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from forum.ledger.entry import Entry
from forum.ledger.log import Ledger, read_body
from forum.ledger.strand import Attachment
from forum.work.report_kinds import ReportStepFacts


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
    if not isinstance(entry.facts, ReportStepFacts) or not isinstance(facts, ReportStepFacts):
        return False
    told = mask.mask_facts(facts) if mask else facts
    if not with_costs:
        told = replace(told, usd=entry.facts.usd, prices=entry.facts.prices)
    by_name = {body.name: body for body in bodies}
    if entry.facts != told or entry.bodies.keys() != by_name.keys():
        return False
    for name, body in by_name.items():
        content = mask.mask_content(body.content) if mask else body.content
        recorded = read_body(ledger.store, entry, name)
        # An erased body can be compared with nothing, and is not to be reported again.
        if recorded is not None and recorded != b"".join(content.chunks()):
            return False
    return True
