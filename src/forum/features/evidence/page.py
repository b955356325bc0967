"""The page of a pack: the report for people, in one file that loads nothing and runs no script.

The verifier of a reader draws it, from the report that it computed and from what it found with the
keys of the reader.  No pack holds a page of its own: its maker could write anything on it.  Packs
of release 0.2 do; that page is a function of the report alone, and is drawn again to be compared.
So each row is one line that names itself (`data-row`), and a row that differs can be named.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from html import escape
from typing import Any, TypeVar, assert_never

import msgspec
from msgspec.structs import asdict

from forum.features.evidence import queries
from forum.features.evidence.charts import Layer, draw_bars, draw_legend, list_days
from forum.features.evidence.control_maps import MapResult, RowResult
from forum.features.evidence.counted_times import CountedBy
from forum.features.evidence.events import MAX_EVENTS
from forum.features.evidence.figures import Figure
from forum.features.evidence.queries import SECTIONS, Unit
from forum.features.evidence.report import PackReport, RecordCheck
from forum.features.evidence.sample_seed import SeedSource
from forum.features.evidence.tally import MAX_DECISIONS, OutsideEntries
from forum.pages import render_page, render_table_head
from forum.units import format_day, format_rfc3339
from forum.untrusted_text import escape_hidden

_Told = TypeVar("_Told", bound=msgspec.Struct)

_MAX_GROUPS_SHOWN = 6
_HOLDS = "holds"
SELF_WITNESSED = "self-witnessed"
"""The state of a claim that only the writer's own witnesses have made."""
LIMITS_TITLE = "What this does not show, and what to ask for"

_STYLE = """\
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .6rem;
  margin: 1rem 0; }
.tile { background: var(--soft); padding: .6rem .7rem; border-radius: .4rem; }
.tile b { display: block; font-size: 1.3rem; line-height: 1.25; font-weight: 650;
  white-space: nowrap; }
.figures { table-layout: fixed; } .figures th:nth-child(1) { width: 44%; }
.figures th:nth-child(2) { width: 13%; text-align: right; } .figures th:nth-child(4) { width: 14%; }
.events { table-layout: fixed; } .events th:nth-child(1) { width: 4rem; text-align: right; }
.events th:nth-child(2) { width: 24%; } .events th:nth-child(3) { width: 18%; }
.questions { table-layout: fixed; } .questions th:nth-child(1) { width: 45%; }
.questions th:nth-child(3) { width: 22%; }
.claim { white-space: nowrap; } .map { table-layout: fixed; }
.map th:nth-child(1) { width: 31%; } .map th:nth-child(2) { width: 25%; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr));
  gap: 1rem; }
.charts figure { margin: 0; } svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--dim); font: 14px system-ui, sans-serif; }
svg .axis { stroke: var(--dim); } svg .grid { stroke: var(--line); stroke-dasharray: 2 3; }
.c1 { fill: var(--c1); background: var(--c1); } .c2 { fill: var(--c2); background: var(--c2); }
.c3 { fill: var(--c3); background: var(--c3); } .c4 { fill: var(--c4); background: var(--c4); }
.c5 { fill: var(--c5); background: var(--c5); } .c6 { fill: var(--c6); background: var(--c6); }
.legend { margin: 0; font-size: .85rem; } .key { margin-right: .9rem; white-space: nowrap; }
.key i { display: inline-block; width: .7em; height: .7em; margin-right: .35em;
  border-radius: 2px; }
.mark { color: var(--wait); background: var(--waitbg); border: 1px solid var(--wait);
  padding: .4rem .7rem; border-radius: .4rem; margin: .6rem 0; }
@media print { @page { margin: 14mm 12mm 16mm; }
  :root { --ink: #000; --paper: #fff; --line: #b0b0b0; --dim: #444; --soft: #f3f3f6; --mark: #000;
    --wait: #6b4500; --waitbg: #fff; --c1: #2a78d6; --c2: #c8372d; --c3: #c77700; --c4: #7a5cc4;
    --c5: #8a8a94; --c6: #1b8a5a; }
  body { font-size: 10pt; max-width: none; margin: 0; padding: 0; }
  .tile, rect, .key i { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  .charts { grid-template-columns: 1fr 1fr; } h2 { break-after: avoid; }
  tr, figure, .tile { break-inside: avoid; } thead { display: table-header-group; } }
"""

