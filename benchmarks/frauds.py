"""`python -m benchmarks frauds`: the same frauds on Forum and on forum-engine, side by side."""

import argparse
import json
import tempfile
from pathlib import Path

from benchmarks import reference
from forum.features.demo import frauds

SAME = {
    "edit": "edit-entry",
    "delete": "delete-entry",
    "insert": "insert-entry",
    "reorder": "reorder-entries",
    "swap-body": "swap-bodies",
    "remove-body": "remove-body",
    "cut-tail": "cut-tail",
    "rewrite": "rewrite-and-rehash",
    "re-sign": "resign-with-stolen-key",
    "split-view": "split-view",
    "backdate": "backdate",
    "bogus-parent": "bogus-parent",
    "double": "duplicate-position",
}
"""The frauds that both can be asked about, by our name and by that of the reference."""


def main(arguments: list[str]) -> None:
    """Play all frauds on both and print one table, or one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks frauds")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    theirs = {outcome.name: outcome for outcome in reference.frauds()}
    with tempfile.TemporaryDirectory() as scratch:
        ours = list(frauds.run_tampering_demo(Path(scratch)))
    rows = []
    for verdict in ours:
        other = theirs.get(SAME.get(verdict.fraud.name, ""))
        rows.append(
            {
                "name": verdict.fraud.name,
                "forum": verdict.caught,
                "forum_by": verdict.by,
                "forum_engine": other.caught if other else None,
                "forum_engine_by": other.by if other else "not applicable: not tried",
            }
        )
    if options.json:
        print(json.dumps({"frauds": rows, "reference": f"forum-engine {reference.VERSION}"}))
        return
    words = {True: "caught", False: "missed", None: "n/a"}
    print(f"{'fraud':<14}{'forum':<10}{'forum-engine ' + reference.VERSION}")
    for row in rows:
        mine, other_word = words[bool(row["forum"])], words[_known(row["forum_engine"])]
        print(f"{row['name']!s:<14}{mine:<10}{other_word:<8}{row['forum_engine_by']}")


def _known(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
