"""Caps over many runs: the amounts used and the amounts left."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from forum.app import BudgetStatus, Forum
from forum.ledger.kinds import FreezeAct, Period
from forum.ledger.ports import NO_LIMIT, Spend
from forum.surfaces.schemas.fields import Moment, Usd, fill, limit_or_null, usd_limit


class CapAct(StrEnum):
    """What to do with a cap."""

    SET = "set"
    RAISE = "raise"
    UNSET = "unset"


class SpendForm(Struct, frozen=True):
    """The amounts used: dollars, tokens, runs."""

    usd: Usd
    tokens: int
    runs: int


class SharedCapForm(Struct, frozen=True):
    """The limits of a cap; null means no limit."""

    usd: Usd | None
    tokens: int | None
    runs: int | None


class BudgetForm(Struct, frozen=True):
    """One account under a cap."""

    name: Annotated[str, Meta(description="The name of the cap in `forum.toml`, or its subject.")]
    scope: Annotated[
        str,
        Meta(
            description="The owner of the account: `ledger`, or one of `key`, `person`, `team`, "
            "`lane` and `agent` with a name: `team:NAME`.",
            examples=["ledger", "team:research"],
        ),
    ]
    per: Period
    period: Annotated[
        str,
        Meta(
            description="The hour, day, week (by its Monday) or month in UTC, or `ever`.",
            examples=["2026-03-01", "2026-03", "week 2026-03-02"],
        ),
    ]
    until: Moment
    cap: SharedCapForm
    used: Annotated[SpendForm, Meta(description="The amounts spent or reserved for calls.")]
    left: SharedCapForm


class BudgetsForm(Struct, frozen=True):
    """All accounts under caps over many runs."""

    budgets: tuple[BudgetForm, ...]
    frozen: Annotated[bool, Meta(description="Whether all spending is frozen.")] = False


class CapAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """A cap to set."""

    subject: Annotated[
        str,
        Meta(
            description="`ledger`, or one of `key`, `person`, `team`, `lane` and `agent` with a "
            "pattern for names.",
            examples=["team:research"],
        ),
    ]
    amount: Annotated[
        str,
        Meta(
            description="A number of dollars, or one of `tokens` or `runs`, and a period: `hour`, "
            "`day`, `week`, `month` or `ever`.",
            examples=["500/month", "100runs/hour"],
        ),
    ]
    act: Annotated[
        CapAct, Meta(description="Whether to set it, to add the amount, or to remove the cap.")
    ] = CapAct.SET


class FreezeAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """Whether a freeze of all spending begins or ends."""

    act: FreezeAct
    reason: Annotated[str, Meta(max_length=2000)] = ""


def budgets_form(forum: Forum) -> BudgetsForm:
    """Return the accounts under caps in their form."""
    statuses = map(_budget_form, forum.runs.budget_status())
    return BudgetsForm(tuple(statuses), frozen=forum.runs.read_cap_orders().is_frozen)


def _budget_form(status: BudgetStatus) -> BudgetForm:
    cap, use = status.cap, status.use
    left = Spend(
        *(
            most if most == NO_LIMIT else max(0, most - used)
            for most, used in zip(cap.cap, use.used, strict=True)
        )
    )
    return fill(
        BudgetForm, use, name=cap.name, per=cap.per, cap=_cap_form(cap.cap), left=_cap_form(left)
    )


def _cap_form(cap: Spend) -> SharedCapForm:
    return SharedCapForm(usd_limit(cap.usd), limit_or_null(cap.tokens), limit_or_null(cap.runs))
