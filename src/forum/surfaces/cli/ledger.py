"""`forum ledger`: read, prove, redact, export, archive and verify the ledger."""

import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from forum import app
from forum.app import KINDS
from forum.app.formatting import format_counts, short_id
from forum.errors import IdempotencyKeyUsed, NoSuchEntry, NotYetSigned
from forum.ledger import log
from forum.ledger.body import text_content
from forum.ledger.kinds import RedactionReason
from forum.ledger.ports import EntryReader
from forum.ledger.redaction import find_redaction
from forum.ledger.retention_holds import BodyName
from forum.runs.report_causes import within_finder
from forum.surfaces.cli import (
    EXIT_REJECTED,
    common_options,
    epoch_view,
    output,
    verification_view,
)
from forum.surfaces.cli.console import echo, style, write_bytes
from forum.surfaces.cli.explain import describe_entry
from forum.surfaces.schemas import ledger as ledger_forms
from forum.tlog import Checkpoint, Note, describe_witnessing, is_witnessed
from forum.units import format_moment
from forum.verify import Trust

_REMAINS = (
    "Not reached: copies of the ledger file, backups, and bundles and packs that were handed out."
)
_REMAINS_ON_SERVER = (
    "Not reached: the space of deleted rows until VACUUM FULL, the write-ahead log of Postgres, "
    "replicas, backups, and bundles and packs that were handed out."
)


@click.group(cls=common_options.FullHelpGroup)
def ledger() -> None:
    """Read, prove, redact, export, archive and verify the ledger.

    ENTRY is an index, an id or the first digits of one, or a position run/strand/n.
    """


@ledger.command()
@common_options.trust_options
@common_options.explained_option
@click.option(
    "--since-seen",
    is_flag=True,
    help="Check only entries that are new since this machine last verified the ledger.",
)
@click.option(
    "--jobs",
    type=common_options.POSITIVE,
    help="Number of processes that check a long log.  Default: one for each core.",
)
@common_options.as_json
def verify(  # noqa: PLR0913  one for each option
    keys: tuple[str, ...],
    policy: Path | None,
    seen: tuple[Path, ...],
    explained: Path | None,
    jobs: int | None,
    *,
    since_seen: bool,
    as_json: bool,
) -> None:
    """Check the whole ledger: whether it is intact, complete, and witnessed.

    Uses the trust file and the memories of this machine's state directory, or what you name.
    Exit status 0 if all three hold, 3 if not.
    """
    with common_options.open_forum() as forum:
        named, own = common_options.read_trust(keys, policy, seen), forum.log.read_trust()
        # The checkpoints that this machine remembers count even if the reader names other keys: a
        # log only grows, so one that does not contain them was rewritten.
        trust = Trust(
            keys=named.keys,
            policy=named.policy if keys or policy else own.policy,
            remembered=(*own.remembered, *named.remembered),
            guard=own.guard,
            explained=common_options.read_explained(explained),
        )
        processes, show = jobs or os.cpu_count() or 1, output.make_progress_bar("verified")
        if since_seen:
            report, why = forum.log.verify_since_seen(trust, show, processes)
            if why:
                echo(f"everything was checked, not only what is new: {why}", err=True)
        else:
            report = forum.log.verify(trust, show, jobs=processes)
    verification_view.print_report(report, as_json=as_json)
    raise SystemExit(0 if report.ok else EXIT_REJECTED)


@ledger.command()
@click.argument("run", required=False)
@click.option(
    "--from",
    "start",
    type=click.IntRange(min=0),
    help="First index; default: the newest entries.",
)
@common_options.limit_option(20, "Maximum number of entries; a RUN is shown whole.")
@common_options.as_json
def show(run: str | None, start: int | None, limit: int, *, as_json: bool) -> None:
    """List entries: the newest, those from an index on, or those of one RUN."""
    with common_options.open_forum() as forum, forum.open_reader() as reader:
        if run is not None:
            entries = list(log.locate_run(reader, KINDS, forum.reads.find_run(run)))
        else:
            size = reader.head().size
            first = max(0, size - limit) if start is None else start
            numbered = enumerate(reader.entries(first, min(first + limit, size)), first)
            entries = [log.LocatedEntry(i, data, KINDS.read(data)) for i, data in numbered if data]
    output.print_result(
        "forum.entries/1",
        ledger_forms.entries_form(entries),
        output.entry_table(entries) if entries else (),
        as_json=as_json,
    )


