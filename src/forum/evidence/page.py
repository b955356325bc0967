"""The page of a pack: the report for people, in one file that loads nothing and runs no script.

The page is a function of the report alone.  Each row is one line that names itself (`data-row`), so
that a verifier which draws the page again can name the row that differs.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from html import escape
from typing import assert_never

from forum.evidence import queries
from forum.evidence.charts import Layer, draw_bars, draw_legend, list_days
from forum.evidence.control_maps import MapResult, RowResult
from forum.evidence.events import MAX_EVENTS
from forum.evidence.figures import Figure, day_of
from forum.evidence.queries import SECTIONS, Unit
from forum.evidence.report import OLD_FORMAT, PackReport, SeedSource, format_moment
from forum.evidence.tally import MAX_DECISIONS

_MAX_GROUPS_SHOWN = 6
_LIMITS_TITLE = "What this does not show, and what to ask for"

_STYLE = """\
:root { color-scheme: light dark; --ink: #1b1b1f; --paper: #fff; --line: #b9b9c2; --dim: #56565f;
  --soft: #f3f3f6; --mark: #1f5fbf; --wait: #8a5a00; --waitbg: #fff4dc;
  --c1: #2a78d6; --c2: #c8372d; --c3: #c77700; --c4: #7a5cc4; --c5: #8a8a94; --c6: #1b8a5a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8ee; --paper: #16161a; --line: #4a4a55;
  --dim: #a9a9b4; --soft: #222229; --mark: #7fb2ff; --wait: #f0c069; --waitbg: #33291a;
  --c1: #5a9cf0; --c2: #f07067; --c3: #e8a33d; --c4: #a98df0; --c5: #9a9aa6; --c6: #4fc48e; } }
* { box-sizing: border-box; }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 70rem; margin: 1.5rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 1.8rem 0 .4rem; }
h3 { font-size: 1rem; margin: 0; } p { margin: .4rem 0; } a { color: var(--mark); }
table { border-collapse: collapse; width: 100%; margin: .4rem 0; }
th, td { text-align: left; vertical-align: top; padding: .25rem .5rem;
  border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--dim); font-size: .85rem; overflow-wrap: normal; }
td.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
td.w { min-width: 9rem; } td.s { overflow-wrap: normal; }
.dim { color: var(--dim); font-size: .87rem; }
code { font-size: .87em; }
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

_QUESTIONS: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
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


def draw_page(report: PackReport) -> str:
    """Return the page of a report."""
    return "\n".join([*_head(report), *_body(report), "</main>", "</body>", "</html>", ""])


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


def _head(report: PackReport) -> Iterator[str]:
    title = escape(f"Evidence of {report.origin}")
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    # Nothing is loaded and no script runs, whatever a text on the page says.
    yield (
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">"
    )
    yield f"<title>{title}, {report.since[:10]} to {report.until[:10]}</title>"
    mark = _PAGE_MARK.replace("TEXT", _mark_text(report)) if report.unreviewed else ""
    yield f"<style>\n{_STYLE}{mark}</style>\n</head>\n<body>\n<main>"
    yield f'<h1 data-row="title">{title}</h1>'
    about = f"The incident of run {report.incident.run}. " if report.incident else ""
    yield (
        f'<p data-row="period">{escape(about)}From {_moment(report.since)} until '
        f"{_moment(report.until)}. {report.counted:,} entries in the period; the log part holds "
        f"{report.entries:,}.</p>"
    )
    yield (
        '<p class="dim">This page says what a log shows, what it does not show, and what stays '
        "yours. It does not say whether a duty is met, and is no legal advice.</p>"
    )
    if report.unreviewed:
        yield f'<p class="mark" data-row="mark">{_mark_text(report)}</p>'


def _mark_text(report: PackReport) -> str:
    names = escape(", ".join(report.unreviewed))
    return f"Not reviewed: nobody has compared these maps with the original texts: {names}."


def _body(report: PackReport) -> Iterator[str]:
    figures = {figure.id: figure for figure in report.figures}
    yield from _tiles(figures)
    yield from _questions(report, figures)
    yield from _record(report)
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
        yield from _map(result)
    yield from _bundles(report)
    yield '<h2 id="limits">' + _LIMITS_TITLE + "</h2>\n<ul>"
    for number, limit in enumerate(report.limits, 1):
        yield f'<li data-row="limit {number}">{escape(limit)}</li>'
    yield "</ul>"


