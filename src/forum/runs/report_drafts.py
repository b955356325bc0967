"""Drafts of the entries of reported runs; the gateway, the SDK and the intake write no others."""

from collections.abc import Collection, Sequence

import msgspec

from forum.ledger.body import BytesContent
from forum.ledger.ports import Amount, Effect, OpenBudgetAccount
from forum.ledger.strand import Attachment, Draft
from forum.runs import report_kinds

MAX_BODY_BYTES = 1 << 20
"""Limit of a body; the fact `cut` counts the bytes that are left out."""

OVERRUN = "overrun"
"""The code of a step that cost more than was reserved for it; it stops the run."""

OVERRUN_TEXT = (
    "the provider billed {billed} for a call bounded by {bound}; Forum stops because its bounds "
    "cannot hold. If the price is wrong, declare it in [gateway] prices of forum.toml; if the "
    "server counts wrongly, correct it"
)


def find_overrun(reserved: Amount, spent: Amount, limited: Collection[str]) -> str:
    """Return of which unit a step used more than was reserved, or "" if of none.

    Only units with a limit count: `limited` has `usd`, `tokens`, both or none.
    """
    for unit in ("usd", "tokens"):
        if unit in limited and getattr(spent, unit) > getattr(reserved, unit):
            return unit
    return ""


def source_draft(run: str, name: str, source: report_kinds.ReportSourceFacts) -> Draft:
    """Return the entry that follows the opening of a run; it opens the account of a capped run.

    A framework that is free text goes into the body.
    """
    effects: tuple[Effect, ...] = ()
    if source.is_capped:
        effects = (OpenBudgetAccount(run, source.cap),)
    return Draft(
        step="source",
        actor=report_kinds.program_label(name),
        facts=msgspec.structs.replace(
            source, framework=report_kinds.plain_name(source.framework, report_kinds.A_FRAMEWORK)
        ),
        bodies=names_body(report_kinds.Names(name, framework=source.framework), is_program=True),
        effects=effects,
    )


def gap_draft(
    facts: report_kinds.ReportGapFacts, unique: str, actor: str, spans: Sequence[str] = ()
) -> Draft:
    """Return the entry of a gap; `unique` keeps two gaps of one run apart.

    `spans` names the steps that are missing, where that is known.
    """
    body = BytesContent(msgspec.json.encode(spans))
    bodies = (Attachment("spans", body, "application/json"),) if spans else ()
    return Draft(step=f"gap/{unique}", actor=actor, facts=facts, bodies=bodies)


def names_body(given: report_kinds.Names, *, is_program: bool = False) -> tuple[Attachment, ...]:
    """Return the body `names`, or nothing if the labels in the facts say the same."""
    names = report_kinds.encode_names(given, is_program=is_program)
    return (Attachment("names", BytesContent(names), "application/json"),) if names else ()


def cut_body(name: str, content: bytes, media_type: str) -> tuple[Attachment, int]:
    """Return a body of at most `MAX_BODY_BYTES`, and the number of bytes that were left out."""
    kept = content[:MAX_BODY_BYTES]
    return Attachment(name, BytesContent(kept), media_type), len(content) - len(kept)
