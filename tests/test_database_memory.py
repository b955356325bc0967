"""What a process remembers of a database hangs on the identity of that database."""

import ast
from collections.abc import Iterator
from pathlib import Path

from forum.ledger.database_memory import DatabaseMemory, Lineage

SOURCE = Path(__file__).parent.parent / "src" / "forum"
PACKAGES = ("app", "engine", "features", "ledger", "stores", "surfaces/http")

_CONTAINERS = {"dict", "set", "OrderedDict", "deque", "defaultdict", "Counter", "WeakKeyDictionary"}
_CACHES = {"cache", "lru_cache"}

UNBOUND: dict[str, tuple[str, ...]] = {
    "it lives for one call, one run or one file, and is read anew for the next": (
        "app/archiving:NoArchiver.unreachable",
        "features/archive/service:ArchiveService.unreachable",
        "app/epoch_carry:Carrier._before",
        "app/epoch_carry:Carrier._ends",
        "app/epoch_carry:Carrier._entries",
        "app/epoch_carry:Carrier._ids",
        "app/epoch_carry:Carrier._strands",
        "stores/sql_entries:ArchivedRows._runs",
        "stores/sql_piece_reader:PieceReader._lists",
        "stores/sql_piece_reader:PieceReader._pieces",
        "stores/sql_piece_reader:PieceReader._resolved",
        "features/council/tally:Tally.seats",
        "features/council/tally:Tally.weights",
        "features/evidence/audit:_PackAudit._bundle_files",
        "features/evidence/figures:FigureTally._groups",
        "features/evidence/figures:FigureTally.runs",
        "features/evidence/tally:PeriodTally._by_kind",
        "features/evidence/tally:PeriodTally._events",
        "features/evidence/tally:PeriodTally._gates",
        "features/evidence/tally:PeriodTally._grants",
        "features/evidence/tally:PeriodTally._holds",
        "features/evidence/tally:PeriodTally._outside",
        "features/evidence/tally:PeriodTally._related",
        "features/evidence/tally:PeriodTally._run_of",
        "features/evidence/tally:PeriodTally._runs",
        "features/evidence/tally:PeriodTally._steps",
        "features/evidence/tally:PeriodTally.active",
        "features/symposium/schedule:_ScheduleChecker._dropped",
        "features/symposium/schedule:_ScheduleChecker._failed",
        "features/symposium/schedule:_ScheduleChecker._turns",
        "features/symposium/schedule:_ScheduleChecker._waiting",
        "engine/context:bodies",
        "engine/model_calls:ModelCaller._answered_counts",
        "engine/model_calls:StepNames._seen",
        "engine/recorded_runs:RecordedRun._strands",
        "engine/run_driver:RunDriver._started",
        "engine/streaming:RedactingStream._given",
        "engine/tools:ToolRunner._first_intents",
        "engine/tools:ToolRunner._known_outcomes",
        "features/gateway/conversations:ConversationMemory._tokens",
        "features/gateway/relayed_run:RelayedRun._repeats",
        "features/gateway/upstream_connections:_Connection._unread",
        "features/recorder/earlier_inputs:InputJoiner._earlier",
        "ledger/archive:BundledRun._bodies",
        "ledger/archive:BundledRun._indexes",
        "ledger/retention_holds:HoldOrder._holds",
        "ledger/retention_holds:HoldOrder._periods",
        "ledger/sequencer:_UnsignedNames.named",
        "ledger/sequencer:_UnsignedNames.opened",
        "ledger/witness_records:WitnessRecords._lines",
        "ledger/listed_bodies:ListedBodies._pieces",
        "ledger/listed_bodies:ListedBodies._recent",
        "ledger/shared_bodies:GatheredBodies._listed",
        "ledger/shared_bodies:GatheredBodies._lists",
        "ledger/shared_bodies:GatheredBodies._pieces",
        "ledger/shared_bodies:GatheredBodies._whole",
        "ledger/shared_bodies:_RecentBodies._bodies",
        "ledger/span_files:SpanTable._rows",
        "ledger/zip_archive:Archive.members",
        "features/recorder/adapters/common:SpanTracker._contexts",
        "features/recorder/adapters/common:SpanTracker._runs",
        "features/recorder/adapters/common:SpanTracker._steps",
        "features/recorder/recorder:Recorder._continuing",
        "features/recorder/recorder:Recorder._open",
        "features/recorder/report_writer:ReportWriter._recorded",
        "features/recorder/run_scope:StepScope._token",
        "features/recorder/values:_PlainCopy._within",
        "surfaces/http/known_keys:_Round.reads",
        "features/telemetry/trace_export:_RunExporter._begun",
        "features/telemetry/trace_export:_RunExporter._calls",
        "features/telemetry/trace_export:_RunExporter._open",
    ),
    "it is used only for the batch after the one before, which a new database has not": (
        "ledger/own_entries:OwnEntries._ends",
    ),
    "it is part of a value that a `DatabaseMemory` holds": (
        "stores/sql_pieces:KnownBodies._runs",
        "engine/run_memory:_RememberedRun.derived",
        "engine/shared_budgets:_KnownOrders.told",
        "engine/run_memory:_RememberedRun.strands",
        "ledger/due_bodies:RetentionScan._ended",
        "ledger/due_bodies:RetentionScan._exports",
        "ledger/due_bodies:RetentionScan._joined",
        "ledger/due_bodies:RetentionScan._postponed",
        "ledger/due_bodies:RetentionScan._scanned",
        "features/telemetry/trace_state:TraceState.known",
        "features/telemetry/trace_state:TraceState.left_out",
        "features/telemetry/trace_state:TraceState.wanted",
        "features/telemetry/trace_state:_CachedStates.states",
    ),
    "it is work of this process; the position of its next entry is compared with the record": (
        "stores/claiming_worker:ClaimingWorker._drivers",
        "stores/claiming_worker:ClaimingWorker._idle",
        "stores/claiming_worker:ClaimingWorker._requeued",
        "stores/claiming_worker:ClaimingWorker._tasks",
        "engine/engine:Engine._shared_in_hand",
        "engine/local_runner:LocalRunner._requeued",
        "engine/local_runner:LocalRunner._running",
        "engine/session:TurnRegistry._due",
        "engine/signals:RunListener._tasks",
        "engine/signals:RunSignals._cancel_tokens",
        "engine/signals:RunSignals._listeners",
        "engine/worker_slots:TaskLimit._waiting",
        "features/gateway/relayed_run:RelayedRun._pending",
        "features/gateway/relayed_run:RelayedRun._time_limits",
        "features/gateway/reservations:CallsInFlight._calls",
        "features/gateway/reservations:CallsInFlight._reserved",
        "features/gateway/reservations:Reservations._waiting",
    ),
    "it is read again after a second, and a call that it misses has its reservation": (
        "features/gateway/reservations:CallsInFlight._overruns",
    ),
    "a server checks what is sent by it, and is sent the whole where it does not hold": (
        "features/recorder/earlier_inputs:SentInputs._runs",
    ),
    "it is what the database is compared with": (
        "stores/database_guard:DatabaseGuard._acknowledged",
        "stores/store_monitor:StoreMonitor._begun",
        "stores/store_monitor:StoreMonitor._held",
        "stores/store_monitor:StoreMonitor._still",
        "stores/store_monitor:StoreMonitor._troubles",
        "ledger/database_memory:Lineage._left",
    ),
    "it belongs to a session, and ends with it": (
        "features/gateway/mcp_relay:McpGateway._calls",
        "features/gateway/mcp_relay:McpGateway._gated",
        "features/gateway/mcp_relay:McpGateway._list_requests",
        "features/gateway/mcp_relay:McpGateway._own_answers",
        "features/gateway/mcp_relay:McpGateway._requests",
        "features/gateway/mcp_relay:McpGateway._waiting",
        "stores/postgres_connections:LogSignals._heard",
        "stores/postgres_connections:LogSignals._signals",
        "stores/postgres_connections:PostgresConnections._led",
    ),
    "it holds settings, keys, clients, listeners or what is sent, and nothing that was read": (
        "app/logs_worker:LogsWorker._projects",
        "features/claims/service:load_grammar",
        "app/tenant_settings:ServedTenants._loaded",
        "stores/archive_stores:ArchiveReader._failed",
        "stores/catalogue:load_postgres_forms",
        "stores/sql_entries:_find_noted_size",
        "ledger/sequencer:ReadableEntries._leaves",
        "stores/postgres_delta_bus:_DeltaSender._waiting",
        "stores/postgres_sessions:_CheckedPoolers._checked",
        "stores/publisher_loop:PublisherLoop._errors",
        "features/gateway/relay:Relay._clients",
        "features/gateway/wrapped_client:ClientGuard._limits",
        "ledger/entry:strand_prefix",
        "ledger/kinds:Kinds._cached_facts",
        "ledger/kinds:Kinds.protocols",
        "ledger/kinds:Kinds._readers",
        "ledger/write_tags:_key_id",
        "ledger/write_tags:_started_mac",
        "features/recorder/sinks:OffSink._caps",
        "features/recorder/sinks:OffSink._reserved",
        "features/recorder/sinks:OffSink._used",
        "features/recorder/step_queue:StepQueue._items",
        "features/recorder/step_queue:StepQueue._late",
        "surfaces/http/application:_PathApp.endpoints",
        "surfaces/http/application:_PathApp.handlers",
        "surfaces/http/auth:Authenticator._buckets",
        "surfaces/http/browser_sessions:BrowserSessions._sessions",
        "surfaces/http/delta_queue:DeltaBroadcaster._queues",
        "surfaces/http/delta_queue:DeltaQueue._pieces",
        "surfaces/http/denial_log:DenialRecorder._pending",
        "features/gateway/http:GatewayExtension._gateways",
        "surfaces/http/log_follower:LogFollower._listeners",
        "features/chat_api/conversation:_unsupported_parameters",
        "surfaces/http/outgoing_client:_ssl_context",
        "surfaces/http/sign_in:OneTimeSignIn._expiry_by_code",
        "features/telemetry/own_spans:SpanSender._waiting",
    ),
}
"""What need not be bound to a database, by the reason."""


