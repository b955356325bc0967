"""`forum resume`, `cancel`, `fork` and `replay`: having a run go on, end, part, or tell again."""

from typing import NoReturn

import click

from forum.app import Forum
from forum.errors import NotYetSigned, ReplayMiss
from forum.ledger import Located
from forum.surfaces.cli import MISMATCH, options
from forum.surfaces.cli.divergence import print_divergences
from forum.surfaces.cli.following import carry_out, finish, hand_over
from forum.surfaces.cli.orders import Agents, agent_options, refuse_unusable
from forum.surfaces.cli.output import print_json
from forum.surfaces.cli.runview import status
from forum.surfaces.forms.comparison import replay_form
from forum.surfaces.forms.runs import run_form
from forum.surfaces.telling import SHORT

_OTHERS_SECONDS = 2.0
"""How long a worker elsewhere is waited for."""

detached = click.option(
    "--detach", is_flag=True, help="Do not wait; a `forum worker` carries it out."
)


@click.command(cls=options.WithExamples, examples=("forum resume 0199c0de-1234-7abc",))
@click.argument("run")
@detached
@options.confine
@options.as_json
def resume(run: str, *, detach: bool, as_json: bool) -> None:
    """Go on with a RUN, and print its answer.  Its exit status is that of `forum submit`.

    A run that was interrupted is carried on by nobody before this.  What is recorded is not done
    again.  A run that has ended already prints what came of it.
    """
    with options.forum() as forum:
        found = forum.run_of(run)
        if forum.read_run(found).outcome is not None:
            click.echo("it has ended already", err=True)
            finish(forum, found, as_json=as_json)

        def go_on() -> str:
            forum.resume(found)
            return found

        if detach:
            hand_over(forum, go_on, as_json=as_json)
        else:
            carry_out(forum, go_on, as_json=as_json)


@click.command(cls=options.WithExamples, examples=("forum cancel 0199c0de-1234-7abc",))
@click.argument("run")
@detached
@options.as_json
def cancel(run: str, *, detach: bool, as_json: bool) -> None:
    """Have a RUN end: its calls are stopped wherever they are made, what is done stays.

    Exit status 0 once that is recorded.
    """
    with options.forum() as forum:
        found = forum.run_of(run)
        forum.cancel(found)
        forum.sign_or_warn()
        state = forum.read_run(found)
        if not detach:
            state = forum.follow(found, patience=_OTHERS_SECONDS)
            if state.outcome is None:
                with forum.working():  # nobody else works on it
                    state = forum.follow(found)
        view = forum.view(found)
    if as_json:
        print_json("forum.run/1", run_form(view))
        return
    click.echo(found)
    if state.outcome is not None:
        click.echo(f"it has ended: {status(state)[1]}", err=True)
    else:
        click.echo("asked; it ends as soon as a worker, or forum resume, looks", err=True)


@click.command(
    cls=options.WithExamples,
    examples=(
        "forum show 0199c0de-1234-7abc --until 57",
        'forum fork 0199c0de-1234-7abc --at 57 --cmd "./agent --brief"',
    ),
)
@click.argument("run", required=False)
@click.option("--at", required=True, metavar="ENTRY", help="The last entry that is taken over.")
@agent_options
@detached
@options.confine
@options.as_json
def fork(run: str | None, at: str, *, agents: Agents, detach: bool, as_json: bool) -> None:
    """Begin a new run that takes over the replies of a RUN up to an entry, and goes on from there.

    What was said up to then is not paid for again; from then on agents are asked, others than
    before where you name them.  Without a RUN, the one that the entry belongs to.
    """
    with options.forum() as forum:
        forum.settle()  # so that the entry has an index
        entry = forum.ledger.find(at)
        found = forum.run_of(run) if run else entry.entry.run
        index = _index_in(entry, found)
        order = forum.order_of(found)
        policy = agents.take_over(order.policy)
        if agents.name_one:
            refuse_unusable(policy, order.plan, here=not detach)

        def part() -> str:
            return forum.fork(found, index, policy)

        click.echo(f"forking {found[:SHORT]} after entry {index}", err=True)
        if detach:
            hand_over(forum, part, as_json=as_json)
        else:
            carry_out(forum, part, as_json=as_json)


def _index_in(entry: Located, run: str) -> int:
    if entry.entry.run != run:
        raise click.UsageError(f"--at: entry {entry.position} is not of run {run}")
    if entry.index is None:
        raise NotYetSigned(str(entry.position))
    return entry.index


@click.command(cls=options.WithExamples, examples=("forum replay 0199c0de-1234-7abc",))
@click.argument("run")
@options.as_json
def replay(run: str, *, as_json: bool) -> None:
    """Play a RUN again from its record alone, and see whether it says the same.

    Nobody is asked, nothing is paid, nothing happens: every reply comes from the record, and what
    the engine then records has to be what was recorded.  Exit status 0 if it is, 4 if not, and 2
    if the run has not ended.
    """
    with options.forum() as forum:
        same = "the replay says the same, step by step"
        play_again(forum, forum.run_of(run), same, as_json=as_json)


def play_again(forum: Forum, run: str, same: str, *, as_json: bool) -> NoReturn:
    """Play a run again from its record, and say that it is the `same`, or where the two part."""
    if forum.read_run(run).outcome is None:
        raise click.UsageError(f"run {run} has not ended; go on with: forum resume {run[:SHORT]}")
    try:
        parted, missing = forum.replay(run), ""
    except ReplayMiss as miss:
        parted, missing = [], str(miss)
    if as_json:
        print_json("forum.replay/1", replay_form(run, parted, missing))
    elif parted:
        print_divergences(parted, ("the record", "the replay"))
    else:
        click.echo(missing or same)
    raise SystemExit(MISMATCH if parted or missing else 0)
