"""What the next epoch of a log has of the one before, as text."""

from collections.abc import Iterator

from forum.app import EpochStart
from forum.app.formatting import pluralize
from forum.surfaces.cli import common_options, output
from forum.surfaces.cli.console import echo


def print_epoch(result: EpochStart, *, as_json: bool) -> None:
    """Print the beginning of an epoch."""
    if as_json:
        facts = {
            "origin": result.origin,
            "key": str(result.key),
            "new_key": result.has_new_key,
            "left_size": result.left.size,
            "held_size": result.held.size,
            "unsigned": result.unsigned,
            "runs": list(result.carried.runs),
            "interrupted": result.carried.interrupted,
        }
        output.print_json("forum.epoch/1", facts)
        return
    echo(result.origin)
    for line in _describe_carried(result):
        common_options.echo_info(line)
    new = "the signing key is new; readers must pin it again: forum ledger policy"
    same = "the log has a new name; give readers its trust file: forum ledger policy"
    common_options.echo_info(new if result.has_new_key else same)


def _describe_carried(result: EpochStart) -> Iterator[str]:
    """Yield what was lost of the log that was left, and what goes on."""
    left, held = result.left, result.held
    carried = result.carried
    if held.size < left.size:
        yield (
            f"{left.origin} was signed up to size {left.size}, and the newest checkpoint in the "
            f"database is of size {held.size}: what came after it is lost, or proven by nothing"
        )
    else:
        yield f"no signed entry of {left.origin} was lost; it was left at size {left.size}"
    if result.unsigned:
        entries = pluralize(result.unsigned, "entry")
        yield f"{entries} of {left.origin} could not be signed: nothing proves them"
    yield (
        f"carried over: {pluralize(carried.keys, 'entry')} about access, "
        f"{pluralize(len(carried.runs), 'open run')}"
    )
    if carried.lost_access:
        entries = pluralize(carried.lost_access, "entry")
        yield f"lost: {entries} about access; make new keys, and revoke again what was revoked"
    if carried.left_runs:
        yield f"not carried over: {pluralize(carried.left_runs, 'run')} of other programs"
    if carried.refused_runs:
        yield "not carried over, because something in them was altered or is gone:"
        yield from (f"  {run}" for run in carried.refused_runs)
    if carried.interrupted and carried.runs:
        yield "look what the tools of each run have done, then: forum resume RUN"
        yield from (f"  {run}" for run in carried.runs)
