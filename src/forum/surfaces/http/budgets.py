"""Endpoint for caps over many runs: amounts used and left."""

from forum.surfaces.http.endpoints import READERS, Endpoint, RequestContext
from forum.surfaces.schemas.budgets import BudgetsForm, budgets_form


def list_budgets(context: RequestContext) -> BudgetsForm:
    """List the accounts under caps over many runs."""
    return budgets_form(context.tenant.forum.runs.budget_status())


BUDGETS = (
    Endpoint(
        "GET", path="/api/v1/budgets", name="list_budgets", scopes=READERS,
        summary="List what was used of caps over many runs, and what is left", handle=list_budgets,
        reply=BudgetsForm, tag="work",
    ),
)  # fmt: skip
