"""Renders a deliberation: votes, changes of answer with their reasons, and dissent."""

import textwrap
from collections.abc import Iterable

from forum.app.formatting import first_line, pluralize, strip_control_characters
from forum.features.council import schemas as council
from forum.features.council.deliberation_schemas import DeliberationForm
from forum.features.council.kinds import Accord, End, Ground
from forum.features.symposium.kinds import MessageType, OutcomeKind
from forum.features.symposium.schemas_of_forms import SpokenForm, SymposiumForm
from forum.surfaces.cli.console import style
from forum.surfaces.cli.output import with_heading
from forum.surfaces.schemas.fields import SpentForm

_ENDS = {
    End.GATE: "the first answers agreed",
    End.UNANIMOUS: "all agreed",
    End.STABLE: "nobody changed any more",
    End.EXHAUSTED: "nobody had a new claim",
    End.ROUNDS: "all rounds were held",
    End.STOPPED: "it was stopped",
    End.SILENT: "nobody cast a ballot",
}
_GROUNDS = {
    Ground.GATE: "without deliberation",
    Ground.VOTE: "by vote",
    Ground.CHECK: "by a tool that found it to hold",
    Ground.JUDGE: "by a judge",
    Ground.NONE: "",
}
_ACCORDS = {
    Accord.AGREED: ("agreed", "green"),
    Accord.MAJORITY: ("a majority", None),
    Accord.SPLIT: ("split", "yellow"),
    Accord.BLOCKED: ("blocked", "red"),
}
_TYPES = {
    MessageType.PROBLEM: "asks",
    MessageType.PRIMARY: "",
    MessageType.COORDINATION: "verdict",
    MessageType.BRANCH: "answers",
    MessageType.SYNTHESIS: "synthesis",
    MessageType.CONTRACTION: "",
}
_MAX_SEATS_SHOWN = 40
_MAX_MESSAGES_SHOWN = 60
_MAX_PAIRS_SHOWN = 6
_MIN_VOTE_WIDTH, _MAX_VOTE_WIDTH = 8, 24


def panel_lines(form: DeliberationForm, columns: int, *, every: bool = False) -> list[str]:
    """Return the overview of a deliberation."""
    if isinstance(form, SymposiumForm):
        return _session_lines(form, columns, None if every else _MAX_MESSAGES_SHOWN)
    return _council_lines(form, columns, None if every else _MAX_SEATS_SHOWN)


def dissent_lines(form: DeliberationForm, columns: int) -> list[str]:
    """Return a few lines on how certain an answer is and which seats disagree."""
    if isinstance(form, SymposiumForm):
        pending = strip_control_characters(form.pending or "")
        questions = [f"  the panel asks: {pending}"] if pending else []
        return questions + _wrapped_all(
            (f"left open: {point}" for point in form.unresolved), columns
        )
    return [
        *_verdict_lines(form, columns),
        *_section("because", map(_describe_claim, form.claims), columns),
        *_comparison_lines(form, columns),
        *(
            line
            for minority in form.minority
            for line in _minority_lines(minority, columns, "minority    ")
        ),
        *_blocker_lines(form, columns),
        *_warning_lines(form.warnings, columns),
    ]


def describe_sealed_ballots(form: council.CouncilForm) -> str:
    """Return how many ballots of the last round are sealed."""
    if not form.ballots:
        return f"0 of {pluralize(form.seated, 'ballot')} sealed"
    last = form.ballots[-1]
    # Later rounds ask only seats that have cast a ballot before.
    most = form.seated if last.round == 0 else max(earlier.sealed for earlier in form.ballots[:-1])
    return f"round {last.round}: {last.sealed} of {pluralize(most, 'ballot')} sealed"


def _council_lines(form: council.CouncilForm, columns: int, most: int | None) -> list[str]:
    head = style("council", bold=True)
    if form.end is None:
        return ["", f"{head}  {pluralize(form.seated, 'seat')}, {describe_sealed_ballots(form)}"]
    return [
        "",
        f"{head}  {pluralize(form.seated, 'seat')}, {_ENDS[form.end]}",
        *_verdict_lines(form, columns),
        *_vote_lines(form, columns, most),
        *_section("because", map(_describe_claim, form.claims), columns),
        *with_heading("same answer?", _comparison_lines(form, columns)),
        *_section("changed", (_describe_change(change) for change in form.changes), columns),
        *with_heading(
            "minority report",
            [line for minority in form.minority for line in _minority_lines(minority, columns)],
        ),
        *_section("would decide", form.decisive, columns),
        *_section(
            "absent", (f"seat {absence.seat}: {absence.reason}" for absence in form.absent), columns
        ),
        *with_heading("blockers", _blocker_lines(form, columns)),
        *with_heading("warnings", _warning_lines(form.warnings, columns)),
    ]


