"""The operations of the server as awaited methods.

Generated from the declared endpoints by `just client`; do not edit.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Any

from . import forms
from .api_request import ApiRequest, fill_path
from .connection import AsyncConnection, BodyContent, new_idempotency_key
from .run_events import RunEvent


class AsyncRunsApi:
    """Submit, read, follow and control runs."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def create(
        self,
        request: str,
        *,
        tasks: Sequence[forms.TaskAsk] | None = None,
        lane: str | None = None,
        team: bool | None = None,
        route: bool | None = None,
        budget: forms.BudgetAsk | None = None,
        gates: forms.GateAsk | None = None,
        parallel: int | None = None,
        retries: int | None = None,
        panel: forms.PanelAsk | None = None,
        ladder: Sequence[str] | None = None,
        panels: Mapping[str, forms.PanelAsk] | None = None,
        about: str | None = None,
        idempotency_key: str | None = None,
    ) -> forms.Taken:
        """Have a request carried out.

        `POST /api/v1/runs`; needs the scope `submit`.

        The client makes an idempotency key and keeps it for its retries; give one of your own
        where another process may ask again.

        `ladder`: Who tries next if a result is not accepted: agents, then panels by name.

        `panels`: The panels, by name, at which an escalation can end.

        `about`: The run on whose answer the panel deliberates; the request is the question
        about it. The run has ended. Needs the scope read.
        """
        return await self._connection.call(
            ApiRequest(
                method="POST",
                path="/api/v1/runs",
                body={
                    "request": request,
                    "tasks": tasks,
                    "lane": lane,
                    "team": team,
                    "route": route,
                    "budget": budget,
                    "gates": gates,
                    "parallel": parallel,
                    "retries": retries,
                    "panel": panel,
                    "ladder": ladder,
                    "panels": panels,
                    "about": about,
                },
                idempotency_key=idempotency_key or new_idempotency_key(),
                accept="application/json",
            ),
            forms.Taken,
        )

    async def list(
        self,
        *,
        state: forms.RunState | None = None,
        outcome: forms.RunOutcome | None = None,
        since: str | None = None,
        until: str | None = None,
        text: str | None = None,
        lane: str | None = None,
        provenance: forms.Provenance | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> forms.RunsPage:
        """List runs, the newest first.

        `GET /api/v1/runs`; needs the scope `audit` or `read`.

        `state`: Only runs in this state.

        `outcome`: Only runs that ended so; one whose council decided nothing is not ok.

        `since`: Only runs that began at or after this time.

        `until`: Only runs that began before this time.

        `text`: Only runs whose request, name, prompts, replies or tool calls contain this
        text.

        `lane`: Only runs whose route or plan names this lane.

        `provenance`: Only runs that Forum knows of in this way.

        `cursor`: The cursor that the previous page gave.
        """
        return await self._connection.call(
            ApiRequest(
                method="GET",
                path="/api/v1/runs",
                query={
                    "state": state,
                    "outcome": outcome,
                    "since": since,
                    "until": until,
                    "text": text,
                    "lane": lane,
                    "provenance": provenance,
                    "cursor": cursor,
                    "limit": limit,
                },
                accept="application/json",
            ),
            forms.RunsPage,
        )

    async def list_all(
        self,
        *,
        state: forms.RunState | None = None,
        outcome: forms.RunOutcome | None = None,
        since: str | None = None,
        until: str | None = None,
        text: str | None = None,
        lane: str | None = None,
        provenance: forms.Provenance | None = None,
    ) -> AsyncIterator[forms.RunLine]:
        """Yield all that `list` lists, page by page."""
        page = await self.list(
            state=state,
            outcome=outcome,
            since=since,
            until=until,
            text=text,
            lane=lane,
            provenance=provenance,
        )
        while True:
            for item in page.runs:
                yield item
            if page.next is None:
                return
            page = await self.list(
                cursor=page.next,
                state=state,
                outcome=outcome,
                since=since,
                until=until,
                text=text,
                lane=lane,
                provenance=provenance,
            )

    async def get(self, run: str, *, until: int | None = None) -> forms.RunForm:
        """Look at a run, as it stands or as it stood.

        `GET /api/v1/runs/{run}`; needs the scope `audit` or `read`.

        `until`: The index of the last entry that is taken into account.
        """
        return await self._connection.call(
            ApiRequest(
                method="GET",
                path=fill_path("/api/v1/runs/{run}", run=run),
                query={"until": until},
                accept="application/json",
            ),
            forms.RunForm,
        )

    async def get_transcript(
        self, run: str, *, after: int | None = None, limit: int | None = None
    ) -> forms.TranscriptPage:
        """Read the calls of a run as messages.

        `GET /api/v1/runs/{run}/transcript`; needs the scope `audit` or `read`.

        `after`: How many steps are left out; as `next` says.
        """
        return await self._connection.call(
            ApiRequest(
                method="GET",
                path=fill_path("/api/v1/runs/{run}/transcript", run=run),
                query={"after": after, "limit": limit},
                accept="application/json",
            ),
            forms.TranscriptPage,
        )

    async def diff(self, run: str, other: str) -> forms.DiffForm:
        """Compare two runs, step by step.

        `GET /api/v1/runs/{run}/diff/{other}`; needs the scope `audit` or `read`.
        """
        return await self._connection.call(
            ApiRequest(
                method="GET",
                path=fill_path("/api/v1/runs/{run}/diff/{other}", run=run, other=other),
                accept="application/json",
            ),
            forms.DiffForm,
        )

    def follow(self, run: str, *, after: int = -1) -> AsyncGenerator[RunEvent]:
        """Follow a run: an event for each entry, with its index as the event's id.

        `GET /api/v1/runs/{run}/events`; needs the scope `audit` or `read`.

        After a lost connection it goes on with the entry after the last one that you got.
        Pass the index of that entry as `after` to go on in another process.
        """
        return self._connection.follow(
            ApiRequest(method="GET", path=fill_path("/api/v1/runs/{run}/events", run=run)),
            after,
            ends=True,
        )

    async def cancel(self, run: str) -> forms.Taken:
        """Ask a run to end.

        `POST /api/v1/runs/{run}/cancel`; needs the scope `submit`.
        """
        return await self._connection.call(
            ApiRequest(
                method="POST",
                path=fill_path("/api/v1/runs/{run}/cancel", run=run),
                accept="application/json",
            ),
            forms.Taken,
        )

    async def resume(self, run: str) -> forms.Taken:
        """Have an interrupted run carried out again.

        `POST /api/v1/runs/{run}/resume`; needs the scope `submit`.
        """
        return await self._connection.call(
            ApiRequest(
                method="POST",
                path=fill_path("/api/v1/runs/{run}/resume", run=run),
                accept="application/json",
            ),
            forms.Taken,
        )

    async def fork(self, run: str, at: int, *, idempotency_key: str | None = None) -> forms.Taken:
        """Begin a run from the middle of another one.

        `POST /api/v1/runs/{run}/fork`; needs the scope `submit`.

        The client makes an idempotency key and keeps it for its retries; give one of your own
        where another process may ask again.

        `at`: The last entry that the new run copies.
        """
        return await self._connection.call(
            ApiRequest(
                method="POST",
                path=fill_path("/api/v1/runs/{run}/fork", run=run),
                body={"at": at},
                idempotency_key=idempotency_key or new_idempotency_key(),
                accept="application/json",
            ),
            forms.Taken,
        )

    async def create_score(
        self,
        run: str,
        *,
        name: str,
        value: float,
        subject: forms.ScoreSubject | None = None,
        task: str | None = None,
        by: forms.Scorer | None = None,
        comment: str | None = None,
    ) -> forms.ScoreForm:
        """Score a run, a task or an answer.

        `POST /api/v1/runs/{run}/scores`; needs the scope `submit`.

        `value`: The score, which is stored in thousandths.

        `task`: The name of the task, if the subject is `task`.

        `by`: What kind of judge gave it. `person` needs a credential of a person: the
        operator's token, or that of an identity provider. By default it is what the
        credential says: `person`, or `program` for an API key.
        """
        return await self._connection.call(
            ApiRequest(
                method="POST",
                path=fill_path("/api/v1/runs/{run}/scores", run=run),
                body={
                    "name": name,
                    "value": value,
                    "subject": subject,
                    "task": task,
                    "by": by,
                    "comment": comment,
                },
                accept="application/json",
            ),
            forms.ScoreForm,
        )

    async def list_scores(self, run: str) -> forms.ScoresForm:
        """List the scores of a run.

        `GET /api/v1/runs/{run}/scores`; needs the scope `audit` or `read`.
        """
        return await self._connection.call(
            ApiRequest(
                method="GET",
                path=fill_path("/api/v1/runs/{run}/scores", run=run),
                accept="application/json",
            ),
            forms.ScoresForm,
        )

    async def replay(self, run: str) -> forms.ReplayForm:
        """Replay a run from its record alone, and compare the two.

        `POST /api/v1/runs/{run}/replay`; needs the scope `audit`.
        """
        return await self._connection.call(
            ApiRequest(
                method="POST",
                path=fill_path("/api/v1/runs/{run}/replay", run=run),
                accept="application/json",
                seconds=600.0,
            ),
            forms.ReplayForm,
        )

    async def bundle(self, run: str) -> bytes:
        """Take the evidence of a run along; that is recorded.

        `POST /api/v1/runs/{run}/bundle`; needs the scope `audit`.
        """
        return await self._connection.call_bytes(
            ApiRequest(
                method="POST", path=fill_path("/api/v1/runs/{run}/bundle", run=run), seconds=600.0
            )
        )

    async def list_evaluations(
        self, *, cursor: str | None = None, limit: int | None = None
    ) -> forms.EvaluationsPage:
        """List evaluations, the newest first.

        `GET /api/v1/evaluations`; needs the scope `audit` or `read`.

        `cursor`: The cursor that the previous page gave.
        """
        return await self._connection.call(
            ApiRequest(
                method="GET",
                path="/api/v1/evaluations",
                query={"cursor": cursor, "limit": limit},
                accept="application/json",
            ),
            forms.EvaluationsPage,
        )

    async def list_all_evaluations(self) -> AsyncIterator[forms.EvaluationLine]:
        """Yield all that `list_evaluations` lists, page by page."""
        page = await self.list_evaluations()
        while True:
            for item in page.evaluations:
                yield item
            if page.next is None:
                return
            page = await self.list_evaluations(
                cursor=page.next,
            )

    async def get_evaluation(self, run: str) -> forms.EvaluationForm:
        """Read the report of an evaluation, computed anew where it is not too large.

        `GET /api/v1/evaluations/{run}`; needs the scope `audit` or `read`.
        """
        return await self._connection.call(
            ApiRequest(
                method="GET",
                path=fill_path("/api/v1/evaluations/{run}", run=run),
                accept="application/json",
            ),
            forms.EvaluationForm,
        )


class AsyncKeysApi:
    """Create, list and revoke keys."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def get_me(self) -> forms.MeForm:
        """Who the client is: name, scopes, ledger.

        `GET /api/v1/me`; needs the scope `admin` or `approve` or `audit` or `metrics` or
        `read` or `report` or `submit`.
        """
        return await self._connection.call(
            ApiRequest(method="GET", path="/api/v1/me", accept="application/json"), forms.MeForm
        )

    async def list(self) -> forms.KeysForm:
        """List the keys of the ledger.

        `GET /api/v1/keys`; needs the scope `admin`.
        """
        return await self._connection.call(
            ApiRequest(method="GET", path="/api/v1/keys", accept="application/json"), forms.KeysForm
        )

    async def create(
        self, *, name: str, scopes: Sequence[forms.Scope], seconds: int | None = None
    ) -> forms.NewKeyForm:
        """Give somebody a key; its secret is shown this once.

        `POST /api/v1/keys`; needs the scope `admin`.

        `name`: The name of its owner: visible ASCII without quote and backslash.
        """
        return await self._connection.call(
            ApiRequest(
                method="POST",
                path="/api/v1/keys",
                body={"name": name, "scopes": scopes, "seconds": seconds},
                accept="application/json",
            ),
            forms.NewKeyForm,
        )

    async def revoke(self, key: str) -> forms.KeyForm:
        """Let a key open nothing from now on.

        `DELETE /api/v1/keys/{key}`; needs the scope `admin`.
        """
        return await self._connection.call(
            ApiRequest(
                method="DELETE",
                path=fill_path("/api/v1/keys/{key}", key=key),
                accept="application/json",
            ),
            forms.KeyForm,
        )


class AsyncGatesApi:
    """Read and decide what waits for a person."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list(self) -> forms.GatesForm:
        """List everything that waits for a person.

        `GET /api/v1/gates`; needs the scope `approve` or `audit` or `read`.
        """
        return await self._connection.call(
            ApiRequest(method="GET", path="/api/v1/gates", accept="application/json"),
            forms.GatesForm,
        )

    async def show(self, run: str, subject: str) -> forms.ShownGateForm:
        """Show what waits for approval.

        `GET /api/v1/runs/{run}/gate`; needs the scope `approve` or `audit` or `read`.
        """
        return await self._connection.call(
            ApiRequest(
                method="GET",
                path=fill_path("/api/v1/runs/{run}/gate", run=run),
                query={"subject": subject},
                accept="application/json",
            ),
            forms.ShownGateForm,
        )

    async def decide(
        self,
        run: str,
        *,
        subject: str,
        answer: forms.Answer,
        digest: str,
        reason: str | None = None,
    ) -> forms.DecisionForm:
        """Approve or reject what waits.

        `POST /api/v1/runs/{run}/gate`; needs the scope `approve`.

        `digest`: The digest of the content that was decided on.

        `reason`: Why; recorded with the decision, in a body that can be erased.
        """
        return await self._connection.call(
            ApiRequest(
                method="POST",
                path=fill_path("/api/v1/runs/{run}/gate", run=run),
                body={"subject": subject, "answer": answer, "digest": digest, "reason": reason},
                accept="application/json",
            ),
            forms.DecisionForm,
        )

    async def edit(self, run: str, *, subject: str, digest: str, shown: str) -> forms.GateEditForm:
        """Replace what waits for approval.

        `PUT /api/v1/runs/{run}/gate`; needs the scope `approve`.
        """
        return await self._connection.call(
            ApiRequest(
                method="PUT",
                path=fill_path("/api/v1/runs/{run}/gate", run=run),
                body={"subject": subject, "digest": digest, "shown": shown},
                accept="application/json",
            ),
            forms.GateEditForm,
        )


class AsyncWorkApi:
    """Ask what would be done, by whom, what runs have cost, and what budgets are left."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list_budgets(self) -> forms.BudgetsForm:
        """List what was used of caps over many runs, and what is left.

        `GET /api/v1/budgets`; needs the scope `audit` or `read`.
        """
        return await self._connection.call(
            ApiRequest(method="GET", path="/api/v1/budgets", accept="application/json"),
            forms.BudgetsForm,
        )

    async def set_budget(
        self, *, subject: str, amount: str, act: forms.CapAct | None = None
    ) -> forms.BudgetsForm:
        """Set, raise or remove a cap over many runs, at once for all processes.

        `POST /api/v1/budgets`; needs the scope `admin`.

        `subject`: `ledger`, or one of `key`, `person`, `team`, `lane` and `agent` with a
        pattern for names.

        `amount`: A number of dollars, or one of `tokens` or `runs`, and a period: `hour`,
        `day`, `week`, `month` or `ever`.

        `act`: Whether to set it, to add the amount, or to remove the cap.
        """
        return await self._connection.call(
            ApiRequest(
                method="POST",
                path="/api/v1/budgets",
                body={"subject": subject, "amount": amount, "act": act},
                accept="application/json",
            ),
            forms.BudgetsForm,
        )

    async def freeze_budgets(
        self, act: forms.FreezeAct, *, reason: str | None = None
    ) -> forms.BudgetsForm:
        """Stop all spending at once, or end that.

        `POST /api/v1/budgets/freeze`; needs the scope `admin`.
        """
        return await self._connection.call(
            ApiRequest(
                method="POST",
                path="/api/v1/budgets/freeze",
                body={"act": act, "reason": reason},
                accept="application/json",
            ),
            forms.BudgetsForm,
        )

    async def get_costs(
        self,
        *,
        by: forms.CostAxis | None = None,
        since: str | None = None,
        until: str | None = None,
        split: forms.CostAxis | None = None,
        cursor: str | None = None,
    ) -> forms.CostsForm:
        """Add up what runs have cost, by day, agent, model or lane.

        `GET /api/v1/costs`; needs the scope `audit` or `read`.

        `by`: The day (UTC) of the calls, their agent or model, or the lane that the route of
        the run has chosen.

        `since`: Only runs that began at or after this time.

        `until`: Only runs that began before this time.

        `split`: A second axis, by which the dollars of each row are split.

        `cursor`: The cursor that the previous reply gave.
        """
        return await self._connection.call(
            ApiRequest(
                method="GET",
                path="/api/v1/costs",
                query={"by": by, "since": since, "until": until, "split": split, "cursor": cursor},
                accept="application/json",
            ),
            forms.CostsForm,
        )

    async def get_upstreams(
        self, *, since: str | None = None, until: str | None = None
    ) -> forms.UpstreamsForm:
        """Count calls, failures, latency and refusals by provider.

        `GET /api/v1/upstreams`; needs the scope `audit` or `read`.

        `since`: Only runs that began at or after this time.

        `until`: Only runs that began before this time.
        """
        return await self._connection.call(
            ApiRequest(
                method="GET",
                path="/api/v1/upstreams",
                query={"since": since, "until": until},
                accept="application/json",
            ),
            forms.UpstreamsForm,
        )

    async def route(self, text: str, *, record: bool | None = None) -> forms.RouteForm:
        """Ask where a request belongs, and why; recorded only with `record`.

        `POST /api/v1/route`; needs the scope `read` or `submit`.

        `record`: Whether to record request and reply; needs the scope submit.
        """
        return await self._connection.call(
            ApiRequest(
                method="POST",
                path="/api/v1/route",
                body={"text": text, "record": record},
                accept="application/json",
            ),
            forms.RouteForm,
        )

    async def plan(
        self,
        request: str,
        *,
        tasks: Sequence[forms.TaskAsk] | None = None,
        lane: str | None = None,
        team: bool | None = None,
        route: bool | None = None,
        budget: forms.BudgetAsk | None = None,
        gates: forms.GateAsk | None = None,
        parallel: int | None = None,
        retries: int | None = None,
        panel: forms.PanelAsk | None = None,
        ladder: Sequence[str] | None = None,
        panels: Mapping[str, forms.PanelAsk] | None = None,
        about: str | None = None,
        record: bool | None = None,
    ) -> forms.PlanForm:
        """Ask what would be done; recorded only with `record`.

        `POST /api/v1/plan`; needs the scope `read` or `submit`.

        `ladder`: Who tries next if a result is not accepted: agents, then panels by name.

        `panels`: The panels, by name, at which an escalation can end.

        `about`: The run on whose answer the panel deliberates; the request is the question
        about it. The run has ended. Needs the scope read.

        `record`: Whether to record request and reply; needs the scope submit.
        """
        return await self._connection.call(
            ApiRequest(
                method="POST",
                path="/api/v1/plan",
                body={
                    "request": request,
                    "tasks": tasks,
                    "lane": lane,
                    "team": team,
                    "route": route,
                    "budget": budget,
                    "gates": gates,
                    "parallel": parallel,
                    "retries": retries,
                    "panel": panel,
                    "ladder": ladder,
                    "panels": panels,
                    "about": about,
                    "record": record,
                },
                accept="application/json",
            ),
            forms.PlanForm,
        )

    async def list_models(self) -> forms.ModelsForm:
        """List who would be asked, for what, and at what price.

        `GET /api/v1/models`; needs the scope `audit` or `read` or `submit`.
        """
        return await self._connection.call(
            ApiRequest(method="GET", path="/api/v1/models", accept="application/json"),
            forms.ModelsForm,
        )

    async def list_lanes(self) -> forms.RosterForm:
        """List the specialists to whom work is given.

        `GET /api/v1/roster`; needs the scope `audit` or `read` or `submit`.
        """
        return await self._connection.call(
            ApiRequest(method="GET", path="/api/v1/roster", accept="application/json"),
            forms.RosterForm,
        )


class AsyncLedgerApi:
    """Read entries, bodies and proofs, and verify the log."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list_entries(
        self, *, run: str | None = None, after: int | None = None, limit: int | None = None
    ) -> forms.EntriesPage:
        """List entries, of the log or of one run, in the order of the log.

        `GET /api/v1/entries`; needs the scope `audit` or `read`.

        `after`: The value of `next` of the previous page.
        """
        return await self._connection.call(
            ApiRequest(
                method="GET",
                path="/api/v1/entries",
                query={"run": run, "after": after, "limit": limit},
                accept="application/json",
            ),
            forms.EntriesPage,
        )

    async def list_all_entries(self, *, run: str | None = None) -> AsyncIterator[forms.EntryForm]:
        """Yield all that `list_entries` lists, page by page."""
        page = await self.list_entries(run=run)
        while True:
            for item in page.entries:
                yield item
            if page.next is None:
                return
            page = await self.list_entries(after=page.next, run=run)

    def follow_log(self, *, after: int = -1) -> AsyncGenerator[RunEvent]:
        """Follow the whole log: an event for each entry, with its index as the event's id.

        `GET /api/v1/events`; needs the scope `audit` or `read`.

        After a lost connection it goes on with the entry after the last one that you got.
        Pass the index of that entry as `after` to go on in another process.
        """
        return self._connection.follow(
            ApiRequest(method="GET", path="/api/v1/events"), after, ends=False
        )

    async def get_entry(self, entry: int | str) -> forms.EntryForm:
        """Look at an entry, by its index, its id, or the first digits of that.

        `GET /api/v1/entries/{entry}`; needs the scope `audit` or `read`.
        """
        return await self._connection.call(
            ApiRequest(
                method="GET",
                path=fill_path("/api/v1/entries/{entry}", entry=entry),
                accept="application/json",
            ),
            forms.EntryForm,
        )

    async def get_body(self, entry: int | str, name: str) -> BodyContent:
        """Get a body as it is, with `Forum-Salt` to check it; `approve` opens only what gates
        show.

        `GET /api/v1/entries/{entry}/bodies/{name}`; needs the scope `approve` or `audit` or
        `read`.
        """
        return await self._connection.call_body(
            ApiRequest(
                method="GET",
                path=fill_path("/api/v1/entries/{entry}/bodies/{name}", entry=entry, name=name),
            )
        )

    async def get_proof(self, entry: int | str) -> forms.ProofForm:
        """Get the proof that an entry is in the log.

        `GET /api/v1/entries/{entry}/proof`; needs the scope `audit` or `read`.
        """
        return await self._connection.call(
            ApiRequest(
                method="GET",
                path=fill_path("/api/v1/entries/{entry}/proof", entry=entry),
                accept="application/json",
            ),
            forms.ProofForm,
        )

    async def get_directory(
        self, *, first: int | None = None, limit: int | None = None
    ) -> forms.DirectoryForm:
        """Get the names of all runs, in the order of their openings, with a proof.

        `GET /api/v1/directory`; needs the scope `audit` or `read`.

        `first`: The position of the first entry, from 0 on. A negative one is counted from
        the end of what was signed: -64 begins with the last 64.
        """
        return await self._connection.call(
            ApiRequest(
                method="GET",
                path="/api/v1/directory",
                query={"first": first, "limit": limit},
                accept="application/json",
            ),
            forms.DirectoryForm,
        )

    async def get_causes(self, entry: int | str, *, limit: int | None = None) -> forms.WhyForm:
        """Look at what led to an entry.

        `GET /api/v1/entries/{entry}/causes`; needs the scope `audit` or `read`.
        """
        return await self._connection.call(
            ApiRequest(
                method="GET",
                path=fill_path("/api/v1/entries/{entry}/causes", entry=entry),
                query={"limit": limit},
                accept="application/json",
            ),
            forms.WhyForm,
        )

    async def get_checkpoint(self) -> forms.CheckpointForm:
        """Look at what the log has committed to.

        `GET /api/v1/checkpoint`; needs the scope `audit` or `read`.
        """
        return await self._connection.call(
            ApiRequest(method="GET", path="/api/v1/checkpoint", accept="application/json"),
            forms.CheckpointForm,
        )

    async def verify(self) -> forms.ReportForm:
        """Check the whole ledger, with the keys and memories of the server.

        `POST /api/v1/verification`; needs the scope `audit`.
        """
        return await self._connection.call(
            ApiRequest(
                method="POST", path="/api/v1/verification", accept="application/json", seconds=600.0
            ),
            forms.ReportForm,
        )

    async def get_review(
        self, *, run: str | None = None, limit: int | None = None
    ) -> forms.ReviewForm:
        """Show what is worth a look since the last review, or in one run.

        `GET /api/v1/reviews`; needs the scope `audit`.

        `run`: A run; empty for all.

        `limit`: How many items are listed.
        """
        return await self._connection.call(
            ApiRequest(
                method="GET",
                path="/api/v1/reviews",
                query={"run": run, "limit": limit},
                accept="application/json",
            ),
            forms.ReviewForm,
        )

    async def create_review(
        self, until: int, *, run: str | None = None, remark: str | None = None
    ) -> forms.ReviewForm:
        """Record that you have looked.

        `POST /api/v1/reviews`; needs the scope `audit`.

        `until`: The `until` of the review that was shown.

        `run`: A run; empty for all.
        """
        return await self._connection.call(
            ApiRequest(
                method="POST",
                path="/api/v1/reviews",
                body={"until": until, "run": run, "remark": remark},
                accept="application/json",
            ),
            forms.ReviewForm,
        )

    async def list_incidents(self) -> forms.IncidentsForm:
        """List the incidents.

        `GET /api/v1/incidents`; needs the scope `audit`.
        """
        return await self._connection.call(
            ApiRequest(method="GET", path="/api/v1/incidents", accept="application/json"),
            forms.IncidentsForm,
        )

    async def open_incident(
        self,
        *,
        severity: forms.IncidentSeverity,
        text: str,
        runs: Sequence[str] | None = None,
        known: str | None = None,
    ) -> forms.IncidentForm:
        """Record an incident.

        `POST /api/v1/incidents`; needs the scope `audit`.

        `text`: What happened.

        `runs`: The runs in it.

        `known`: When somebody became aware; empty for now.
        """
        return await self._connection.call(
            ApiRequest(
                method="POST",
                path="/api/v1/incidents",
                body={"severity": severity, "text": text, "runs": runs, "known": known},
                accept="application/json",
            ),
            forms.IncidentForm,
        )

    async def close_incident(self, incident: str, text: str) -> forms.IncidentForm:
        """Record that an incident is dealt with.

        `POST /api/v1/incidents/{incident}/close`; needs the scope `audit`.
        """
        return await self._connection.call(
            ApiRequest(
                method="POST",
                path=fill_path("/api/v1/incidents/{incident}/close", incident=incident),
                body={"text": text},
                accept="application/json",
            ),
            forms.IncidentForm,
        )

    async def create_evidence(
        self,
        *,
        since: str | None = None,
        until: str | None = None,
        incident: str | None = None,
        maps: Sequence[str] | None = None,
        unreviewed: bool | None = None,
        sample: int | None = None,
        seed: str | None = None,
    ) -> bytes:
        """Take the evidence of a period or an incident along; that is recorded.

        `POST /api/v1/evidence`; needs the scope `audit`.

        `since`: Empty for the beginning of the log.

        `until`: The first moment after it; empty for now.

        `incident`: A run; empty for a period.

        `unreviewed`: Whether maps that nobody has reviewed may be used, with a mark.

        `sample`: How many runs are drawn.

        `seed`: The auditor's; empty for that of the witnesses.
        """
        return await self._connection.call_bytes(
            ApiRequest(
                method="POST",
                path="/api/v1/evidence",
                body={
                    "since": since,
                    "until": until,
                    "incident": incident,
                    "maps": maps,
                    "unreviewed": unreviewed,
                    "sample": sample,
                    "seed": seed,
                },
                seconds=300.0,
            )
        )