_VERDICT_STYLE = """\
.verdict { border: 3px solid var(--edge); border-radius: .4rem; padding: .2rem .9rem .6rem;
  margin: 1rem 0; } .verdict h2 { margin: .5rem 0; color: var(--edge); }
.verdict h3 { margin: .8rem 0 .2rem; } .verdict ul { margin: .2rem 0; padding-left: 1.2rem; }
.verdict .found li { font-weight: 600; }
.holds { --edge: #1a6b35; } .warn { --edge: #8a5a00; } .fails { --edge: #b3261e; }
@media (prefers-color-scheme: dark) { .holds { --edge: #7ddc9a; } .warn { --edge: #f0c069; }
  .fails { --edge: #ff9c94; } }
@media print { .holds { --edge: #1a6b35; } .warn { --edge: #6b4500; } .fails { --edge: #b3261e; } }
"""

# A mark in the margin of each printed page; text that is fixed to a page would cover its rows.
_PAGE_MARK = """\
@page { @bottom-left { content: "TEXT"; font: 8.5pt system-ui, sans-serif; color: #6b4500; } }
"""

_OUTCOME_COLORS = {
    "ok": "c1",
    "failed": "c2",
    "denied": "c4",
    "timeout": "c3",
    "cancelled": "c5",
    "indeterminate": "c3",
    queries.STILL_OPEN: "c6",
}
_ANSWER_COLORS = {"approve": "c1", "reject": "c2", queries.UNDECIDED: "c5"}
_SOME_COLORS = ("c2", "c3", "c4", "c1", "c5", "c6")

QUESTIONS: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    (
        "How many runs were there, and how many failed, were stopped, or are open?",
        queries.RUNS,
        (
            ("runs.all", "runs"),
            ("runs.not-ok", "did not end well"),
            ("stops.all", "stops"),
            ("runs.open", "open at the end"),
        ),
    ),
    ("Is a run of the period missing, and how would I know?", "record-check", ()),
    (
        "Who approved what, when, after seeing what, and how long did it take?",
        queries.DECISIONS,
        (
            ("gates.deciders", "decisions"),
            ("gates.unattended", "without a person"),
            ("gates.median", "median time"),
        ),
    ),
    (
        "Which tools were used, and which effects are in doubt?",
        queries.EFFECTS,
        (("tools.used", "uses"), ("tools.doubt", "effects in doubt")),
    ),
    (
        "Which models, providers and policies were in use, and when did they change?",
        queries.MODELS,
        (("models.calls", "calls of models"), ("config.seen", "configurations recorded")),
    ),
    (
        "What was spent, by whom, and which caps were reached?",
        queries.MONEY,
        (
            ("cost.total", "spent"),
            ("caps.reached", "stops because of a cap"),
            ("caps.refused", "calls refused by a cap"),
            ("caps.overrun", "calls billed above their bound"),
        ),
    ),
    (
        "Who had access, who was denied, whose access was revoked?",
        queries.ACCESS,
        (
            ("access.keys", "keys"),
            ("access.denied", "requests denied"),
            ("access.revoked", "keys revoked"),
        ),
    ),
    (
        "What was erased, by whom, and why?",
        queries.ERASURE,
        (
            ("redactions.all", "orders to erase"),
            ("redactions.held", "under a hold"),
            ("retention.set", "periods set"),
            ("holds.all", "changes of holds"),
        ),
    ),
    (
        "Did anybody review this before me, and what did they see?",
        queries.REVIEW,
        (("reviews.done", "reviews"), ("incidents.opened", "incidents opened")),
    ),
    ("What does this not show, and what do I have to ask for elsewhere?", "limits", ()),
)
"""The questions of an auditor: where the answer is, and the figures that answer them in short."""


TILES = (
    ("runs.all", "runs"),
    ("runs.not-ok", "did not end well"),
    ("runs.open", "open at the end"),
    ("stops.all", "stops"),
    ("gates.all", "approvals asked for"),
    ("gates.median", "median time to decide"),
    ("tools.doubt", "effects in doubt"),
    ("gaps.steps", "steps known to be missing"),
    ("cost.total", "cost"),
    ("access.denied", "requests denied"),
    ("reviews.done", "reviews recorded"),
    ("incidents.opened", "incidents opened"),
)
"""The figures that stand first, with what they count."""

