"""Events of the log's own life: who changed access, configuration, retention, and who looked.

Figures count such entries; a report also lists them, with their facts in words.  To list a kind of
entry that is new, add it to `EVENT_FORMS`.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from forum.features.evidence.queries import ACCESS, ERASURE, MODELS, RECORD, REVIEW
from forum.ledger.retention_holds import ALL_BODIES
from forum.units import format_moment

MAX_EVENTS = 50
"""How many events of a section are listed."""

EVENT_FORMS: dict[str, tuple[str, ...]] = {
    "access.grant/1": (ACCESS, "grants key {key} to {name}", "scopes {scopes}", "until {expires}"),
    "access.grant/2": (ACCESS, "grants key {key} to {name}", "scopes {scopes}", "until {expires}"),
    "access.revoke/1": (ACCESS, "revokes key {key}"),
    "key.add/1": (ACCESS, "publishes key {vkey}"),
    "key.add/2": (ACCESS, "publishes key {vkey}"),
    "key.rotate/1": (ACCESS, "replaces key {old}", "new key {vkey}"),
    "key.rotate/2": (ACCESS, "replaces key {old}", "new key {vkey}"),
    "config.seen/1": (MODELS, "release {engine}", "{changed}"),
    "config.seen/2": (
        *(MODELS, "release {engine}", "changed: {changed}"),
        "erased before it, not compared: {erased}",
    ),
    "redact/1": (ERASURE, "erases {body} of entry {entry}", "reason {reason}"),
    "redact/2": (
        ERASURE,
        "erases bodies {bodies} of its parents",
        "reason {reason}",
        "rule {rule}",
    ),
    "redact/3": (
        ERASURE,
        "erases bodies {bodies} of its parents",
        "runs {runs}",
        "reason {reason}",
        "rule {rule}",
    ),
    "retention/1": (ERASURE, "keeps bodies of {subject} for {seconds}"),
    "hold/1": (ERASURE, "{act}s hold {hold}", "runs {runs}"),
    "archive/1": (ERASURE, "archives run {run}", "{entries} entries", "copy at {place}"),
    "review.done/1": (
        *(REVIEW, "entries {since} to {until}", "run {run}", "stops {stops}"),
        *("budget stops {budget_stops}", "denials {denials}", "gaps {gaps}"),
        *("effects in doubt {indeterminate}", "open gates {gates}"),
    ),
    "incident.open/1": (
        *(REVIEW, "opens incident {incident}", "severity {severity}", "known {known}"),
        "runs {runs}",
    ),
    "incident.close/1": (REVIEW, "closes incident {incident}"),
    "log.carry/1": (RECORD, "entries carried over", "strand {run}/{strand}", "entries {entries}"),
    "log.epoch/1": (RECORD, "continues the log", "key {key}", "size before {held_size}"),
    "quarantine.discard/1": (RECORD, "deletes {rows} forged rows"),
}
"""For each kind: the section that lists it, and the phrases of its facts, without absent ones."""

LASTING = ("config.seen/1", "config.seen/2", "hold/1", "retention/1")
"""Kinds whose effect lasts: those before the period are listed too."""

_MAX_ITEMS = 3
_TIMES = ("expires", "known")
_ALWAYS = ("since", "seconds")
"""Facts whose 0 says something."""
_FACT = re.compile(r"\{(\w+)\}")
_is_digest = re.compile(r"[0-9a-f]{64}").fullmatch


class LogEvent(msgspec.Struct, frozen=True):
    """One entry of the log's own life."""

    index: int
    ts: int
    section: str
    kind: str
    actor: str
    words: str


def describe_event(kind: str, facts: Mapping[str, Any]) -> str:
    """Return the facts of an event in words."""
    phrases = []
    for form in EVENT_FORMS[kind][1:]:
        names = _FACT.findall(form)
        # A fact that an entry leaves out has its default, which says nothing.
        if all(facts.get(name) not in (None, "", [], 0) or name in _ALWAYS for name in names):
            texts = {name: _describe_fact(name, facts.get(name, 0)) for name in names}
            phrases.append(form.format(**texts))
    return ", ".join(phrases)


def describe_changes(facts: Mapping[str, Any], before: Mapping[str, Any] | None) -> str:
    """Return which parts of a configuration differ from the one before."""
    if before is None:
        return "the first on record"
    names = [name for name in sorted({*facts, *before}) if facts.get(name) != before.get(name)]
    return f"changed: {' '.join(names)}" if names else "not changed"


def _describe_fact(name: str, value: object) -> str:
    if isinstance(value, list | tuple):
        more = [f"and {len(value) - _MAX_ITEMS} more"] if len(value) > _MAX_ITEMS else []
        return " ".join([*map(str, value[:_MAX_ITEMS]), *more])
    if name in _TIMES and isinstance(value, int):
        return format_moment(value)
    if name == "seconds" and isinstance(value, int):
        hours = value // 3600
        return f"{hours} {'hour' if hours == 1 else 'hours'}" if value else "ever"
    if name == "subject" and value == ALL_BODIES:
        return "all runs"
    return str(value)[:16] if _is_digest(str(value)) else str(value)
