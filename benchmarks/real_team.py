"""`python -m benchmarks real-team`: compare a team of a real model with the model alone.

Requests with checkable answers (`benchmarks.real_requests`) are submitted to Forum twice: to one
agent, as `forum submit --solo` does, and to a team, as `forum submit --team` does. The same model
plays the agent and all roles of the team, on this machine, with replies of at most 200 tokens and
no temperature. Programs check the answers; the score of an answer is the share of its checks.

Half of the requests come from `--seed`, which may be used while prompts are changed. The others,
`held_out`, come from a seed that is for measuring only.

quality        mean score of the answers, alone and of the team, and the mean difference of the two
               answers to one request, with its interval: the middle 95 % of 10,000 bootstrap
               samples of the requests
passed         share of the answers that meet all checks
tokens         of all calls for one request, in the mean; `tokens_ratio` is team to alone
cpu_seconds    of the model and of Forum, for one request, in the mean
failed         runs that did not end well, whatever their answer

--model smollm2            SmolLM2-135M, of `forum models pull smollm2`
--model NAME=FILE.gguf     any model that llama.cpp loads
--quick                    one request of each family, answered by a stub: shows that all parts work

Each request that was played is a line of `--results`. A second start with the same file plays only
what is missing; a last line that was cut by a kill is played again. Lines of other releases of
Forum are refused: choose another file.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import forum
from benchmarks.local_model import CONTEXT_TOKENS, serve_model
from benchmarks.real_requests import FAMILIES, RealRequest, generate_requests
from benchmarks.real_stub import STUB, serve_stub
from benchmarks.sides import process_cpu_seconds
from forum.app import Forum
from forum.app.planner import CallerAuthority, Planner, load_weights
from forum.engine import RunRequest
from forum.features.demo.project import create_project
from forum.runs.model_weights import SMOLLM2, SMOLLM2_GGUF
from forum.runs.plan import RunBudget
from forum.runs.policy import Chat, Policy

SEED = 1
HELD_OUT_SEED = 20_417_953
COUNT = 40
"""Requests in each half."""
MAX_TUNING = 200
"""Requests of the half for tuning that are kept out of the other half."""
MAX_REPLY_TOKENS = 200
MAX_CALLS = 40
CALL_MILLISECONDS = 600_000
RUN_MILLISECONDS = 3_600_000
SAMPLES = 10_000
WAYS = ("alone", "team")
HALVES = ("tuning", "held_out")


@dataclass(frozen=True, slots=True)
class PlayedAnswer:
    """The answer of one run, its score and its cost."""

    score: float
    outcome: str
    answer: str
    tokens: int
    calls: dict[str, int]
    """The number of calls of each role; those of workers are called `work`."""
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class PlayedRequest:
    """One request, played in both ways by one model: a line of the results."""

    code: str
    """The digest of Forum's sources."""
    model: str
    half: str
    number: int
    family: str
    request: str
    """The digest of the request."""
    alone: PlayedAnswer
    team: PlayedAnswer

    @property
    def key(self) -> tuple[str, str]:
        """What was played, by which model."""
        return self.model, self.request

    @property
    def difference(self) -> float:
        """By how much the team is better."""
        return self.team.score - self.alone.score


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that can be called, and how its CPU time is read."""

    url: str
    cpu_seconds: Callable[[], float]


def main(arguments: list[str]) -> None:
    """Play what is missing, and print the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks real-team",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="a stub instead of models")
    parser.add_argument("--model", action="append", help="smollm2, or NAME=FILE.gguf; repeatable")
    parser.add_argument("--half", choices=HALVES, action="append", help="both if not given")
    parser.add_argument("--seed", type=int, default=SEED, help="of the half for tuning")
    parser.add_argument("--held-out-seed", type=int, default=HELD_OUT_SEED)
    parser.add_argument("--count", type=int, default=COUNT, help="requests in each half")
    parser.add_argument("--threads", type=int, default=1, help="of the model")
    parser.add_argument("--results", type=Path, help="a file to go on with; made if missing")
    parser.add_argument("--keep", type=Path, help="keep the ledgers in this folder")
    options = parser.parse_args(arguments)
    seeds = {"tuning": options.seed, "held_out": options.held_out_seed}
    count = len(FAMILIES) if options.quick else options.count
    halves = ["tuning"] if options.quick else (options.half or list(HALVES))
    requests = {half: generate_half(half, seeds[half], count) for half in halves}
    models = [STUB] if options.quick else (options.model or [SMOLLM2.name])
    with tempfile.TemporaryDirectory() as scratch:
        results = ResultsFile(options.results or Path(scratch) / "results.jsonl")
        for model in models:
            play_missing(
                model, requests, results, options.keep or Path(scratch), threads=options.threads
            )
        names = {model.partition("=")[0] for model in models}
        lines = [line for line in results.lines if line.model in names and line.half in halves]
    figures = summarize(lines) | {"requests": count, "seeds": {h: seeds[h] for h in halves}}
    if options.json:
        print(json.dumps(figures))
    else:
        print_figures(figures)


