"""The requests of the benchmark with real models: right answers pass, and wrong ones do not."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import real_team
from benchmarks.code_cases import run_cases
from benchmarks.real_requests import FAMILIES, RealRequest, generate_requests
from benchmarks.real_stub import STUB
from forum.engine.prompt_fit import MAX_WHOLE_TOKENS
from forum.runs.text_fit import estimate_tokens

SEED = 3
"""Neither of the seeds of the benchmark."""
REQUESTS = generate_requests(SEED, 60)


def of_family(family: str, requests: Sequence[RealRequest] = REQUESTS) -> list[RealRequest]:
    """Return requests of one family; running code takes a process each, so fewer of that."""
    listed = [request for request in requests if request.family == family]
    return listed[:3] if family == "code" else listed


@pytest.mark.parametrize("family", FAMILIES)
def test_a_right_answer_meets_all_checks_and_each_wrong_one_misses_some(family: str) -> None:
    """The law of the checks, over every family."""
    for request in of_family(family):
        assert request.score(request.right) == 1, request
        assert request.wrong
        for answer in request.wrong:
            assert request.score(answer) < 1, (request, answer)


def test_every_role_is_shown_the_whole_of_these_requests() -> None:
    """Prompts of short requests do not change with how long ones are shown."""
    sizes = [estimate_tokens(request.text.encode()) for request in REQUESTS]

    assert max(sizes) < MAX_WHOLE_TOKENS


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_no_answer_scores_nothing(family: str) -> None:
    """Neither silence, nor the request itself, nor the answer to another request."""
    listed = of_family(family)
    for request, other in itertools.pairwise(listed):
        assert request.score("") == request.score("The request / The request") == 0
        assert request.score(request.text) < 1
        assert request.score(other.right) < 1 or request.right in other.right


def test_answers_are_read_in_the_forms_in_which_models_write_them() -> None:
    """Prose, Markdown and LaTeX around a right answer do not make it wrong."""
    asked = {family: of_family(family)[0] for family in FAMILIES}
    fields = json.loads(asked["extraction"].right)
    fenced = f"Here is the object:\n```json\n{json.dumps(fields, indent=2)}\n```\nDone."
    assert asked["extraction"].score(fenced) == 1
    assert asked["code"].score(f"Sure!\n{asked['code'].right}\nIt works.") == 1
    bold = "\n".join(f"**{x.replace(':', ':**')}" for x in asked["comparison"].right.splitlines())
    assert asked["comparison"].score(bold) == 1
    for request in of_family("arithmetic"):
        latex = "\n".join(
            f"{label}: \\( {number} \\, \\text{{{unit}}} \\)"
            for label, number, unit in (
                line.replace(":", "").split() for line in request.right.splitlines()
            )
        )
        assert request.score(latex) == 1, latex


def test_the_same_seed_makes_the_same_requests_and_another_makes_others() -> None:
    """A longer list begins with a shorter one, so that a measurement can be extended."""
    assert generate_requests(SEED, 10) == REQUESTS[:10]
    seeds = {"tuning": real_team.SEED, "held_out": real_team.HELD_OUT_SEED}
    halves = [real_team.generate_half(half, seed, 80) for half, seed in seeds.items()]
    texts = [{request.text for request in half} for half in halves]
    assert [len(half) for half in texts] == [80, 80]
    assert not texts[0] & texts[1], "a request of the held-out half is used while tuning"


@pytest.mark.parametrize(
    "code",
    [
        "def f(value):\n    return open('/etc/hostname').read()",
        "import socket\ndef f(value):\n    return socket.create_connection(('127.0.0.1', 22))",
        "import os\ndef f(value):\n    return os.listdir(os.path.expanduser('~'))[0]",
        "def f(value):\n    return 'a' * (1 << 33)",
        "def g(value):\n    return value",
        "def f(value: return",
        "raise SystemExit(0)",
        "print([[1]])\nraise SystemExit(0)",
    ],
    ids=["file", "network", "home", "memory", "name", "syntax", "exit", "forged"],
)
def test_code_of_a_model_reaches_nothing_and_fails_quietly(code: str) -> None:
    """It is run in the sandbox, with limits."""
    outputs = run_cases(code, "f", [1])

    assert outputs is None or outputs != [1]
    assert run_cases("def f(value):\n    return value", "f", [1, "a"]) == [1, "a"]


def test_a_measurement_goes_on_where_it_was_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stub answers right, in both ways; a cut line is played again, and no other."""
    file = tmp_path / "results.jsonl"
    arguments = ["--quick", "--json", "--results", str(file)]

    def figures() -> tuple[dict[str, Any], int]:
        real_team.main(arguments)
        printed = capsys.readouterr()
        return json.loads(printed.out), len(printed.err.splitlines())

    whole, played = figures()
    assert played == len(FAMILIES)
    tuning = whole["models"][STUB]["tuning"]
    assert tuning["quality"] == {"alone": 1, "team": 1}
    assert tuning["failed"] == {"alone": 0, "team": 0}
    assert tuning["difference"] == 0
    assert tuning["tokens_ratio"] >= 1
    assert set(tuning["families"]) == set(FAMILIES)

    file.write_text(file.read_text()[:-20])
    again, played = figures()
    assert played == 1
    assert again["models"][STUB]["tuning"]["quality"] == tuning["quality"]
    assert figures()[1] == 0

    lines = file.read_text()
    file.write_text(lines.replace(real_team.code_digest(), "another"))
    with pytest.raises(SystemExit, match="another release"):
        real_team.main(arguments)


def test_the_interval_is_that_of_the_mean() -> None:
    """It holds the mean, is a point if all differences are equal, and narrows with their number."""
    few, many = ([0.0, 1.0] * count for count in (5, 50))
    assert real_team.bootstrap_interval([0.5] * 9) == (0.5, 0.5)
    low, high = real_team.bootstrap_interval(few)
    assert 0 <= low < 0.5 < high <= 1
    narrow = real_team.bootstrap_interval(many)
    assert low < narrow[0] < 0.5 < narrow[1] < high
