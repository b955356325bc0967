"""Suggestions for commands and options that do not exist."""

from collections.abc import Iterable, Mapping

from forum.spelling import closest_names

_DASHBOARD = "To open the dashboard: forum up --open"
_LIST = "To list runs: forum runs"
_COSTS = "What runs have cost: forum costs.  One run: forum show.  Caps over many: forum budgets"
_TRUST = "To print the keys that others check this log with: forum ledger policy"
_CANCEL = "To end a run: forum cancel RUN"
_ENTRIES = "The entries of the log: forum ledger show.  One run: forum show"
HINTS: Mapping[str, str] = {
    "approve": "What waits for approval: forum gate list.  To approve it: "
    "forum gate approve RUN SUBJECT",
    "ask": 'To have a request carried out: forum submit "..."',
    "audit": "To check the whole ledger: forum ledger verify.  A file from somebody else: "
    "forum verify FILE.  A report for auditors: forum evidence --output pack.zip",
    "budget": _COSTS,
    "cost": _COSTS,
    "dashboard": _DASHBOARD,
    "delete": "To erase one text: forum ledger redact ENTRY BODY.  By age: forum retention",
    "export": "To write a run into a file that others can check: forum ledger export RUN",
    "kill": _CANCEL,
    "list": _LIST,
    "log": _ENTRIES,
    "login": "To open the dashboard signed in: forum up --open.  A token for programs: forum token",
    "logs": _ENTRIES,
    "ls": _LIST,
    "note": "To record a note: forum ledger note TEXT",
    "open": _DASHBOARD,
    "policies": _TRUST,
    "policy": _TRUST,
    "prove": "To write a run into a file that others can check: forum ledger export RUN.  "
    "One entry: forum ledger proof ENTRY",
    "ps": _LIST,
    "start": 'To run a program under a cap: forum run -- PROGRAM.  A request: forum submit "...".  '
    "The dashboard: forum up --open",
    "status": "The state of runs: forum runs.  Of this installation: forum doctor",
    "stop": _CANCEL,
    "ui": _DASHBOARD,
    "version": "To print the version: forum --version",
    "web": _DASHBOARD,
}
"""Words that people guess, and the commands that they look for."""


def suggest(name: str, names: Iterable[str], count: int = 1) -> str:
    """Return a question that names what was probably meant; nothing if nothing is similar."""
    near = closest_names(name, names, count)
    return f"Did you mean {' or '.join(near)}?" if near else ""