def find_memories() -> Iterator[str]:
    """Yield each attribute of a class that starts as an empty container, and each cache."""
    for package in PACKAGES:
        for path in sorted((SOURCE / package).rglob("*.py")):
            module = path.relative_to(SOURCE).with_suffix("").as_posix()
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    yield from (f"{module}:{node.name}.{name}" for name in _attributes(node))
                elif isinstance(node, ast.FunctionDef) and any(
                    _name_of(decorator) in _CACHES for decorator in node.decorator_list
                ):
                    yield f"{module}:{node.name}"


def _attributes(node: ast.ClassDef) -> Iterator[str]:
    seen = set()
    for statement in ast.walk(node):
        if isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets, value = [statement.target], statement.value
        else:
            continue
        for target in targets:
            if (
                isinstance(target, ast.Attribute)
                and isinstance(target.value, ast.Name)
                and target.value.id == "self"
                and target.attr not in seen
                and _is_empty_container(value)
            ):
                seen.add(target.attr)
                yield target.attr


def _is_empty_container(value: ast.expr) -> bool:
    if isinstance(value, ast.Dict):
        return not value.keys
    return isinstance(value, ast.Call) and _name_of(value) in _CONTAINERS


def _name_of(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        node = node.func
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def test_every_memory_is_bound_to_its_database() -> None:
    """A new memory is a `DatabaseMemory`, or is listed above with the reason why it need not be."""
    unbound = [name for names in UNBOUND.values() for name in names]

    assert sorted(set(find_memories())) == sorted(unbound)


def test_another_database_makes_a_process_forget() -> None:
    """The same database does not, and each change does."""
    lineage = Lineage()
    memory = DatabaseMemory(lineage, dict[str, int])
    lineage.meet("first")
    memory.value["a"] = 1
    lineage.meet("first")
    kept = dict(memory.value)
    before = memory.value
    lineage.meet("second")
    before["b"] = 2  # by a thread that began before: nobody reads it

    assert kept == {"a": 1}
    assert memory.value == {}
    assert lineage.has_left("first")
    assert not lineage.has_left("second")
