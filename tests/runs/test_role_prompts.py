"""What roles say, and what code finds in texts: whatever is said, it is read or refused, soon."""

import json
from collections.abc import Callable
from time import thread_time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forum.features.claims.service import find_claims
from forum.ledger.kinds import Outcome
from forum.runs.acceptance_criteria import (
    Check,
    check_criterion,
    find_schema_mismatch,
    parse_criteria,
    read_json,
)
from forum.runs.answer_checks import find_lost_facts, term_coverage
from forum.runs.claims import Receipt
from forum.runs.judging import judge_output
from forum.runs.plan import Plan
from forum.runs.policy import LaneBrief, Policy
from forum.runs.roles import classifier, coordinator, intent, opinions, reviser, synthesizer

POLICY = Policy(lanes={"law": LaneBrief(), "art": LaneBrief()})
TASKS = ("a", "b")
MEGABYTE = 1 << 20
SECONDS = 20
"""More than a megabyte takes on a busy machine, and much less than its square."""

# What somebody says who knows what is wanted, and who wants something else.
words = st.sampled_from(
    ["a", "b", "law", "none", "", "@intent", "../a", "\ud800", "\0", "json", "json {}", "matches ("]
) | st.text(max_size=8)
scalars = words | st.booleans() | st.none() | st.integers() | st.floats()
MEMBERS = (
    "lane tasks id instruction needs after covers asks done_when passed reason evidence missing "
    "ask met met_by parts from text agent budget"
)
members = st.sampled_from(MEMBERS.split())
values = st.recursive(
    scalars,
    lambda part: st.lists(part, max_size=4) | st.dictionaries(members | words, part, max_size=6),
    max_leaves=30,
)
drafted = st.fixed_dictionaries(
    {"id": words, "instruction": words},
    optional={"lane": words, "needs": st.lists(words, max_size=2), "done_when": words | scalars},
)
shaped = (
    st.fixed_dictionaries({"lane": words})
    | st.fixed_dictionaries({"tasks": st.lists(drafted | values, max_size=14)})
    | st.fixed_dictionaries({"passed": scalars, "reason": scalars})
    | st.fixed_dictionaries(
        {"parts": st.lists(st.fixed_dictionaries({"from": words, "text": words}), max_size=3)}
    )
    | st.fixed_dictionaries({"text": scalars})
)
written = (shaped | values).map(lambda value: json.dumps(value).encode())
fences = st.tuples(st.sampled_from([b"", b"```json\n", b"\xef\xbb\xbf"]), written).map(b"".join)
broken = st.tuples(written, st.binary(max_size=4), st.integers(0, 99)).map(
    lambda cut: cut[0][: cut[2]] + cut[1] + cut[0][cut[2] :]
)
search_strategy = st.binary() | written | fences | broken


def read_or_refuse(read: Callable[[], Any]) -> Any:  # noqa: ANN401  of any type
    """Return what was read, which can be recorded; nothing where it was refused."""
    try:
        return read()
    except ValueError as refused:
        str(refused).encode()  # the one who said it is told why
        return None


@given(search_strategy)
@example(b'{"lane": "law"}')
@example(b'{"passed": true, "reason": "\\ud800"}')
@example(b'{"tasks": [{"id": "a", "instruction": "\\ud800"}]}')
@example(b'{"parts": [{"from": "a", "text": "\\udfff"}]}')
@example(b'{"text": "\\ud83d"}')
@example(b'{"text": 1e999}')
def test_whatever_is_said_is_read_or_refused(data: bytes) -> None:
    """Nothing else comes of it; and what was read is text that can be recorded."""
    lane = read_or_refuse(lambda: classifier.parse_choice(data, POLICY.lanes))
    opinion = read_or_refuse(lambda: opinions.parse_opinion(data))
    answer = read_or_refuse(lambda: synthesizer.parse_parts(data, TASKS))
    revision = read_or_refuse(lambda: reviser.parse_revision(data))
    plan = read_or_refuse(lambda: coordinator.parse_plan(data, POLICY, "", "km"))
    judged = read_or_refuse(lambda: intent.parse_opinion(data))

    assert judged is None or judged.unmet_asks("Why? How?", "x") is not None
    assert plan is None or coordinator.find_holes(data, "Why? How?") is not None
    assert lane in (None, "", "law", "art")
    assert opinion is None or opinion.passed in (True, False)
    texts = [answer, revision, opinion and opinion.reason]
    assert all(text.encode().decode() == text for text in texts if text)
    assert answer is None or answer.rstrip().endswith(("[a]", "[b]"))
    if plan is not None:
        assert isinstance(plan, Plan)
        POLICY.check(plan)
        assert len(plan.tasks) <= 12
        assert not any(task.agent or task.tasks for task in plan.tasks)


