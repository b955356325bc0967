"""What a process that carries out runs says when it begins: which other runs it goes on with."""

from collections.abc import Sequence

import click

from forum.app import Forum
from forum.surfaces.telling import SHORT, plural

_MAX_NAMED = 3
_MAX_COUNTED = 100


def announce_runs(forum: Forum, worker: str = "", own: str = "") -> None:
    """Say on stderr which accepted runs are carried on, and which interrupted ones are not.

    `worker` is the one of this process, if it serves already, and `own` the run that it is for.
    """
    accepted = [run for run in forum.accepted_runs(_MAX_COUNTED + 1) if run != own]
    if accepted:
        others = len(forum.live_workers() - {worker})
        shared = f", with {plural(others, 'other worker')}" if others else ""
        said = f"carrying on {_count(accepted)} accepted before{shared}: {_names(accepted)}"
        click.echo(said, err=True)
    interrupted = [run for run in forum.interrupted_runs(_MAX_COUNTED + 1) if run != own]
    if interrupted:
        one = len(interrupted) == 1
        said = f"{_count(interrupted)} {'is' if one else 'are'} interrupted: {_names(interrupted)}"
        go_on = f"forum resume {interrupted[0][:SHORT] if one else 'RUN'}"
        click.echo(f"{said}; go on with: {go_on}", err=True)


def _count(runs: Sequence[str]) -> str:
    if len(runs) > _MAX_COUNTED:
        return f"more than {_MAX_COUNTED} runs"
    return plural(len(runs), "run")


def _names(runs: Sequence[str]) -> str:
    named = ", ".join(run[:SHORT] for run in runs[:_MAX_NAMED])
    return f"{named}, ..." if len(runs) > _MAX_NAMED else named