@ledger.command()
@click.argument("entry")
@click.option("--body", help="Print the content of this body instead.")
@common_options.as_json
def get(entry: str, body: str | None, *, as_json: bool) -> None:
    """Print one ENTRY, or with --body the content of one of its bodies."""
    with common_options.open_forum() as forum, forum.open_reader() as reader:
        located = log.find_entry(reader, KINDS, entry)
        if body is not None:
            if body not in located.entry.bodies:
                names = ", ".join(located.entry.bodies) or "none"
                raise NoSuchEntry(f"{located.position} has no body {body!r}; it has: {names}")
            stored = log.stored_body(reader, located.entry, body)
            if stored is None:
                why = _explain_missing_body(reader, located, body)
                raise NoSuchEntry(f"body {body!r} of {located.position} {why}")
            write_bytes(stored.read())
            return
    lines = output.entry_lines(located)
    output.print_result("forum.entry/1", ledger_forms.entry_form(located), lines, as_json=as_json)


def _explain_missing_body(reader: EntryReader, located: log.LocatedEntry, body: str) -> str:
    """Return in words why a body is not stored."""
    redaction = find_redaction(reader, KINDS, BodyName(located.leaf.hex(), body))
    if redaction is None:
        return "is missing, and no redaction explains it; see: forum ledger verify"
    facts = redaction.entry.facts
    rule = getattr(facts, "rule", "")
    by = f"rule {rule}" if rule else redaction.entry.actor
    return f"was redacted ({facts.reason.value}, by {by}); see: forum why {redaction.position}"


@ledger.command(examples=("forum why", "forum why 57", "forum why 57 --limit 5"))
@click.argument("entry", required=False)
@common_options.limit_option(50, "Maximum number of causes.")
@common_options.as_json
def why(entry: str | None, limit: int, *, as_json: bool) -> None:
    """Print the causes of an ENTRY, and their causes, in words.

    ENTRY is an index, an id or the first digits of one, or a position run/strand/n.  Without one,
    it is the last entry of the newest run.
    """
    with common_options.open_forum() as forum, forum.open_reader() as reader:
        named = (
            log.find_entry(reader, KINDS, entry)
            if entry is not None
            else max(log.locate_run(reader, KINDS, _newest_run(forum)), key=_index_of)
        )
        within = within_finder(reader, KINDS)
        chain = list(log.walk_causes(reader, KINDS, named, limit, find_further=within))
        form = ledger_forms.why_form(chain, forum.reads.explain_entry)
    lines = (
        line
        for (depth, cause), item in zip(chain, form.causes, strict=True)
        for line in _format_cause(depth, cause, item.judge)
    )
    output.print_result("forum.why/1", form, lines, as_json=as_json)


def _newest_run(forum: app.Forum) -> str:
    # Imported here because it draws runs, which the other commands of the ledger do not.
    from forum.surfaces.cli.runs import newest_run

    return newest_run(forum)


def _index_of(located: log.LocatedEntry) -> float:
    """Return the index of an entry; those that have none yet are the newest."""
    return math.inf if located.index is None else located.index


def _format_cause(depth: int, cause: log.LocatedEntry, judge: str) -> list[str]:
    name = cause.leaf.hex()[:10] if cause.index is None else cause.index
    indent = " " * min(depth, 20)
    lead = f"{indent}{'because ' if depth else ''}"
    words = [f"{indent}    | {line}" for line in (output.clean_lines(judge) if judge else ())]
    line = f"{lead}{style(f'#{name}', dim=True)} {describe_entry(cause)}"
    return [line, *words]


