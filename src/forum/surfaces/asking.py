"""What clients of the server say when they want something done, whatever door they come by."""

from collections.abc import Collection
from decimal import Decimal
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from forum.errors import BadPlan
from forum.ledger import Scope, opens
from forum.staff import Ask
from forum.work import NANO, Answer, Budget, Task, exactly

MOST_TASKS = 10_000
MOST_SECONDS = 100 * 366 * 86400
"""For how long a key may hold that does not hold for ever."""


class BudgetAsk(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What may be used at most; what is not said has no limit."""

    usd: Annotated[Decimal | None, Meta(description="Dollars.", examples=["0.50"])] = None
    tokens: Annotated[int, Meta(ge=0, lt=2**53)] | None = None
    calls: Annotated[int, Meta(ge=0, lt=2**53)] | None = None
    seconds: Annotated[Decimal | None, Meta(examples=["600"])] = None
    depth: Annotated[int, Meta(ge=0, le=64)] | None = None


class TaskAsk(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One task of a plan."""

    id: Annotated[str, Meta(min_length=1, max_length=64, examples=["rivers"])]
    instruction: Annotated[str, Meta(min_length=1)]
    done_when: Annotated[str, Meta(description="What its result must hold to.")] = ""
    needs: Annotated[tuple[str, ...], Meta(description="Tasks whose output it is given.")] = ()
    after: Annotated[tuple[str, ...], Meta(description="Tasks that it only follows.")] = ()
    lane: str = ""
    agent: str = ""
    tasks: tuple["TaskAsk", ...] = ()
    budget: BudgetAsk | None = None


class GateAsk(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a person has to approve first."""

    what: Annotated[
        tuple[str, ...], Meta(examples=[["plan"]], description="`plan`, `tasks`, `task:NAME`.")
    ]
    seconds: Annotated[int, Meta(ge=1, le=366 * 86400)] | None = None
    default: Answer | None = None


class AskForm(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request, and if wanted its plan, its lane and its limits."""

    request: Annotated[str, Meta(min_length=1, examples=["Name three rivers."])]
    tasks: Annotated[tuple[TaskAsk, ...], Meta(max_length=MOST_TASKS)] = ()
    lane: str = ""
    team: bool | None = None
    route: bool | None = None
    budget: BudgetAsk = BudgetAsk()
    gates: GateAsk | None = None
    parallel: Annotated[int, Meta(ge=1, le=1000)] | None = None
    retries: Annotated[int, Meta(ge=0, le=100)] | None = None


class KeyAsk(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A key that somebody is to get."""

    name: Annotated[
        str,
        Meta(
            pattern=r"^[!#-\[\]-~]{1,40}$",
            examples=["ci"],
            description="Whose it is: visible ASCII without quote and backslash.",
        ),
    ]
    scopes: Annotated[tuple[Scope, ...], Meta(min_length=1, max_length=len(Scope))]
    seconds: (
        Annotated[int, Meta(ge=1, le=MOST_SECONDS, description="How long it is to hold.")] | None
    ) = None


def ask_of(form: AskForm) -> Ask:
    """Return what a form asks for.  Raises `BadPlan`."""
    gates = form.gates
    return Ask(
        form.request,
        tuple(map(_task, form.tasks)),
        form.lane,
        form.team,
        form.route,
        budget_of(form.budget),
        gates.what if gates else (),
        1000 * gates.seconds if gates and gates.seconds else None,
        gates.default if gates else None,
        form.parallel,
        form.retries,
    )


def check_gates(gates: GateAsk | None, scopes: Collection[Scope]) -> None:
    """Refuse terms that decide in the place of those who may.  Raises `BadPlan`.

    They hold at every gate of a run: also where a person is asked whether an effect happened.
    """
    if gates and (gates.default or gates.seconds) and not opens(scopes, {Scope.APPROVE}):
        raise BadPlan("gates: when a deadline decides, and what, is for those who may approve")


def budget_of(form: BudgetAsk) -> Budget:
    """Return a budget in the units of the record.  Raises `BadPlan`."""
    given = {"tokens": form.tokens, "calls": form.calls, "depth": form.depth}
    given["usd"] = _exactly("usd", form.usd, NANO)
    given["milliseconds"] = _exactly("seconds", form.seconds, 1000)
    said = {name: value for name, value in given.items() if value is not None}
    return msgspec.structs.replace(Budget(), **said)


def _exactly(name: str, value: Decimal | None, unit: int) -> int | None:
    try:
        return None if value is None else exactly(value, unit)
    except ValueError as error:
        raise BadPlan(f"budget.{name}: {error}") from None


def _task(form: TaskAsk) -> Task:
    return Task(
        form.id,
        form.instruction,
        form.done_when,
        needs=form.needs,
        after=form.after,
        lane=form.lane,
        agent=form.agent,
        tasks=tuple(map(_task, form.tasks)),
        budget=budget_of(form.budget or BudgetAsk()),
    )
