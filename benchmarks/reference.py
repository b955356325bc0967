"""The reference: what forum-engine 1.17.0 catches, and what it costs.

It is the package that Forum is compared with, so it gets the best conditions that its own
documentation names: the safest storage, the deepest verification, checkpoint entries in the
ledger.  Where an option would have helped a user who had set it up, the outcome says so.

Facts that the judgements rest on.  Its ledger is a hash chain without keys, witnesses or proofs.
`Ledger.verify(deep=True)` is its deepest check; it takes no expectation, and answers true or
false.  `Ledger.checkpoint()` is a Merkle root, which `forum submit` prints, and which nothing
in the package compares with anything: its documentation leaves that to an external witness.
"""

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from benchmarks.environments import PATIENCE, Package, ReferenceFailed, run

Store: TypeAlias = Literal["file", "sqlite"]

VERSION = "1.17.0"
PACKAGE = Package("forum-engine", VERSION)
DRIVER = Path(__file__).with_name("reference_driver.py")
PER_ENTRY = 0.05  # two fsyncs on a slow disk, and some patience

FRAUDS = (
    "edit-entry",
    "delete-entry",
    "insert-entry",
    "reorder-entries",
    "swap-bodies",
    "remove-body",
    "cut-tail",
    "rewrite-and-rehash",
    "resign-with-stolen-key",
    "split-view",
    "backdate",
    "bogus-parent",
    "duplicate-position",
)

DURABILITY: dict[Store, str] = {
    "file": "fsync of both files at every append (fsync_each=True); the folder is not synced",
    "sqlite": "WAL, synchronous=FULL, two commits at every append (fsync_each=True)",
}


@dataclass(frozen=True, slots=True)
class FraudOutcome:
    """Whether the reference noticed a fraud; None where its format has nothing to forge."""

    name: str
    caught: bool | None
    by: str


@dataclass(frozen=True, slots=True)
class ReferenceFigures:
    """What a ledger of this many entries cost, in one process after the other."""

    version: str
    store: Store
    entries: int
    bytes_per_entry: float
    fsync: bool
    durability: str
    appends_per_s: float
    append_cost_end_to_start: float
    verify_entries_per_s: float
    open_seconds: float
    open_rss_mb: float
    verify_rss_mb: float


@dataclass(frozen=True, slots=True)
class ReferencePlan:
    """How fast it carries out a plan: in one process, wave by wave, each entry synced.

    With checkpoints, each wave is followed by an entry with the root of the tree so far.
    """

    version: str
    entries: int
    tasks: int
    durability: str
    tasks_per_s: float
    checkpointed_tasks_per_s: float
    open_seconds: float


def frauds() -> list[FraudOutcome]:
    """Play every fraud on the reference, and return what its own verification says."""
    with tempfile.TemporaryDirectory(prefix="forum-reference-") as scratch:
        results = _drive("frauds", scratch)
    honest = results["honest"]
    if not _believes(honest):
        raise ReferenceFailed("it rejects an honest ledger", honest)
    return [_outcome(name, results["frauds"], honest["checkpoint"]) for name in FRAUDS]


def measure(entries: int, store: Store = "file") -> ReferenceFigures:
    """Append this many entries to a new ledger, then open and verify it in a fresh process."""
    if entries < 2:
        raise ValueError(f"{entries} entries have no start and end to compare")
    with tempfile.TemporaryDirectory(prefix="forum-reference-") as scratch:
        patience = PATIENCE + PER_ENTRY * entries
        wrote = _drive("append", store, scratch, str(entries), patience=patience)
        read = _drive("load", store, scratch, patience=patience)
    if read["count"] != entries or not read["holds"]:
        raise ReferenceFailed("it does not read back what it acknowledged", read)
    return ReferenceFigures(
        version=VERSION,
        store=store,
        entries=entries,
        bytes_per_entry=wrote["bytes"] / entries,
        fsync=True,
        durability=DURABILITY[store],
        appends_per_s=entries / wrote["seconds"],
        append_cost_end_to_start=wrote["tail"] / wrote["head"],
        verify_entries_per_s=entries / read["verify_seconds"],
        open_seconds=read["open_seconds"],
        open_rss_mb=read["open_mb"],
        verify_rss_mb=read["verify_mb"],
    )


def carry_out(needs: dict[str, list[str]], entries: int) -> ReferencePlan:
    """Carry out a plan of no-op tasks on a ledger of this many entries."""
    with tempfile.TemporaryDirectory(prefix="forum-reference-") as scratch:
        patience = PATIENCE + PER_ENTRY * entries
        took = _drive("plan", scratch, str(entries), json.dumps(needs), patience=patience)
    return ReferencePlan(
        version=VERSION,
        entries=entries,
        tasks=len(needs),
        durability=DURABILITY["file"],
        tasks_per_s=round(len(needs) / took["seconds"], 1),
        checkpointed_tasks_per_s=round(len(needs) / took["checkpointed_seconds"], 1),
        open_seconds=round(took["open_seconds"], 3),
    )


