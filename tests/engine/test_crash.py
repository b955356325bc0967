"""The crash table: wherever a process dies, the next one goes on as if nothing had happened.

A whole run is played without a crash, and its commits are counted.  Then it is played again with a
crash before and after each of them, and a new process takes over.  What is recorded in the end is
what an unbroken run records, apart from calls that were lost and effects that nobody can vouch
for; and every ledger verifies.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from forum.engine import Order, read_run
from forum.ledger import Entry, Outcome
from forum.work import (
    Answer,
    Budget,
    Delegated,
    Happened,
    Move,
    Plan,
    Replied,
    Scripted,
    Task,
    Tool,
    Use,
    Why,
    write_plan,
)
from tests.engine.office import RUN, Cut, Hands, Office, Power, plan, quick
from tests.support import StoreFactory

ASK = Use("ask", '{"agent":"b","text":"how?"}')
PAY = Use("pay", "1")

FAILING = Order(
    "fails, is tried again, handed up and skipped",
    plan(
        Task("a", "x", "contains good"),
        Task("b", "x", needs=("a",)),
        Task("c", "x", needs=("b",)),
        Task("d", "x", after=("a",)),
    ),
    quick(
        agents={
            "": Scripted(
                {
                    "a": (Move(fail="503"), Move("bad")),
                    "b": (Move(fail="503"),),
                    "d": (Move("fine"),),
                },
                usd=5,
            ),
            "big": Scripted({"a": (Move("good"),), "b": (Move(fail="503"),)}, usd=7),
        },
        ladder=("big",),
        retries=1,
    ),
    Budget(usd=1000),
)

USING = Order(
    "asks, pays and waits for approval",
    plan(Task("a", "x"), Task("b", "x", needs=("a",))),
    quick(
        agents={
            "": Scripted(
                {
                    "a": (Move("hm", use=(ASK, PAY)), Move(fail="503"), Move("paid", use=(PAY,)), Move("ok")),
                    "b": (Move("done"),),
                }
            ),
            "b": Scripted({"*": (Move("so"),)}),
        },
        tools={"pay": Tool(("pay",))},
        gates=("task:b",),
    ),
)

NESTED = Order(
    "a plan within a plan",
    plan(
        Task("a", "x"),
        Task(
            "n",
            "x",
            needs=("a",),
            tasks=(Task("a", "x"), Task("z", "x", needs=("a",))),
            budget=Budget(usd=50),
        ),
        Task("c", "x", needs=("n",)),
    ),
    quick(agents={"": Scripted(usd=10)}),
    Budget(usd=100),
)

EDITED = Order(
    "a plan that is edited, and then costs too much",
    plan(Task("a", "x")),
    quick(agents={"": Scripted(usd=10), "dear": Scripted(usd=1000)}, gates=("plan",)),
    Budget(usd=500),
)
OTHER = plan(
    Task("a", "another"),
    Task("b", "x", needs=("a",), agent="dear"),
    Task("c", "x", needs=("b",)),
)

ORDERS = {"failing": FAILING, "using": USING, "nested": NESTED, "edited": EDITED}


def live(office: Office, order: Order) -> None:
    """Do what is left to be done of a run, as its workers and its people would."""
    from forum.engine import edit

    if not office.store.strands(RUN):
        office.accept(order)
    while office.work().outcome is None:
        gates = read_run(office.ledger, RUN).open_gates
        assert gates, "somebody must have the word"
        for gate in gates:
            subject, digest = gate.opened.subject, gate.digest
            if subject == "plan" and gate.shown_at.n == 0:
                digest = edit(office.ledger, RUN, subject, digest, write_plan(OTHER), "ann")
            office.decide(subject, Answer.APPROVE, digest=digest)


def outline(office: Office, run: str = RUN) -> dict[str, list[str]]:
    """Return what a run says, strand by strand, apart from what only a crash brings about."""
    strands: dict[str, list[str]] = {}
    inner: dict[str, list[str]] = {}
    for entry in office.entries(run):
        if entry.strand.startswith("gate/effect/") or entry.step.endswith("/settled"):
            continue
        said = strands.setdefault(entry.strand, [])
        if isinstance(entry.facts, Replied) and entry.facts.why is Why.LOST:
            said.pop()  # the call that was lost
        else:
            said.append(_summary(office, entry))
        if isinstance(entry.facts, Delegated):
            inner = {f"{entry.facts.run}/{n}": s for n, s in outline(office, entry.facts.run).items()}
    return strands | inner


def _summary(office: Office, entry: Entry[Any]) -> str:
    facts = entry.facts
    told = [getattr(facts, name, "") for name in ("agent", "attempt", "next", "cause", "reason")]
    outcome = "" if isinstance(facts, Happened) else getattr(facts, "outcome", "")
    names = [n for n in ("output", "plan", "answer", "request") if n in entry.bodies]
    said = [office.body(entry, name).decode() for name in names]
    return " ".join(map(str, [entry.kind, outcome, *told, *said]))


class Table:
    """Plays one order again and again."""

    def __init__(self, folder: Path, order: Order) -> None:
        self._folder, self._order = folder, order
        self._played = 0

    def play(self, commits: int | None = None, *, persisted: bool = False) -> tuple[Office, bool]:
        """Play a run in a new ledger, and tell whether it was broken."""
        self._played += 1
        factory = StoreFactory(self._folder / f"{self._played}.db")
        power = Power(factory(), -1 if commits is None else commits, persisted=persisted)
        try:
            live(Office(factory(), append=power.append), self._order)
        except Cut:
            pass
        office = Office(factory(), Hands())
        if power.failed:
            live(office, self._order)
        return office, power.failed


@pytest.mark.slow
@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("persisted", [False, True], ids=["before", "after"])
def test_a_run_survives_a_crash_at_every_commit(tmp_path: Path, name: str, *, persisted: bool) -> None:
    """Before or after any commit: the same things happen, once, and nobody notices but the bill."""
    table = Table(tmp_path, ORDERS[name])
    whole, _ = table.play()
    expected, commits = outline(whole), 0
    while True:
        office, broken = table.play(commits, persisted=persisted)
        if not broken:
            break
        assert outline(office) == expected, f"after a crash at commit {commits}"
        assert office.findings() == ()
        assert office.alarms() == []
        commits += 1

    assert commits >= len({e.ts for e in whole.entries()}) // 2 