@given(st.lists(drafted, min_size=1, max_size=3, unique_by=lambda task: task["id"]))
def test_a_plan_that_is_taken_can_be_run(tasks: list[dict[str, Any]]) -> None:
    """It passes the policy, has no checks by tools, and is the same when it is read again."""
    data = json.dumps({"tasks": tasks}).encode()
    plan = read_or_refuse(lambda: coordinator.parse_plan(data, POLICY, "", "km"))

    if plan is not None:
        POLICY.check(plan)
        demands = [demand for task in plan.tasks for demand in parse_criteria(task.done_when)]
        assert {demand.check for demand in demands} <= {
            Check.MODEL,
            Check.JSON,
            Check.MATCHES,
            Check.CONTAINS,
        }
        assert [task.id for task in plan.tasks] == [task["id"] for task in tasks]


demands = st.tuples(
    st.sampled_from(["", "json ", "matches ", "contains ", "tests ", "command ", "file "]),
    st.text() | written.map(bytes.decode),
).map("".join)


@given(demands, st.binary() | written)
@example('json {"$ref": "#"}', b"1")
@example('json {"$ref": "#/nope"}', b"1")
@example('json {"multipleOf": 0.5}', b"1" + b"0" * 400)
@example('json {"pattern": "\\ud800"}', b'"x"')
@example('json {"pattern": "x"}', b'"\\ud800"')
@example('json {"$id": "http://[", "$ref": "#/a"}', b"1")
def test_code_finds_something_in_every_text_or_nothing(done_when: str, output: bytes) -> None:
    """A demand that can be checked is checked; nothing raises but the refusal of a demand."""
    text = output.decode(errors="replace")
    is_known = True
    for demand in parse_criteria(done_when):
        try:
            check_criterion(demand)
        except ValueError:
            is_known = False
    claims = find_claims(output, [Receipt("e", "tool", done_when, text)])

    if is_known:
        assert judge_output(done_when, Outcome.OK, output).passed in (True, False)
    assert all(claim.text in text for claim in claims)
    assert 0 <= term_coverage(done_when, text) <= 1
    assert find_lost_facts(done_when, text, text) == ()


@given(st.text(), st.text(), st.text(), st.integers(0, 10**30))
def test_a_number_that_is_gone_is_reported(
    request: str, before: str, after: str, number: int
) -> None:
    """A text without it is another answer."""
    whole = f"{before} {number} {after}"
    cut = whole.replace(str(number), "many")

    assert any(str(number) in fact for fact in find_lost_facts(request, whole, cut))


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        ("It was -5 degrees.", "It was 5 degrees.", ("-5",)),
        ("It was \u22125 degrees.", "It was 5 degrees.", ("\u22125",)),
        ("It took 5-7 days.", "It took 5 days.", ("5-7",)),
        ("It cost 1,094 in all.", "It cost 1094 in all.", ("1,094",)),
        ("It was 5 degrees, it was.", "It was 5 degrees.", ()),
        ("Do not go. Do not stay.", "Do not go. Stay.", ("not",)),
    ],
)
def test_a_fact_that_is_another_one_is_reported(
    before: str, after: str, lost: tuple[str, ...]
) -> None:
    """A sign is part of its number; a word that turns a sentence around counts in each."""
    assert find_lost_facts("", before, after) == lost