def server_command(folder: Path, entries: int, model_seconds: float) -> list[str]:
    """Return what serves a new ledger of this many entries over HTTP, with a model that waits.

    The process prints its port, and serves until its input ends.
    """
    words = ("serve", str(folder), str(entries), str(model_seconds))
    return [PACKAGE.python(), "-I", str(DRIVER), *words]


def play_team(url: str, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Submit requests to its team: their answers, results and verdicts, and the tokens.

    Each names the model of the workers and a stronger one, to which failed tasks are escalated.
    """
    with tempfile.TemporaryDirectory(prefix="forum-reference-") as scratch:
        file = Path(scratch, "requests.json")
        file.write_text(json.dumps({"url": url, "requests": requests}))
        patience = PATIENCE + 10 * len(requests)
        played = run(PACKAGE.python(), "-I", str(DRIVER), "team", str(file), patience=patience)
    observed: list[dict[str, Any]] = json.loads(played)
    return observed


def _outcome(name: str, results: dict[str, Any], checkpoint: str) -> FraudOutcome:
    """Judge one fraud by what was seen of it; `checkpoint` is that of the honest ledger."""
    if name == "resign-with-stolen-key":
        return FraudOutcome(name, None, "not applicable: no key signs anything in its ledger")
    sight = results[name]
    if _believes(sight):
        reasons = ["verify(deep=True) is true", *_hints(name, sight, checkpoint)]
        return FraudOutcome(name, caught=False, by="; ".join(reasons))
    if "refusal" in sight:
        return FraudOutcome(name, caught=True, by=f"opening it fails: {sight['refusal']}")
    which = "the chain" if not sight["chain"] else "a body"
    by = f"verify(deep=True) is false ({which}); `forum ledger verify` exits {sight['status']}"
    if name == "edit-entry" and _believes(results["edit-below-hash"]):
        by += '; but true where a parent is edited from 9 to "9", which keeps the hash'
    return FraudOutcome(name, caught=True, by=by)


def _hints(name: str, sight: dict[str, Any], checkpoint: str) -> list[str]:
    """Return what would have told a user who had prepared for this fraud, or went looking."""
    hints = []
    if name == "backdate":
        hints.append("time may run backwards; nothing was there earlier to compare with")
    elif name == "split-view":
        hints.append("so it is for both readers; their checkpoint() would differ, if they met")
    elif sight["checkpoint"] != checkpoint:
        hints.append("a checkpoint() kept elsewhere would differ, if compared by hand")
    else:
        hints.append("a checkpoint() kept elsewhere would not differ")
    if name == "bogus-parent":
        hints.append("append() takes such a parent, so it may be there from the start")
    if sight["absent"]:
        hints.append("an absent body counts as redacted, and no entry need say so")
    if sight["lineage"]:
        hints.append(f"causal_chain(), if asked for that entry, raises {sight['lineage']}")
    return hints


def _believes(sight: dict[str, Any]) -> bool:
    """Tell whether every verdict that the reference gives is true."""
    return all([sight["chain"], sight["deep"], *sight.get("printed", {}).values()])


def _drive(*words: str, patience: float = PATIENCE) -> dict[str, Any]:
    """Run the driver inside the reference's environment, and return what it observed."""
    answer = run(PACKAGE.python(), "-I", str(DRIVER), *words, patience=patience)
    observed: dict[str, Any] = json.loads(answer)
    return observed


def _table(outcomes: list[FraudOutcome], figures: list[ReferenceFigures]) -> str:
    """Lay outcomes and figures out for a reader."""
    words = {True: "caught", False: "MISSED", None: "-"}
    lines = [f"forum-engine {VERSION}", ""]
    lines += [f"{o.name:<24}{words[o.caught]:<8}{o.by}" for o in outcomes]
    for figure in figures:
        lines += ["", f"{figure.store} ledger of {figure.entries:,} entries"]
        lines += [
            f"  {name:<26}{value:,.2f}" if isinstance(value, float) else f"  {name:<26}{value}"
            for name, value in asdict(figure).items()
            if name not in {"version", "store", "entries"}
        ]
    return "\n".join(lines)


def main() -> None:
    """Print what the reference catches and costs, as a table or as one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reference")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--entries", type=int, default=20_000, help="size of the measured ledger")
    options = parser.parse_args()
    outcomes = frauds()
    file, sqlite = measure(options.entries), measure(options.entries, "sqlite")
    if options.json:
        report = {
            "frauds": [asdict(outcome) for outcome in outcomes],
            "figures": asdict(file),
            "figures_sqlite": asdict(sqlite),
        }
        json.dump(report, sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        sys.stdout.write(_table(outcomes, [file, sqlite]) + "\n")


if __name__ == "__main__":
    main()