def generate_half(half: str, seed: int, count: int) -> list[RealRequest]:
    """Return the requests of a half; none that may be used for tuning is held out."""
    tuning = generate_requests(SEED, MAX_TUNING) if half == "held_out" else []
    return generate_requests(seed, count, tuning)


class ResultsFile:
    """The lines of a file, one for each request that was played. Raises `SystemExit`."""

    def __init__(self, path: Path) -> None:
        self._path, self.lines = path, list[PlayedRequest]()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        whole, _, _cut = path.read_text().rpartition("\n")
        # A kill may have cut the last line: without its end it is removed, and played again.
        path.write_text(whole + "\n" if whole else "")
        for line in whole.splitlines():
            members = json.loads(line)
            members |= {way: PlayedAnswer(**members[way]) for way in WAYS}
            self.lines.append(PlayedRequest(**members))
        others = {line.code for line in self.lines} - {code_digest()}
        if others:
            sys.exit(f"{path} has results of another release of Forum: choose another --results")

    def append(self, played: PlayedRequest) -> None:
        """Write a line."""
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(played)) + "\n")
        self.lines.append(played)


@cache
def code_digest() -> str:
    """Return the digest of Forum's Python sources, and of the way in which requests are checked."""
    digest = sha256()
    places = [Path(forum.__file__).parent, Path(__file__).parent]
    for place, pattern in zip(places, ("**/*.py", "real_*.py"), strict=True):
        for file in sorted(place.glob(pattern)):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


# Playing


def play_missing(
    model: str,
    requests: dict[str, list[RealRequest]],
    results: ResultsFile,
    folder: Path,
    *,
    threads: int = 1,
) -> int:
    """Play the requests that have no line, one of each half in turn; return how many."""
    name = model.partition("=")[0]
    keys = {line.key for line in results.lines}
    missing = [
        (number, half, request)
        for half, listed in requests.items()
        for number, request in enumerate(listed)
        if (name, request_digest(request)) not in keys
    ]
    missing.sort(key=lambda each: each[0])
    if not missing:
        return 0
    with ExitStack() as stack:
        served = stack.enter_context(open_model(model, requests, threads))
        home = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=_made(folder)))
        ledger = stack.enter_context(Forum(create_project(home)[0]))
        ledger.keys.initialise()
        stack.enter_context(ledger.runs.run_worker())
        for place, (number, half, request) in enumerate(missing, 1):
            alone, team = (
                play_request(ledger, served, name, request, team=way == "team") for way in WAYS
            )
            line = PlayedRequest(
                code=code_digest(),
                model=name,
                half=half,
                number=number,
                family=request.family,
                request=request_digest(request),
                alone=alone,
                team=team,
            )
            results.append(line)
            print(
                f"{name} {place} of {len(missing)}: {half} {number} {request.family}: "
                f"alone {alone.score:.2f} in {alone.seconds:.0f} s, team {team.score:.2f} "
                f"({team.outcome}) in {team.seconds:.0f} s",
                file=sys.stderr,
                flush=True,
            )
    return len(missing)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def request_digest(request: RealRequest) -> str:
    """Return the digest of a request and its checks."""
    return sha256(repr((request.text, request.checks)).encode()).hexdigest()[:16]


@contextmanager
def open_model(
    model: str, requests: dict[str, list[RealRequest]], threads: int
) -> Iterator[ServedModel]:
    """Serve a model by its name on the command line."""
    name, _, file = model.partition("=")
    if name == STUB:
        with serve_stub([each for listed in requests.values() for each in listed]) as url:
            yield ServedModel(url, lambda: 0.0)
        return
    template = ""
    if model == SMOLLM2.name:
        file = str(load_weights(SMOLLM2) / SMOLLM2_GGUF.name)
        template = str(files("forum.features.demo").joinpath("smollm2.jinja"))
    if not Path(file).is_file():
        sys.exit(f"{model}: name the file of the model, as in NAME=FILE.gguf")
    with serve_model(Path(file), name, template, threads) as (url, pid):
        yield ServedModel(url, lambda: process_cpu_seconds(pid))


