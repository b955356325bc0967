"""`python -m benchmarks team`: how complete a team answers, and whether its judge sees errors.

A simulated competent model (`benchmarks.team_model`) plays all roles and the workers, behind the
OpenAI API in a process of its own.  It can use only what stands in its prompt, so a fact that the
answer lacks was lost by Forum: left out of a prompt, of a plan or of an answer.  The runs are those
of `forum submit --team`: a project file with the models, the planner, a worker in a process of its
own, and a ledger in SQLite.

The workers' model plants errors into a share of its results; the judge is another model.  The same
requests are put to the model in direct calls, for comparison.

fact_recall              share of the facts that complete answers need and the answers have, of
                         requests that fit into the context; goal 0.98
fact_recall_over_context the same for requests longer than the context
planted_errors_caught    share of the wrong results that the judge rejected; goal 0.95
false_alarms             share of the right results that the judge rejected; at most 0.05
asks_covered             share of the requests with several asks whose answer meets all of them, of
                         those that fit; goal 0.98
lane_obeyed              share of the requests with an ordered lane of which all tasks are in it
tokens_ratio             tokens of the team for one token of the direct call, by kind

forum_engine             the same figures of forum-engine 1.17.0, as far as it can play

The form of the requests (`--dump`, `--requests`) is said in `benchmarks.team_requests`, and what
the model understands in `benchmarks.team_skills`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2

from benchmarks import reference, team_lookup, team_requests
from benchmarks.ledger import say
from benchmarks.sides import LOOK_SECONDS, Server, open_forum
from benchmarks.team_requests import TeamRequest, reply_tokens
from benchmarks.team_skills import Material, answer_asks, asks_of, find_faults
from forum.app import Forum
from forum.app.planner import CallerAuthority, Planner
from forum.config import load_settings
from forum.engine import RunRequest
from forum.engine.context import read_body, read_last_facts
from forum.ledger.kinds import Outcome, RunCloseFacts
from forum.runs.kinds import Next
from forum.runs.policy import Policy, Role, ToolSpec
from forum.runs.run_fold import TaskRun

COUNT = 200
AT_ONCE = 12
"""How many runs are carried out at once."""
PATIENCE_SECONDS = 300.0
MAX_TOOL_ROUNDS = 4
TOOL = "lookup"
_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}

PROJECT = """\
[models.capable]
url = "{url}"
model = "sim-{k}k-careless"
context_tokens = {context}
max_tokens = {reply}

[models.frontier]
url = "{url}"
model = "sim-{k}k"
context_tokens = {context}
max_tokens = {reply}

[roster]
file = "roster.toml"
rung = "lexical"
"""

ROSTER = """\
[[lane]]
name = "records"
does = "Answers questions from documents and records, compares offers and decides between them."
tools = ["lookup"]
terms = ["fact", "facts", "document", "notes", "compare", "answer", "offers", "list", "question"]
phrases = ["list every fact", "answer from the notes"]
examples = ["List every fact of the sections A and B of the document below."]

[[lane]]
name = "review"
does = "Reviews changes of programs against their intention."
tools = ["lookup"]
terms = ["diff", "review", "code", "change", "bound", "argument"]
phrases = ["review the diff"]
examples = ["Review the diff of the files a.py and b.py against its intention."]
"""


def main(arguments: list[str]) -> None:
    """Play requests, and print the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks team",
        description=__doc__,
        epilog=team_requests.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--seed", type=int, default=1, help="of the generated requests")
    parser.add_argument("--count", type=int, default=COUNT, help="how many are generated")
    parser.add_argument("--requests", type=Path, help="play the requests of this file instead")
    parser.add_argument("--dump", type=Path, help="write the requests to a file, and end")
    parser.add_argument("--keep", type=Path, help="keep the ledger in this new folder")
    parser.add_argument("--alone", action="store_true", help="do not play forum-engine")
    options = parser.parse_args(arguments)
    requests = (
        team_requests.read_requests(options.requests)
        if options.requests
        else team_requests.generate_requests(options.seed, options.count)
    )
    if options.dump:
        team_requests.write_requests(options.dump, requests)
        return
    with tempfile.TemporaryDirectory() as scratch:
        figures = measure(options.keep or Path(scratch), requests, with_reference=not options.alone)
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:<26} {value}")


