"""Runs: submitting, executing, cancelling, forking and replaying them, and deciding their gates."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, assert_never

from msgspec import Struct
from msgspec.json import encode as encode_json

from forum import metrics, tlog
from forum.app.access import LOCAL_OPERATOR, Approver
from forum.app.background_reader import BackgroundReader
from forum.app.clock_ids_and_kinds import (
    KINDS,
    OPERATOR,
    import_without_gc,
    new_run_id,
    new_salt,
    now,
)
from forum.app.keys import KeyOperations
from forum.app.log import LogOperations
from forum.app.project import ProjectContext
from forum.app.reads import RunReads
from forum.config import WorkerCapacity
from forum.errors import (
    TENANT_SCOPE,
    BadSettings,
    BudgetSliceExhausted,
    ConcurrentUpdate,
    Malformed,
    QuotaReached,
    StoreFailed,
)
from forum.feature import load_only_part
from forum.features import FEATURES
from forum.installation import require_extra
from forum.ledger import ports
from forum.ledger.cap_orders import CapOrders, alert_strand, read_cap_orders
from forum.ledger.entry import MAIN_STRAND, leaf_of
from forum.ledger.kinds import CapAlertFacts, CapSubject, Period
from forum.ledger.log import SYSTEM_ACTOR, Ledger, read_opening
from forum.ledger.strand import Draft
from forum.runs import kinds
from forum.runs.gate_rules import GateRule
from forum.runs.policy import Answer
from forum.runs.report_closing import DEFAULT_PATIENCE, ReportPatience
from forum.runs.run_comparison import Divergence
from forum.runs.shared_caps import (
    LEDGER,
    Caller,
    SharedCap,
    Teams,
    recorded_caps,
    tenant_limits,
)
from forum.runs.team_settings import read_gate_rules, read_shared_caps, read_teams
from forum.section_reader import SectionTables

_GAUGES_TIMEOUT_S = 1.0
"""How long a scrape waits for what is read from the database."""

if TYPE_CHECKING:
    from forum.engine import AnswerEncoder, IdempotencyKey, RunRequest, SharedBudgets
    from forum.runs.claims import ClaimFinder
    from forum.runs.plan import RunBudget
    from forum.runs.policy import Policy as WorkPolicy
    from forum.stores.claiming_worker import ClaimingWorker


class BudgetStatus(Struct, frozen=True):
    """A cap over many runs, and its use by one key, team or other subject."""

    cap: SharedCap
    use: ports.BudgetUse


_QUOTA_RETRY_S = 5
"""When a client may ask again whose ledger has too many runs that have not ended."""
MAX_COUNTED_RUNS = 10_000
"""Counting limit for runs that have not ended."""


class QuotaUse(Struct, frozen=True):
    """What a tenant has of its quota."""

    runs_at_once: int
    """Runs that have not ended; at most `MAX_COUNTED_RUNS` are counted."""
    runs_per_minute: int
    """Runs that were accepted in this minute; counted only where they are limited."""


def period_at(per: Period, micros: int) -> tuple[str, int]:
    """Return the name of the period of a time in UTC, and its end in microseconds."""
    from datetime import UTC, datetime, timedelta

    moment = datetime.fromtimestamp(micros // 10**6, UTC)
    day = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    match per:
        case Period.HOUR:
            hour = day + timedelta(hours=moment.hour)
            name, end = f"{hour:hour %Y-%m-%d %H}", hour + timedelta(hours=1)
        case Period.DAY:
            name, end = f"{day:%Y-%m-%d}", day + timedelta(days=1)
        case Period.WEEK:
            monday = day - timedelta(days=day.weekday())
            name, end = f"{monday:week %Y-%m-%d}", monday + timedelta(days=7)
        case Period.MONTH:
            following = (day.replace(day=1) + timedelta(days=31)).replace(day=1)
            name, end = f"{day:%Y-%m}", following
        case Period.EVER:
            return per.value, ports.NO_LIMIT
        case _:
            assert_never(per)
    return name, round(end.timestamp()) * 10**6


def load_claim_finder() -> "ClaimFinder":
    """Return what finds claims in replies; without such a feature, nothing is found."""
    finder: ClaimFinder = lambda _text, _receipts: ()  # noqa: E731  its parameters have types
    return load_only_part(FEATURES, "find_claims", finder)


def _open_encoder() -> "AnswerEncoder | None":
    """Return the encoder of the extra `semantic`, or None if it is not installed."""
    try:
        from forum.models.answer_comparison import open_encoder
    except ImportError:
        return None
    return open_encoder()


class RunOperations:
    """Submits, executes, cancels, forks and replays runs, and decides their gates."""

    def __init__(
        self, project: ProjectContext, log: LogOperations, keys: KeyOperations, reads: RunReads
    ) -> None:
        self._project, self._log = project, log
        self._keys, self._reads = keys, reads
        self._worker: ClaimingWorker | None = None
        self._gauges = BackgroundReader(lambda: [*log.gauges.samples(), *self._quota_samples()])

    @contextmanager
    def run_worker(
        self,
        capacity: WorkerCapacity | None = None,
        report: Callable[[Exception], None] = lambda _: None,
        patience: int = 0,
        name: str = "",
    ) -> "Iterator[ClaimingWorker]":
        """Execute runs in this process, beside other workers, until the block ends.

        `name` is the id of a worker that serves other logs, too.
        """
        worker_class, url = self._choose_worker()
        with import_without_gc("forum.engine"):
            from forum.engine import Engine
            from forum.models import make_model, open_tools
            from forum.models.sandbox import make_sandbox

        # Check the sandbox before the first run is claimed: a tool that must be confined must never
        # run outside it.
        sandbox = make_sandbox(self._project.settings)
        if sandbox is not None:
            sandbox.check_usable()
        rules = self._project.settings.secrets
        models = partial(make_model, sandbox=sandbox, rules=rules)
        if self._project.write_keys is None and self._project.is_signer:
            # A worker may be the first process of this release. Without the key it would write
            # entries without tags for as long as it runs, and be refused once tags are enforced.
            self._keys.initialise()
        with self._log.open_writer() as ledger:
            ledger.check_clock()  # a worker that may not write would only hold runs up
            engine = Engine(
                ledger,
                models,
                partial(open_tools, sandbox, rules),
                delta_sink=self._project.delta_bus,
                gate_rules=self.gate_rules,
                budgets=self.budgets,
                open_encoder=_open_encoder,
                find_claims=load_claim_finder(),
                report_patience=self._report_patience(),
                shares_tasks=worker_class.shares_tasks,
            )
            worker = worker_class(engine, self._project.store, capacity, report)
            worker.id = name or worker.id
            worker.start(url)
            self._worker = worker
            try:
                yield worker
            except BaseException:
                worker.close()
                raise
            finally:
                self._worker = None
            worker.close(patience)

    def _report_patience(self) -> ReportPatience:
        """Return how long reported runs stay open, as the section of a feature says, if any."""
        read: Callable[[SectionTables], ReportPatience] = lambda _: DEFAULT_PATIENCE  # noqa: E731
        return load_only_part(FEATURES, "report_patience", read)(self._project.settings.sections)

    def _choose_worker(self) -> "tuple[type[ClaimingWorker], str]":
        """Return the class of workers that the settings name, and the address of its queue."""
        settings = self._project.settings
        if settings.runner == "claims":
            from forum.stores.claiming_worker import ClaimingWorker

            return ClaimingWorker, ""
        if settings.runner == "temporal":
            with require_extra("temporal"), import_without_gc("forum.stores.temporal_worker"):
                from forum.stores.temporal_worker import TemporalWorker
            return TemporalWorker, settings.temporal_address or ""
        if not settings.database:
            where = settings.origins.get("worker.runner", "forum.toml")
            raise BadSettings(where, '[worker] runner = "dbos" needs Postgres: set [database] url')
        with require_extra("dbos"), import_without_gc("forum.stores.dbos_worker"):
            from forum.stores.dbos_worker import DbosWorker
        return DbosWorker, settings.database

    def metric_samples(self) -> list[metrics.Sample]:
        """Return the metrics of this process and of the ledger.

        What is read from the database is left out when that does not answer at once.
        """
        worker = self._worker.samples() if self._worker else ()
        monitor = self._project.monitor
        gauges = self._gauges.read(_GAUGES_TIMEOUT_S) if monitor.is_available else ()
        samples = [*self._log.counters.samples(), *gauges, *monitor.samples(), *worker]
        return metrics.with_labels(samples, ledger=self._project.origin)

    def _quota_samples(self) -> Iterator[metrics.Sample]:
        quota = self._project.settings.quota
        limits = {name: getattr(quota, name) for name in QuotaUse.__struct_fields__}
        use = self.quota_use() if any(limits.values()) else None
        for name, most in limits.items():
            if use is not None and most is not None:
                labels = (("of", name),)
                yield metrics.Sample(metrics.QUOTA, most, labels)
                yield metrics.Sample(metrics.QUOTA_USED, getattr(use, name), labels)

    def submit(
        self,
        request: "RunRequest",
        origin: kinds.AcceptedFacts | None = None,
        actor: str = OPERATOR,
        idempotency_key: "IdempotencyKey | None" = None,
    ) -> str:
        """Accept a request durably, and return the run that will answer it.

        A request with a known idempotency key is not accepted again: its run is returned, or
        `IdempotencyKeyUsed` raised if that request was different.
        """
        from forum.engine import accept_run

        self.check_quota()
        is_fork = origin is not None and bool(origin.fork_run)
        run, request = new_run_id(), self._with_recorded_rules(request, is_fork=is_fork)
        self.budgets.check_open()
        caller, ledger = Caller(actor, tuple(request.lanes)), self._project.ledger
        attempts = self.budgets.attempts(caller, ports.Spend(runs=1), is_run=True)
        while True:
            try:
                return accept_run(
                    ledger,
                    run,
                    request,
                    actor,
                    origin=origin,
                    idempotency_key=idempotency_key,
                    charges=attempts.charges(),
                )
            except BudgetSliceExhausted as refused:
                attempts.take_slice(refused)

    async def submit_async(
        self,
        request: "RunRequest",
        actor: str,
        past: tlog.Checkpoint | None,
        idempotency_key: "IdempotencyKey | None" = None,
    ) -> str:
        """Do the same as `submit` without blocking the event loop, given a recent checkpoint."""
        import asyncio

        from forum.engine import accept_run_async

        if self._project.settings.quota.runs_at_once is not None:
            await asyncio.to_thread(self.check_quota)
        run, request = new_run_id(), self._with_recorded_rules(request)
        await self.budgets.check_open_async()
        caller, ledger = Caller(actor, tuple(request.lanes)), self._project.ledger
        attempts = self.budgets.attempts(caller, ports.Spend(runs=1), is_run=True)
        while True:
            try:
                return await accept_run_async(
                    ledger,
                    run,
                    request,
                    actor,
                    past=past,
                    idempotency_key=idempotency_key,
                    charges=attempts.charges(),
                )
            except BudgetSliceExhausted as refused:
                await attempts.take_slice_async(refused)

    def check_quota(self) -> None:
        """Raise `QuotaReached` if this tenant may not have another run that has not ended.

        Requests that are checked in the same moment do not see each other's runs.
        """
        most = self._project.settings.quota.runs_at_once
        if most is not None and self._project.store.count_open_runs(most) >= most:
            raise QuotaReached(most, _QUOTA_RETRY_S)

    def quota_use(self) -> "QuotaUse":
        """Return what this tenant has of its quota.  Raises `StoreFailed`."""
        store = self._project.store
        # Of the scope of tenants, only the current minute is kept.
        used = (use.used.runs for use in store.budget_use() if use.scope == TENANT_SCOPE)
        return QuotaUse(store.count_open_runs(MAX_COUNTED_RUNS), sum(used))

    @cached_property
    def budgets(self) -> "SharedBudgets":
        """Caps over many runs, as this process spends from them."""
        from forum.engine import CapFeed, SharedBudgets

        quota = tenant_limits(self._project.settings.quota.runs_per_minute)
        owner = os.urandom(8).hex()
        store = self._project.store
        return SharedBudgets(
            store, self.shared_caps, owner, quota, teams=self.teams,
            feed=CapFeed(
                partial(read_cap_orders, store, KINDS), monotonic, tell=self._record_alert
            ),
        )  # fmt: skip

    def _record_alert(self, facts: CapAlertFacts) -> None:
        """Record that a share of a cap was used, unless that was recorded in this period."""
        name = (facts.scope, facts.period, facts.unit, str(facts.percent))
        # A strand of its own: of all processes, one takes its first position.
        strand = alert_strand(*name)
        opened = self._project.ledger.open_log_strand(strand)
        if not opened.length:
            cause = leaf_of(read_opening(self._project.store))
            with suppress(ConcurrentUpdate):
                opened.append_exclusive(Draft("alert", SYSTEM_ACTOR, facts, (cause,)))

    def return_budgets(self) -> None:
        """Return what this process holds of shared caps and has not spent."""
        if "budgets" in self.__dict__ and "store" in self._project.__dict__:
            # If this fails, other processes reclaim the slices when they need them.
            with suppress(StoreFailed):
                if self.budgets.revision or self.shared_caps:
                    self.budgets.refresh()  # what was spent last may be worth an alert
                self.budgets.close()

    @cached_property
    def shared_caps(self) -> tuple[SharedCap, ...]:
        """The operator's caps for keys, teams, lanes and the ledger, per hour, day or longer."""
        return read_shared_caps(self._project.settings.sections)

    @cached_property
    def teams(self) -> Teams:
        """The teams, whose members share caps."""
        return read_teams(self._project.settings.sections)

    def read_cap_orders(self) -> CapOrders:
        """Return the caps that were set by command, and whether spending is frozen."""
        return read_cap_orders(self._project.store, KINDS, CapOrders())

    @cached_property
    def gate_rules(self) -> tuple[GateRule, ...]:
        """The operator's rules about what needs approval, whatever a submitter asks for."""
        return read_gate_rules(self._project.settings.sections)

    def budget_status(self) -> tuple[BudgetStatus, ...]:
        """Return the use of each cap in its current period."""
        with self._project.open_reader() as reader:
            uses, moment = reader.budget_use(), self._project.store.now()
        statuses = []
        for cap in (*self.shared_caps, *recorded_caps(self.read_cap_orders())):
            period, until = period_at(cap.per, moment)
            mine = [use for use in uses if use.period == period and cap.holds_for(use.scope)]
            if not mine and not any(char in cap.pattern for char in "*?["):
                scope = (
                    LEDGER if cap.subject is CapSubject.LEDGER else f"{cap.subject}:{cap.pattern}"
                )
                mine = [ports.BudgetUse(scope, period, until, ports.Spend())]
            statuses += [BudgetStatus(cap, use) for use in mine]
        return tuple(statuses)

    def _with_recorded_rules(self, request: "RunRequest", *, is_fork: bool = False) -> "RunRequest":
        """Return a request under the operator's gate rules, dropping any of its own.

        Its policy also names the version of the call rules that the engine follows now, even if the
        request repeats that of an older run. The secret of its prompts is drawn when it is
        accepted: a submitter must not know it. A fork keeps that of its run, whose replies it
        reuses for the same prompts.
        """
        from forum.runs.call_rules import CURRENT_RULES

        # A worker of release 0.1 refuses a policy that names a version.
        version = 0 if self._may_have_old_workers else CURRENT_RULES
        policy = request.policy.with_gate_rules(self.gate_rules).with_rules(version)
        return replace(request, policy=policy if is_fork else policy.with_secret(b""))

    @property
    def _may_have_old_workers(self) -> bool:
        """Whether workers of release 0.1 may still claim runs: the upgrade is not finished."""
        keys = self._project.write_keys
        return keys is None or not keys.is_enforced

    def cancel(self, run: str, actor: str = OPERATOR) -> None:
        """Request that a run be cancelled."""
        from forum.engine import cancel_run

        cancel_run(self._project.ledger, run, actor)

    def interrupt(self, run: str, actor: str = OPERATOR) -> bool:
        """Record that no worker may continue a run before it is resumed; False if it has ended."""
        from forum.engine import interrupt_run

        return interrupt_run(self._project.ledger, run, actor)

    def resume(self, run: str, actor: str = OPERATOR) -> None:
        """Make a run due now; completed steps are not repeated.

        Raises `RunAlreadyEnded`, and `NoSuchRun` for a run that was never accepted.
        """
        from forum.engine import resume_run

        if resume_run(self._project.ledger, run, actor):
            return
        timer = self._project.store.timer(run, MAIN_STRAND)
        if timer is not None:
            self._project.store.reschedule([timer], 0)

    def fork(
        self,
        run: str,
        at: int,
        policy: "WorkPolicy | None" = None,
        actor: str = OPERATOR,
        idempotency_key: "IdempotencyKey | None" = None,
        ceiling: "RunBudget | None" = None,
    ) -> str:
        """Start a run that reuses another one's replies up to an index, then continues on its own.

        Its budget is that of the other run, limited by `ceiling`. Raises `BodyGone` if a body to be
        reused was erased.
        """
        from forum.engine import check_forkable

        request = self._reads.read_run_request(run)
        check_forkable(self._project.ledger, run, at)
        if policy is not None:
            request = replace(request, policy=policy)
        if ceiling is not None:
            request = replace(request, budget=request.budget.capped_by(ceiling))
        return self.submit(
            request, kinds.AcceptedFacts(fork_run=run, fork_index=at), actor, idempotency_key
        )

    def replay(
        self, run: str, inspect: Callable[[Ledger], None] = lambda _: None
    ) -> list[Divergence]:
        """Execute a run again from its record alone, and return the differences.

        `inspect` is given the ledger of the replay, which is deleted afterwards.
        """
        import asyncio
        from tempfile import TemporaryDirectory

        from forum.engine import replay_run
        from forum.models import make_model, open_tools
        from forum.stores.sqlite import SqliteStore

        with TemporaryDirectory() as folder:
            store = SqliteStore(Path(folder) / "replay.db", self._project.origin)
            try:
                scratch = Ledger(store, KINDS, now, new_salt, mask=self._project.mask)
                parted = asyncio.run(
                    replay_run(
                        self._project.ledger,
                        run,
                        scratch,
                        make_model,
                        open_tools=open_tools,
                        find_claims=load_claim_finder(),
                    )
                )
                inspect(scratch)
                return parted
            finally:
                store.close()

    def decide_gate(
        self,
        run: str,
        subject: str,
        answer: Answer,
        digest: str,
        by: Approver = LOCAL_OPERATOR,
        reason: str = "",
    ) -> None:
        """Approve or reject the content with this digest, on behalf of an approver."""
        from forum.engine import DecisionTexts, decide_gate

        # Workers of release 0.1 know only the older kind of decision, and would wait for it
        # forever.
        decided = (
            kinds.GateDecisionFacts(answer, digest, kinds.Decider.PERSON)
            if self._may_have_old_workers
            else kinds.GateDecisionByFacts(answer, digest, by.authority)
        )
        actor, identity = by.actor, None
        if by.identity is not None and not self._may_have_old_workers:
            # A person's identity is recorded in the body only, because a body can be erased.
            actor, identity = by.authority.value, encode_json(by.identity)
        texts = DecisionTexts(identity, reason.strip())
        decide_gate(self._project.ledger, run, subject, decided, actor=actor, texts=texts)

    def edit_gate(
        self, run: str, subject: str, digest: str, shown: bytes, actor: str = OPERATOR
    ) -> str:
        """Replace the content that waits for approval, and return the digest of the new content.

        Raises `Malformed` if it is not UTF-8.
        """
        from forum.engine import edit_gate

        try:
            shown.decode()
        except UnicodeDecodeError as error:
            raise Malformed("text", f"not UTF-8 at byte {error.start}") from None
        return edit_gate(self._project.ledger, run, subject, digest, shown=shown, actor=actor)
