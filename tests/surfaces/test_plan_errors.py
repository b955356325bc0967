"""Plan files that cannot be used: everything that is wrong with them, with line and column."""

import json
from pathlib import Path

import pytest

from forum.surfaces.cli.source_positions import SourcePositions
from tests.surfaces.terminal import Terminal

BAD_TOML = '''\
reqest = "x"
request = "Prepare"  # [[tasks]]

[budget]
usd = "much"

[[tasks]]
id = "build"
instrution = """
[[tasks]]
id = "no task"
"""

[[tasks]]
id = "build"
instruction = ""
needs = ["biuld",
  "test"]
done_when = "matches ["

[policy.agents.""]
kind = "scripted"
mves.x = []
'''
FAULTS = """\
plan.toml: 10 errors
  line 1, column 1: reqest: unknown key; did you mean request?
  line 5, column 1: budget.usd: 'much' is not a number
  line 7, column 1: tasks[0]: `instruction` is missing
  line 9, column 1: tasks[0].instrution: unknown key; did you mean instruction?
  line 15, column 1: tasks[1].id: another task is called 'build' already
  line 16, column 1: tasks[1].instruction: this is empty
  line 17, column 10: tasks[1].needs[0]: no task is called 'biuld'; did you mean build?
  line 18, column 3: tasks[1].needs[1]: no task is called 'test'
  line 19, column 1: tasks[1].done_when: """


def test_all_errors_are_told_at_once(tmp_path: Path) -> None:
    """Whoever writes a plan does not want to run it once for each mistake."""
    user = Terminal(tmp_path)
    (user.folder / "plan.toml").write_text(BAD_TOML)
    refused = user.call("submit", "--plan", "plan.toml")

    assert refused.exit_code == 2
    assert FAULTS in refused.stderr
    last = refused.stderr.rstrip("\n").split("\n")[-1]
    assert last == "  line 21, column 1: policy.agents.: Object contains unknown field `mves`"


def test_a_circle_is_told_where_the_tasks_are(tmp_path: Path) -> None:
    """It is wrong with none of them alone."""
    user = Terminal(tmp_path)
    tasks = '[{"id": "a", "instruction": "x", "after": ["a"]}]'
    (user.folder / "plan.json").write_text(f'{{"request": "x",\n "tasks": {tasks}}}')
    refused = user.call("submit", "--plan", "plan.json")

    assert "line 2, column 2: tasks: task 'a' waits for itself" in refused.stderr


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ({"decide": ["a", "b"], "needs": ["x"]}, "tasks[0].needs[0]: no task is called 'x'"),
        ({"decide": ["a"]}, "tasks[0].decide: decide: 1 options; a decision is between two"),
        ({"decide": "a"}, "tasks[0].decide: Expected `array`, got `str`"),
        ({"decied": ["a", "b"]}, "tasks[0].decied: unknown key; did you mean decide?"),
    ],
)
def test_a_decision_has_no_error_but_its_own(
    tmp_path: Path, task: dict[str, object], text: str
) -> None:
    """`decide` is a key of plan files, and no member of a recorded task."""
    user = Terminal(tmp_path)
    plan = {"request": "x", "tasks": [{"id": "pick", "instruction": "Pick.", **task}]}
    (user.folder / "plan.json").write_text(json.dumps(plan))
    refused = user.call("submit", "--plan", "plan.json")

    assert refused.exit_code == 2
    assert "1 error\n" in refused.stderr
    assert text in refused.stderr


DOCUMENT = """\
a = 1
"b.c".d = [ "x", # ]
  { e = '}', f = [2] } ]

[g.h]
i = '''
j = 1
'''
k = 2

[[l]]
m = 1
[[l.n]]
o = 1
[[l]]
[[l.n]]
[l.n.p]
q = 1
"""


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("a",), (1, 1)),
        (("b.c", "d", 0), (2, 13)),
        (("b.c", "d", 1), (3, 3)),
        (("b.c", "d", 1, "e"), (3, 5)),
        (("b.c", "d", 1, "f", 0), (3, 19)),
        (("g", "h"), (5, 1)),
        (("g", "h", "i"), (6, 1)),
        (("g", "h", "k"), (9, 1)),
        (("g", "h", "none"), (5, 1)),
        (("l", 0, "m"), (12, 1)),
        (("l", 0, "n", 0, "o"), (14, 1)),
        (("l", 1), (15, 1)),
        (("l", 1, "n", 0, "p", "q"), (18, 1)),
        (("none",), (1, 1)),
    ],
)
def test_every_value_of_a_file_has_a_place(
    path: tuple[str | int, ...], place: tuple[int, int]
) -> None:
    """Tables, arrays of tables, inline ones, strings of many lines and comments."""
    assert SourcePositions(DOCUMENT, is_json=False).find(path) == place


def test_json_has_places_too() -> None:
    """Also where a string looks like something else."""
    text = '{"a": "{\\"b\\": 1",\n "b": [1, {"c": null}], "d": {"#": 2}}'
    positions = SourcePositions(text, is_json=True)

    assert positions.find(("a",)) == (1, 2)
    assert positions.find(("b", 1, "c")) == (2, 12)
    assert positions.find(("d", "#")) == (2, 31)