def play_request(
    ledger: Forum, served: ServedModel, model: str, request: RealRequest, *, team: bool
) -> PlayedAnswer:
    """Submit a request as `forum submit` does, follow its run, and check the answer."""
    chat = Chat(
        url=served.url,
        model=model,
        max_tokens=MAX_REPLY_TOKENS,
        options={"temperature": 0},
        context_tokens=CONTEXT_TOKENS,
    )
    policy = Policy(agents={"": chat}, call_milliseconds=CALL_MILLISECONDS, retries=1)
    budget = RunBudget(calls=MAX_CALLS, milliseconds=RUN_MILLISECONDS)
    run_request = RunRequest(request.text, None, policy, budget)
    started, model_cpu = time.monotonic(), served.cpu_seconds()
    own_cpu = time.process_time()
    planner = Planner(ledger.settings, any_model=True)
    decided = planner.decide(run_request, CallerAuthority.OPERATOR, team=team)
    run = ledger.runs.submit(decided)
    state = ledger.reads.follow_run(run)
    seconds = time.monotonic() - started
    cpu = served.cpu_seconds() - model_cpu + time.process_time() - own_cpu
    view = ledger.reads.view_run(run)
    answer = (view.answer or b"").decode(errors="replace")
    calls = [call for task in state.tasks.values() for call in task.calls if call.replied]
    return PlayedAnswer(
        score=request.score(answer),
        outcome=state.outcome.value if state.outcome else "",
        answer=answer,
        tokens=sum(call.replied.tokens for call in calls if call.replied),
        calls=dict(Counter(call.called.role or "work" for call in calls)),
        seconds=round(seconds, 2),
        cpu_seconds=round(cpu, 2),
    )


# Figures


def summarize(lines: Sequence[PlayedRequest]) -> dict[str, Any]:
    """Return the figures of each model, by half and by family."""
    return {
        "models": {
            model: {
                half: figures_of([x for x in lines if (x.model, x.half) == (model, half)])
                for half in HALVES
                if any((x.model, x.half) == (model, half) for x in lines)
            }
            for model in dict.fromkeys(line.model for line in lines)
        }
    }


def figures_of(lines: Sequence[PlayedRequest]) -> dict[str, Any]:
    """Return the figures of some requests, and those of each family."""
    families = {
        family: _figures([line for line in lines if line.family == family])
        for family in FAMILIES
        if any(line.family == family for line in lines)
    }
    return _figures(lines) | {"families": families}


def _figures(lines: Sequence[PlayedRequest]) -> dict[str, Any]:
    ways = {"alone": [line.alone for line in lines], "team": [line.team for line in lines]}
    differences = [line.difference for line in lines]

    def mean(values: Sequence[float]) -> float:
        return round(sum(values) / len(values), 4)

    tokens = {way: mean([each.tokens for each in ways[way]]) for way in WAYS}
    return {
        "requests": len(lines),
        "quality": {way: mean([each.score for each in ways[way]]) for way in WAYS},
        "difference": mean(differences),
        "interval": bootstrap_interval(differences),
        "passed": {way: mean([each.score == 1 for each in ways[way]]) for way in WAYS},
        "tokens": tokens,
        "tokens_ratio": round(tokens["team"] / tokens["alone"], 2) if tokens["alone"] else None,
        "cpu_seconds": {way: mean([each.cpu_seconds for each in ways[way]]) for way in WAYS},
        "failed": {way: sum(each.outcome != "ok" for each in ways[way]) for way in WAYS},
        "calls": {
            way: sum((Counter(each.calls) for each in ways[way]), Counter[str]()) for way in WAYS
        },
    }


def bootstrap_interval(differences: Sequence[float]) -> tuple[float, float]:
    """Return the middle 95 % of the means of samples, drawn with a fixed seed."""
    drawn, count = random.Random(0), len(differences)
    means = sorted(sum(drawn.choices(differences, k=count)) / count for _ in range(SAMPLES))
    return round(means[int(0.025 * SAMPLES)], 4), round(means[int(0.975 * SAMPLES) - 1], 4)


def print_figures(figures: dict[str, Any]) -> None:
    """Print a table."""
    heads = ("n", "alone", "team", "difference", "95 % interval", "tokens", "CPU s")
    print(f"{'':<34}" + "".join(f"{head:>18}" for head in heads))
    for model, halves in figures["models"].items():
        for half, whole in halves.items():
            for family, told in {"all": whole, **whole["families"]}.items():
                low, high = told["interval"]
                cells = (
                    str(told["requests"]),
                    f"{told['quality']['alone']:.2f}",
                    f"{told['quality']['team']:.2f}",
                    f"{told['difference']:+.2f}",
                    f"{low:+.2f} to {high:+.2f}",
                    f"{told['tokens']['alone']:.0f} / {told['tokens']['team']:.0f}",
                    f"{told['cpu_seconds']['alone']:.0f} / {told['cpu_seconds']['team']:.0f}",
                )
                print(f"{f'{model} {half} {family}':<34}" + "".join(f"{c:>18}" for c in cells))
