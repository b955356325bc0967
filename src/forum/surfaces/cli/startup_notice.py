"""The notice at the start of a worker: which other runs it continues."""

from collections.abc import Callable, Sequence
from functools import partial

from forum.app import Forum
from forum.app.formatting import pluralize, short_id
from forum.surfaces.cli.console import echo

_to_stderr = partial(echo, err=True)
_MAX_NAMED = 3
_MAX_COUNTED = 100


def announce_runs(
    forum: Forum, worker: str = "", own: str = "", *, say: Callable[[str], None] = _to_stderr
) -> None:
    """Print which accepted runs are continued and which interrupted ones are not.

    `worker` is the id of this process's worker, if it already runs, and `own` the run that the
    command is for. A process that keeps a log passes its log function as `say`.
    """
    # One more than is counted, to know whether there are more.
    accepted = [run for run in forum.reads.accepted_runs(_MAX_COUNTED + 1) if run != own]
    if accepted:
        others = len(forum.reads.live_workers() - {worker})
        shared = f", with {pluralize(others, 'other worker')}" if others else ""
        text = f"carrying on {_count(accepted)} accepted before{shared}: {_names(accepted)}"
        say(text)
    interrupted = [run for run in forum.reads.interrupted_runs(_MAX_COUNTED + 1) if run != own]
    if interrupted:
        single = len(interrupted) == 1
        text = (
            f"{_count(interrupted)} {'is' if single else 'are'} interrupted: {_names(interrupted)}"
        )
        go_on = f"forum resume {short_id(interrupted[0]) if single else 'RUN'}"
        say(f"{text}; go on with: {go_on}")


def _count(runs: Sequence[str]) -> str:
    if len(runs) > _MAX_COUNTED:
        return f"more than {_MAX_COUNTED} runs"
    return pluralize(len(runs), "run")


def _names(runs: Sequence[str]) -> str:
    named = ", ".join(short_id(run) for run in runs[:_MAX_NAMED])
    return f"{named}, ..." if len(runs) > _MAX_NAMED else named