class AsyncTlogApi:
    """Read the log as C2SP tlog-tiles."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def checkpoint(self) -> str:
        """Return the newest signed checkpoint (C2SP tlog-checkpoint).

        `GET /tlog/checkpoint`; needs the scope `approve` or `audit` or `read`.
        """
        return await self._connection.call_text(ApiRequest(method="GET", path="/tlog/checkpoint"))

    async def entries(self, path: str) -> bytes:
        """Return an entry bundle, such as `x001/067` or `000.p/8` (C2SP tlog-tiles).

        `GET /tlog/tile/entries/{path:path}`; needs the scope `approve` or `audit` or `read`.
        """
        return await self._connection.call_bytes(
            ApiRequest(method="GET", path=fill_path("/tlog/tile/entries/{path:path}", path=path))
        )

    async def tile(self, level: str, path: str) -> bytes:
        """Return a tile, such as `0/x001/067` or `1/000.p/8` (C2SP tlog-tiles).

        `GET /tlog/tile/{level}/{path:path}`; needs the scope `approve` or `audit` or `read`.
        """
        return await self._connection.call_bytes(
            ApiRequest(
                method="GET",
                path=fill_path("/tlog/tile/{level}/{path:path}", level=level, path=path),
            )
        )


class AsyncReportsApi:
    """Operations of `client.reports`."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def create(
        self,
        items: Sequence[
            forms.RunStart | forms.StepBegin | forms.StepReport | forms.RunEnd | forms.GateQuestion
        ],
    ) -> forms.ReportResult:
        """Report runs and steps of agents that Forum does not drive.

        `POST /api/v1/reports`; needs the scope `report`.
        """
        return await self._connection.call(
            ApiRequest(
                method="POST",
                path="/api/v1/reports",
                body={"items": items},
                accept="application/json",
            ),
            forms.ReportResult,
        )