def _verdict_lines(form: council.CouncilForm, columns: int) -> list[str]:
    """Return the outcome next to the baseline, with the cost of each."""
    if form.accord is None or form.ground is None:
        return []
    word, color = _ACCORDS[form.accord]
    if form.ground is Ground.NONE:
        word, color = "no answer", "red"
    by = f", {_GROUNDS[form.ground]}" if _GROUNDS[form.ground] else ""
    rounds = f", after {pluralize(form.rounds, 'exchange')}" if form.rounds else ""
    lines = [f"  outcome     {style(word, fg=color)}{by}{rounds}{_cost(form.spent)}"]
    base = form.baseline
    if base is not None:
        share = f"{round(100 * base.agreement)} % of those asked"
        cost = _cost(base.spent)
        answer = first_line(base.answer, max(12, columns - len(share) - len(cost) - 20))
        lines.insert(0, f"  baseline    {answer} ({share}){cost}")
        same = "the same answer as the baseline"
        changed = style("another answer than the baseline", fg="yellow")
        lines.append(f"              {changed if base.changed else same}")
    if form.changes:
        without = sum(change.conformity for change in form.changes)
        of = pluralize(len(form.changes), "change")
        rate = f"{round(100 * form.conformity)} %: {without} of {of} without a reason"
        lines.append(f"  conformity  {style(rate, fg='yellow') if without else rate}")
    return lines


def _describe_claim(argument: council.ArgumentForm) -> str:
    """Return a claim for the answer, with its source and how it stands."""
    source = f" [source: {argument.evidence}]" if argument.evidence else " [no source]"
    support = f", supported by {pluralize(argument.support, 'other seat')}"
    standing = f" ({argument.status}{support if argument.support else ''})"
    against = "".join(f"; against it: {why}" for why in argument.attacks)
    return f'"{argument.claim}"{source}{standing}{against}'


def _comparison_lines(form: council.CouncilForm, columns: int) -> list[str]:
    """Return which wordings count as one answer, and which step decided that."""
    compared = form.comparison
    if compared is None or not compared.pairs:
        return []
    pairs = (_describe_pair(pair) for pair in compared.pairs[:_MAX_PAIRS_SHOWN])
    lines = _wrapped_all(pairs, columns)
    if compared.encoder is None:
        note = (
            "Without the extra `semantic` and its weights, only the text of answers was compared."
        )
        lines += _wrapped(note, columns)
    return lines


def _describe_pair(pair: council.PairForm) -> str:
    first, second = (first_line(text, 60) for text in (pair.first, pair.second))
    score = "" if pair.score is None else f", similarity {pair.score:.2f}"
    rule = f", rule: {pair.rule}" if pair.rule else ""
    verdict = "same" if pair.same else "different"
    return f'{verdict} by {pair.step}{score}{rule}: "{first}" and "{second}"'


def _cost(spent: SpentForm | None) -> str:
    if spent is None:
        return ""
    money = f", ${spent.usd}" if spent.usd.strip("0.") else ""
    return f", {pluralize(spent.tokens, 'token')}{money}"


def _vote_lines(form: council.CouncilForm, columns: int, most: int | None) -> list[str]:
    """Return the votes of each seat in each round, as a table."""
    seats = form.seats[:most]
    if not seats:
        return []
    rounds = range(max(vote.round for seat in seats for vote in seat.votes) + 1)
    width = max(len("seat"), *(len(_describe_seat(seat)) for seat in seats))
    room = (columns - width - 4 - 2 * len(rounds)) // len(rounds)
    longest = max(len(_vote(vote, 1000)) for seat in seats for vote in seat.votes)
    size = max(_MIN_VOTE_WIDTH, min(_MAX_VOTE_WIDTH, room - 2, longest))
    heads = "  ".join(f"{f'round {number}':<{size + 2}}" for number in rounds)
    lines = ["", style(f"  {'seat':<{width}}  {heads}".rstrip(), dim=True)]
    changes = {(change.seat, change.round): change for change in form.changes}
    for seat in seats:
        cells = "  ".join(
            _cell(seat, number, changes.get((seat.seat, number)), size) for number in rounds
        )
        lines.append(f"  {_describe_seat(seat):<{width}}  {cells}".rstrip())
    if len(form.seats) > len(seats):
        lines.append(f"  and {len(form.seats) - len(seats)} more seats (--all shows them)")
    marks = {_mark(change) for change in form.changes}
    words = {"*": "* changed for a reason", "~": "~ changed without one, so not weighed"}
    if marks:
        legend = ", ".join(words[mark] for mark in sorted(marks))
        lines.append(style(f"  {legend}", dim=True))
    return lines


