"""A run as one page that loads nothing: what was asked, done and answered, with its evidence.

The page proves nothing by itself, and says so.  The bundle that it holds does, to whoever verifies
it with keys of his own.
"""

from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple, assert_never

from forum import pages
from forum.app import RunView, formatting
from forum.features.pages.run_timeline import render_timeline
from forum.ledger.log import LocatedEntry
from forum.ledger.spans import common_prefix
from forum.runs.conversation.messages import ChatMessage
from forum.runs.conversation.run_exchanges import describe_repetition
from forum.runs.conversation.run_steps import ConversationStep
from forum.runs.run_record import EntryBodies, RunRecord
from forum.surfaces.cli import transcript
from forum.surfaces.cli.run_view import MARKS, view_status
from forum.surfaces.schemas.fields import AmountForm
from forum.surfaces.schemas.panels import CouncilForm, SymposiumForm
from forum.surfaces.schemas.runs import RunForm, run_form
from forum.surfaces.schemas.transcripts import TranscriptStep
from forum.units import format_duration, format_rfc3339
from forum.untrusted_text import escape_html, isolate_html

_MAX_BODY_CHARS = 20_000
_MIN_REPEATED_BYTES = 512
"""The least that is left out of a body because the body before it begins with the same."""

_Shown = dict[tuple[str, str], bytes]
"""The last body of each strand and name: a prompt mostly repeats the one before it."""


class EvidenceFile(NamedTuple):
    """The bundle of a run, under the name of its file."""

    name: str
    content: bytes


def render_run_page(view: RunView, record: RunRecord, name: str, bundle: bytes) -> str:
    """Return the whole page, with the bundle of the run under the name of its file."""
    form = run_form(view)
    shown: _Shown = {}
    bodies = EntryBodies(record)
    title = formatting.first_line(
        form.request or form.title or f"Run {formatting.short_id(form.run)}", 120
    )
    parts = [
        f"<h1>{escape_html(title)}</h1>",
        _state_line(view, form),
        _fact_list(view, form),
        *_answer(view, form),
        *_deliberation(form),
        _task_table(form),
        _span_table(form),
        render_timeline(view),
        *_decision_tables(form),
        "<h2>Transcript</h2>",
        *(
            _render_block(bodies, view, block, shown)
            for block in transcript.transcript_blocks(record)
        ),
        *_evidence(form, record, EvidenceFile(name, bundle)),
    ]
    style = (files("forum.features.pages") / "run_page.css").read_text("utf-8")
    return pages.render_page(escape_html(title), parts, pages.FIGURE_STYLE + style)


def _clean(text: str) -> str:
    """Return text as HTML, with its control and direction characters made visible."""
    return isolate_html(
        formatting.strip_control_characters(text.replace("\r\n", "\n").expandtabs(4))
    )


def _paragraph(text: str) -> str:
    return f"<p>{_clean(text)}</p>"


def _pre(text: str) -> str:
    shown = f"<pre>{_clean(text[:_MAX_BODY_CHARS])}</pre>"
    if len(text) <= _MAX_BODY_CHARS:
        return shown
    return f'{shown}<p class="dim">Cut here: the bundle has all {len(text):,} characters.</p>'


def _body(name: str, text: str) -> str:
    # A body that was cut is no JSON any more.
    return _pre(
        text if len(text) > _MAX_BODY_CHARS else transcript.format_body(name, text.encode())
    )


