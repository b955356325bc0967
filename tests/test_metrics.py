"""What is counted is what was recorded and paid here, and looking for a witness has an end."""

from bisect import bisect_right
from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.app import KINDS
from forum.ledger.entry import Entry, Facts, leaf_of
from forum.ledger.kinds import Outcome, RunCloseFacts
from forum.ledger.ports import EntryWrite, Position
from forum.metrics import (
    CALLS,
    DOLLARS,
    EntryCounters,
    Sample,
    find_newest_checkpoint,
)
from forum.runs.acceptance_criteria import Check
from forum.runs.council_end import UNDECIDED, Accord, CouncilCloseFacts, End, Ground
from forum.runs.kinds import CallFacts, Next, ReplyFacts, ReplyOrigin, VerdictFacts
from forum.runs.report_kinds import (
    Operation,
    ReportProvenance,
    ReportSourceFacts,
    ReportStepFacts,
)
from forum.tlog import EMPTY_ROOT, Checkpoint, parse_checkpoint, sign_checkpoint
from tests.support import Wrapped, key_of

ORIGIN = "test.example/metrics"


@cache
def note(size: int) -> bytes:
    """Return a signed checkpoint of a size."""
    return sign_checkpoint(Checkpoint(ORIGIN, size, EMPTY_ROOT), key_of(ORIGIN)).encode()