def _describe_seat(seat: council.SeatForm) -> str:
    names = dict.fromkeys(name for name in (seat.agent, seat.model) if name)
    return first_line(f"{seat.seat} {'/'.join(names)}", 28)


def _cell(seat: council.SeatForm, number: int, change: council.ChangeForm | None, size: int) -> str:
    vote = next((vote for vote in seat.votes if vote.round == number), None)
    if vote is None:
        return f"{'-':<{size + 2}}"
    mark = _mark(change) if change else " "
    words = f"{_vote(vote, size)} {mark}"
    room = " " * (size + 2 - len(words))
    colored = style(words, fg="yellow" if mark == "~" else "cyan") if change else words
    return f"{colored}{room}"


def _vote(vote: council.VoteForm, size: int) -> str:
    sure = f" {vote.confidence} %"
    return f"{first_line(vote.answer, max(3, size - len(sure)))}{sure}"


def _mark(change: council.ChangeForm) -> str:
    return "~" if change.conformity else "*"


def _describe_change(change: council.ChangeForm) -> str:
    way = f"seat {change.seat}, round {change.round}: {change.before} -> {change.after}"
    if change.conformity:
        return f"{way}, without a reason: conformity, not weighed"
    reasons = [f'"{claim}"' for claim in change.because]
    reasons += [change.evidence] if change.evidence else []
    return f"{way}, because {', '.join(reasons)}"


def _minority_lines(minority: council.MinorityForm, columns: int, lead: str = "") -> list[str]:
    seats = ", ".join(map(str, minority.seats))
    label = f"seat{'s' if len(minority.seats) > 1 else ''} {seats}"
    first, *rest = _wrapped(f"{minority.answer} ({label})", columns - len(lead)) or [f"  ({label})"]
    lines = [f"  {lead}{first.strip()}", *rest]
    if minority.argument:
        lines += _wrapped(f'best argument: "{minority.argument}"', columns, 4)
        lines += _wrapped(f"look at: {minority.evidence}", columns, 4) if minority.evidence else []
        lines += _wrapped_all((f"against it: {why}" for why in minority.attacks), columns, 4)
    return lines


def _blocker_lines(form: council.CouncilForm, columns: int) -> list[str]:
    blocks = (f"seat {blocker.seat} blocks: {blocker.text}" for blocker in form.blockers)
    lines = _wrapped_all(blocks, columns)
    return [style(line, fg="red") for line in lines]


def _warning_lines(warnings: Iterable[str], columns: int) -> list[str]:
    lines = _wrapped_all((f"! {warning}" for warning in warnings), columns)
    return [style(line, fg="yellow") for line in lines]


def _session_lines(form: SymposiumForm, columns: int, most: int | None) -> list[str]:
    head = style("symposium", bold=True)
    named = first_line(form.session or "(erased)", 40)
    lines = ["", f"{head}  {named}, {pluralize(form.rounds, 'round')}"]
    if form.panel:
        lines += _wrapped(f"panel: {', '.join(form.panel)}", columns)
    lines += [_message_line(message, columns) for message in form.messages[:most]]
    if most is not None and len(form.messages) > most:
        lines.append(f"  and {len(form.messages) - most} more messages (--all shows them)")
    if form.outcome is not None:
        synthesis = form.outcome is OutcomeKind.SYNTHESIS
        word = "synthesis" if synthesis else f"terminated: {form.reason}"
        ended = style(word, fg="green" if synthesis else "red")
        lines += ["", f"  outcome     {ended}{_cost(form.spent)}"]
    lines += [f"  digest      {form.digest}"] if form.digest else []
    lines += _wrapped(f"the panel asks: {form.pending}", columns) if form.pending else []
    return [*lines, *_section("left open", form.unresolved, columns)]


def _message_line(message: SpokenForm, columns: int) -> str:
    did = f" ({_TYPES[message.type]})" if _TYPES[message.type] else ""
    head = f"  {message.round}.{message.turn:<3} {first_line(message.speaker, 24)}{did}"
    text = first_line(message.text, max(20, columns - len(head) - 2))
    color = {MessageType.COORDINATION: "cyan", MessageType.CONTRACTION: "red"}.get(message.type)
    return f"{style(head, fg=color) if color else head}  {text}"


def _section(title: str, texts: Iterable[str], columns: int) -> list[str]:
    return with_heading(title, _wrapped_all(texts, columns))


def _wrapped_all(texts: Iterable[str], columns: int, indent: int = 2) -> list[str]:
    return [line for text in texts for line in _wrapped(text, columns, indent)]


def _wrapped(text: str, columns: int, indent: int = 2) -> list[str]:
    """Return a text wrapped, with further lines indented."""
    lead = " " * indent
    whole = strip_control_characters(" ".join(text.split()))
    return textwrap.wrap(whole, columns - 1, initial_indent=lead, subsequent_indent=f"{lead}  ")
