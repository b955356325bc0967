"""Plans, policies and entries of runs, as many as one likes."""

from collections.abc import Iterable
from itertools import count
from typing import Any

import msgspec
from hypothesis import strategies as st

from forum.ledger.entry import Commitment, Entry, Facts, leaf_of
from forum.ledger.kinds import LEDGER_KINDS
from forum.runs.kinds import WORK_KINDS
from forum.runs.plan import Plan, RunBudget, Task
from forum.runs.policy import (
    Agent,
    Answer,
    Api,
    Chat,
    Command,
    LaneBrief,
    McpServer,
    Policy,
    Role,
    Scripted,
    ScriptStep,
    ToolCall,
    ToolSpec,
)
from forum.runs.run_fold import IdentifiedEntry
from forum.tlog import hash_leaf
from tests.ledger.samples import counts, facts_of

KINDS = LEDGER_KINDS | WORK_KINDS

names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
words = texts.filter(str.strip)
lines = words.map(lambda text: " ".join(text.split())).filter(bool)
budgets = st.builds(RunBudget, counts, counts, counts, counts, counts)

uses = st.builds(ToolCall, texts, texts)
moves = st.builds(
    ScriptStep, texts, st.tuples(uses) | st.just(()), texts, counts, st.none() | counts, counts
)
scripts = st.dictionaries(texts, st.lists(moves, max_size=2).map(tuple), max_size=2)
chats = st.builds(
    Chat,
    texts,
    texts,
    st.sampled_from(Api),
    max_tokens=counts,
    input_usd=st.none() | counts,
    output_usd=st.none() | counts,
)
agents: st.SearchStrategy[Agent] = st.one_of(
    st.builds(Scripted, scripts, counts, counts),
    st.builds(Command, st.lists(texts, max_size=3).map(tuple), counts, counts, counts),
    chats,
)
servers = st.builds(McpServer, st.lists(texts, max_size=3).map(tuple), texts)
tools = st.builds(
    ToolSpec,
    st.lists(texts, max_size=3).map(tuple),
    st.none() | servers,
    texts,
    counts,
    texts,
    st.dictionaries(texts, texts, max_size=2),
)
briefs = st.builds(LaneBrief, texts, texts, texts, st.lists(texts, max_size=2).map(tuple))
policies = st.builds(
    Policy,
    agents=st.dictionaries(texts, agents, max_size=3),
    tools=st.dictionaries(texts, tools, max_size=2),
    servers=st.dictionaries(texts, servers, max_size=1),
    lanes=st.dictionaries(texts, briefs, max_size=2),
    roles=st.dictionaries(st.sampled_from(Role), texts, max_size=3),
    context=st.lists(texts, max_size=2).map(tuple),
    verifiers=st.lists(texts, max_size=2).map(tuple),
    parallel=counts,
    retries=counts,
    ladder=st.lists(texts, max_size=3).map(tuple),
    backoff_milliseconds=counts,
    call_milliseconds=counts,
    turns=counts,
    input_bytes=counts,
    repeats=counts,
    gates=st.lists(texts, max_size=3).map(tuple),
    gate_milliseconds=counts,
    gate_default=st.sampled_from(Answer),
)


IDS = ["a", "b-2", "c_3", "D.4", "5", "long" * 10, "g", "h"]


@st.composite
def plans(draw: st.DrawFn, most: int = 8, *, nested: bool = True) -> Plan:
    """Draw a plan in which tasks wait for any others, in any order, and may be plans themselves."""
    ids = IDS[: draw(st.integers(1, most))]
    tasks = []
    for n, name in enumerate(ids):
        upstream = draw(st.lists(st.sampled_from(ids[:n]), unique=True)) if n else []
        fed = draw(st.integers(0, len(upstream)))
        within = draw(plans(3, nested=False)).tasks if nested and draw(st.booleans()) else ()
        task = Task(
            name,
            instruction=draw(words),
            done_when=draw(lines.map(lambda text: f"contains {text}") | st.just("")),
            needs=tuple(upstream[:fed]),
            after=tuple(upstream[fed:]),
            agent=draw(texts),
            tasks=within,
            budget=draw(st.just(RunBudget()) | budgets),
            lane=draw(texts),
        )
        tasks.append(task)
    return Plan(tuple(draw(st.permutations(tasks))))


STRANDS = [
    "main",
    "control",
    "task/a",
    "task/b",
    "role/coordinator",
    "gate/plan",
    "gate/task/a",
    "gate/effect/a/1",
    # What nobody writes, and a fold may yet be given:
    "task",
    "task/",
    "gate/",
    "elsewhere",
]

Said = tuple[str, Facts | msgspec.Raw, int]
"""A strand, what is said there, and when."""

facts = st.one_of(
    *(facts_of(kind) for kind in KINDS),
    st.just(msgspec.Raw(b'{"of":"a later release"}')),
)
sayings: st.SearchStrategy[Said] = st.tuples(st.sampled_from(STRANDS), facts, counts)


def tell(said: Iterable[Said]) -> list[IdentifiedEntry]:
    """Return the entries that say this, each the next one of its strand."""
    lengths = {name: count() for name in STRANDS}
    return [told(name, next(lengths[name]), facts, ts) for name, facts, ts in said]


def told(strand: str, n: int, facts: Facts | msgspec.Raw, ts: int = 0) -> IdentifiedEntry:
    """Return an entry of a run, and its id; what it shows is known by that."""
    kind = KINDS.kind_of(facts) if isinstance(facts, Facts) else None
    shown = hash_leaf(f"{strand}/{n}".encode()).hex()
    names = sorted(kind.bodies) if kind else []
    entry: Entry[Any] = Entry(
        v="forum/entry/1",
        log="example.com/log",
        run="run",
        strand=strand,
        n=n,
        prev=shown if n else "",
        step=f"step/{n}",
        ts=ts,
        actor="tester",
        kind=kind.name if kind else "later/1",
        parents=(),
        facts=facts,
        bodies={name: Commitment(shown, 1, "text/plain") for name in names},
    )
    return leaf_of(KINDS.write(entry)) if kind else hash_leaf(shown.encode()), entry