@ledger.command()
@click.argument("entry")
@common_options.as_json
def proof(entry: str, *, as_json: bool) -> None:
    """Print the C2SP tlog-proof of an ENTRY, which can be verified offline."""
    with common_options.open_forum() as forum, forum.open_reader() as reader:
        located = log.find_entry(reader, KINDS, entry)
        if located.index is None:
            raise NotYetSigned(str(located.position))
        proven = log.prove_entry(reader, located.index)
    text = proven.encode().decode().removesuffix("\n")
    output.print_result(
        "forum.proof/1", ledger_forms.proof_form(located, proven), text, as_json=as_json
    )


@ledger.command()
@common_options.as_json
def checkpoint(*, as_json: bool) -> None:
    """Print the newest signed checkpoint, with the cosignatures that it has."""
    with common_options.open_forum() as forum, forum.open_reader() as reader:
        data = reader.checkpoint()
        if data is None:
            raise NoSuchEntry("a signed checkpoint: nothing was recorded yet")
        note = Note.parse(data)
        signed = Checkpoint.parse(note.text)
        witnessed = is_witnessed(note, forum.policy)
        witnessing = describe_witnessing(note, forum.policy)
    if as_json:
        output.print_json(
            "forum.checkpoint/1", ledger_forms.checkpoint_form(signed, data, witnessed=witnessed)
        )
    else:
        write_bytes([data])
        echo(witnessing, err=True)


@ledger.command()
@click.argument("content", required=False)
@common_options.idempotency_key
@common_options.as_json
def note(content: str | None, idempotency_key: str | None, *, as_json: bool) -> None:
    """Record a note: CONTENT, or standard input.

    Exit status 0 once it is recorded.  If it cannot be signed at once, a warning gives the reason,
    and the next write signs it.
    """
    words = (
        text_content(content) if content is not None else common_options.read_text(sys.stdin.buffer)
    )
    with common_options.open_forum() as forum:
        forum.keys.initialise()
        try:
            recorded, publication = forum.log.record_note(words, idempotency_key)
        except IdempotencyKeyUsed as error:
            why = f"The key {idempotency_key} was used for another note, run {error.run}"
            raise click.ClickException(f"{why}. Use another key for this one.") from None
    if as_json:
        output.print_json("forum.entry/1", ledger_forms.recorded_form(recorded, publication))
    else:
        echo(f"{recorded.leaf.hex()}  {recorded.position}")
        if publication is not None:
            run = short_id(recorded.entry.run)
            common_options.echo_info(f"recorded; read it again: forum show {run} --transcript")
        output.print_publication(publication, recorded.leaf.hex())


@ledger.command()
@click.argument("entry")
@click.argument("body")
@click.option(
    "--reason",
    type=click.Choice([str(reason) for reason in RedactionReason]),
    default="request",
    help="The reason, which is recorded.",
)
@click.option(
    "--text-everywhere",
    is_flag=True,
    help="Erase each body of the run that holds what this one was the first to say.",
)
@common_options.as_json
def redact(entry: str, body: str, reason: str, *, text_everywhere: bool, as_json: bool) -> None:
    """Erase the BODY of an ENTRY; the ledger still proves that it existed and who erased it.

    An agent sends its whole conversation with every call, so what stands in one prompt stands in
    the later ones.  With --text-everywhere those are erased too, and the reply or the result that
    said it first.  A reader who has the body and its salt in an exported bundle can still prove its
    content.
    """
    with common_options.open_forum() as forum:
        erase = forum.log.redact_text if text_everywhere else forum.log.redact
        done = erase(entry, body, RedactionReason(reason))
        is_on_server = bool(forum.settings.database)
    if as_json:
        bodies = [{"entry": str(at), "body": name} for at, name in done.bodies]
        members = {"bodies": bodies} if text_everywhere else {}
        output.print_json("forum.redaction/1", {"id": done.entry, "erased": done.erased} | members)
        return
    for at, name in done.bodies:
        echo(f"{at}  {name}")
    echo(f"{done.entry}  erased {done.erased}")
    if text_everywhere:
        common_options.echo_info(_REMAINS_ON_SERVER if is_on_server else _REMAINS)
    output.print_publication(done.publication)