UNIQUE = {"uniqueItems": True}
HEAVY: dict[str, Callable[[], object]] = {
    "escaped quotes": lambda: _refused('"' + '\\"' * (MEGABYTE // 2)),
    "brackets": lambda: _refused("[" * MEGABYTE),
    "open strings": lambda: _refused('"\n' * (MEGABYTE // 2)),
    "unlike objects": lambda: find_schema_mismatch(
        UNIQUE, [{"a": n} for n in range(MEGABYTE // 10)]
    ),
    "many integers": lambda: find_schema_mismatch(
        {"items": {"type": "integer"}}, list(range(MEGABYTE // 7))
    ),
    "a long sentence": lambda: find_claims(b"wrote a.b." * (MEGABYTE // 10), _receipts()),
    "many sentences": lambda: find_claims(b"I wrote x.md. " * (MEGABYTE // 14), _receipts()),
    "no sentence": lambda: find_claims(b"." * MEGABYTE, _receipts()),
    "claims denied in four languages": lambda: find_claims(
        b"not ran, nicht gelesen, pas lu, no borrado. " * (MEGABYTE // 44), _receipts()
    ),
    "many clauses": lambda: find_claims(b"ran, " * (MEGABYTE // 5), _receipts()),
    "a clause of verbs": lambda: find_claims(b"I ran tests!" * (MEGABYTE // 12), _receipts()),
    "names without an end": lambda: find_claims(b"ran " + b"a-/@." * (MEGABYTE // 5), _receipts()),
    "many tests": lambda: judge_output("", Outcome.OK, b"1 tests passed" * (MEGABYTE // 14)),
    "many lines": lambda: parse_criteria("json\n" * (MEGABYTE // 5)),
    "many terms": lambda: term_coverage("elbe " * (MEGABYTE // 5), "elbe" * (MEGABYTE // 4)),
    "many numbers": lambda: find_lost_facts("", "1 2," * (MEGABYTE // 4), "`" * MEGABYTE),
    "open code": lambda: find_lost_facts(
        "", "`a [b " * (MEGABYTE // 6), "http://" * (MEGABYTE // 7)
    ),
}


def _refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_json(text)


def _receipts() -> list[Receipt]:
    return [Receipt(str(n), "tool", "some/other.name " * 4000, "1 passed") for n in range(20)]


@pytest.mark.parametrize("heavy", HEAVY)
def test_a_megabyte_is_read_in_time_that_grows_with_it(heavy: str) -> None:
    """Whoever writes a text may want its reader to be busy for ever."""
    began = thread_time()  # the machine has other work
    HEAVY[heavy]()

    assert thread_time() - began < SECONDS


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("contains 429", "contains 429"),
        ("contains '1094 km'", "contains 1094 km"),
        ('contains "Retry-After"\nmatches [0-9]+', "contains Retry-After\nmatches [0-9]+"),
        ("contains 'bug' or 'issue'", "The result contains 'bug' or 'issue'"),
        ("contains 'Sum up both of the texts'", ""),
        ("a length is given", "a length is given"),
    ],
)
def test_a_criterion_of_a_model_is_read_as_it_was_meant(written: str, meant: str) -> None:
    """A small model quotes the text, or demands its own instruction: good work would fail."""
    task = {"id": "a", "instruction": "Sum up both of the texts.", "done_when": written}
    plan = coordinator.parse_plan(json.dumps({"tasks": [task]}).encode(), Policy(), "", "")

    assert plan.tasks[0].done_when == meant


def test_code_demands_only_texts_of_the_request() -> None:
    """What the Coordinator guesses of a result is for the judge: a right result may lack it."""
    written = 'contains "EUR  12"\ncontains 1094 km\nmatches [0-9]'
    task = {"id": "a", "instruction": "Find it.", "done_when": written}
    data = json.dumps({"tasks": [task]}).encode()

    def criteria(version: int) -> list[str]:
        policy = Policy(prompts=version)
        plan = coordinator.parse_plan(data, policy, "", "Is it eur\n12?")
        return plan.tasks[0].done_when.splitlines()

    assert criteria(4) == ["contains EUR  12", 'The result contains "1094 km"', "matches [0-9]"]
    assert criteria(3)[1] == "contains 1094 km", "a run keeps the rule that it began with"
