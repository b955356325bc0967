"""Every named statement with parameters that a real call could have, and how it is carried out."""

import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Any, NamedTuple

import psycopg
from psycopg._queries import PostgresQuery
from psycopg.adapt import Transformer
from psycopg.sql import SQL, Literal

from benchmarks.bulk import PER_STRAND, STRANDS, LoadedLog
from forum.stores.postgres_sessions import PLAN_SETTINGS

Parameters = Mapping[str, Any] | Sequence[Any]


def scan_reasons(database: str) -> dict[str, str]:
    """Return why a statement may read all of a log, for those that are marked with a reason."""
    text = (files("forum.stores") / "sql" / database / "queries.sql").read_text()
    return dict(re.findall(r"^-- name: (\w+)\n-- scan: (.+)$", text, flags=re.MULTILINE))


def parameters_of(loaded: LoadedLog, database: str) -> dict[str, Parameters]:
    """Return parameters for every statement of a database, as its store would give them."""
    log, middle = loaded.log, loaded.entries // 2
    strand = loaded.strand(middle // PER_STRAND)
    strands = list(range(strand, strand + 40))
    run, task = loaded.run(middle // PER_STRAND // STRANDS), "task/1"
    prefix = loaded.prefix(middle)
    budget = {"log": log, "period": "2026-11-16", "scope": "ledger"}
    spend = {"usd": 1, "tokens": 1, "runs": 1}
    amount = {"usd": 1, "tokens": 1, "calls": 1}
    document = {"log": log, "run": run, "strand": "main"}
    pauses = {"anew": 1 << 40, "shortest": 1_000_000, "longest": 15_000_000}
    at_strand = {"log": log, "strand": strand}
    body = {**at_strand, "n": 3, "name": "text"}
    new = {"log": log, "run": "new", "name": "new"}
    shared: dict[str, Parameters] = {
        "catalogue": {},
        "log": {"origin": "none"},
        "strand": {"log": log, "run": run, "name": task},
        "head": {"log": log},
        "log_state": {"log": log},
        "tile": {"log": log, "level": 0, "idx": middle // 256, "length": 32},
        "entries": {"log": log, "start": middle, "stop": middle + 20},
        "find": {"log": log, "low": prefix, "high": prefix},
        "strand_entries": {**at_strand, "n": 0, "limit": 1000},
        "last": at_strand,
        "strands": {"log": log, "run": run},
        "strand_lengths": {"log": log, "run": run},
        "runs": {"log": log, "run": run, "limit": 100},
        "runs_before": {"log": log, "run": run, "limit": 100},
        "last_runs": {"log": log, "run": None, "limit": 100},
        "body_part": {**body, "part": 0},
        "erase": body,
        "checkpoints": {"log": log, "size": middle, "limit": 20},
        "checkpoint": {"log": log, "size": 2**62},
        "lock_checkpoint": {"log": log, "size": middle},
        "save_checkpoint": {"log": log, "size": middle, "note": b"note"},
        "waiting": {"log": log, "limit": 100},
        "unsequenced": {"log": log},
        "stored": {"log": log},
        "oldest_pending": {"log": log, "limit": 100},
        "newest_pending": {"log": log, "limit": 100},
        "now": {},
        "charge": {"log": log, "run": run, **amount, "guarded": True},
        "account": {"log": log, "run": run},
        "periods": {},
        "drop_past_slices": {
            "log": log, "scope": "tenant", "period": "minute 2026-11-16 10:05", "first": "minute",
        },
        "add_slice": {**budget, "owner": "new", "until": 1},
        "lock_budget": budget,
        "slices": budget,
        "has_entries_from": {"log": log, "run": "log", "name": "budgets", "n": 0},
        "held_slices": {"log": log},
        "take_back": {**budget, "owner": "process-1"},
        "hold_slice": {**budget, "owner": "process-1", **spend},
        "charge_slice": {**budget, "owner": "process-1", **spend, "guarded": True},
        "remove_slice": {**budget, "owner": "process-1"},
        "budget_use": {
            "log": log,
            "periods": ["2026-11-16"] if database == "postgres" else '["2026-11-16"]',
        },
        "overruns": {"log": log},
        "ask_once": {"log": log, "name": "new", "run": run, "digest": "", "tag": b""},
        "summary_runs": {"log": log, "run": run, "limit": 100},
        "set_summary": {
            "log": log, "run": run, "version": 1, "ended": 1, "data": b"[]", "tag": b"",
        },
        "account_runs": {"log": log, "run": run, "limit": 100},
        "tag_idempotency": {"log": log, "name": f"name-{run}", "tag": b""},
        "idempotency_rows": {"log": log, "name": f"name-{run}", "limit": 100},
        "has_additions": {},
        "additions": {},
        "count_rows": {"log": log},
        "strand_head": {"log": log, "strand": "access"},
        "mark_ended": {"origin": "none", "n": 1},
        "reopen_log": {"origin": "none"},
        "set_strand_head": {"log": log, "strand": "access", "n": 0, "leaf": b"", "tag": b""},
        "quarantine": {"log": log},
        "quarantined": {"log": log},
        "discard_quarantine": {"log": log, "id": 1},
        "discard_quarantine_bodies": {"log": log, "id": 1},
        "forget_asked": {"log": log, "run": run},
        "asked": {"log": log, "name": f"name-{run}"},
        "alarms": {**document, "limit": 100},
        "alarm": document,
        "open_runs": {"log": log, "strand": "main", "limit": 100},
        "gates_waiting": {"log": log, "limit": 100},
        "due_alarms": {"log": log, "at": -1, "run": "", "strand": "", "limit": 100},
        "pending_span": {"log": log},
        "interrupted_runs": {"log": log, "run": "", "limit": 100},
        "list_interrupted": {"log": log, "run": run},
        "unlist_interrupted": {"log": log, "run": run},
        "claim_run": {"log": log, "run": run, "worker": "new"},
        "drop_lost_lease": {"log": log, "worker": "new", "early": 1},
        "make_claimed_due": {"log": log, "worker": "worker-1", "strand": "main", "at": 1},
        "drop_claims": {"log": log, "worker": "worker-1"},
        "snooze": {**document, "at": 7, "micros": 1},
        "silence": {**document, "at": 7},
        "first_entries": {"log": log, "run": run, "limit": 1000},
        "hold_lease": {"log": log, "worker": "new", "micros": 1},
        "drop_lease": {"log": log, "worker": "new"},
        "workers": {"log": log},
        **{name: {"log": log} for name in ("lost_workers", "present_workers")},
        "unarchived_runs": {"log": log, "run": run, "limit": 100},
        "empty_entries": {**at_strand, "length": 3},
        "remove_archived_bodies": {**at_strand, "length": 3},
        "due_ended": {"log": log, "before": 100, "limit": 100},
        "reserve_lists": {**at_strand, "count": 2},
        **dict.fromkeys(("begin_release", "span_lists", "piece_ranges"), at_strand),
        "recent_lists": {**at_strand, "stop": 9, "limit": 64},
        "list_chain": {**at_strand, "number": 1, "limit": 64},
        **{
            name: {**at_strand, "number": 1, "start": 0}
            for name in ("piece_data", "remove_piece")
        },
        "add_piece": {**at_strand, "number": 1000, "start": 0, "data": b"x"},
        "lists_in_use": {"log": log, "run": run},
        "set_quarantine_body": {"log": log, "quarantine": 1, "name": "text", "data": b"x"},
    }  # fmt: skip
    removals = (
        *("postpone_ended", "remove_accounts", "remove_timers", "remove_idempotency"),
        *("remove_interrupted", "remove_sums", "remove_ended"),
    )
    if database == "sqlite":
        only: dict[str, Parameters] = {
            "add_log": {"origin": "new", "root": b""},
            **{name: {"log": log} for name in ("has_ended", "is_stopped")},
            "add_strand": (log, "new", "new"),
            "add_entries": (strand, 1000, b"x", b""),
            "next_own_id": {"log": log},
            "add_own_entries": (-1, strand, 1000, b"x", b""),
            "add_addition": (9999,),
            "accounts": {"log": log, "runs": f'["{run}"]'},
            "summaries": {"log": log, "runs": f'["{run}"]'},
            "bodies_at": {"log": log, "places": f'[["{run}", "main", 3, "text"]]', "size": 8192},
            "last_entries": {"log": log, "places": f'[["{run}", "main"]]'},
            "add_quarantine": {"id": middle},
            "add_quarantine_bodies": {"id": middle, "quarantine": 1},
            "remove_bodies": {"id": middle},
            "remove_entry": {"log": log, "id": middle, "data": b"x"},
            "remove_waiting": {"log": log, "id": middle},
            "prefixes": {"log": log, "start": middle, "stop": middle + 20},
            "has_lease": {"log": log, "worker": "new"},
            "cut_leases": {"log": log, "most": 1},
            "add_body": (strand, 1000, "text", 0, b"", b"", None),
            "add_pieces": (strand, 1000, 0, b"x"),
            "add_list": (strand, 1000, None, 0, b""),
            "lists_of_entry": {"id": middle},
            **{
                name: {"strand": strand, "numbers": "[1, 2]"}
                for name in ("pieces", "piece_sizes", "remove_lists")
            },
            "indexes": {"log": log, "prefixes": str([prefix, prefix + 1])},
            "entries_of_strands": {"strands": str(strands)},
            "entries_at": {"places": str([[key, 1] for key in strands])},
            "bodies_of_strands": {"strands": str(strands), "size": 8192},
            "swap": (1, b"", 1, log, 1, b"", 1),
            "remove_pending": (log, 1, 2),
            "remove_left_behind": (log, 1),
            "add_leaves": (log, 2**50, 2**50, 1),
            "put_tile": (log, 0, 2**30, b""),
            "open_account": {**new, **amount},
            "set_alarm": {**document, "at": 1},
            "add_alarm": {**document, "at": 1},
            "own_due": {"log": log, "worker": "worker-1", "own_limit": 50},
            "free_due": {"log": log, "worker": "new", "limit": 50},
            "add_claim": {"log": log, "run": run, "worker": "new"},
            "release_runs": {"log": log, "worker": "new", "runs": f'["{run}"]'},
            "claimable": {"log": log, "worker": "new", "limit": 50},
            "put_off": {
                **document,
                "own": False,
                "anew": 1 << 40,
                "shortest": 1_000_000,
                "longest": 15_000_000,
            },
            "clear_alarm": document,
            "add_ended": {"log": log, "run": "new", "parent": ""},
            **{name: {"log": log, "runs": f'["{run}"]'} for name in removals},
        }
    else:
        runs = {"log": log, "runs": ["new"], "strands": ["main"], "ats": [1]}
        only = {
            "migrations": (),
            "has_schema": (),
            "add_migration": (9999,),
            "durability": (),
            "add_log": ("new", b""),
            "lead": (log,),
            "lock_upgrade": (),
            "upgrade_lock_holder": (),
            "set_timeout": {"name": "lock_timeout", "value": "0", "local": True},
            "index_state": {"name": "strand_main"},
            "table_holder": {"tables": ["entry"], "any": True},
            "stop_leading": (log,),
            "log_ids": {"origins": ["none"]},
            "logs_with_work": {"logs": [log], "delays": [1], "early": 1, "most": 9},
            "logs_with_retention": {"logs": [log], "run": "log", "strand": "retention"},
            "has_moves": {},
            "identity": {},
            "add_lost_mark": {"origin": "none", "strand": "lost", "n": 1, "leaf": b"", "tag": None},
            "move": {"log": log},
            "add_left": {"origin": "none", "id": "none", "place": "none"},
            "end_lost_move": {"log": log},
            "arrive": {"log": log, "id": "none"},
            "add_strands": {"log": log, "runs": ["new"], "names": ["new"]},
            "strand_ids": {"log": log, "runs": [run], "names": [task]},
            "append": {
                "log": log, "strands": [strand], "ns": [1000], "bytes": [b"x"], "tags": [b""],
            },
            "add_own_entries": {
                "log": log, "strands": [strand], "ns": [1000], "bytes": [b"x"], "tags": [b""],
            },
            "add_addition": (9999,),
            "accounts": {"log": log, "runs": [run]},
            "summaries": {"log": log, "runs": [run]},
            "last_entries": {"log": log, "runs": [run], "names": ["main"], "low": 0, "high": 2**62},
            "hold_worker_lock": {"worker": "new"},
            "beat": {"log": log, "worker": "new", "micros": 1, "early": 1, "most": 1},
            "bodies_at": {
                "log": log, "runs": [run], "strands": ["main"], "ns": [3], "names": ["text"],
                "size": 8192, "low": 0, "high": 2**62,
            },
            "partitions": (),
            "check_constraints": {"table": "entry"},
            "table_grants": {"table": "entry"},
            "other_sessions": (),
            "live_workers": (),
            "watched_head": {"log": log, "marks": ["lost-commits", "ended"]},
            "limit_session": {"names": ["forum.session"], "values": ["on"]},
            **dict.fromkeys(("session_mark", "spill_early", "try_writing"), ()),
            "sequencer_session": {"log": log},
            "has_process": (1,),
            **dict.fromkeys(("safe_path", "unseparated", "tenant_roles", "tenant_rights"), ()),
            "tenant": {"origin": "none"},
            "add_quarantine": {**at_strand, "n": 3},
            "add_quarantine_bodies": {**at_strand, "n": 4, "quarantine": 1},
            "remove_bodies": {**at_strand, "n": 3},
            "remove_entry": {**at_strand, "n": 3},
            "pending_row": {"log": log, "seq": 3},
            "remove_commit": {"log": log, "seq": 3},
            "set_pending": {"log": log, "seq": 3, "strands": [strand], "ns": [1]},
            "add_bodies": (log, [strand], [1000], ["text"], [0], [b""], [b""], [None]),
            "add_pieces": (log, [strand], [1000], [0], [b"x"]),
            "add_lists": (log, [strand], [1000], [None], [0], [b""]),
            "lists_of_entry": {**at_strand, "n": 3},
            **{
                name: {**at_strand, "numbers": [1, 2]}
                for name in ("pieces", "piece_sizes", "remove_lists")
            },
            "writes_shared_bodies": {"number": 18},
            "lock_bodies": {"log": log},
            "indexes": {"log": log, "prefixes": [prefix, prefix + 1]},
            "entries_of_strands": {
                "log": log, "strands": strands, "low": strand, "high": strand + 39,
            },
            "entries_at": {"log": log, "strands": strands, "ns": [1] * len(strands)},
            "bodies_of_strands": {"log": log, "strands": strands, "size": 8192},
            "swap": (1, b"", log, 1, b""),
            "remove_pending": (log, [1, 2, 3]),
            "add_sequenced": (log, 2**50, [strand], [0]),
            "add_leaves": (log, [prefix + 1], [2**50]),
            "put_tile": (log, 0, 2**30, b""),
            "charge_slices": {
                "log": log, "scopes": ["ledger"], "periods": ["2026-11-16"],
                "owners": ["process-1"], **{k: [1] for k in spend}, "guarded": [True],
                **{f"asked_{k}": [1] for k in spend},
            },
            "open_accounts": {"log": log, "runs": ["new"], **{k: [1] for k in amount}},
            "claim_due": {"log": log, "worker": "new", "limit": 50, "own": [run], **pauses},
            "claim_runs": {
                "log": log, "worker": "worker-1", "limit": 50, "own_limit": 50, **pauses,
            },
            "release_runs": {"log": log, "worker": "new", "runs": [run]},
            "set_alarms": runs,
            "add_alarms": runs,
            "clear_alarms": {**runs, "runs": [run]},
            "add_ended": {"log": log, "runs": ["new"], "parents": [""]},
            **{name: {"log": log, "runs": [run]} for name in removals},
        }  # fmt: skip
    return shared | only


class Plan(NamedTuple):
    """How a database carries a statement out, and what that costs."""

    lines: tuple[str, ...]
    """One for each table that is read, in words that name the table and the way."""
    cost: int
    """Steps of SQLite's machine, or pages that Postgres touched."""


def sqlite_plan(db: sqlite3.Connection, name: str, sql: str, parameters: Parameters) -> Plan:
    """Explain a statement, carry it out, and take it back."""
    if name in ("add_entries", "add_own_entries", "add_leaves"):
        sql += f"({','.join('?' * len(parameters))})"
    lines = tuple(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", parameters))
    return Plan(lines, sqlite_steps(db, sql, parameters))


def sqlite_steps(db: sqlite3.Connection, sql: str, parameters: Parameters) -> int:
    """Count the steps of SQLite's machine for a statement that is then taken back."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    db.execute("BEGIN")
    db.set_progress_handler(count, 1)
    try:
        with suppress(sqlite3.IntegrityError):
            db.execute(sql, parameters).fetchall()
    finally:
        db.set_progress_handler(None, 0)
        db.execute("ROLLBACK")
    return steps


def postgres_plan(db: psycopg.Connection[Any], sql: str, parameters: Parameters) -> Plan:
    """Explain a statement with the plan that serves for all parameters, and take it back."""
    query = PostgresQuery(Transformer(db))
    query.convert(sql, parameters or None)
    kinds = [_type_name(db, oid) for oid in query.types]
    values: Sequence[Any] = (
        [parameters[name] for name in dict.fromkeys(re.findall(r"%\((\w+)\)", sql))]
        if isinstance(parameters, Mapping)
        else parameters
    )
    call = SQL("({})").format(SQL(", ").join(map(Literal, values))) if values else SQL("")
    explain = SQL("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE measured{}")
    with db.transaction(force_rollback=True):
        # As the sessions of a store: with one plan for all parameters.
        for name, value in PLAN_SETTINGS.items():
            db.execute("SELECT set_config(%s, %s, true)", (name, value))
        listed = f" ({', '.join(kinds)})" if kinds else ""
        db.execute(f"PREPARE measured{listed} AS {query.query.decode()}".encode())
        row = db.execute(explain.format(call)).fetchone()
        db.execute("DEALLOCATE measured")
    assert row
    root = row[0][0]["Plan"]
    return Plan(tuple(_lines(root)), root["Shared Hit Blocks"] + root["Shared Read Blocks"])


def _type_name(db: psycopg.Connection[Any], oid: int) -> str:
    row = db.execute("SELECT %s::oid::regtype::text", (oid,)).fetchone()
    assert row
    return "unknown" if oid == 0 else str(row[0])


def _lines(node: dict[str, Any]) -> list[str]:
    own = []
    if "Relation Name" in node or "Index Name" in node:
        table = node.get("Relation Name", node.get("Index Name"))
        condition = node.get("Index Cond", node.get("Recheck Cond", ""))
        own = [f"{node['Node Type']} on {table} ({condition})"]
    return own + [line for child in node.get("Plans", ()) for line in _lines(child)]