@ledger.command()
@click.argument("run", required=False)
@click.option("--output", "-o", "path", type=click.Path(path_type=Path), help="Default: RUN.zip")
@common_options.as_json
def export(run: str | None, path: Path | None, *, as_json: bool) -> None:
    """Write the evidence bundle of a RUN: one file that anybody can verify offline.

    RUN is the id of a run, or any ENTRY of it.  Without one, it is the newest run.
    """
    with common_options.open_forum() as forum:
        run = forum.reads.find_run(run) if run else _newest_run(forum)
        path = path or Path(f"{run}.zip")
        output.write_private(path, forum.log.export(run))
    if as_json:
        output.print_json("forum.export/1", {"run": run, "path": str(path)})
    else:
        echo(str(path))
        # Keys that come with a bundle prove nothing: its sender could have made both.
        echo("send the trust file separately: forum ledger policy > trust", err=True)
        echo(f"to verify it: forum verify {path} --policy trust", err=True)
        echo("or in a browser: forum verify --page verify.html", err=True)


@ledger.command(
    examples=(
        "forum ledger archive --before 90d --to /mnt/archive",
        "forum ledger archive --before 2026-07-01 --to s3://bucket/forum",
    )
)
@click.option(
    "--before",
    type=common_options.MOMENT,
    metavar="WHEN",
    required=True,
    help="Only runs that ended before: 12h, 90d, 4w ago, or 2026-07-01, or 2026-07-01T08:00.",
)
@click.option(
    "--to",
    "place",
    metavar="PLACE",
    required=True,
    help="A folder, or a bucket: s3://BUCKET/PATH, gs://BUCKET/PATH, az://ACCOUNT/CONTAINER/PATH.",
)
@common_options.as_json
def archive(before: int, place: str, *, as_json: bool) -> None:
    """Move ended runs out of the database, into evidence bundles in an archive.

    Each copy is read back and verified, and its digest is recorded and signed, before anything is
    removed.  Archived runs are listed, shown, verified and exported as before, as long as the
    archive can be reached at the same PLACE.  Runs that an open run still needs stay.  Exit status
    3 if a run could not be archived because its copy does not verify.
    """
    with common_options.open_forum() as forum:
        result = forum.log.archive_runs(before, place)
    form = ledger_forms.archive_form(result)
    lines = [
        *(f"{run.run}  not archived: {run.why}" for run in result.rejected),
        f"{len(result.archived)} runs archived, {len(result.needed)} kept for open runs",
    ]
    output.print_result("forum.archive/1", form, lines, as_json=as_json)
    raise SystemExit(EXIT_REJECTED if result.rejected else 0)


@ledger.command()
@common_options.as_json
def policy(*, as_json: bool) -> None:
    """Print the trust file: the keys of this log and of its witnesses, for those who verify it.

    Of the keys that this log has had, only the newest counts. The earlier ones are comments, with
    the size up to which each signed: to verify a bundle from before a rotation, use the trust file
    of that time.

    Which witnesses are another organization's is for each reader to say, so the file never says
    it: a reader adds the line `independent NAME`.
    """
    with common_options.open_forum() as forum:
        lines = forum.log.describe_policy()
    text = lines.removesuffix("\n")
    output.print_result("forum.policy/1", {"policy": lines}, text, as_json=as_json)