def _questions(report: PackReport, figures: dict[str, Figure]) -> Iterator[str]:
    """Yield the table of questions, each with its answer in short and a link to the rest."""
    others = {
        "record-check": f"complete: {report.check.complete.state}, as the maker found; check it",
        "limits": f"limits that are listed: {len(report.limits)}",
    }
    titles = {**SECTIONS, "record-check": "Is the record whole?", "limits": _LIMITS_TITLE}
    yield '<h2 id="questions">Ten questions</h2>'
    yield from _table_head("question", "in short", "where", style="questions")
    for number, (question, anchor, asked) in enumerate(_QUESTIONS, 1):
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
    if figure.unit is Unit.SECONDS and not figure.items:
        return "none"
    return format_value(figure.value, figure.unit)


def _tiles(figures: dict[str, Figure]) -> Iterator[str]:
    tiles = (
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
    yield '<div class="tiles">'
    for figure_id, words in tiles:
        figure = figures[figure_id]
        text = _figure_text(figure)
        label = _singular(words) if text == "1" else words
        yield f'<div class="tile" data-row="{figure_id}"><b>{text}</b>{label}</div>'
    yield "</div>"


def _singular(words: str) -> str:
    """Return words that begin with a plural, for one thing."""
    noun, space, rest = words.partition(" ")
    return noun.removesuffix("s") + space + rest


def _record(report: PackReport) -> Iterator[str]:
    yield '<h2 id="record-check">Is the record whole?</h2>'
    yield (
        '<p class="dim">What the maker of this pack found, with the keys in the file '
        "<code>policy</code>. Check it with keys that you got elsewhere: "
        "<code>forum verify PACK --policy POLICY</code> computes every figure of this page again "
        "from <code>log/</code>; <code>python3 verify.py PACK --policy POLICY</code> does it for "
        "report.json, with Python alone.</p>"
    )
    yield "<table>\n<tbody>"
    for name in report.check.__struct_fields__:
        claim = getattr(report.check, name)
        word, state, reason = name.capitalize(), claim.state, claim.reason
        if name == "independent" and state == "holds" and not _is_of_first_release(report):
            # Marks of independent witnesses are the reader's; the maker's own say nothing.
            word, state = "Witnessed", "self-witnessed"
            reason = f"{reason}. {_WHO_IS_INDEPENDENT}"
        cells = f'<td class="claim"><b>{word}</b></td>'
        cells += f'<td class="s">{escape(state)}</td>'
        yield f'<tr data-row="check {name}">{cells}<td>{escape(reason)}</td></tr>'
    start, end = report.start, report.end
    trees = f"entries {start.size:,} to {end.size - 1:,}" if end.size else "none"
    yield (
        f'<tr data-row="checkpoints"><td class="claim"><b>Log part</b></td>'
        f'<td class="s">{trees}</td>'
        f"<td>between the signed trees of size {start.size:,} and {end.size:,}; root of the second "
        f"<code>{end.root}</code></td></tr>"
    )
    yield "</tbody></table>"


_WHO_IS_INDEPENDENT = (
    "Only your own trust file can say that another organization runs a witness (a line: "
    "independent NAME)"
)


def _is_of_first_release(report: PackReport) -> bool:
    """Return whether release 0.2 made a pack; its page must be drawn as it was."""
    return not any(figure.id == "caps.overrun" for figure in report.figures)


def _charts(report: PackReport, figures: dict[str, Figure]) -> Iterator[str]:
    last = max(report.arguments.since, report.arguments.until - 1)
    days = list_days(day_of(report.arguments.since), day_of(last))
    charts: tuple[tuple[str, str, dict[str, str]], ...] = (
        ("runs.daily", "Runs by the day they began, and outcome", _OUTCOME_COLORS),
        ("cost.daily", "Cost", {}),
        ("stops.daily", "Stops, by reason", {}),
        ("gates.daily", "Approvals asked for, and the answer", _ANSWER_COLORS),
        ("gates.daily-median", "Median time to decide", {}),
    )
    for figure_id, title, colors in charts:
        figure = figures[figure_id]
        layers = _layers(figure, colors)
        labels = partial(format_value, unit=figure.unit)
        # The median of several days cannot be computed from those of each; the longest is shown.
        combine = max if figure.unit is Unit.SECONDS else sum
        chart = draw_bars(title, days, layers, labels, combine)
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
    yield f'<h2 id="incident">The run of the incident</h2>\n<p><code>{escape(incident.run)}</code>'
    shown = len(incident.timeline)
    yield f" has {incident.entries:,} entries in the log part; {shown:,} are listed.</p>"
    if incident.related:
        names = ", ".join(f"<code>{escape(run)}</code>" for run in incident.related)
        yield f'<p data-row="related">Runs that its entries name: {names}</p>'
    yield from _table_head("entry", "time (UTC)", "strand", "kind", "by", "outcome")
    for entry in incident.timeline:
        cells = (_moment(format_moment(entry.ts)), entry.strand, entry.kind, entry.actor)
        texts = "".join(f"<td>{escape(text)}</td>" for text in (*cells, entry.outcome))
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
    yield from _table_head("run", "why", "entries")
    for named in report.named:
        why = escape(", ".join(named.reasons))
        entries = ", ".join(map(str, named.entries))
        row = f"named run {escape(named.run)}"
        yield (
            f'<tr data-row="{row}"><td><code>{escape(named.run)}</code></td><td>{why}</td>'
            f"<td>{entries}</td></tr>"
        )
    yield "</tbody></table>"


def _decisions(report: PackReport) -> Iterator[str]:
    if not report.decisions:
        return
    enclosed = {bundle.run for bundle in report.bundles}
    yield from _table_head("entry", "decision", "run", "by", "time", "took", "what was shown")
    for decision in report.decisions:
        shown = "in the bundle of the run" if decision.run in enclosed else "no bundle here"
        cells = (
            f"{decision.answer}: {decision.subject}",
            decision.run,
            f"{decision.actor} ({decision.authority})",
            _moment(format_moment(decision.ts)),
            _format_seconds(decision.seconds),
            f"{shown}; digest {decision.digest[:16]}",
        )
        texts = "".join(f"<td>{escape(text)}</td>" for text in cells)
        row = f"decision {decision.index}"
        yield f'<tr data-row="{row}"><td class="n">{decision.index}</td>{texts}</tr>'
    yield "</tbody></table>"
    yield f'<p class="dim">At most the first {MAX_DECISIONS} decisions are listed.</p>'


def _events(report: PackReport, section: str) -> Iterator[str]:
    """Yield the list of the events of a section."""
    events = [event for event in report.events if event.section == section]
    if not events:
        return
    yield from _table_head("entry", "time", "by", "what", style="events")
    for event in events:
        cells = (_moment(format_moment(event.ts)), event.actor)
        texts = "".join(f"<td>{escape(text)}</td>" for text in cells)
        kind = f'<span class="dim">{escape(event.kind)}</span>'
        texts += f"<td>{escape(event.words)} {kind}</td>"
        yield f'<tr data-row="event {event.index}"><td class="n">{event.index}</td>{texts}</tr>'
    yield "</tbody></table>"
    if len(events) == MAX_EVENTS:
        yield f'<p class="dim">Only the first {MAX_EVENTS} are listed; entries.csv has all.</p>'


def _section(section: str, title: str, figures: Iterable[Figure]) -> Iterator[str]:
    listed = [f for f in figures if f.section == section and "day" not in f.query.by]
    yield from _figure_table(section, title, listed)


def _figure_table(anchor: str, title: str, figures: Sequence[Figure]) -> Iterator[str]:
    yield f'<h2 id="{escape(anchor)}">{escape(title)}</h2>'
    yield from _table_head("figure", "value", "of which", "entries, e.g.", style="figures")
    for figure in figures:
        value = _figure_text(figure)
        examples = ", ".join(map(str, figure.examples))
        query = escape(describe_query(figure))
        yield (
            f'<tr data-row="{escape(figure.id)}"><td class="w">{escape(figure.title)}<br>'
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
        f"{escape(' / '.join(part or 'none' for part in group.key))} "
        f"<b>{format_value(group.value, figure.unit)}</b>"
        for group in figure.groups[:_MAX_GROUPS_SHOWN]
    ]
    more = len(figure.groups) - _MAX_GROUPS_SHOWN
    if more > 0:
        shown.append(f"and {more} more in report.json")
    return ", ".join(shown)


def _map(result: MapResult) -> Iterator[str]:
    control_map, review = result.map, result.map.review
    name = escape(control_map.name)
    yield f'<h2 id="map-{name}" data-row="map {name}">{escape(control_map.title)}</h2>'
    if review.by:
        words = f"Compared with the original texts by {review.by}, {review.on}."
        text = escape(f"Version {control_map.version}. {words}")
        yield f'<p class="dim" data-row="map {name}">{text}</p>'
    else:
        yield (
            f'<p class="mark" data-row="map {name}">Version {escape(control_map.version)}. Not '
            "reviewed: nobody has compared this map with the original texts.</p>"
        )
    yield f'<p data-row="map {name}">{escape(control_map.applies)}</p>'
    yield from _table_head("duty", "in this period", "stays yours", "not covered here", style="map")
    rows = zip(control_map.rows, result.rows, strict=True)
    for row, shown in rows:
        source = escape(f"{row.source} (read: {row.read})")
        cells = (
            f'<td class="w"><b>{escape(row.id)}</b> {escape(row.duty)}<br>'
            f'<span class="dim">{source}</span></td>'
            f'<td class="w">{_row_result(shown)}</td>'
            f"<td>{escape(row.yours)}</td><td>{escape(row.not_covered)}</td>"
        )
        yield f'<tr data-row="map {name} {escape(row.id)}">{cells}</tr>'
    yield "</tbody></table>"
    for number, text in enumerate(control_map.not_shown, 1):
        yield f'<p class="dim" data-row="map {name} note {number}">{escape(text)}</p>'


def _row_result(shown: RowResult) -> str:
    figures = ", ".join(f"{escape(f.id)} <b>{f.items:,}</b>" for f in shown.figures)
    examples = f"entries {', '.join(map(str, shown.examples))}" if shown.examples else ""
    lines = [escape(shown.state), figures, f'<span class="dim">{examples}</span>']
    return "<br>".join(line for line in lines if line)


def _describe_seed(source: SeedSource) -> tuple[str, str]:
    """Return where the order of the runs comes from, and what a reader should know about it."""
    follows = "their order follows from the seed, which"
    match source:
        case SeedSource.AUDITOR:
            return f"{follows} an auditor brought", ""
        case SeedSource.WITNESSES:
            return (
                f"{follows} comes from the cosignatures of the last tree",
                (
                    " The maker of the log could not know it before the witnesses cosigned, unless "
                    "one of them is his own: compare them with your trust file."
                ),
            )
        case SeedSource.CHECKPOINT:
            return (
                f"{follows} is the root of the tree",
                " The maker of the log can influence this draw: bring a seed of your own.",
            )
        case _:
            assert_never(source)


def _bundles(report: PackReport) -> Iterator[str]:
    sample = report.sample
    yield '<h2 id="sample">Bundles in this pack</h2>'
    brought, caution = _describe_seed(sample.seed_from)
    # The page of a pack of release 0.2 has the words of that release, or it would seem changed.
    if report.v == OLD_FORMAT:
        brought, caution = f"Nobody chose them: {brought}", ""
    else:
        brought = brought.capitalize()
    yield (
        f'<p data-row="sample">{len(sample.runs)} of {sample.population:,} runs with an entry in '
        f"the period were drawn. {brought}: <code>{escape(sample.seed)}</code>.{caution}</p>"
    )
    if not report.bundles:
        return
    yield from _table_head("run", "file", "why")
    for bundle in report.bundles:
        why = escape(", ".join(bundle.why))
        names = f"<td><code>{escape(bundle.run)}</code></td><td>{escape(bundle.file)}</td>"
        yield f'<tr data-row="bundle {escape(bundle.run)}">{names}<td>{why}</td></tr>'
    yield "</tbody></table>"


def _table_head(*names: str, style: str = "") -> Iterator[str]:
    cells = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    table = f'<table class="{style}">' if style else "<table>"
    yield f"{table}\n<thead><tr>{cells}</tr></thead>\n<tbody>"


def _moment(text: str) -> str:
    """Return a time to the second; report.json has the exact one."""
    return f"{text[:10]} {text[11:19]} UTC"
