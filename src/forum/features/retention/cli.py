"""`forum retention`, `forum hold` and `forum ledger requests`: how long bodies are kept."""

import click

from forum.app import Forum
from forum.app.formatting import pluralize, short_id, strip_control_characters
from forum.features.retention.schemas import HoldForm, holds_form, requests_form, retention_form
from forum.features.retention.service import MIN_REQUEST_DIGITS, RetentionOperations
from forum.ledger.control_key import REQUESTS_STRAND
from forum.ledger.strand import RecordedEntry
from forum.surfaces.cli import common_options, output
from forum.surfaces.schemas.ledger import describe_request
from forum.units import parse_period

_KEEP = "keep"
_HOLD_HEADS = ("hold", "runs", "since", "by", "reason")
_DAY_S = 86_400
_ID_DIGITS = 64


def _parse_rule_period(text: str) -> int:
    """Return how long a rule keeps bodies, in seconds; 0 if for ever."""
    return 0 if text == _KEEP else parse_period(text)


@click.group(cls=common_options.FullHelpGroup)
def retention() -> None:
    """Set how long bodies are kept, and erase those whose period is over.

    The process that signs the log erases them, in the background.  Each erasure is recorded and
    signed before it is done.  Entries, and the facts in them, stay.
    """


@retention.command(
    "set",
    examples=(
        "forum retention set '*' 365d",
        "forum retention set call/prompt 30d",
        "forum retention set report.step keep",
    ),
)
@click.argument("subject")
@click.argument("period", type=common_options.UnitsParam("period", _parse_rule_period))
@common_options.as_json
def set_(subject: str, period: int, *, as_json: bool) -> None:
    """Keep the bodies of SUBJECT for PERIOD after they were recorded.

    SUBJECT is `*` for all bodies of runs, a kind of entry (call), or one body of a kind
    (call/prompt); the most exact rule counts.  PERIOD is a number of hours, days, weeks or years
    (12h, 90d, 4w, 1y), or `keep`.  The rule holds for what is recorded already as well.
    """
    with common_options.open_forum() as forum:
        recorded = RetentionOperations(forum).set_rule(subject, period)
        _tell_of_request(recorded)
        form = retention_form(
            RetentionOperations(forum).read_state(), RetentionOperations(forum).read_holds()
        )
        publication = forum.log.publish_or_warn()
    text = f"{recorded.leaf.hex()}  {subject}: {_describe_period(period or None)}"
    output.print_result("forum.retention/1", form, text, as_json=as_json)
    if not as_json:
        output.print_publication(publication)


@retention.command("list", examples=("forum retention list",))
@common_options.as_json
def list_(*, as_json: bool) -> None:
    """List the rules, and the holds that stop them."""
    with common_options.open_forum() as forum:
        form = retention_form(
            RetentionOperations(forum).read_state(), RetentionOperations(forum).read_holds()
        )
    rows = [(rule.subject, _describe_period(rule.seconds)) for rule in form.rules]
    lines = output.format_table([("bodies of", "are kept"), *rows]) if rows else []
    if form.holds:
        lines += ["", *output.format_table([_HOLD_HEADS, *map(_hold_row, form.holds)])]
    output.print_result("forum.retention/1", form, lines, as_json=as_json)
    if not rows and not as_json:
        common_options.echo_info("no rule: everything is kept; see: forum retention set --help")


@retention.command("apply", examples=("forum retention apply",))
@common_options.as_json
def apply(*, as_json: bool) -> None:
    """Erase now what no rule keeps any more, and print how many bodies that were."""
    with common_options.open_forum() as forum:
        result = RetentionOperations(forum).apply_rules()
    facts = {"redacted": result.redacted, "erased": result.erased}
    waiting = max(0, result.redacted - result.erased)
    text = f"erased {result.erased}" + (f", {waiting} more when they are signed" if waiting else "")
    output.print_result("forum.erasure/1", facts, text, as_json=as_json)


@click.group(cls=common_options.FullHelpGroup)
def hold() -> None:
    """Keep what runs have recorded, whatever rules and requests say, until the hold is released."""


@hold.command(
    examples=(
        'forum hold place case-7 --run 0199c0de-1234 --reason "Claim of a customer."',
        'forum hold place audit-2026 --reason "All of it, for the auditors."',
    ),
)
@click.argument("name")
@click.option("--run", "runs", multiple=True, help="A run; may be repeated.  Default: all runs.")
@click.option("--reason", default="", help="Why; it can be erased like every body.")
@common_options.as_json
def place(name: str, runs: tuple[str, ...], reason: str, *, as_json: bool) -> None:
    """Place the hold NAME on runs, or on all of them: nothing of these is erased."""
    with common_options.open_forum() as forum:
        named = tuple(dict.fromkeys(forum.reads.find_run(run) for run in runs))
        recorded = RetentionOperations(forum).place_hold(name, named, reason)
        is_asked = _tell_of_request(recorded)
        form = holds_form(RetentionOperations(forum).read_holds())
        publication = forum.log.publish_or_warn()
    output.print_result(
        "forum.holds/1", form, f"{'asked' if is_asked else 'placed'}  {name}", as_json=as_json
    )
    if not as_json:
        output.print_publication(publication)


