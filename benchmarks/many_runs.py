"""A ledger with many runs, and what a list of them costs.

`python -m benchmarks runs FOLDER [--runs N] [--entries N]` makes a project in a folder whose ledger
verifies: runs that Forum drove, with plans, retries, failures and stops, runs that wait at a gate,
and runs that other programs reported.  Then it lists runs and adds up their costs as a client of
the server does, and counts the statements.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from starlette.testclient import TestClient

from forum.app import Forum, new_run_id
from forum.config import load_settings
from forum.ledger.body import BytesContent, text_content
from forum.ledger.kinds import Outcome
from forum.ledger.log import Ledger
from forum.ledger.ports import Amount, BudgetCharge, Effect, OpenBudgetAccount, Timer, due_now
from forum.ledger.strand import Attachment, Draft, JointAppend
from forum.runs import kinds
from forum.runs.acceptance_criteria import Check
from forum.runs.plan import Plan, Task, write_plan
from forum.runs.policy import Answer
from forum.runs.report_drafts import source_draft
from forum.runs.report_kinds import (
    Operation,
    ReportProvenance,
    ReportSourceFacts,
    ReportStepFacts,
)
from forum.runs.reported_run import ReportedRunWriter
from forum.stores.sql_queries import SqlQueries
from forum.surfaces.http.application import make_app
from forum.surfaces.http.auth import ServerConfig
from forum.surfaces.http.tenant import Tenant

PROJECT = '[models.default]\nkind = "scripted"\n'
SUBJECTS = ("the Danube", "a lighthouse", "checkout errors", "the release notes", "night trains")
LANES = ("research", "backend", "writing")
AGENTS = (("writer", "small-1"), ("coder", "large-2"), ("reviewer", "large-2"))
_ENTRIES_AROUND = 6
"""The entries of a driven run apart from those of its tasks: from the opening to the close."""
_ENTRIES_PER_CALL = 3
LONG_RUN = 5000
"""Entries of the longest run."""
_REPORTED, _WAITING = 10, 251
_FAILED, _STOPPED = 7, 23
"""Every so manieth run is reported by a program, waits at a gate, fails, or is stopped."""


def open_project(folder: Path) -> Forum:
    """Open the ledger of a folder, making the project where there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "forum.toml").write_text(PROJECT)
    forum = Forum(load_settings(folder, {"FORUM_STATE_DIR": str(folder / "state")}))
    forum.keys.initialise()
    return forum


