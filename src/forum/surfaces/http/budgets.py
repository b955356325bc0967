"""Endpoints for caps over many runs: amounts used and left, setting caps, and the freeze."""

from typing import assert_never

from forum.ledger.cap_orders import CapName
from forum.ledger.kinds import Scope
from forum.runs.cap_words import parse_amount, parse_subject
from forum.surfaces.http.endpoints import READERS, Endpoint, RequestContext
from forum.surfaces.http.problems import ProblemError, ProblemType
from forum.surfaces.schemas.budgets import BudgetsForm, CapAct, CapAsk, FreezeAsk, budgets_form

_ADMIN = frozenset({Scope.ADMIN})


def list_budgets(context: RequestContext) -> BudgetsForm:
    """List the accounts under caps over many runs."""
    return budgets_form(context.tenant.forum)


def set_budget(context: RequestContext) -> BudgetsForm:
    """Set, raise or remove a cap."""
    ask: CapAsk = context.body
    try:
        amount, unit, per = parse_amount(ask.amount)
        name = CapName(*parse_subject(ask.subject), per, unit)
    except ValueError as error:
        raise ProblemError(ProblemType.BAD_REQUEST, str(error)) from None
    budgets, actor = context.tenant.forum.budgets, context.principal.name
    match ask.act:
        case CapAct.SET:
            budgets.set_cap(name, amount, actor)
        case CapAct.RAISE:
            budgets.raise_cap(name, amount, actor)
        case CapAct.UNSET:
            budgets.unset_cap(name, actor)
        case _:
            assert_never(ask.act)
    return budgets_form(context.tenant.forum)


def freeze_budgets(context: RequestContext) -> BudgetsForm:
    """Freeze all spending, or end that."""
    ask: FreezeAsk = context.body
    context.tenant.forum.budgets.freeze(ask.act, ask.reason, context.principal.name)
    return budgets_form(context.tenant.forum)


BUDGETS = (
    Endpoint(
        "GET", path="/api/v1/budgets", name="list_budgets", scopes=READERS,
        summary="List what was used of caps over many runs, and what is left", handle=list_budgets,
        reply=BudgetsForm, tag="work",
    ),
    Endpoint(
        "POST", path="/api/v1/budgets", name="set_budget", scopes=_ADMIN,
        summary="Set, raise or remove a cap over many runs, at once for all processes",
        handle=set_budget, reply=BudgetsForm, body=CapAsk, tag="work",
        example={"subject": "team:research", "amount": "500/month"},
    ),
    Endpoint(
        "POST", path="/api/v1/budgets/freeze", name="freeze_budgets", scopes=_ADMIN,
        summary="Stop all spending at once, or end that", handle=freeze_budgets,
        reply=BudgetsForm, body=FreezeAsk, tag="work", example={"act": "freeze"},
    ),
)  # fmt: skip
