"""The demo `forum demo team`: a real model on this machine plays a whole team.

Everything in it is real: the model, its replies and the ledger. The outcome is read from the
ledger.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from forum.app import Forum, RunView
from forum.app.planner import CallerAuthority, Planner
from forum.config import Settings
from forum.engine import RunRequest
from forum.features.demo.project import create_project
from forum.features.demo.smollm2 import CONTEXT_TOKENS, MODEL, start_smollm2
from forum.runs.kinds import ROLE_PREFIX
from forum.runs.plan import RunBudget
from forum.runs.policy import Chat, Policy
from forum.runs.run_fold import Run

REQUEST = "Explain to a beginner what a hash function is, in one short paragraph."
_MAX_TOKENS = 320
_CALL_MILLISECONDS = 120_000


@dataclass(frozen=True, slots=True)
class DemoModelCall:
    """One call of the model."""

    task: str
    role: str
    tokens: int
    milliseconds: int
    outcome: str


@dataclass(frozen=True, slots=True)
class TeamDemoResult:
    """The outcome, as read from the ledger."""

    run: str
    request: str
    lane: str
    calls: tuple[DemoModelCall, ...]
    outcome: str
    answer: str
    verified: bool
    diverged: int
    """Number of differences between the record and a replay from it."""
    seconds: float
    view: RunView
    """The run as `forum show` sees it."""


def run_team_demo(home: Path, request: str, tell: Callable[[str], None]) -> TeamDemoResult:
    """Answer a request in an empty folder and return the outcome."""
    started = monotonic()
    tell("starting SmolLM2-135M on this machine: no account, no network")
    with start_smollm2() as url, Forum(create_project(home)[0]) as forum:
        tell(f"it answers at {url}")
        forum.keys.initialise()
        run = forum.runs.submit(_build_run_request(request, url, forum.settings))
        tell(f"accepted: run {run}")
        reported: set[str] = set()

        def watch(state: Run) -> None:
            for name in state.tasks.keys() - reported:
                reported.add(name)
                tell(f"  {name.removeprefix(ROLE_PREFIX)} ...")

        with forum.runs.run_worker():
            state = forum.reads.follow_run(run, watch)
        forum.log.publish()
        verified = forum.log.verify(forum.log.read_trust()).ok
        diverged = len(forum.runs.replay(run))
        view = forum.reads.view_run(run)
    return TeamDemoResult(
        run=run,
        request=request,
        lane=state.routed.lane if state.routed else "",
        calls=_list_model_calls(state),
        outcome=str(state.outcome),
        answer=(view.answer or b"").decode(errors="replace"),
        verified=verified,
        diverged=diverged,
        seconds=monotonic() - started,
        view=view,
    )


def _build_run_request(request: str, url: str, settings: Settings) -> RunRequest:
    chat = Chat(
        url=url,
        model=MODEL,
        max_tokens=_MAX_TOKENS,
        options={"temperature": 0},
        context_tokens=CONTEXT_TOKENS,
    )
    policy = Policy(agents={"": chat}, call_milliseconds=_CALL_MILLISECONDS, retries=1)
    run_request = RunRequest(request, None, policy, RunBudget(calls=40, milliseconds=600_000))
    # The demo shows the steps of a team, whatever its small model gains from them.
    planner = Planner(settings, any_model=True)
    return planner.decide(run_request, CallerAuthority.OPERATOR, team=True)


def _list_model_calls(state: Run) -> tuple[DemoModelCall, ...]:
    calls = sorted(
        ((call.begun, name, call) for name, task in state.tasks.items() for call in task.calls),
        key=lambda each: each[:2],
    )
    return tuple(
        DemoModelCall(
            task=name.removeprefix(ROLE_PREFIX),
            role=call.called.role or "work",
            tokens=call.replied.tokens,
            milliseconds=call.replied.milliseconds,
            outcome=call.replied.outcome.value,
        )
        for _, name, call in calls
        if call.replied is not None
    )
