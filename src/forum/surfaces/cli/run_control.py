"""`forum resume`, `cancel`, `fork` and `replay`: continue, end, branch or repeat a run."""

from functools import partial
from typing import NoReturn

import click

from forum.app import Forum, RunQuery, RunView
from forum.app.formatting import short_id
from forum.errors import NotYetSigned, ReplayMiss
from forum.ledger.log import LocatedEntry
from forum.runs.report_kinds import Provenance
from forum.runs.run_fold import RunState
from forum.surfaces.cli import EXIT_MISMATCH, common_options
from forum.surfaces.cli.console import echo
from forum.surfaces.cli.diff_view import print_divergences
from forum.surfaces.cli.output import print_json
from forum.surfaces.cli.run_follower import print_result_and_exit, run_and_follow
from forum.surfaces.cli.run_view import render_run, run_status
from forum.surfaces.cli.submit_options import AgentOptions, agent_options, reject_unusable_agents
from forum.surfaces.schemas.comparison import replay_form
from forum.surfaces.schemas.runs import run_form

_OTHER_WORKER_TIMEOUT_S = 2.0
"""How long to wait for another worker to end the run."""

_MAX_LISTED = 5
_UNFINISHED = frozenset(map(str, RunState)) - {RunState.ENDED}

detach_option = click.option(
    "--detach", is_flag=True, help="Do not wait; a `forum worker` carries out the run."
)


@common_options.command(examples=("forum resume", "forum resume 0199c0de-1234-7abc"))
@click.argument("run", required=False)
@detach_option
@common_options.confine
@common_options.as_json
def resume(run: str | None, *, detach: bool, as_json: bool) -> None:
    """Continue a RUN, and print its answer.  Its exit status is that of `forum submit`.

    No worker continues a run that was interrupted until this command.  Recorded steps are not
    repeated.  For a run that has ended, its result is printed.  Without a RUN, at a terminal: show
    the only run that has not ended, and ask.
    """
    with common_options.open_forum() as forum:
        run_id = forum.reads.find_run(run) if run else _ask_which_to_resume(forum)
        if forum.reads.read_run(run_id).outcome is not None:
            echo("the run has already ended", err=True)
            print_result_and_exit(forum, run_id, as_json=as_json)

        def go_on() -> str:
            forum.runs.resume(run_id)
            return run_id

        run_and_follow(forum, go_on, as_json=as_json, detach=detach)


def _ask_which_to_resume(forum: Forum) -> str:
    """Show the only run that has not ended, ask whether to continue it, and return it."""
    page = forum.reads.list_runs(RunQuery(labels=_UNFINISHED), None, _MAX_LISTED + 1)
    runs = [run for run in page.runs if run.summary.provenance is Provenance.DRIVEN]
    if not runs:
        raise click.UsageError("no run waits to be continued; forum runs lists all of them")
    if len(runs) > 1:
        listed = ", ".join(short_id(each.run) for each in runs[:_MAX_LISTED])
        more = " and more" if len(runs) > _MAX_LISTED else ""
        raise click.UsageError(f"several runs have not ended; name one: {listed}{more}")
    run = runs[0].run
    if not common_options.can_ask():
        raise click.UsageError(
            f"there is no terminal to ask at; name the run: forum resume {short_id(run)}"
        )
    shown = forum.reads.view_run(run)
    echo(*render_run(shown), err=True)
    common_options.confirm_or_exit(f"Continue run {short_id(run)}?", "the run was not continued")
    if _progress_of(forum.reads.view_run(run)) != _progress_of(shown):
        raise click.UsageError("the run has changed since it was shown; look again: forum resume")
    return run


def _progress_of(view: RunView) -> tuple[object, ...]:
    """Return what the answer to the question depends on: the state, the cost, the open gates."""
    state = view.state
    return (state.state, state.spent, [(run, gate.digest) for run, gate in view.gates])


