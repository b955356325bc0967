"""`forum verify`: verify an evidence bundle or an evidence pack offline."""

from collections.abc import Callable, Iterator
from pathlib import Path

import click
from msgspec.structs import asdict, replace

from forum.app import is_pack_file, open_bundle, verify_bundle_file, view_record
from forum.app.formatting import first_line, pluralize
from forum.errors import FeatureMissing, Malformed, NoSuchRun, TamperDetected
from forum.feature import load_only_part
from forum.features import FEATURES
from forum.surfaces.cli import EXIT_REJECTED, common_options, output, verification_view
from forum.surfaces.cli.console import echo, style
from forum.surfaces.schemas.reports import report_form
from forum.surfaces.schemas.stories import BundleReport, StoryForm, WitnessLine, story_form
from forum.verify import Problem, Report, State, Trust

_NO_TRUST = (
    "Nothing was checked: you named no key. Name your trust file with --policy, or the log's key "
    "with --key."
)
_ANSWER_LINES = 12
_MAX_REQUEST_SHOWN = 300


@common_options.command(
    examples=(
        "forum verify run.zip --policy trust",
        "forum verify october.zip --policy trust --page october.html",
        "forum verify --page verify.html",
        "forum show run.zip --transcript",
    ),
)
@click.argument("bundle", type=common_options.FILE, required=False)
@common_options.trust_options
@common_options.explained_option
@click.option(
    "--max-bytes",
    type=click.IntRange(min=0),
    metavar="N",
    help="How many bytes the bodies of the file may have together (default: 2 GiB).",
)
@click.option(
    "--page",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the page about a pack; without a file, the page that verifies in a browser.",
)
@common_options.as_json
def verify(  # noqa: PLR0913  one for each option
    bundle: Path | None,
    keys: tuple[str, ...],
    policy: Path | None,
    seen: tuple[Path, ...],
    explained: Path | None,
    page: Path | None,
    *,
    max_bytes: int | None,
    as_json: bool,
) -> None:
    """Check a bundle, offline, without trusting the log or the bundle, and tell what it proves.

    Keys and trust file are yours: what a bundle encloses is not believed.  Exit status 0 only if
    the run is intact, complete and witnessed; 3 otherwise.  Witnesses that your trust file does
    not mark as another organization's count as the writer's own: self-witnessed.  A file that is
    no zip file, was truncated, packed again or altered is told apart.

    Of an evidence pack, compute every figure again, and name each row that was changed.  With
    --page, write the page for people: with what was found, by your keys, whatever the pack says.

    With --page and without a bundle, write the page for people who verify in a browser.
    """
    if bundle is None:
        if page is None:
            raise click.UsageError("Name a bundle to verify, or a file for --page.")
        if keys or policy is not None or seen:
            raise click.UsageError(
                "--page without a pack takes no keys, trust file or checkpoints."
            )
        _load_part("write_verify_page")(page, as_json=as_json)
        return
    is_pack = is_pack_file(bundle)
    if page is not None:
        _check_page(page, bundle, is_pack=is_pack)
    trust = common_options.read_trust(keys, policy, seen)
    if max_bytes is not None:
        trust = replace(trust, max_bytes=max_bytes)
    if explained is not None:
        if is_pack:
            raise click.UsageError("--explained is for bundles: figures of a pack count by time.")
        trust = replace(trust, explained=common_options.read_explained(explained))
    is_ok = (
        _load_part("verify_pack")(bundle, trust, page, as_json=as_json)
        if is_pack
        else _verify_run(bundle, trust, as_json=as_json)
    )
    raise SystemExit(0 if is_ok else EXIT_REJECTED)


def _load_part(member: str) -> Callable[..., bool]:
    """Return what handles evidence packs.  Raises `FeatureMissing`: what is not checked fails."""
    function: Callable[..., bool] | None = load_only_part(FEATURES, member, None)
    if function is None:
        raise FeatureMissing("evidence packs", "evidence")
    return function


def _verify_run(bundle: Path, trust: Trust, *, as_json: bool) -> bool:
    """Print what the bundle of a run proves, and return whether all of it holds."""
    report = verify_bundle_file(bundle, trust, output.make_progress_bar("verified"))
    # The contents are shown even if verification failed: `_story_lines` then says in its title that
    # nothing of them is proven.
    story = _story(bundle, report)
    if as_json:
        form = BundleReport(**asdict(report_form(report)), story=story)
        output.print_json("forum.report/1", form)
    else:
        if not trust.log_keys:
            echo(style(_NO_TRUST, fg="yellow"))
        _print_report(bundle, report, story)
    return report.ok


def _check_page(page: Path, bundle: Path, *, is_pack: bool) -> None:
    """Refuse a page that has nothing to show, or that would replace the file it is about."""
    if not is_pack:
        raise click.UsageError(f"{bundle} is no evidence pack, so that --page has nothing to draw.")
    if page.resolve() == bundle.resolve():
        raise click.UsageError(f"--page would replace {bundle}. Name another file.")


def _print_report(bundle: Path, report: Report, story: StoryForm | None) -> None:
    if report.is_unread:
        # Nothing was checked, so a report of the three claims would be empty.
        finding = report.findings[0]
        needs_trust = finding.problem is Problem.SIGNATURE_REJECTED
        echo(
            *verification_view.unread_lines(
                bundle, finding.detail, finding.problem, needs_trust_file=needs_trust
            )
        )
        return
    verification_view.print_report(report, as_json=False)
    if story is not None:
        echo(*_story_lines(story, report))


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
    yield style(title, bold=True, fg=None if proven else "yellow")
    facts = [
        ("run", story.run),
        ("request", story.request or ("" if story.name else "(erased)")),
        ("title", story.title or ""),
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
    facts += [("witness", _witness(witness)) for witness in story.witnesses] or [
        ("witness", "nobody that your trust file names (--policy)")
    ]
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
    yield style("answer", bold=True)
    lines = output.clean_lines(story.answer)
    for line in lines[:_ANSWER_LINES]:
        yield from output.wrap_lines(line, columns, "  ") or [""]
    if len(lines) > _ANSWER_LINES:
        yield "  … all of it: forum show BUNDLE --answer"


def _ended(story: StoryForm) -> str:
    if story.ended_at is None or story.outcome is None:
        return "not yet, when this was exported"
    return f"{story.word}, {_moment(story.ended_at)}"


def _cost(story: StoryForm) -> str:
    spent = story.spent
    words = f"${spent.usd}, {pluralize(spent.calls, 'call')}, {pluralize(spent.tokens, 'token')}"
    return f"{words}, {story.refused} refused by a cap" if story.refused else words


def _witness(sighting: WitnessLine) -> str:
    whose = "another organization's, says your trust file" if sighting.independent else ""
    whose = "on the writer's own machine" if sighting.same_machine else whose
    return f"{sighting.witness} saw it {_moment(sighting.at)}{whose and f', {whose}'}"


def _moment(at: str) -> str:
    """Return a time to the second."""
    return f"{at[:10]} {at[11:19]} UTC"