@ledger.command(examples=("forum ledger summary", "forum ledger summary 0199c0de-1234"))
@click.argument("run", required=False)
@common_options.as_json
def summary(run: str | None, *, as_json: bool) -> None:
    """Count what the ledger holds: runs, calls by model, verdicts, checks, stops, bytes, cost.

    With a RUN, only what this run and the runs within it have recorded.
    """
    with common_options.open_forum() as forum:
        run_id = None if run is None else forum.reads.find_run(run)
        log_figures = forum.reads.measure_log(run_id, output.make_progress_bar("counted"))
    form = ledger_forms.summary_form(log_figures, run_id)
    output.print_result("forum.summary/1", form, _summary_lines(form), as_json=as_json)


def _summary_lines(form: ledger_forms.SummaryForm) -> Iterator[str]:
    yield f"{form.origin}  size {form.size}  root {form.root[:16]}"
    waiting = f", {form.waiting} entries waiting for an index" if form.waiting else ""
    yield f"signed {form.signed}, last verified here {form.verified} of {form.size}{waiting}"
    if form.run is not None:
        yield f"run {form.run}"
    closed = sum(form.outcomes.values())
    states = form.outcomes | ({"open": form.runs - closed} if form.runs > closed else {})
    record = form.record
    rows = [
        ("runs", f"{form.runs:,}", format_counts(states)),
        ("calls", f"{record.calls:,}", f"{record.tokens:,} tokens, ${record.usd}"),
        *(
            (
                f"  {model.model or '(no model)'}",
                f"{model.calls:,}",
                f"{model.tokens:,} tokens, ${model.usd}"
                + (f", {model.unpriced:,} without a price" if model.unpriced else ""),
            )
            for model in record.models
        ),
        *(
            (name, f"{sum(counts.values()):,}", format_counts(counts))
            for name, counts in (
                ("verdicts", record.verdicts),
                ("checks", record.checks),
                ("stops", record.stops),
            )
        ),
        ("escalations", f"{record.escalations:,}", ""),
        ("bodies", f"{record.bodies:,}", f"{record.body_bytes:,} bytes"),
        ("entries", f"{record.entries:,}", ""),
        *((f"  {kind}", f"{count:,}", "") for kind, count in form.kinds.items()),
    ]
    yield from output.format_table(rows, right=(1,))


@ledger.command()
@click.option(
    "--discard", is_flag=True, help="Delete the rows; the ledger still records that they existed."
)
@common_options.as_json
def quarantine(*, discard: bool, as_json: bool) -> None:
    """List rows in the database that no writer of this log has written.

    Those that stand among the entries are set aside first, as the next write would, so none is in
    a tree.  Exit status 3 if there are any.
    """
    with common_options.open_forum() as forum:
        if forum.write_keys is not None:
            forum.set_aside_foreign_rows()
        rows = forum.store.quarantined_rows()
        if discard:
            forum.log.discard_quarantine()
    lines = [
        f"{row.id:>6}  {format_moment(row.at)}  {row.row.position}  {len(row.row.data)} bytes"
        for row in rows
    ]
    form = ledger_forms.quarantine_form(rows, discarded=discard)
    text = lines or "no row is quarantined"
    output.print_result("forum.quarantine/1", form, text, as_json=as_json)
    raise SystemExit(EXIT_REJECTED if rows and not discard else 0)


@ledger.command()
@click.confirmation_option(prompt="Close this log for good and start its next epoch?")
@click.option("--reason", default="", help="Why the old log is closed; it is recorded.")
@common_options.as_json
def epoch(reason: str, *, as_json: bool) -> None:
    """Start a new epoch, after the database, the signing key or the signer's memory was lost.

    The old log stays readable.  The new one commits to the last checkpoint that was signed, and
    `forum ledger verify` checks both.  If the signing key is gone, a new one is made: then the
    reason is needed, and readers must pin the new key.

    API keys, rules of retention, the use of caps, idempotency keys, open runs and their gates are
    carried over.  If commits were lost, each open run waits until it is resumed: look first what
    its tools have done.  Stop all processes of the log before, and start them again after.
    """
    with common_options.open_forum() as forum:
        result = forum.keys.new_epoch(reason)
    epoch_view.print_epoch(result, as_json=as_json)