class AsyncOpenaiApi:
    """Ask as chat clients do, without streams."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def models(self) -> forms.ChoicesForm:
        """List what chat clients can choose as a model.

        `GET /v1/models`; needs the scope `audit` or `read` or `submit`.
        """
        return await self._connection.call(
            ApiRequest(method="GET", path="/v1/models", accept="application/json"),
            forms.ChoicesForm,
        )

    async def model(self, model: str) -> forms.ChoiceForm:
        """Tell what a model is.

        `GET /v1/models/{model:path}`; needs the scope `audit` or `read` or `submit`.
        """
        return await self._connection.call(
            ApiRequest(
                method="GET",
                path=fill_path("/v1/models/{model:path}", model=model),
                accept="application/json",
            ),
            forms.ChoiceForm,
        )

    async def chat(
        self,
        *,
        model: str,
        metadata: Mapping[str, Any] | None = None,
        forum: forms.Terms | None = None,
        messages: Sequence[forms.Message],
        n: Any = None,
        tools: Any = None,
        tool_choice: Any = None,
        functions: Any = None,
        function_call: Any = None,
        response_format: Any = None,
        modalities: Any = None,
        audio: Any = None,
        logprobs: Any = None,
        top_logprobs: Any = None,
        stop: Any = None,
        web_search_options: Any = None,
        idempotency_key: str | None = None,
    ) -> forms.Completion:
        """Answer a conversation, as OpenAI's chat completions do.

        `POST /v1/chat/completions`; needs the scope `submit`.

        The client makes an idempotency key and keeps it for its retries; give one of your own
        where another process may ask again.
        """
        return await self._connection.call(
            ApiRequest(
                method="POST",
                path="/v1/chat/completions",
                body={
                    "model": model,
                    "metadata": metadata,
                    "forum": forum,
                    "messages": messages,
                    "n": n,
                    "tools": tools,
                    "tool_choice": tool_choice,
                    "functions": functions,
                    "function_call": function_call,
                    "response_format": response_format,
                    "modalities": modalities,
                    "audio": audio,
                    "logprobs": logprobs,
                    "top_logprobs": top_logprobs,
                    "stop": stop,
                    "web_search_options": web_search_options,
                },
                idempotency_key=idempotency_key or new_idempotency_key(),
                accept="application/json",
                seconds=595.0,
            ),
            forms.Completion,
        )

    async def responses(
        self,
        *,
        model: str,
        metadata: Mapping[str, Any] | None = None,
        forum: forms.Terms | None = None,
        input: str | Sequence[forms.Item],
        instructions: str | None = None,
        tools: Any = None,
        tool_choice: Any = None,
        text: Any = None,
        background: Any = None,
        previous_response_id: Any = None,
        conversation: Any = None,
        prompt: Any = None,
        include: Any = None,
        top_logprobs: Any = None,
        idempotency_key: str | None = None,
    ) -> forms.ResponseForm:
        """Answer a request, as OpenAI's responses do.

        `POST /v1/responses`; needs the scope `submit`.

        The client makes an idempotency key and keeps it for its retries; give one of your own
        where another process may ask again.
        """
        return await self._connection.call(
            ApiRequest(
                method="POST",
                path="/v1/responses",
                body={
                    "model": model,
                    "metadata": metadata,
                    "forum": forum,
                    "input": input,
                    "instructions": instructions,
                    "tools": tools,
                    "tool_choice": tool_choice,
                    "text": text,
                    "background": background,
                    "previous_response_id": previous_response_id,
                    "conversation": conversation,
                    "prompt": prompt,
                    "include": include,
                    "top_logprobs": top_logprobs,
                },
                idempotency_key=idempotency_key or new_idempotency_key(),
                accept="application/json",
                seconds=595.0,
            ),
            forms.ResponseForm,
        )


class AsyncHealthApi:
    """Watch the server."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def livez(self) -> str:
        """Return whether the process lives.

        `GET /livez`; needs no key.
        """
        return await self._connection.call_text(ApiRequest(method="GET", path="/livez"))

    async def readyz(self) -> str:
        """Return whether to send requests here: whether it can write.

        `GET /readyz`; needs no key.
        """
        return await self._connection.call_text(ApiRequest(method="GET", path="/readyz"))

    async def readyz_read(self) -> str:
        """Return whether to send requests here that only read.

        `GET /readyz/read`; needs no key.
        """
        return await self._connection.call_text(ApiRequest(method="GET", path="/readyz/read"))

    async def readyz_sign(self) -> str:
        """Return whether entries get an index and a signature.

        `GET /readyz/sign`; needs no key.
        """
        return await self._connection.call_text(ApiRequest(method="GET", path="/readyz/sign"))

    async def metrics(self) -> str:
        """Return what this process counts.

        `GET /metrics`; needs the scope `admin` or `audit` or `metrics` or `read`.
        """
        return await self._connection.call_text(ApiRequest(method="GET", path="/metrics"))

    async def openapi(self) -> dict[str, Any]:
        """Return this API as OpenAPI 3.1.

        `GET /openapi.json`; needs no key.
        """
        return await self._connection.call(
            ApiRequest(method="GET", path="/openapi.json", accept="application/json"),
            dict[str, Any],
        )


class AsyncOperationGroups:
    """All operations, by their groups."""

    def __init__(self, connection: AsyncConnection) -> None:
        self.runs = AsyncRunsApi(connection)
        """Submit, read, follow and control runs."""
        self.keys = AsyncKeysApi(connection)
        """Create, list and revoke keys."""
        self.gates = AsyncGatesApi(connection)
        """Read and decide what waits for a person."""
        self.work = AsyncWorkApi(connection)
        """Ask what would be done, by whom, what runs have cost, and what budgets are left."""
        self.ledger = AsyncLedgerApi(connection)
        """Read entries, bodies and proofs, and verify the log."""
        self.tlog = AsyncTlogApi(connection)
        """Read the log as C2SP tlog-tiles."""
        self.reports = AsyncReportsApi(connection)
        self.openai = AsyncOpenaiApi(connection)
        """Ask as chat clients do, without streams."""
        self.health = AsyncHealthApi(connection)
        """Watch the server."""