@hold.command(examples=('forum hold release case-7 --reason "Settled."',))
@click.argument("name")
@click.option("--reason", default="", help="Why; it can be erased like every body.")
@common_options.as_json
def release(name: str, reason: str, *, as_json: bool) -> None:
    """Release the hold NAME."""
    with common_options.open_forum() as forum:
        is_asked = _tell_of_request(RetentionOperations(forum).release_hold(name, reason))
        form = holds_form(RetentionOperations(forum).read_holds())
        publication = forum.log.publish_or_warn()
    output.print_result(
        "forum.holds/1", form, f"{'asked' if is_asked else 'released'}  {name}", as_json=as_json
    )
    if not as_json:
        output.print_publication(publication)


@hold.command("list", examples=("forum hold list",))
@common_options.as_json
def list_holds(*, as_json: bool) -> None:
    """List the holds in force, the oldest first."""
    with common_options.open_forum() as forum:
        form = holds_form(RetentionOperations(forum).read_holds())
    lines = output.format_table([_HOLD_HEADS, *map(_hold_row, form.holds)]) if form.holds else []
    output.print_result("forum.holds/1", form, lines, as_json=as_json)
    if not form.holds and not as_json:
        common_options.echo_info("no hold is in force")


@common_options.command(
    examples=("forum ledger requests", "forum ledger requests --grant 3fe1a0c2d5b7")
)
@click.option("--grant", metavar="ID", help="Do what a request asks for.  On the signing machine.")
@click.option("--refuse", metavar="ID", help="Refuse a request.  On the signing machine.")
@click.option("--yes", is_flag=True, help="Grant without a question; takes the whole id.")
@common_options.as_json
def requests(grant: str | None, refuse: str | None, *, yes: bool, as_json: bool) -> None:
    """List what other machines ask the one that signs: holds, their release, and rules.

    Who asks is what the asking machine says: every holder of write.key can write a request.  A
    request is decided by its id, and only once it is signed: until then it can be exchanged.
    """
    with common_options.open_forum() as forum:
        publication, operations = None, RetentionOperations(forum)
        if forum.is_signer:
            forum.set_aside_foreign_rows()
        if forum.is_signer and any(not r.is_signed for r in operations.read_requests()):
            forum.log.publish_or_warn()
        if grant:
            _confirm_grant(forum, grant, is_sure=yes)
            operations.grant_request(grant)
        if refuse:
            operations.refuse_request(refuse)
        form = requests_form(operations.read_requests())
        if grant or refuse:
            publication = forum.log.publish_or_warn()
    rows = [
        (
            r.id[:MIN_REQUEST_DIGITS] if r.signed else "not signed",
            r.at[:16],
            *map(_in_one_line, (r.actor, r.asks, r.reason)),
        )
        for r in form.requests
    ]
    heads = ("request", "at", "by (as it says)", "asks", "reason")
    text = list(output.format_table([heads, *rows])) if rows else "no request is open"
    output.print_result("forum.requests/1", form, text, as_json=as_json)
    if publication is not None and not as_json:
        output.print_publication(publication)


def _confirm_grant(forum: Forum, request: str, *, is_sure: bool) -> None:
    """Print what a request asks for, and ask whether to do it."""
    if is_sure and len(request) < _ID_DIGITS:
        raise click.UsageError("--yes takes the whole id of a request; --json lists it")
    asked = RetentionOperations(forum).find_request(request)
    what = describe_request(asked.facts)
    common_options.echo_info(
        f"{_in_one_line(asked.actor)} (as it says) asks: forum {_in_one_line(what)}",
        *([f"reason: {_in_one_line(asked.reason)}"] if asked.reason else []),
        f"request {asked.id}",
    )
    if not is_sure:
        common_options.confirm_or_exit("Do this?", "nothing was granted")


def _in_one_line(text: str | None) -> str:
    return " ".join(strip_control_characters(text or "").split())


def _tell_of_request(recorded: RecordedEntry) -> bool:
    """Return whether something was only asked for, and say so."""
    if recorded.entry.strand != REQUESTS_STRAND:
        return False
    grant = f"forum ledger requests --grant {recorded.leaf.hex()[:12]}"
    common_options.echo_info(f"another machine signs this log; it is asked. There: {grant}")
    return True


def _describe_period(seconds: int | None) -> str:
    if seconds is None:
        return "for ever"
    days, rest = divmod(seconds, _DAY_S)
    return pluralize(seconds // 3600, "hour") if rest else pluralize(days, "day")


def _hold_row(form: HoldForm) -> tuple[str, ...]:
    runs = ", ".join(map(short_id, form.runs)) or "all"
    reason = " ".join(strip_control_characters(form.reason or "").split())
    return form.name, runs, form.since[:16], form.actor, reason