def write_runs(
    forum: Forum, runs: int, entries: int, progress: Callable[[int], None] = lambda _: None
) -> list[str]:
    """Record so many runs with about so many entries in all, and return their names in order."""
    per_run = max(_ENTRIES_AROUND + _ENTRIES_PER_CALL, entries // max(1, runs))
    names = []
    with forum.log.open_writer() as ledger:
        for number in range(1, runs + 1):
            write = _write_reported if number % _REPORTED == 0 else _write_driven
            names.append(write(ledger, number, per_run))
            progress(number)
    return names


def _write_driven(ledger: Ledger, number: int, entries: int) -> str:
    """Record a run with a plan, as far as it comes."""
    run = new_run_id()
    calls = max(1, ceil((entries - _ENTRIES_AROUND) / _ENTRIES_PER_CALL))
    tasks = min(12, calls)
    waits, fails = number % _WAITING == 0, number % _FAILED == 0
    request = f"Write about {SUBJECTS[number % len(SUBJECTS)]}, number {number}."
    lane = LANES[number % len(LANES)]
    plan = Plan(tuple(Task(f"step-{at}", f"Part {at}: {request}") for at in range(1, tasks + 1)))
    cap = Amount(5_000_000_000, 10_000_000, 2 * calls)
    joint, main = ledger.join_appends(), ledger.new_strand(run, "main")
    begun = Timer(run, "main", due_now(run, "main", ledger.now()).at if waits else None)
    effects: tuple[Effect, ...] = (OpenBudgetAccount(run, cap), begun)
    accepted = kinds.AcceptedFacts(usd=cap.usd, tokens=cap.tokens, calls=cap.calls)
    *_, planned = joint.add(
        main,
        ledger.draft_opening("operator"),
        Draft(
            step="accepted",
            actor="operator",
            facts=accepted,
            bodies=(Attachment("request", text_content(request)),),
            effects=effects,
        ),
        Draft("route", "operator", kinds.RouteFacts(lane, kinds.Basis.GIVEN)),
        Draft(
            step="plan",
            actor="engine",
            facts=kinds.PlanFacts(tasks),
            bodies=(Attachment("plan", BytesContent(write_plan(plan)), "application/json"),),
        ),
    )
    for at in range(tasks):
        attempts = calls // tasks + (at < calls % tasks)
        drafts = _task_drafts(run, f"step-{at + 1}", attempts, number + at, fails=fails)
        parents = (planned.leaf,)
        first = Draft(drafts[0].step, drafts[0].actor, drafts[0].facts, parents,
                      bodies=drafts[0].bodies, effects=drafts[0].effects)  # fmt: skip
        joint.add(ledger.new_strand(run, f"task/step-{at + 1}"), first, *drafts[1:])
    if waits:
        _add_gate(ledger, joint, run, planned.leaf)
        joint.commit()
        return run
    stopped = number % _STOPPED == 0
    outcome = Outcome.DENIED if stopped else Outcome.FAILED if fails else Outcome.OK
    if stopped:
        stop = kinds.StopFacts(
            kinds.StopReason.BUDGET, limit="usd", asked=9, used=cap.usd, cap=cap.usd, by="step-1"
        )
        joint.add(main, Draft("stop", "engine", stop))
    else:
        answer = Attachment("answer", text_content(f"All is said of {request}"))
        facts = kinds.AnswerFacts(outcome, tasks)
        joint.add(main, Draft("answer", "engine", facts, bodies=(answer,)))
    joint.commit()
    ledger.close_run(main, "engine", outcome)
    return run


def _task_drafts(run: str, task: str, attempts: int, number: int, *, fails: bool) -> list[Draft]:
    drafts = []
    for attempt in range(1, attempts + 1):
        agent, model = AGENTS[(number + attempt) % len(AGENTS)]
        usd, tokens = 1_000_000 + 1000 * (number % 500), 700 + number % 300
        is_last = attempt == attempts
        following = (kinds.Next.GIVE_UP if fails else kinds.Next.ACCEPT) if is_last else (
            kinds.Next.RETRY
        )  # fmt: skip
        passed = Outcome.OK if following is kinds.Next.ACCEPT else Outcome.FAILED
        reserved, spent = Amount(2 * usd, 2 * tokens, 1), Amount(usd, tokens, 1)
        drafts += [
            Draft(
                step=f"call/{attempt}.1",
                actor="engine",
                facts=kinds.CallFacts(
                    agent, model, attempt, turn=1, usd=reserved.usd, tokens=reserved.tokens
                ),
                bodies=(Attachment("prompt", text_content(f"Do {task}, attempt {attempt}.")),),
                effects=(BudgetCharge(run, reserved),),
            ),
            Draft(
                step=f"reply/{attempt}.1",
                actor=agent,
                facts=kinds.ReplyFacts(Outcome.OK, usd=usd, tokens=tokens, prices="list/1"),
                bodies=(Attachment("output", text_content(f"The result of {task}. " * 8)),),
                effects=(BudgetCharge(run, spent.minus(reserved), guarded=False),),
            ),
            Draft(
                step=f"verdict/{attempt}",
                actor="engine",
                facts=kinds.VerdictFacts(attempt, passed, Check.OUTCOME, following),
            ),
        ]
    return drafts


def _add_gate(ledger: Ledger, joint: JointAppend, run: str, parent: Any) -> None:  # noqa: ANN401  a hash
    day = 24 * 3600 * 1000
    facts = kinds.GateOpenFacts("task/publish", 30 * day, Answer.REJECT)
    shown = Attachment("shown", text_content("Publish the report."))
    timer = Timer(run, "gate/task/publish", ledger.now() + 30 * day * 1000)
    draft = Draft(
        "open", actor="engine", facts=facts, parents=(parent,), bodies=(shown,), effects=(timer,)
    )
    joint.add(ledger.new_strand(run, "gate/task/publish"), draft)


def _write_reported(ledger: Ledger, number: int, entries: int) -> str:
    """Record a run that another program reports: an entry for each of its spans."""
    run, joint = new_run_id(), ledger.join_appends()
    main = ledger.new_strand(run, "main")
    source = source_draft(
        run,
        f"crew {number}: {SUBJECTS[number % len(SUBJECTS)]}",
        ReportSourceFacts(ReportProvenance.REPORTED, "key/sdk"),
    )
    *_, opened = joint.add(main, ledger.draft_opening("crew"), source)
    writer = ReportedRunWriter(ledger, run, opened.leaf)
    for at in range(max(1, entries - 3)):
        facts = ReportStepFacts(
            op=Operation.MODEL,
            name=f"step-{at}",
            outcome=Outcome.OK,
            span=f"{at:016x}",
            micros=1000,
            agent="crew",
            model="small-1",
            input_tokens=100,
            output_tokens=20,
            usd=0 if number % 20 else 10_000,
            prices="" if number % 20 else "list/1",
        )
        joint.add(writer.new_strand(facts.span), writer.step_draft(facts))
    joint.commit()
    ledger.close_run(main, "crew", Outcome.OK)
    return run


@contextmanager
def counted_statements() -> Iterator[list[str]]:
    """Yield a list to which the name of every query of a reader is added."""
    statements: list[str] = []
    plain = SqlQueries._fetch_rows  # noqa: SLF001

    def fetch(self: SqlQueries, query: str, **parameters: object) -> list[Any]:
        statements.append(query)
        return plain(self, query, **parameters)

    SqlQueries._fetch_rows = fetch  # type: ignore[method-assign]  # noqa: SLF001
    try:
        yield statements
    finally:
        SqlQueries._fetch_rows = plain  # type: ignore[method-assign]  # noqa: SLF001


def measure_request(forum: Forum, path: str) -> dict[str, Any]:
    """Return what a request costs: the best of five, after one that is not counted."""
    with TestClient(make_app(ServerConfig([Tenant(forum)])), "http://localhost") as client:
        client.headers["Authorization"] = f"Bearer {forum.access.operator_token()}"
        client.get(path)
        cpu, wall = [], []
        with counted_statements() as statements:
            for _ in range(5):
                begun, worked = perf_counter(), process_time()
                answer = client.get(path)
                wall.append(perf_counter() - begun)
                cpu.append(process_time() - worked)
                answer.raise_for_status()
        return {
            "runs": len(answer.json().get("runs", ())),
            "bytes": len(answer.content),
            "cpu_ms": round(1000 * min(cpu), 1),
            "wall_ms": round(1000 * min(wall), 1),
            # The follower of the log polls for its checkpoint meanwhile.
            "statements": sum(name not in {"checkpoint", "head"} for name in statements) // 5,
        }


PATHS = (
    "/api/v1/runs?limit=100",
    "/api/v1/runs?limit=100&state=waiting",
    "/api/v1/runs?limit=100&outcome=failed",
    "/api/v1/runs?limit=100&text=number%204999.",
    "/api/v1/runs?limit=100&lane=backend",
    "/api/v1/costs?by=day",
    "/api/v1/costs?by=agent",
)


def main(arguments: list[str]) -> None:
    """Make the ledger where there is none, list its runs and add up their costs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks runs")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--make-only", action="store_true", help="make the ledger, measure nothing")
    asked = parser.parse_args(arguments)
    is_new = not (asked.folder / "forum.toml").exists()
    with open_project(asked.folder) as forum:
        if is_new:
            write_runs(forum, asked.runs, asked.entries)
            # One that is long to scroll; it is the newest.
            write_runs(forum, 1, LONG_RUN)
            forum.log.publish()
        figures: dict[str, Any] = {"entries": forum.store.head().size}
        if not asked.make_only:
            figures |= {path: measure_request(forum, path) for path in PATHS}
    print(json.dumps(figures, indent=2))