CHARTS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("runs.daily", "Runs by the day they began, and outcome", _OUTCOME_COLORS),
    ("cost.daily", "Cost", {}),
    ("stops.daily", "Stops, by reason", {}),
    ("gates.daily", "Approvals asked for, and the answer", _ANSWER_COLORS),
    ("gates.daily-median", "Median time to decide", {}),
)
"""The figures that are drawn by day, with the colors of their parts."""


class CheckedClaim(msgspec.Struct, frozen=True):
    """A claim, and what the verifier of the reader found about it."""

    name: str
    state: str
    reason: str


class ReaderCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What the verifier of a reader found in a pack: the only verdict that a page states."""

    origin: str
    since: str
    """Empty, like `until`, if no report could be computed."""
    until: str
    ok: bool
    claims: tuple[CheckedClaim, ...]
    findings: tuple[str, ...]
    found: int
    """How many findings there are; only the first are listed."""
    not_checked: tuple[str, ...]
    keys: tuple[str, ...]
    """The keys that the reader trusts, each in words."""
    verifier: str
    """The program that verified."""
    digest: str
    """The SHA-256 of the file, in hexadecimal."""
    compared_maps: tuple[str, ...]
    """The maps whose text is that of the reader's own copy."""
    seed_witnesses: tuple[str, ...]
    """The witnesses that draw the sample, each with whether the reader calls it independent."""


def draw_page(check: ReaderCheck, report: PackReport | None) -> str:
    """Return the page of a verification.

    Without a report it has no figure: none follows from the pack, or no key that the reader trusts
    has signed what it would follow from.
    """
    check, report = _reveal(check), _reveal(report) if report else None
    tone, verdict = _judge(check)
    marks = [] if check.ok else [verdict]
    marks += [_mark_text(report)] if report and report.unreviewed else []
    span = f"{check.since[:10]} to {check.until[:10]}" if check.since else "not verified"
    parts = [*_introduce(report)] if report else []
    parts += _verdict(check, report, tone, verdict)
    parts += _body(report, check) if report else []
    origin = check.origin or "an unreadable pack"
    return _render(origin, span, parts, _VERDICT_STYLE, mark=" ".join(marks))


def draw_old_page(report: PackReport) -> str:
    """Return the page that a pack of release 0.2 must hold, byte by byte."""
    mark = _mark_text(report) if report.unreviewed else ""
    span = f"{report.since[:10]} to {report.until[:10]}"
    page = _render(report.origin, span, [*_introduce(report), *_body(report, None)], "", mark=mark)
    # That release neither revealed nor isolated texts; in a text, this element would be escaped.
    return page.replace("<bdi>", "").replace("</bdi>", "")


def _render(origin: str, span: str, parts: Iterable[str], style: str, mark: str) -> str:
    title = f'<h1 data-row="title">Evidence of {_text(origin)}</h1>'
    page_mark = _PAGE_MARK.replace("TEXT", mark) if mark else ""
    return render_page(
        f"Evidence of {escape(origin)}, {span}", [title, *parts], f"{_STYLE}{style}{page_mark}"
    )


def _reveal(form: _Told) -> _Told:
    """Return a copy in which no text has a hidden character, wherever on the page it will stand."""
    return msgspec.convert(_reveal_texts(msgspec.to_builtins(form)), type(form))


def _reveal_texts(node: Any) -> Any:  # noqa: ANN401  any JSON value
    if isinstance(node, str):
        return escape_hidden(node)
    if isinstance(node, dict):
        return {name: _reveal_texts(value) for name, value in node.items()}
    return [_reveal_texts(value) for value in node] if isinstance(node, list | tuple) else node


def _text(text: str) -> str:
    """Return a text of others as an element: what is in it moves nothing that is beside it.

    Its hidden characters were revealed before, or belong to the bytes of an old page.
    """
    return f"<bdi>{escape(text)}</bdi>"


