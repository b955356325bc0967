"""The demo `forum demo crash`: agents in a loop, a payment, two killed workers and a cap.

Everything in it is real: the worker is `forum worker`, it is killed with SIGKILL, and the payment
is a program that appends a line to a file. The outcome is read from the ledger and from that file,
not from the memory of the demo.
"""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

import msgspec

from forum.app import Forum
from forum.engine import RunRequest
from forum.errors import ForumError
from forum.features.demo.project import create_project
from forum.ledger.ports import Amount
from forum.runs.kinds import Why
from forum.runs.plan import Plan, RunBudget, Task
from forum.runs.policy import ASK_TOOL, Command, Policy, Scripted, ScriptStep, ToolCall, ToolSpec
from forum.runs.run_fold import Run
from forum.units import NANO_USD

BUDGET_NANO_USD = NANO_USD // 2
_ROUNDS = 200
_WAIT_TIMEOUT_S = 60.0

_RESEARCHER = """
import os, sys, time
prompt = sys.stdin.read()
def note(word):
    log = os.open(sys.argv[1], os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    os.write(log, f"{word} {os.environ['FORUM_TASK']}\\n".encode())
note("asked")
time.sleep(0.7)
print("Prices are stable:", len(prompt), "characters were read.")
note("answered")
"""

_PAYMENT = """
import os, sys, time
order = sys.stdin.read()
log = os.open(sys.argv[1], os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
os.write(log, f"{os.environ['FORUM_KEY']} {order}\\n".encode())
time.sleep(1.5)
print("receipt for", order)
"""


@dataclass(slots=True)
class CrashDemoResult:
    """The outcome, as read from the ledger and the files of the agents."""

    run: str
    kills: int
    calls: int
    paid_twice: int
    payments: int
    sent_twice: int
    cap: int
    lost: list[tuple[str, str, int]]
    """Task, agent and price of each call that was lost with its worker."""
    indeterminate: list[str]
    spent: Amount
    by_agent: Mapping[str, Amount]
    stopped: str
    verified: bool = False
    seconds: float = 0.0


def run_crash_demo(home: Path, tell: Callable[[str], None]) -> CrashDemoResult:
    """Run the demo in an empty folder and return the outcome."""
    started = monotonic()
    settings, environ = create_project(home)
    with Forum(settings) as forum:
        forum.keys.initialise()
        run = forum.runs.submit(_build_run_request(home))
        tell(f"accepted: run {run}, 6 tasks, 4 agents, a cap of ${BUDGET_NANO_USD / NANO_USD:.2f}")
        kills = _kill_twice(forum, run, home, environ, tell=tell)
        forum.log.publish()
        tale = _read_result(forum, run, home, kills)
        tale.verified = forum.log.verify(forum.log.read_trust()).ok
    tale.seconds = monotonic() - started
    return tale


def _build_run_request(home: Path) -> RunRequest:
    python = sys.executable
    offers = tuple(
        ScriptStep(
            use=(_agent_task("supplier", f"Offer {n}: {900 - n} per unit?"),), milliseconds=120
        )
        for n in range(_ROUNDS)
    )
    counters = tuple(
        ScriptStep(say=f"Counter-offer {n}: {901 + n} per unit.", milliseconds=120)
        for n in range(_ROUNDS)
    )
    pay = ScriptStep(use=(ToolCall("pay", "1200 USD to ACME"),))
    policy = Policy(
        agents={
            "researcher": Command((python, "-c", _RESEARCHER, str(home / "calls")), usd=20_000_000),
            "negotiator": Scripted({"*": offers}, usd=12_000_000),
            "supplier": Scripted({"*": counters}, usd=8_000_000),
            "clerk": Scripted({"*": (pay, ScriptStep(say="The deposit is paid."))}, usd=10_000_000),
        },
        tools={"pay": ToolSpec((python, "-c", _PAYMENT, str(home / "payments")))},
    )
    plan = Plan(
        (
            Task("market", "Find out what a unit costs.", agent="researcher"),
            Task("rivals", "Find out what others pay.", agent="researcher"),
            Task("deposit", "Pay the deposit.", after=("market",), agent="clerk"),
            Task("terms", "Agree on a price.", needs=("market", "rivals"), agent="negotiator"),
            Task("check", "Check the price.", needs=("terms",), agent="researcher"),
            Task("report", "Report.", needs=("check", "deposit"), agent="researcher"),
        )
    )
    return RunRequest(
        "Buy 40 units, as cheaply as you can.", plan, policy, RunBudget(usd=BUDGET_NANO_USD)
    )