def measure(
    folder: Path, requests: Sequence[TeamRequest], *, with_reference: bool = True
) -> dict[str, Any]:
    """Return all figures; what a reader compares with the goals comes first."""
    started = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    with model_server(folder / "model.log") as url:
        say(f"{len(requests)} requests to one model")
        direct = call_directly(url, requests)
        say(f"{len(requests)} requests to a team")
        played = play_requests(folder, url, requests)
        seconds = round(time.monotonic() - started, 1)
        if with_reference:
            say(f"{len(requests)} requests to {reference.PACKAGE}")
            theirs = play_reference(url, requests)
    planted = read_log(folder / "model.log")
    figures = summarize(requests, played, direct, planted) | {"seconds": seconds}
    if with_reference:
        figures["forum_engine"] = reference_figures(requests, theirs, direct, planted)
    return figures


@contextmanager
def model_server(log: Path) -> Iterator[str]:
    """Start the simulated model, and return its address."""
    command = [sys.executable, "-m", "benchmarks.team_model", str(log)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().decode().strip()
        finally:
            process.kill()


def read_log(file: Path) -> dict[str, str]:
    """Return the planted error of each result by its digest; empty for right results."""
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    return {entry["reply"]: entry["error"] for entry in entries}


# Direct calls


@dataclass(frozen=True, slots=True)
class DirectAnswer:
    """The answer of one model without a team."""

    answer: str
    tokens: int
    fits: bool = True
    """Whether the model can be shown the request and still reply."""


def call_directly(url: str, requests: Sequence[TeamRequest]) -> list[DirectAnswer]:
    """Put each request to the model itself, which may use the tool."""
    with httpx2.Client(timeout=120, trust_env=False) as client:
        return [_call_directly(client, url, request) for request in requests]


def _call_directly(client: httpx2.Client, url: str, request: TeamRequest) -> DirectAnswer:
    messages: list[dict[str, Any]] = [{"role": "user", "content": request.request}]
    offer = {"type": "function", "function": {"name": TOOL, "parameters": _SCHEMA}}
    body = {
        "model": f"sim-{request.context_tokens // 1024}k",
        "max_tokens": reply_tokens(request.context_tokens),
        "messages": messages,
    } | ({"tools": [offer]} if request.tools else {})
    tokens = 0
    for _ in range(MAX_TOOL_ROUNDS):
        response = client.post(f"{url}/chat/completions", json=body)
        reply = response.json()
        if response.status_code != 200:
            # Refused after the use of a tool: the request itself has fitted.
            return DirectAnswer("", tokens, fits=bool(tokens))
        tokens += sum(reply["usage"].values())
        message = reply["choices"][0]["message"]
        calls = message.get("tool_calls", [])
        if not calls:
            return DirectAnswer(message["content"], tokens)
        messages.append(message)
        for call in calls:
            name = json.loads(call["function"]["arguments"])["name"]
            outcome = team_lookup.look_up(request.tools, name, request.notes)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": outcome})
    return DirectAnswer("", tokens)


# Runs of a team


@dataclass(frozen=True, slots=True)
class JudgedResult:
    """A result of a worker, the instruction of its task, and whether it was accepted."""

    task: str
    text: str
    instruction: str
    accepted: bool

    @property
    def digest(self) -> str:
        """The digest by which the model logs the result."""
        return sha256(f"{self.task}\n{self.text}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class PlayedRun:
    """What a run of a team came to."""

    run: str
    outcome: str
    answer: str
    tokens: int
    tasks: int
    lanes: frozenset[str]
    results: tuple[JudgedResult, ...]
    calls: Counter[str] = field(default_factory=Counter)
    """The number of calls of each role; those of workers without a name."""
    refused: int = 0
    """Calls that the model refused because the prompt was too long."""


def play_requests(folder: Path, url: str, requests: Sequence[TeamRequest]) -> list[PlayedRun]:
    """Submit requests to a ledger, have a worker carry them out, and read what was recorded."""
    ledger = folder / "ledger"
    forum = open_forum(ledger, None)
    server = Server("benchmarks.serving", str(ledger))
    try:
        server.wait()
        orders = OrderMaker(folder, url)
        runs = finish_runs(forum, [partial(orders.make, *pair) for pair in enumerate(requests)])
        return [read_run(forum, run) for run in runs]
    finally:
        server.close()
        forum.close()


def finish_runs(forum: Forum, orders: Sequence[Callable[[], RunRequest]]) -> list[str]:
    """Carry out orders, `AT_ONCE` at a time, and return their runs."""
    runs, waiting = list[str](), set[str]()
    left = list(orders[::-1])
    deadline = time.monotonic() + PATIENCE_SECONDS
    while left or waiting:
        while left and len(waiting) < AT_ONCE:
            run = forum.runs.submit(left.pop()())
            runs.append(run)
            waiting.add(run)
        time.sleep(LOOK_SECONDS)
        ended = {run for run in waiting if _has_ended(forum, run)}
        if ended:
            waiting -= ended
            deadline = time.monotonic() + PATIENCE_SECONDS
        assert time.monotonic() < deadline, f"{len(waiting)} runs do not end: {waiting}"
    return runs


def _has_ended(forum: Forum, run: str) -> bool:
    return isinstance(read_last_facts(forum.ledger, run), RunCloseFacts)


class OrderMaker:
    """Makes the orders of requests, as `forum submit --team` does, by project files."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder, self._url = folder, url
        self._planners: dict[int, Planner] = {}

    def make(self, number: int, request: TeamRequest) -> RunRequest:
        """Return the order of a request."""
        planner = self._planners.get(request.context_tokens) or self._planner(request)
        team_settings = planner.team_settings
        policy = Policy(
            agents=team_settings.agents,
            roles=team_settings.roles,
            tools=self._tools(number, request),
        )
        run_request = RunRequest(request.request, None, policy)
        return planner.decide(run_request, CallerAuthority.OPERATOR, lane=request.lane, team=True)

    def _planner(self, request: TeamRequest) -> Planner:
        context = request.context_tokens
        home = self._folder / f"project-{context}"
        home.mkdir()
        (home / "roster.toml").write_text(ROSTER)
        (home / "forum.toml").write_text(
            PROJECT.format(
                url=self._url, k=context // 1024, context=context, reply=reply_tokens(context)
            )
        )
        self._planners[context] = Planner(load_settings(home, {"HOME": str(home)}))
        return self._planners[context]

    def _tools(self, number: int, request: TeamRequest) -> dict[str, ToolSpec]:
        if not request.tools:
            return {}
        table = self._folder / f"table-{number}.json"
        table.write_text(json.dumps(request.tools))
        argv = (sys.executable, "-I", team_lookup.__file__, str(table), str(request.notes))
        return {TOOL: ToolSpec(argv=argv, description="Looks up a value by name.", schema=_SCHEMA)}


def read_run(forum: Forum, run: str) -> PlayedRun:
    """Read from the ledger what a run came to."""
    view = forum.reads.view_run(run)
    tasks = view.state.tasks.values()
    calls = [call for task in tasks for call in task.calls if call.replied is not None]
    plan = view.plan.tasks if view.plan else ()
    replies = [call.replied for call in calls if call.replied]
    return PlayedRun(
        run=run,
        outcome=view.state.outcome.value if view.state.outcome else "",
        answer=(view.answer or b"").decode(errors="replace"),
        tokens=sum(reply.tokens for reply in replies),
        tasks=len(plan),
        lanes=frozenset(task.lane for task in plan),
        results=tuple(
            result
            for task in plan
            for result in judged_results(forum, view.state.task(task.id), task.instruction)
        ),
        calls=Counter(call.called.role for call in calls),
        refused=sum(reply.outcome is not Outcome.OK for reply in replies),
    )


def judged_results(forum: Forum, task: TaskRun, instruction: str) -> Iterator[JudgedResult]:
    """Return the results of a task's attempts on which there is a verdict."""
    for verdict in task.verdicts:
        own = [
            call
            for call in task.calls
            if call.called.attempt == verdict.attempt and not call.called.role and call.reply_at
        ]
        if own and own[-1].replied and own[-1].replied.outcome is Outcome.OK:
            at = own[-1].reply_at
            assert at
            text = read_body(forum.ledger, at, "output").decode(errors="replace")
            yield JudgedResult(task.id, text, instruction, verdict.next is Next.ACCEPT)


# forum-engine


def play_reference(url: str, requests: Sequence[TeamRequest]) -> list[PlayedRun]:
    """Put the requests to the team of forum-engine, with the same models."""
    orders = [
        {
            "request": request.request,
            "worker": f"sim-{request.context_tokens // 1024}k-careless",
            "model": f"sim-{request.context_tokens // 1024}k",
            "max_tokens": reply_tokens(request.context_tokens),
        }
        for request in requests
    ]
    return [_read_reference(played) for played in reference.play_team(url, orders)]


def _read_reference(played: dict[str, Any]) -> PlayedRun:
    """Return a run of forum-engine; its n-th verdict on a task is about the n-th result."""
    results, seen = [], Counter[str]()
    for result in played["results"]:
        name, text = result["id"], result["output"]
        verdicts = [verdict["ok"] for verdict in played["verdicts"] if verdict["id"] == name]
        if result.get("ok", True) and seen[name] < len(verdicts):
            instruction = played["tasks"].get(name, "")
            results.append(JudgedResult("", text, instruction, bool(verdicts[seen[name]])))
        seen[name] += 1
    return PlayedRun(
        run="",
        outcome="failed" if played["failure"] else "ok",
        answer=played["answer"],
        tokens=played["tokens"],
        tasks=len(seen),
        lanes=frozenset(),
        results=tuple(results),
    )


def reference_figures(
    requests: Sequence[TeamRequest],
    played: Sequence[PlayedRun],
    direct: Sequence[DirectAnswer],
    planted: dict[str, str],
) -> dict[str, Any]:
    """Return the figures that forum-engine can have: it takes no lane, and offers no tools here.

    Its workers are shown their instruction only, so hardly any of their results is complete. Its
    Synthesizer is shown the request, from which the model takes what the results lack.
    """
    figures = summarize(requests, played, direct, planted)
    names = (
        "fact_recall",
        "fact_recall_over_context",
        "planted_errors_caught",
        "false_alarms",
        "planted_errors",
        "right_results",
        "incomplete_results",
        "asks_covered",
        "tokens_ratio",
        "tokens_ratio_all",
        "fact_recall_by_kind",
        "outcomes",
    )
    return {"version": reference.VERSION, "lane_obeyed": None} | {n: figures[n] for n in names}


# Figures


def normalize(text: str) -> str:
    """Return a text as answers are compared: without case, with single spaces."""
    return " ".join(text.casefold().split())


def count_facts(request: TeamRequest, answer: str) -> int:
    """Return how many facts of a request an answer has."""
    text = normalize(answer)
    return sum(normalize(fact) in text for fact in request.facts)


def is_covered(request: TeamRequest, answer: str) -> bool:
    """Tell whether an answer meets all asks of a request."""
    text = normalize(answer)
    return all(normalize(part) in text for ask in request.asks for part in ask.contains)


def recall(pairs: Iterable[tuple[TeamRequest, str]]) -> float | None:
    """Return the share of facts that answers have; None without facts."""
    listed = list(pairs)
    needed = sum(len(request.facts) for request, _ in listed)
    return ratio(sum(count_facts(*pair) for pair in listed), needed)


def ratio(part: float, whole: float) -> float | None:
    """Return a share; None of nothing."""
    return round(part / whole, 4) if whole else None


def summarize(
    requests: Sequence[TeamRequest],
    played: Sequence[PlayedRun],
    direct: Sequence[DirectAnswer],
    planted: dict[str, str],
) -> dict[str, Any]:
    """Return the figures of all runs."""
    rows = list(zip(requests, played, direct, strict=True))
    fitting = [row for row in rows if row[2].fits]
    over = [row for row in rows if not row[2].fits]
    parted = [(request, run) for request, run, _ in fitting if len(request.asks) > 1]
    ordered = [(request, run) for request, run, _ in rows if request.lane]
    return {
        "fact_recall": recall((request, run.answer) for request, run, _ in fitting),
        "fact_recall_over_context": recall((request, run.answer) for request, run, _ in over),
        **judge_figures(requests, played, planted),
        "asks_covered": ratio(sum(is_covered(r, run.answer) for r, run in parted), len(parted)),
        "lane_obeyed": ratio(sum(run.lanes == {r.lane} for r, run in ordered), len(ordered)),
        "tokens_ratio": by_kind(fitting, tokens_ratio),
        "tokens_ratio_all": tokens_ratio(fitting),
        "fact_recall_by_kind": by_kind(fitting, run_recall),
        "fact_recall_by_context": {
            str(size): run_recall([row for row in fitting if row[0].context_tokens == size])
            for size in sorted({row[0].context_tokens for row in fitting})
        },
        "direct": {
            "fact_recall": recall((r, d.answer) for r, _, d in fitting),
            "unanswered": sum(not answer.answer for answer in direct),
        },
        "requests": len(rows),
        "over_context": len(over),
        "ordered_lanes": len(ordered),
        "outcomes": Counter(run.outcome for run in played),
        "tasks": dict(sorted(Counter(run.tasks for run in played).items())),
        "calls": sum((run.calls for run in played), Counter[str]()),
        "summaries": sum(run.calls[Role.SUMMARIZER] for run in played),
        "failed_calls": sum(run.refused for run in played),
        "incomplete": [
            {"number": number, "run": run.run, "kind": r.kind, "outcome": run.outcome}
            for number, (r, run, alone) in enumerate(rows)
            if alone.fits and count_facts(r, run.answer) < len(r.facts)
        ],
    }


Row = tuple[TeamRequest, PlayedRun, DirectAnswer]


def by_kind(
    rows: Sequence[Row], figure: Callable[[Sequence[Row]], float | None]
) -> dict[str, float | None]:
    """Return a figure for the requests of each kind."""
    kinds = defaultdict[str, list[Row]](list)
    for row in rows:
        kinds[row[0].kind].append(row)
    return {kind: figure(chosen) for kind, chosen in kinds.items()}


def tokens_ratio(rows: Sequence[Row]) -> float | None:
    """Return the tokens of the team for each token of the direct calls."""
    pairs = [(run.tokens, direct.tokens) for _, run, direct in rows if direct.answer]
    return ratio(sum(team for team, _ in pairs), sum(alone for _, alone in pairs))


def run_recall(rows: Sequence[Row]) -> float | None:
    """Return the recall of the team's answers."""
    return recall((request, run.answer) for request, run, _ in rows)


def judge_figures(
    requests: Sequence[TeamRequest], played: Sequence[PlayedRun], planted: dict[str, str]
) -> dict[str, Any]:
    """Return how often the judge rejected wrong results, and right ones.

    A result without a planted error is right if it holds all that its task asks for of the whole
    request and the tool's table.  Otherwise its author was not shown everything.
    """
    pairs = [(r, result) for r, run in zip(requests, played, strict=True) for result in run.results]
    wrong = [result for _, result in pairs if planted.get(result.digest)]
    others = [pair for pair in pairs if not planted.get(pair[1].digest)]
    right = [result for request, result in others if is_complete(request, result)]
    errors = Counter(planted[result.digest] for result in wrong)
    missed = Counter(planted[result.digest] for result in wrong if result.accepted)
    return {
        "planted_errors_caught": ratio(sum(not result.accepted for result in wrong), len(wrong)),
        "false_alarms": ratio(sum(not result.accepted for result in right), len(right)),
        "planted_errors": dict(errors),
        "planted_errors_missed": dict(missed),
        "right_results": len(right),
        "incomplete_results": len(others) - len(right),
    }


def is_complete(request: TeamRequest, result: JudgedResult) -> bool:
    """Tell whether a result holds all that its task asks for, by the whole request."""
    table = "\n".join(f"{name} is {value}." for name, value in request.tools.items())
    material = Material((request.request, table))
    is_whole = result.instruction.strip() in (request.request.strip(), "Answer the request.")
    asks = asks_of(request.request if is_whole else result.instruction)
    return not find_faults(result.text, answer_asks(asks, material), material)