def format_value(value: int, unit: Unit) -> str:
    """Return a figure for people."""
    match unit:
        case Unit.NUMBER:
            return f"{value:,}"
        case Unit.NANO_USD:
            # To a hundredth of a cent; report.json has the exact value.
            whole, part = divmod((value + 50_000) // 100_000, 10_000)
            return f"${whole:,}.{part:04}"
        case Unit.SECONDS:
            return _format_seconds(value)


def _format_seconds(seconds: int) -> str:
    if seconds < 60:
        return f"{seconds} s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def _introduce(report: PackReport) -> Iterator[str]:
    about = f"The incident of run {_text(report.incident.run)}. " if report.incident else ""
    yield (
        f'<p data-row="period">{about}From {_moment(report.since)} until '
        f"{_moment(report.until)}. {report.counted:,} entries in the period; the log part holds "
        f"{report.entries:,}.</p>"
    )
    if isinstance(report.counted_by, CountedBy):
        yield f'<p data-row="counted_by">{_describe_counting(report.counted_by)}</p>'
    if isinstance(report.outside, OutsideEntries) and report.outside.entries:
        runs = ", ".join(map(_text, report.outside.runs))
        more = report.outside.runs_of - len(report.outside.runs)
        noun = "entry was" if report.outside.entries == 1 else "entries were"
        yield (
            f'<p class="mark" data-row="outside">{report.outside.entries:,} {noun} first seen by '
            "witnesses in the period, and so counted in it, although the writer says another time. "
            f"Look at the runs: {runs}{f' and {more:,} more' if more else ''}.</p>"
        )
    yield (
        '<p class="dim">This page says what a log shows, what it does not show, and what stays '
        "yours. It does not say whether a duty is met, and is no legal advice.</p>"
    )
    if report.unreviewed:
        yield f'<p class="mark" data-row="mark">{_mark_text(report)}</p>'


def _describe_counting(counted_by: CountedBy) -> str:
    match counted_by:
        case CountedBy.WITNESSED:
            return (
                "Counted by: witnessed. At both ends of the period, checkpoints that witnesses saw "
                "decide which entries are in it; between two of these, the time of the writer does."
            )
        case CountedBy.WRITER:
            return (
                "Counted by: writer. At an end of the period, no witness decides which entries are "
                "in it, but the time that the writer of each says."
            )
        case _:
            assert_never(counted_by)


def _mark_text(report: PackReport) -> str:
    names = escape(", ".join(report.unreviewed))
    return f"Not reviewed: nobody has compared these maps with the original texts: {names}."


def _judge(check: ReaderCheck) -> tuple[str, str]:
    """Return the color of the verdict, and the verdict in a sentence."""
    if check.found:
        problems = "1 problem was" if check.found == 1 else f"{check.found:,} problems were"
        return "fails", f"Not verified: {problems} found."
    if not any(claim.state == _HOLDS for claim in check.claims):
        return "warn", "Nothing was checked: choose your trust file."
    if not check.ok:
        return "warn", "Not everything could be checked. Read the reasons."
    if any(claim.state == SELF_WITNESSED for claim in check.claims):
        return "warn", "Intact and complete. Only the writer's own witnesses have seen it."
    return "holds", "Intact and complete, and another organization has seen it."


def _verdict(
    check: ReaderCheck, report: PackReport | None, tone: str, verdict: str
) -> Iterator[str]:
    """Yield what the verifier of the reader found: what is wrong first."""
    yield f'<section id="record-check" class="verdict {tone}">\n<h2>{verdict}</h2>'
    if check.findings:
        yield '<ul class="found">'
        yield from (f"<li>{_text(finding)}</li>" for finding in check.findings)
        if check.found > len(check.findings):
            yield f"<li>and {check.found - len(check.findings):,} more</li>"
        yield "</ul>"
    if report is None:
        yield "<p>No figure is shown: none follows from what your keys have signed.</p>"
    elif not check.ok:
        yield (
            "<p>The figures below were computed from the entries in the file. Because of what is "
            "said here, take none of them as proven.</p>"
        )
    yield "<table>\n<tbody>"
    for claim in check.claims:
        cells = f'<td class="claim"><b>{escape(claim.name)}</b></td>'
        cells += f'<td class="s">{escape(claim.state)}</td><td>{_text(claim.reason)}</td>'
        yield f'<tr data-row="check {escape(claim.name)}">{cells}</tr>'
    yield from _log_part(report) if report else ()
    yield "</tbody></table>"
    if check.not_checked:
        yield "<h3>Not checked</h3>\n<ul>"
        yield from (f"<li>{_text(words)}</li>" for words in check.not_checked)
        yield "</ul>"
    yield f"<h3>Checked by {_text(check.verifier)}, with these keys</h3>"
    if check.keys:
        yield "<ul>"
        yield from (f"<li><code>{_text(key)}</code></li>" for key in check.keys)
        yield "</ul>"
    else:
        yield "<p>None: you named no key. Name your trust file with <code>--policy</code>.</p>"
    yield (
        f'<p class="dim">The file has the SHA-256 <code>{check.digest}</code>. Anybody can '
        "write a page like this: if you got it from others, ask for the file, and verify that with "
        "keys of your own.</p>\n</section>"
    )


def _body(report: PackReport, check: ReaderCheck | None) -> Iterator[str]:
    """Yield the sections of a report; without a check, those of release 0.2."""
    figures = {figure.id: figure for figure in report.figures}
    yield from _tiles(figures)
    if check:
        states = ", ".join(f"{claim.name}: {claim.state}" for claim in check.claims[:3])
        yield from _questions(report, figures, f"{states}, with your keys")
    elif report.check:
        whole = f"complete: {report.check.complete.state}, as the maker found; check it"
        yield from _questions(report, figures, whole)
        yield from _old_record(report, report.check)
    yield '<h2 id="charts">By day</h2>\n<div class="charts">'
    yield from _charts(report, figures)
    yield "</div>"
    yield from _incident(report)
    yield from _named(report)
    for section, title in SECTIONS.items():
        yield from _section(section, title, report.figures)
        if section == queries.DECISIONS:
            yield from _decisions(report)
        yield from _events(report, section)
    others = [figure for figure in report.figures if figure.section not in SECTIONS]
    if others:
        yield from _figure_table("added", "Figures that a map adds", others)
    for result in report.maps:
        yield from _map(result, check)
    yield from _bundles(report, check)
    yield '<h2 id="limits">' + LIMITS_TITLE + "</h2>\n<ul>"
    for number, limit in enumerate(report.limits, 1):
        yield f'<li data-row="limit {number}">{escape(limit)}</li>'
    yield "</ul>"


def _questions(report: PackReport, figures: dict[str, Figure], whole: str) -> Iterator[str]:
    """Yield the table of questions, each with its answer in short and a link to the rest.

    `whole` is the answer to the question whether a run is missing.
    """
    others = {
        "record-check": whole,
        "limits": f"limits that are listed: {len(report.limits)}",
    }
    titles = {**SECTIONS, "record-check": "Is the record whole?", "limits": LIMITS_TITLE}
    yield '<h2 id="questions">Ten questions</h2>'
    yield render_table_head(("question", "in short", "where"), style="questions")
    for number, (question, anchor, asked) in enumerate(QUESTIONS, 1):
        # A pack of an earlier release has not all of these figures.
        parts = [
            f"{words}: {_figure_text(figures[figure_id])}"
            for figure_id, words in asked
            if figure_id in figures
        ]
        answer = escape(others.get(anchor, ", ".join(parts)))
        link = f'<a href="#{anchor}">{escape(titles[anchor])}</a>'
        cells = f"<td>{number}. {escape(question)}</td><td>{answer}</td><td>{link}</td>"
        yield f'<tr data-row="question {number}">{cells}</tr>'
    yield "</tbody></table>"


def _figure_text(figure: Figure) -> str:
    """Return the value of a figure; "none" for a time that nothing took."""
    if figure.value is None:
        return "cannot be computed"
    if figure.unit is Unit.SECONDS and not figure.items:
        return "none"
    return format_value(figure.value, figure.unit)


def _tiles(figures: dict[str, Figure]) -> Iterator[str]:
    yield '<div class="tiles">'
    for figure_id, words in TILES:
        figure = figures[figure_id]
        text = _figure_text(figure)
        label = _singular(words) if text == "1" else words
        yield f'<div class="tile" data-row="{figure_id}"><b>{text}</b>{label}</div>'
    yield "</div>"


def _singular(words: str) -> str:
    """Return words that begin with a plural, for one thing."""
    noun, space, rest = words.partition(" ")
    return noun.removesuffix("s") + space + rest


def _old_record(report: PackReport, check: RecordCheck) -> Iterator[str]:
    """Yield what the maker of a pack of release 0.2 found."""
    yield '<h2 id="record-check">Is the record whole?</h2>'
    yield (
        '<p class="dim">What the maker of this pack found, with the keys in the file '
        "<code>policy</code>. Check it with keys that you got elsewhere: "
        "<code>forum verify PACK --policy POLICY</code> computes every figure of this page again "
        "from <code>log/</code>; <code>python3 verify.py PACK --policy POLICY</code> does it for "
        "report.json, with Python alone.</p>"
    )
    yield "<table>\n<tbody>"
    for name, claim in asdict(check).items():
        cells = f'<td class="claim"><b>{name.capitalize()}</b></td>'
        cells += f'<td class="s">{escape(claim.state)}</td>'
        yield f'<tr data-row="check {name}">{cells}<td>{escape(claim.reason)}</td></tr>'
    yield from _log_part(report)
    yield "</tbody></table>"


def _log_part(report: PackReport) -> Iterator[str]:
    """Yield the row that says which entries a report follows from."""
    start, end = report.start, report.end
    trees = f"entries {start.size:,} to {end.size - 1:,}" if end.size else "none"
    yield (
        f'<tr data-row="checkpoints"><td class="claim"><b>Log part</b></td>'
        f'<td class="s">{trees}</td>'
        f"<td>between the signed trees of size {start.size:,} and {end.size:,}; root of the second "
        f"<code>{end.root}</code></td></tr>"
    )


def _charts(report: PackReport, figures: dict[str, Figure]) -> Iterator[str]:
    last = max(report.arguments.since, report.arguments.until - 1)
    days = list_days(format_day(report.arguments.since), format_day(last))
    for figure_id, title, colors in CHARTS:
        figure = figures[figure_id]
        layers = _layers(figure, colors)
        labels = partial(format_value, unit=figure.unit)
        # The median of several days cannot be computed from those of each; the longest is shown.
        combine = max if figure.unit is Unit.SECONDS else sum
        chart = draw_bars(title, days, layers, labels, combine=combine)
        legend = draw_legend(layers) if len(figure.query.by) > 1 else ""
        heading = f"<figcaption><h3>{escape(title)}</h3></figcaption>"
        yield f'<figure data-row="{figure_id}">{heading}{legend}{chart}</figure>'


def _layers(figure: Figure, colors: dict[str, str]) -> list[Layer]:
    names = sorted({group.key[1] if len(group.key) > 1 else "" for group in figure.groups})
    names.sort(key=lambda name: list(colors).index(name) if name in colors else len(colors))
    layers = []
    for number, name in enumerate(names):
        values = {g.key[0]: g.value for g in figure.groups if (*g.key, "")[1] == name}
        fallback = _SOME_COLORS[number % len(_SOME_COLORS)] if name else "c1"
        layers.append(Layer(name, colors.get(name, fallback), values))
    return layers


def _incident(report: PackReport) -> Iterator[str]:
    incident = report.incident
    if incident is None:
        return
    yield f'<h2 id="incident">The run of the incident</h2>\n<p><code>{_text(incident.run)}</code>'
    shown = len(incident.timeline)
    yield f" has {incident.entries:,} entries in the log part; {shown:,} are listed.</p>"
    if incident.related:
        names = ", ".join(f"<code>{_text(run)}</code>" for run in incident.related)
        yield f'<p data-row="related">Runs that its entries name: {names}</p>'
    yield render_table_head(("entry", "time (UTC)", "strand", "kind", "by", "outcome"))
    for entry in incident.timeline:
        cells = (_moment(format_rfc3339(entry.ts)), entry.strand, entry.kind, entry.actor)
        texts = "".join(f"<td>{_text(text)}</td>" for text in (*cells, entry.outcome))
        row = f"incident entry {entry.index}"
        yield f'<tr data-row="{row}"><td class="n">{entry.index}</td>{texts}</tr>'
    yield "</tbody></table>"


def _named(report: PackReport) -> Iterator[str]:
    yield '<h2 id="named">Runs to look at</h2>'
    if not report.named:
        yield "<p>None: no stop, no failure, no effect in doubt and no gap in the period.</p>"
        return
    shown = f"The first {len(report.named)} of {report.named_of:,}."
    yield f'<p class="dim" data-row="named">{shown} Each has a bundle in <code>runs/</code>.</p>'
    yield render_table_head(("run", "why", "entries"))
    for named in report.named:
        why = escape(", ".join(named.reasons))
        entries = ", ".join(map(str, named.entries))
        row = f"named run {escape(named.run)}"
        yield (
            f'<tr data-row="{row}"><td><code>{_text(named.run)}</code></td><td>{why}</td>'
            f"<td>{entries}</td></tr>"
        )
    yield "</tbody></table>"


def _decisions(report: PackReport) -> Iterator[str]:
    if not report.decisions:
        return
    enclosed = {bundle.run for bundle in report.bundles}
    yield render_table_head(("entry", "decision", "run", "by", "time", "took", "what was shown"))
    for decision in report.decisions:
        shown = "in the bundle of the run" if decision.run in enclosed else "no bundle here"
        cells = (
            f"{decision.answer}: {decision.subject}",
            decision.run,
            f"{decision.actor} ({decision.authority})",
            _moment(format_rfc3339(decision.ts)),
            _format_seconds(decision.seconds),
            f"{shown}; digest {decision.digest[:16]}",
        )
        texts = "".join(f"<td>{_text(text)}</td>" for text in cells)
        row = f"decision {decision.index}"
        yield f'<tr data-row="{row}"><td class="n">{decision.index}</td>{texts}</tr>'
    yield "</tbody></table>"
    yield f'<p class="dim">At most the first {MAX_DECISIONS} decisions are listed.</p>'


def _events(report: PackReport, section: str) -> Iterator[str]:
    """Yield the list of the events of a section."""
    events = [event for event in report.events if event.section == section]
    if not events:
        return
    yield render_table_head(("entry", "time", "by", "what"), style="events")
    for event in events:
        cells = (_moment(format_rfc3339(event.ts)), event.actor)
        texts = "".join(f"<td>{_text(text)}</td>" for text in cells)
        kind = f'<span class="dim">{_text(event.kind)}</span>'
        texts += f"<td>{_text(event.words)} {kind}</td>"
        yield f'<tr data-row="event {event.index}"><td class="n">{event.index}</td>{texts}</tr>'
    yield "</tbody></table>"
    if len(events) == MAX_EVENTS:
        yield f'<p class="dim">Only the first {MAX_EVENTS} are listed; entries.csv has all.</p>'


def _section(section: str, title: str, figures: Iterable[Figure]) -> Iterator[str]:
    listed = [f for f in figures if f.section == section and "day" not in f.query.by]
    yield from _figure_table(section, title, listed)


def _figure_table(anchor: str, title: str, figures: Sequence[Figure]) -> Iterator[str]:
    yield f'<h2 id="{escape(anchor)}">{escape(title)}</h2>'
    yield render_table_head(("figure", "value", "of which", "entries, e.g."), style="figures")
    for figure in figures:
        value = _figure_text(figure)
        examples = ", ".join(map(str, figure.examples))
        query = _text(describe_query(figure))
        yield (
            f'<tr data-row="{escape(figure.id)}"><td class="w">{_text(figure.title)}<br>'
            f'<span class="dim">{query}</span></td><td class="n">{value}</td>'
            f'<td>{_groups(figure)}</td><td class="dim">{examples}</td></tr>'
        )
    yield "</tbody></table>"


def describe_query(figure: Figure) -> str:
    """Return a query in one line."""
    query = figure.query
    what = ", ".join(query.kinds) or f"all {query.over}"
    conditions = [
        f"{c.member} {'is not' if c.negated else 'is'} {' or '.join(c.values)}" for c in query.where
    ]
    measure = f"{query.measure} of {query.of}: " if query.of else ""
    where = f" where {' and '.join(conditions)}" if conditions else ""
    return f"{figure.id} = {measure}{what}{where}"


def _groups(figure: Figure) -> str:
    shown = [
        f"{' / '.join(_text(part or 'none') for part in group.key)} "
        f"<b>{format_value(group.value, figure.unit)}</b>"
        for group in figure.groups[:_MAX_GROUPS_SHOWN]
    ]
    more = len(figure.groups) - _MAX_GROUPS_SHOWN
    if more > 0:
        shown.append(f"and {more} more in report.json")
    return ", ".join(shown)


def _map(result: MapResult, check: ReaderCheck | None) -> Iterator[str]:
    control_map, review = result.map, result.map.review
    name = escape(control_map.name)
    yield f'<h2 id="map-{name}" data-row="map {name}">{_text(control_map.title)}</h2>'
    is_told = check is not None and control_map.name not in check.compared_maps
    if is_told:
        yield (
            f'<p class="mark" data-row="map {name}">The maker of the pack wrote this text. Your '
            "program has no such text to compare it with.</p>"
        )
    if review.by:
        words = f"Compared with the original texts by {review.by}, {review.on}."
        words = f"Its maker says: {words}" if is_told else words
        text = _text(f"Version {control_map.version}. {words}")
        yield f'<p class="dim" data-row="map {name}">{text}</p>'
    else:
        yield (
            f'<p class="mark" data-row="map {name}">Version {escape(control_map.version)}. Not '
            "reviewed: nobody has compared this map with the original texts.</p>"
        )
    yield f'<p data-row="map {name}">{_text(control_map.applies)}</p>'
    yield render_table_head(
        ("duty", "in this period", "stays yours", "not covered here"), style="map"
    )
    rows = zip(control_map.rows, result.rows, strict=True)
    for row, shown in rows:
        source = _text(f"{row.source} (read: {row.read})")
        cells = (
            f'<td class="w"><b>{_text(row.id)}</b> {_text(row.duty)}<br>'
            f'<span class="dim">{source}</span></td>'
            f'<td class="w">{_row_result(shown)}</td>'
            f"<td>{_text(row.yours)}</td><td>{_text(row.not_covered)}</td>"
        )
        yield f'<tr data-row="map {name} {escape(row.id)}">{cells}</tr>'
    yield "</tbody></table>"
    for number, text in enumerate(control_map.not_shown, 1):
        yield f'<p class="dim" data-row="map {name} note {number}">{_text(text)}</p>'


def _row_result(shown: RowResult) -> str:
    counts = ["cannot be computed" if f.items is None else f"{f.items:,}" for f in shown.figures]
    pairs = zip(shown.figures, counts, strict=True)
    figures = ", ".join(f"{_text(f.id)} <b>{count}</b>" for f, count in pairs)
    examples = f"entries {', '.join(map(str, shown.examples))}" if shown.examples else ""
    lines = [escape(shown.state), figures, f'<span class="dim">{examples}</span>']
    return "<br>".join(line for line in lines if line)


def _describe_seed(source: SeedSource, witnesses: Sequence[str]) -> tuple[str, str]:
    """Return where the order of the runs comes from, and what a reader should know about it."""
    follows = "Their order follows from the seed, which"
    match source:
        case SeedSource.AUDITOR:
            return f"{follows} an auditor brought", " Compare it with the one that you brought."
        case SeedSource.RECORDED:
            names = ", ".join(map(_text, witnesses))
            return (
                (
                    f"{follows} comes from the cosignatures by {names} that the log recorded of "
                    "the first tree behind the period"
                ),
                (
                    " The maker of the log could not choose among later trees.  He could ask for "
                    "other cosignatures before he recorded these: a seed of your own excludes that."
                ),
            )
        case SeedSource.WITNESSES:
            names = ", ".join(map(_text, witnesses))
            return (
                f"{follows} comes from the cosignatures of a tree behind the period by {names}",
                (
                    " The log part has no record of them, so the maker of the log could choose "
                    "among later trees and cosignatures: bring a seed of your own."
                ),
            )
        case SeedSource.CHECKPOINT:
            return (
                f"{follows} is the root of the tree",
                " The maker of the log can influence this draw: bring a seed of your own.",
            )
        case _:
            assert_never(source)


def _describe_old_seed(source: SeedSource) -> tuple[str, str]:
    """Return the words of release 0.2, which are false: the owner of a log can choose a root."""
    is_root = source is SeedSource.CHECKPOINT
    brought = "is the root of the tree" if is_root else "an auditor brought"
    return f"Nobody chose them: their order follows from the seed, which {brought}", ""


def _bundles(report: PackReport, check: ReaderCheck | None) -> Iterator[str]:
    sample = report.sample
    yield '<h2 id="sample">Bundles in this pack</h2>'
    if check:
        brought, caution = _describe_seed(sample.seed_from, check.seed_witnesses)
    else:
        brought, caution = _describe_old_seed(sample.seed_from)
    yield (
        f'<p data-row="sample">{len(sample.runs)} of {sample.population:,} runs with an entry in '
        f"the period were drawn. {brought}: <code>{_text(sample.seed)}</code>.{caution}</p>"
    )
    if not report.bundles:
        return
    yield render_table_head(("run", "file", "why"))
    for bundle in report.bundles:
        why = escape(", ".join(bundle.why))
        names = f"<td><code>{_text(bundle.run)}</code></td><td>{_text(bundle.file)}</td>"
        yield f'<tr data-row="bundle {escape(bundle.run)}">{names}<td>{why}</td></tr>'
    yield "</tbody></table>"


def _moment(text: str) -> str:
    """Return a time to the second; report.json has the exact one."""
    return f"{text[:10]} {text[11:19]} UTC"