def _agent_task(agent: str, text: str) -> ToolCall:
    return ToolCall(ASK_TOOL, msgspec.json.encode({"agent": agent, "text": text}).decode())


def _kill_twice(
    forum: Forum, run: str, home: Path, environ: Mapping[str, str], tell: Callable[[str], None]
) -> int:
    """Kill one worker during a call and the next during the payment; the third reaches the cap."""
    with _worker(home, environ) as first:
        _wait_until(lambda: _in_flight(forum.reads.read_run(run)))
        tell(f"kill -9 worker {first.pid}: an agent was at work")
        first.kill()
    with _worker(home, environ) as second:
        # The file exists once the payment has been sent, and before its outcome is recorded.
        _wait_until((home / "payments").exists)
        tell(f"kill -9 worker {second.pid}: the payment was on its way")
        second.kill()
    with _worker(home, environ) as third:
        tell(f"worker {third.pid} continues from the ledger")
        _wait_until(lambda: _is_over(forum, run))
        third.send_signal(signal.SIGTERM)
        third.wait()
    return 2


@contextmanager
def _worker(home: Path, environ: Mapping[str, str]) -> "Iterator[subprocess.Popen[bytes]]":
    argv = [sys.executable, "-m", "forum", "worker"]
    with (home / "worker.log").open("ab") as log:
        worker = subprocess.Popen(argv, cwd=home, env=environ, stderr=log)  # noqa: S603
    try:
        yield worker
    finally:
        worker.kill()
        worker.wait()


def _wait_until(happened: Callable[[], bool]) -> None:
    deadline = monotonic() + _WAIT_TIMEOUT_S
    while not happened():
        if monotonic() > deadline:
            raise DemoTimeout
        sleep(0.02)


def _in_flight(run: Run) -> bool:
    return any(call.replied is None for task in run.tasks.values() for call in task.calls)


def _is_over(forum: Forum, run: str) -> bool:
    state = forum.reads.read_run(run)
    return state.stopped is not None and bool(state.open_gates) and not _in_flight(state)


def _read_result(forum: Forum, run: str, home: Path, kills: int) -> CrashDemoResult:
    state = forum.reads.read_run(run)
    calls = [call for task in state.tasks.values() for call in task.calls]
    lost = [call for call in calls if call.replied and call.replied.why is Why.LOST]
    payments = (home / "payments").read_text().split("\n")[:-1]
    keys = [line.split()[0] for line in payments]
    answered = (home / "calls").read_text().count("answered")
    recorded = sum(
        1
        for call in calls
        if call.called.agent == "researcher" and call.replied and call.replied.why is not Why.LOST
    )
    return CrashDemoResult(
        run=run,
        kills=kills,
        calls=len(calls),
        # Every answered call is either recorded or was lost with its worker.  Any answer beyond
        # these means that a call was made and paid for again.
        paid_twice=max(0, answered - recorded - len(lost)),
        payments=len(payments),
        sent_twice=len(keys) - len(set(keys)),
        cap=BUDGET_NANO_USD,
        lost=[
            (call.at.strand.removeprefix("task/"), call.called.agent, call.spent.usd)
            for call in lost
        ],
        indeterminate=[gate.opened.subject for gate in state.open_gates],
        spent=state.spent,
        by_agent=state.spent_by,
        stopped=state.stopped.reason.value if state.stopped else "",
    )


class DemoTimeout(ForumError):
    """Raised when an event that the demo waits for does not happen."""

    def __str__(self) -> str:
        return "the demo timed out; with --keep DIR, the reason is in DIR/worker.log"
