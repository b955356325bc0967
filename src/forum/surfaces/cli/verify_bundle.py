"""`forum verify`: verify an evidence bundle or an evidence pack offline."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import click
from msgspec.structs import asdict

from forum.app import open_bundle, verify_bundle_file, view_record
from forum.app.evidence import is_pack_file, verify_pack_file
from forum.errors import Malformed, NoSuchRun, TamperDetected
from forum.surfaces.cli import EXIT_REJECTED, common_options, output
from forum.surfaces.formatting import first_line, pluralize
from forum.surfaces.schemas.reports import pack_form, report_form
from forum.surfaces.schemas.stories import BundleReport, StoryForm, story_form
from forum.surfaces.verify_page import build_page
from forum.verify import PackResult, Report, State

_ANSWER_LINES = 12
_MAX_REQUEST_SHOWN = 300
_MAX_FINDINGS = 20


@common_options.command(
    examples=(
        "forum verify run.zip --policy policy",
        "forum verify october.zip --policy policy",
        "forum verify --page verify.html",
        "forum show run.zip --transcript",
    ),
)
@click.argument("bundle", type=common_options.FILE, required=False)
@common_options.trust_options
@click.option(
    "--page",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the page that verifies bundles in a browser, and print its SHA-256.",
)
@common_options.as_json
def verify(
    bundle: Path | None,
    keys: tuple[str, ...],
    policy: Path | None,
    seen: tuple[Path, ...],
    page: Path | None,
    *,
    as_json: bool,
) -> None:
    """Check a bundle, offline, without trusting the log or the bundle, and tell what it proves.

    Keys and policy are yours: what a bundle encloses is not believed.  Exit status 0 only if
    the run is intact, complete and independently witnessed; 3 otherwise.  A file that is no zip
    file, was truncated, packed again or altered is told apart.

    Of an evidence pack, compute every figure again, and name each row that was changed.

    With --page and without a bundle, write the page for people who verify in a browser.
    """
    if page is not None:
        if bundle is not None or keys or policy is not None or seen:
            raise click.UsageError("--page takes no bundle, keys, policy or checkpoints.")
        _write_page(page, as_json=as_json)
        return
    if bundle is None:
        raise click.UsageError("Name a bundle to verify, or a file for --page.")
    trust = common_options.read_trust(keys, policy, seen)
    if is_pack_file(bundle):
        result = verify_pack_file(bundle, trust)
        lines = _pack_lines(result)
        output.print_result("forum.pack-report/1", pack_form(result), lines, as_json=as_json)
        raise SystemExit(0 if result.ok else EXIT_REJECTED)
    report = verify_bundle_file(bundle, trust, output.make_progress_bar("verified"))
    # The contents are shown even if verification failed: `_story_lines` then says in its title that
    # nothing of them is proven.
    story = _story(bundle, report)
    if as_json:
        form = BundleReport(**asdict(report_form(report)), story=story)
        output.print_json("forum.report/1", form)
    # Nothing could be read, so a report of the three claims would be empty.
    elif not report.origin:
        what = report.findings[0].detail
        click.echo(f"{click.style('✗', fg='red')} {bundle} cannot be verified")
        click.echo("\n".join(output.wrap_lines(what, output.terminal_width(), "  ")))
        click.echo("  nothing in it was checked (bundle-altered)")
    else:
        output.print_report(report, as_json=as_json)
        if story is not None:
            click.echo("\n".join(_story_lines(story, report)))
    raise SystemExit(0 if report.ok else EXIT_REJECTED)


def _pack_lines(result: PackResult) -> Iterator[str]:
    """Yield the result of checking a pack as text."""
    yield f"{result.origin or 'unreadable'}  size {result.size}  root {result.root[:16]}"
    if result.since:
        yield f"an evidence pack, from {result.since} until {result.until}"
    for word in ("intact", "complete", "independent", "figures", "attested"):
        yield from output.claim_lines(word.capitalize(), getattr(result, word))
    columns = output.terminal_width()
    for finding in result.findings[:_MAX_FINDINGS]:
        yield from output.wrap_lines(str(finding), columns, "  ")
    if result.found > _MAX_FINDINGS:
        yield f"  and {result.found - _MAX_FINDINGS} more"
    for words in result.not_checked:
        yield from output.wrap_lines(f"not checked: {words}", columns, "  ")


def _write_page(path: Path, *, as_json: bool) -> None:
    """Write the page, and print by what another copy of it can be compared."""
    data = build_page().encode()
    path.write_bytes(data)
    digest = sha256(data).hexdigest()
    output.print_result(
        "forum.verify-page/1",
        {"path": str(path), "sha256": digest},
        f"{digest}  {path}",
        as_json=as_json,
    )


def _story(bundle: Path, report: Report) -> StoryForm | None:
    """Return the contents of a bundle, or None if it cannot be read."""
    try:
        with open_bundle(bundle) as record:
            return story_form(record, view_record(record), report)
    except (Malformed, TamperDetected, NoSuchRun):
        return None  # the findings say why


def _story_lines(story: StoryForm, report: Report) -> Iterator[str]:
    """Yield the contents as text; the title says whether they are proven."""
    columns = output.terminal_width()
    proven = report.intact.state is State.HOLDS
    title = "what is proven" if proven else "what it says; none of this is proven"
    yield ""
    yield click.style(title, bold=True, fg=None if proven else "yellow")
    facts = [
        ("run", story.run),
        ("request", story.request or ("" if story.name else "(erased)")),
        ("name", story.name or ""),
        ("known", story.known),
        ("gaps", story.gaps or ""),
        (
            "begun" if story.name else "asked",
            f"by {story.asked_by}, {_moment(story.asked_at)} by the log's clock",
        ),
        ("ended", _ended(story)),
        ("cost", _cost(story)),
        ("models", ", ".join(f"{m} ({pluralize(n, 'call')})" for m, n in story.models.items())),
    ]
    facts += [
        (
            "decided",
            (
                f"{decision.subject}: {decision.answer} by {decision.actor} ({decision.by}), "
                f"{_moment(decision.at)}"
            ),
        )
        for decision in story.decisions
    ]
    facts += [
        ("witness", _witness(witness.witness, witness.at, witness.same_machine))
        for witness in story.witnesses
    ] or [("witness", "nobody; whose cosignatures count, says --policy")]
    for name, words in facts:
        if words:
            text = first_line(words, _MAX_REQUEST_SHOWN)
            lines = output.wrap_lines(text, columns, " " * 11)
            yield from (f"  {name:<8} {lines[0].strip()}", *lines[1:])
    yield from _answer_lines(story, columns)


def _answer_lines(story: StoryForm, columns: int) -> Iterator[str]:
    if story.why:
        yield from output.wrap_lines(story.why, columns)
    if not story.answer:
        return
    yield click.style("answer", bold=True)
    lines = output.clean_lines(story.answer)
    for line in lines[:_ANSWER_LINES]:
        yield from output.wrap_lines(line, columns, "  ") or [""]
    if len(lines) > _ANSWER_LINES:
        yield "  … all of it: forum show BUNDLE --answer"


def _ended(story: StoryForm) -> str:
    if story.ended_at is None or story.outcome is None:
        return "not yet, when this was exported"
    return f"{story.outcome.value}, {_moment(story.ended_at)}"


def _cost(story: StoryForm) -> str:
    spent = story.spent
    return f"${spent.usd}, {pluralize(spent.calls, 'call')}, {pluralize(spent.tokens, 'token')}"


def _witness(name: str, at: str, same_machine: bool) -> str:  # noqa: FBT001  as it is recorded
    place = ", on the writer's own machine" if same_machine else ""
    return f"{name} saw it {_moment(at)}{place}"


def _moment(at: str) -> str:
    """Return a time to the second."""
    return f"{at[:10]} {at[11:19]} UTC"