class Checkpoints:
    """The checkpoints of a log, and how often somebody asked for one."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes, self.asked = sizes, 0

    def checkpoint(self, most: int | None = None) -> bytes | None:
        """Return the largest, or the largest up to a size."""
        self.asked += 1
        at = len(self._sizes) if most is None else bisect_right(self._sizes, most)
        return note(self._sizes[at - 1]) if at else None


@given(
    st.lists(st.integers(1, 10**6), min_size=1, max_size=30, unique=True).map(sorted),
    st.integers(0, 30),
    st.integers(0, 30),
)
def test_the_last_cosigned_checkpoint_is_found(sizes: list[int], seen: int, before: int) -> None:
    """A witness that went away long ago is found in some forty look-ups, not in a million."""
    cosigned = set(sizes[:seen])
    known = note(sizes[before]) if before < min(seen, len(sizes)) else None
    store = Checkpoints(sizes)
    newest_checkpoint = find_newest_checkpoint(
        Wrapped(store), lambda data: parse_checkpoint(data).size in cosigned, known
    )

    assert (parse_checkpoint(newest_checkpoint).size if newest_checkpoint else 0) == max(
        cosigned, default=0
    )
    assert store.asked <= 45


def record(n: int, facts: Facts, strand: str = "task/a") -> EntryWrite:
    """Return an entry as it is appended."""
    entry = Entry(
        v="forum/entry/1",
        log=ORIGIN,
        run="run",
        strand=strand,
        n=n,
        prev="0" * 64 if n else "",
        step=f"step/{n}",
        ts=n,
        actor="tester",
        kind=KINDS.kind_of(facts).name,
        parents=(),
        facts=facts,
        bodies={},
    )
    data = KINDS.write(entry)
    return EntryWrite(Position("run", strand, n), data, leaf=leaf_of(data), bodies=(), effects=())


def counted(*facts: Facts) -> dict[str, float]:
    """Return what comes of entries, by name and labels."""
    counters = EntryCounters(KINDS)
    main = (RunCloseFacts, CouncilCloseFacts)
    for n, fact in enumerate(facts):
        counters.count([record(n, fact, "main" if isinstance(fact, main) else "task/a")])
    return {name_of(sample): sample.value for sample in counters.samples()}


def name_of(sample: Sample) -> str:
    """Return the name and labels of a sample, as they are told."""
    labels = ",".join(f'{name}="{value}"' for name, value in sample.labels)
    return sample.metric.name + (f"{{{labels}}}" if labels else "")


def test_a_reply_is_counted_for_the_model_that_was_called() -> None:
    """Providers answer under names of their own; operators know what they have called."""
    document = counted(
        CallFacts("writer", "small", 1, 1),
        ReplyFacts(Outcome.OK, usd=1_500_000_000, tokens=40, model="small-2026-11-01"),
        RunCloseFacts(Outcome.OK, 1),
    )

    assert document == {
        'forum_calls_total{model="small",outcome="ok"}': 1,
        'forum_tokens_total{model="small"}': 40,
        'forum_dollars_total{model="small"}': 1.5,
        'forum_runs_ended_total{outcome="ok"}': 1,
    }


def step(model: str, outcome: Outcome = Outcome.OK, code: str = "") -> ReportStepFacts:
    """Return a call that went through the gateway."""
    return ReportStepFacts(
        op=Operation.MODEL, name=model, outcome=outcome, span="0123456789abcdef",
        model=model, provider="openai", usd=500_000_000, micros=250_000, code=code,
    )  # fmt: skip


def test_calls_through_the_gateway_are_counted_by_provider_family_and_outcome() -> None:
    """A refused call was not made, so it is none of them."""
    made = [step("gpt-4o"), step("ft:gpt-4o-mini:me"), step("gpt-4o", Outcome.FAILED, "http-500")]
    tool = ReportStepFacts(Operation.TOOL, "shell", Outcome.OK, "0123456789abcdef")
    refused = step("gpt-4o", Outcome.DENIED, "budget")

    assert counted(*made, tool, refused) == {
        'forum_step_calls_total{provider="openai",family="gpt",outcome="ok"}': 2,
        'forum_step_calls_total{provider="openai",family="gpt",outcome="failed"}': 1,
        'forum_step_dollars_total{provider="openai",family="gpt"}': 1.5,
        'forum_step_seconds_total{provider="openai"}': 0.75,
        'forum_step_refusals_total{reason="budget"}': 1,
    }


def test_a_call_that_a_gateway_has_recorded_is_counted_there_alone() -> None:
    """A program under `forum run` may report it as well."""
    within = ReportSourceFacts(
        ReportProvenance.WRAPPED, by="process-1", trace="01a1f698-9590-791c-b9fc-9c84500e3f31"
    )
    for source in (within, ReportSourceFacts(ReportProvenance.REPORTED, by="forum-run")):
        assert counted(source, step("gpt-5")) == {}
    assert counted(ReportSourceFacts(ReportProvenance.RELAYED, by="forum-run"), step("gpt-5"))


def test_names_that_clients_make_up_are_not_each_a_series() -> None:
    """Whoever reports steps chooses their models and codes."""
    letters = [f"{a}{b}" for a in "abcdefghijklmnopqrst" for b in "abcdefghij"]
    many = [step(name) for name in letters]
    codes = [step("gpt-4o", Outcome.DENIED, f"code-{n}") for n in range(200)]
    document = counted(*many, *codes)

    assert sum(name.startswith("forum_step_calls") for name in document) == 101
    assert sum(name.startswith("forum_step_refusals") for name in document) == 101
    assert sum(n for name, n in document.items() if name.startswith("forum_step_calls")) == 200


@pytest.mark.parametrize("accord", Accord)
def test_a_council_that_decided_nothing_is_not_counted_as_ok(accord: Accord) -> None:
    """Its run ends with the outcome `ok`; the label is the word of the lists."""
    word = accord.value if accord in UNDECIDED else "ok"
    closed = CouncilCloseFacts(
        End.ROUNDS,
        ground=Ground.VOTE,
        accord=accord,
        rounds=1,
        ballots=3,
        changed=0,
        conformed=0,
        blockers=0,
        usd=0,
        tokens=0,
    )
    veto = VerdictFacts(
        1, outcome=Outcome.FAILED, check=Check.OUTCOME, next=Next.GIVE_UP, reason=accord
    )
    failed = accord.value if accord in UNDECIDED else "failed"

    assert counted(closed, RunCloseFacts(Outcome.OK, 1)) == {
        f'forum_runs_ended_total{{outcome="{word}"}}': 1
    }
    assert counted(veto, RunCloseFacts(Outcome.FAILED, 1)) == {
        f'forum_runs_ended_total{{outcome="{failed}"}}': 1
    }


def test_what_a_fork_takes_from_the_record_is_not_paid_again() -> None:
    """It was counted where it was said."""
    reply = ReplyFacts(Outcome.OK, usd=10**9, tokens=40, source=ReplyOrigin.RECORDED)

    assert counted(CallFacts("writer", "small", 1, 1), reply) == {}


def test_names_of_models_do_not_become_series_without_end() -> None:
    """Whoever submits may name models: a database of metrics keeps each name for months."""
    pairs = [
        (CallFacts("a", f"model-{n}", 1, 1), ReplyFacts(Outcome.OK, usd=1)) for n in range(300)
    ]
    document = counted(*(facts for pair in pairs for facts in pair))

    assert sum(name.startswith(f"{CALLS.name}{{") for name in document) <= 101
    assert document[f'{CALLS.name}{{model="other",outcome="ok"}}'] == 200
    assert any(name.startswith(DOLLARS.name) for name in document)