def _table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of texts, without the columns that are empty."""
    used = [n for n in range(len(heads)) if n == 0 or any(row[n] for row in rows)]
    cells = [[formatting.strip_control_characters(row[n]) for n in used] for row in rows]
    return pages.render_table(caption, [heads[n] for n in used], cells)


def _state_line(view: RunView, form: RunForm) -> str:
    mark, word, color = view_status(view)
    why = form.why or form.reason
    reason = f": {_clean(why)}" if why else ""
    return f'<p><span class="state {color or ""}">{mark} {escape_html(word)}</span>{reason}</p>'


def _fact_list(view: RunView, form: RunForm) -> str:
    facts = {
        "run": form.run,
        "known as": form.coverage,
        "begun": form.begun,
        "time": format_duration(formatting.run_duration(view)),
        "cost": _cost(form),
        "used": f"{form.spent.calls:,} calls, {form.spent.tokens:,} tokens",
    }
    if form.route and form.route.lane:
        facts["lane"] = f"{form.route.lane}, by {form.route.basis.value}"
    if declined := formatting.describe_declined_team(view):
        facts["team"] = declined
    if form.source:
        facts["reported by"] = form.source.by
    rows = "".join(
        f"<dt>{escape_html(name)}</dt><dd>{_clean(text)}</dd>" for name, text in facts.items()
    )
    return f"<dl>{rows}</dl>"


def _cost(form: RunForm) -> str:
    cap = ", no cap" if form.cap.usd is None else f" of ${form.cap.usd}"
    return f"${form.spent.usd}{cap}"


def _answer(view: RunView, form: RunForm) -> list[str]:
    parts = [] if form.request is None else ["<h2>Request</h2>", _pre(form.request)]
    if form.answer:
        headline = formatting.undecided_headline(view)
        parts += ["<h2>Answer</h2>", _paragraph(headline) if headline else "", _pre(form.answer)]
    return parts


def _deliberation(form: RunForm) -> list[str]:
    held = form.deliberation
    match held:
        case None:
            return []
        case CouncilForm():
            return ["<h2>Deliberation</h2>", *_council(held)]
        case SymposiumForm():
            return ["<h2>Deliberation</h2>", *_symposium(held)]
        case _:
            assert_never(held)


def _council(held: CouncilForm) -> list[str]:
    rounds = sorted({vote.round for seat in held.seats for vote in seat.votes})
    votes = [
        (
            f"seat {seat.seat}: {seat.agent or seat.model or 'default'}",
            *(
                next((f"{v.answer} ({v.confidence} %)" for v in seat.votes if v.round == n), "-")
                for n in rounds
            ),
            seat.weighed or "-",
        )
        for seat in held.seats
    ]
    heads = ("seat", *("sealed" if n == 0 else f"round {n}" for n in rounds), "counted as")
    parts = [_table("Ballots", heads, votes)]
    moved = [
        (
            f"seat {change.seat}",
            f"{change.before} to {change.after}",
            "no reason given" if change.conformity else "; ".join(change.because),
        )
        for change in held.changes
    ]
    parts.append(_table("What moved whom", ("seat", "change", "because of"), moved))
    for minority in held.minority:
        seats = ", ".join(map(str, minority.seats))
        parts.append(f"<h3>Dissent: {_clean(minority.answer)} <small>(seats {seats})</small></h3>")
        parts += [_pre(minority.argument)] if minority.argument else []
        parts += [_paragraph(f"Against it: {attack}") for attack in minority.attacks]
    if held.baseline and held.spent:
        changed = "another answer" if held.baseline.changed else "the same answer"
        parts.append(
            _paragraph(
                f"The first answers alone cost ${held.baseline.spent.usd} and led to {changed} "
                f"({held.baseline.answer}); the whole deliberation cost ${held.spent.usd}."
            )
        )
    return parts


def _symposium(held: SymposiumForm) -> list[str]:
    parts = [_paragraph(f"Panel: {', '.join(held.panel)}. Rounds: {held.rounds}.")]
    for message in held.messages:
        head = f"{message.speaker}, {message.type.value}"
        parts += [f"<h3>{_clean(head)} <small>round {message.round}</small></h3>"]
        parts.append(_pre(message.text))
    parts += [_paragraph(f"Not resolved: {topic}") for topic in held.unresolved]
    return parts


def _task_table(form: RunForm) -> str:
    rows = [
        (
            task.id,
            f"{MARKS[task.state][0]} {task.state.value}",
            "/".join(dict.fromkeys(name for name in (task.agent, task.model) if name)),
            ", ".join((*task.needs, *(f"{name} (order only)" for name in task.after))),
            str(task.attempts),
            *_amount_cells(task.spent),
            f"{task.seconds:.1f} s",
            task.reason,
        )
        for task in form.tasks
    ]
    heads = ("task", "state", "agent", "needs", "tries", "tokens", "cost", "time", "remark")
    return f"<h2>Tasks</h2>\n{_table('', heads, rows)}" if rows else ""


def _span_table(form: RunForm) -> str:
    depths: dict[str, int] = {}
    rows = []
    for span in form.spans:
        depths[span.span] = depths.get(span.within or "", -1) + 1
        rows.append(
            (
                f"{'· ' * depths[span.span]}{span.name}",
                span.op.value,
                span.outcome.value if span.outcome else "open",
                span.model or span.agent or "",
                *_amount_cells(span.spent),
                f"{span.seconds:.3f} s",
                span.error or "",
            )
        )
    heads = ("step", "kind", "outcome", "by", "tokens", "cost", "time", "remark")
    gaps = [
        (gap.why.value, f"{gap.steps:,}" if gap.steps else "number not known") for gap in form.gaps
    ]
    tables = (_table("", heads, rows), _table("Known to be missing", ("why", "steps"), gaps))
    return "\n".join(["<h2>Steps</h2>", *tables]) if rows or gaps else ""


def _amount_cells(spent: AmountForm) -> tuple[str, str]:
    return f"{spent.tokens:,}", f"${spent.usd}"


def _decision_tables(form: RunForm) -> list[str]:
    gates = [
        (
            gate.subject,
            gate.decided.value if gate.decided else "waits",
            gate.by.value if gate.by else "",
            gate.digest,
        )
        for gate in form.gates
    ]
    verdicts = [
        (
            f"{task.id}, attempt {verdict.attempt}",
            verdict.outcome.value,
            f"{verdict.check.value} {verdict.judge or ''}",
            verdict.opinion.reason if verdict.opinion else verdict.reason or "",
        )
        for task in form.tasks
        for verdict in task.verdicts
    ]
    checks = [
        (f"answer: {c.subject}", c.outcome.value, f"{c.check.value} {c.judge or ''}", c.detail)
        for c in form.checks
    ]
    effects = [
        (
            effect.tool,
            effect.task,
            effect.outcome.value if effect.outcome else "intended",
            _entry_cell(effect.entry),
        )
        for effect in form.effects
    ]
    claims = [
        (claim.text, _entry_cell(claim.entry) if claim.entry is not None else "nothing shows it")
        for claim in form.claims
    ]
    tables = [
        _table("Approvals", ("subject", "decision", "by", "digest of what was shown"), gates),
        _table("Judged", ("what", "outcome", "by", "reason"), [*verdicts, *checks]),
        _table("Effects", ("tool", "task", "outcome", "entry"), effects),
        _table("The answer says that this was done", ("claim", "shown by"), claims),
    ]
    return ["<h2>Decisions</h2>", *tables] if any(tables) else []


def _entry_cell(index: int | None) -> str:
    return "" if index is None else f"entry {index}"


def _render_block(
    bodies: EntryBodies, view: RunView, block: transcript.Block, before: _Shown
) -> str:
    if isinstance(block, LocatedEntry):
        return _render_step(transcript.step_form(bodies, view, block), before)
    step, recorded = block
    index = "#-" if step.located.index is None else f"#{step.located.index}"
    at = escape_html(format_rfc3339(step.started))
    head = (
        f"<h3>{_clean(transcript.describe_step(step, recorded))} <small>{index} {at}</small></h3>"
    )
    repeated = describe_repetition(recorded)
    notes = [_paragraph(f"({repeated})")] if repeated else []
    request = "".join([*notes, *(_render_message(step, m) for m in recorded.request)])
    reply = "".join(_render_message(step, message) for message in recorded.reply)
    sides = f"<div>{request}</div><div>{reply}</div>"
    return f'<section>{head}<div class="sides">{sides}</div></section>'


def _render_message(step: ConversationStep, message: ChatMessage) -> str:
    texts = "\n\n".join(transcript.describe_message(message))
    return (
        f'<p class="label">{escape_html(transcript.label_message(step, message))}</p>{_pre(texts)}'
    )


def _render_new(text: str, before: bytes) -> str | None:
    """Return a body without what it repeats of the one before it; None if that is little."""
    content = text.encode()
    length = common_prefix(content, before)
    if length < _MIN_REPEATED_BYTES:
        return None
    # The two may differ within a character.
    repeated = content[:length].decode(errors="ignore")
    note = _paragraph(f"({len(repeated):,} characters as before)")
    return note + _pre(text[len(repeated) :])


def _render_step(step: TranscriptStep, before: _Shown) -> str:
    index = "#-" if step.entry is None else f"#{step.entry}"
    head = f"<h3>{_clean(step.summary)} <small>{index} {escape_html(step.at)} {_clean(step.strand)}"
    bodies = []
    for name, text in step.bodies.items():
        if text == "":
            continue
        shown = "<p>(erased, or not in this bundle)</p>"
        if text is not None:
            place = step.strand, name
            shown = _render_new(text, before.get(place, b"")) or _body(name, text)
            before[place] = text.encode()
        bodies.append(f'<p class="label">{escape_html(transcript.label_body(name))}</p>{shown}')
    return f"<section>{head}</small></h3>{''.join(bodies)}</section>"


def _evidence(form: RunForm, record: RunRecord, bundle: EvidenceFile) -> list[str]:
    places = [located.index for located in record.entries if located.index is not None]
    where = f"entries {min(places)} to {max(places)} of its log" if places else "its log"
    digest = sha256(bundle.content).hexdigest()
    link = pages.render_file(bundle.name, bundle.content, "application/zip", bundle.name)
    return [
        "<h2>Evidence</h2>",
        _paragraph(
            f"This page shows the run {form.run}, which is recorded in {where}. The page itself "
            "proves nothing: whoever sends it could have changed it. The bundle below is proof to "
            "you if you verify it with keys that you have from the owner of the log by another way."
        ),
        f"<p>Save {link} ({len(bundle.content):,} bytes, SHA-256 <code>{digest}</code>).</p>",
        (
            f"<p>Verify it: <code>forum verify {escape_html(bundle.name)} --policy TRUSTFILE"
            '</code>, or give it to <a href="verify.html">verify.html</a>, which <code>forum '
            "verify --page verify.html</code> of your own installation writes. Do not use one that "
            "came with this page.</p>"
        ),
    ]