@common_options.command(examples=("forum cancel 0199c0de-1234-7abc",))
@click.argument("run")
@detach_option
@common_options.as_json
def cancel(run: str, *, detach: bool, as_json: bool) -> None:
    """Cancel a RUN: calls in progress are stopped on every machine, finished work is kept.

    Exit status 0 once the cancellation is recorded.
    """
    with common_options.open_forum() as forum:
        run_id = forum.reads.find_run(run)
        forum.runs.cancel(run_id)
        forum.log.publish_or_warn()
        state = forum.reads.read_run(run_id)
        if not detach:
            state = forum.reads.follow_run(run_id, patience=_OTHER_WORKER_TIMEOUT_S)
            if state.outcome is None:
                with forum.runs.run_worker():  # no other worker has ended it
                    state = forum.reads.follow_run(run_id)
        view = forum.reads.view_run(run_id)
    if as_json:
        print_json("forum.run/1", run_form(view))
        return
    echo(run_id)
    if state.outcome is not None:
        echo(f"the run has ended: {run_status(state)[1]}", err=True)
    else:
        echo("recorded; the run ends when a worker or forum resume reads it", err=True)


@common_options.command(
    examples=(
        "forum show 0199c0de-1234-7abc --until 57",
        'forum fork 0199c0de-1234-7abc --at 57 --cmd "./agent --brief"',
    ),
)
@click.argument("run", required=False)
@click.option(
    "--at", required=True, metavar="ENTRY", help="The last entry that the new run copies."
)
@agent_options
@detach_option
@common_options.confine
@common_options.as_json
def fork(run: str | None, at: str, *, agents: AgentOptions, detach: bool, as_json: bool) -> None:
    """Start a new run that takes over the replies of a RUN up to an entry, and continues from it.

    Replies up to the entry are not paid for again.  After it, agents are called: those of the RUN,
    or those that you name.  Without a RUN, the one that the entry belongs to.
    """
    with common_options.open_forum() as forum:
        forum.log.publish()  # so that the entry has an index
        entry = forum.ledger.find_entry(at)
        run_id = forum.reads.find_run(run) if run else entry.entry.run
        index = _index_in(entry, run_id)
        request = forum.reads.read_run_request(run_id)
        policy = agents.apply_to_fork(request.policy)
        if agents.names_default:
            reject_unusable_agents(policy, request.plan, here=not detach)

        echo(f"forking {short_id(run_id)} after entry {index}", err=True)
        begin = partial(forum.runs.fork, run_id, index, policy)
        run_and_follow(forum, begin, as_json=as_json, detach=detach)


def _index_in(entry: LocatedEntry, run: str) -> int:
    if entry.entry.run != run:
        raise click.UsageError(f"--at: entry {entry.position} is not of run {run}")
    if entry.index is None:
        raise NotYetSigned(str(entry.position))
    return entry.index


@common_options.command(examples=("forum replay 0199c0de-1234-7abc",))
@click.argument("run")
@common_options.as_json
def replay(run: str, *, as_json: bool) -> None:
    """Replay a RUN from its record alone, and compare the result with the record.

    No agent is called and no tool is used: every reply comes from the record, and the engine must
    record the same steps again.  Exit status 0 if it does, 4 if not, and 2 if the run has not
    ended.
    """
    with common_options.open_forum() as forum:
        same = "the replay is the same, step by step"
        replay_and_compare(forum, forum.reads.find_run(run), same, as_json=as_json)


def replay_and_compare(forum: Forum, run: str, same: str, *, as_json: bool) -> NoReturn:
    """Replay a run from its record; print `same`, or where the two differ, and exit."""
    if forum.reads.read_run(run).outcome is None:
        raise click.UsageError(f"run {run} has not ended; go on with: forum resume {short_id(run)}")
    try:
        parted, missing = forum.runs.replay(run), ""
    except ReplayMiss as miss:
        parted, missing = [], str(miss)
    if as_json:
        print_json("forum.replay/1", replay_form(run, parted, missing))
    elif parted:
        print_divergences(parted, ("the record", "the replay"))
    else:
        echo(missing or same)
    raise SystemExit(EXIT_MISMATCH if parted or missing else 0)
