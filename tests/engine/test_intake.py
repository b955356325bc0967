"""What is taken on: an order that could never be carried out is refused, and secrets stay out."""

import pytest

from forum.engine import Engine, RouteDecision, RunRequest, accept_run, edit_gate, read_run
from forum.errors import BadPlan, ForumError
from forum.ledger.kinds import Outcome
from forum.ledger.log import Ledger
from forum.ledger.secret_mask import SecretMask
from forum.runs.kinds import AcceptedFacts, Basis, ReplyOrigin, RouteFacts
from forum.runs.plan import Task, write_plan
from forum.runs.policy import LaneBrief, Policy, Scripted, ScriptStep
from tests.engine.office import KINDS, PERSON, RUN, Office, now, plan, quick

CANARY = "sk-abcdef-123456"


def hide(office: Office) -> None:
    """Name a secret that the ledger must not know from now on."""
    mask = SecretMask.from_secrets({"KEY": CANARY.encode()})
    office.ledger = Ledger(office.store, KINDS, now, lambda: b"s" * 32, mask=mask)
    office.engine = Engine(office.ledger, office.hands.model, office.hands.open_tools)


@pytest.mark.parametrize(
    ("policy", "lane"),
    [
        (quick(gates=("task:deploy",)), ""),
        (quick(agents={"a": Scripted()}), ""),
        (quick(lanes={"law": LaneBrief(agent="nobody")}), "law"),
        (quick(), "law"),
    ],
    ids=["a gate before no task", "no agent", "a lane without its agent", "no such lane"],
)
def test_a_request_without_a_plan_is_held_against_the_one_that_will_be_made(
    office: Office, policy: Policy, lane: str
) -> None:
    """One task that is the request: what is wrong with that is said before anybody has to pay."""
    route = RouteDecision(RouteFacts(lane, Basis.GIVEN)) if lane else None

    with pytest.raises(BadPlan):
        office.accept(RunRequest("Go.", None, policy, route=route))
    assert office.store.strands(RUN) == []


def test_an_edited_plan_is_held_against_what_will_be_recorded_of_it(office: Office) -> None:
    """A name that is a secret is masked, and no name any more: nobody could read that plan."""
    hide(office)
    office.do(RunRequest("x", plan(Task("a", "x")), quick(gates=("plan",))))
    digest = read_run(office.ledger, RUN).gates["gate/plan"].digest

    with pytest.raises(ForumError):
        edit_gate(
            office.ledger,
            RUN,
            "plan",
            digest,
            shown=write_plan(plan(Task(CANARY, "y"))),
            actor=PERSON,
        )
    assert read_run(office.ledger, RUN).gates["gate/plan"].digest == digest


def test_a_fork_judges_what_it_records_and_not_what_it_has_taken(office: Office) -> None:
    """A secret that was named after the forked run is masked in the reply, and so for its judge."""
    agents = {"": Scripted({"*": (ScriptStep(f"the word is {CANARY}"),)})}
    request = RunRequest(
        "x", plan(Task("a", "x", "contains abcdef")), quick(agents=agents, retries=0)
    )
    first = office.do(request)
    office.entries()  # forks take what has an index
    hide(office)
    accept_run(
        office.ledger, "fork", request, PERSON, origin=AcceptedFacts(fork_run=RUN, fork_index=1000)
    )
    run = office.work("fork")

    assert (first.outcome, run.outcome) == (Outcome.OK, Outcome.FAILED)
    (call,) = run.task("a").calls
    assert call.replied is not None
    assert call.replied.source is ReplyOrigin.RECORDED
    (replied,) = [e for e in office.entries("fork") if e.kind == "reply/1"]
    assert office.body(replied, "output") == b"the word is [secret KEY]"
