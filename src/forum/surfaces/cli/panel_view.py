"""Renders a deliberation: votes, changes of answer with their reasons, and dissent."""

import textwrap
from collections.abc import Iterable

import click

from forum.deliberation.council_kinds import Accord, End, Ground
from forum.deliberation.symposium.kinds import MessageType, OutcomeKind
from forum.surfaces.cli.output import with_heading
from forum.surfaces.formatting import first_line, pluralize, strip_control_characters
from forum.surfaces.schemas import council
from forum.surfaces.schemas.deliberations import DeliberationForm
from forum.surfaces.schemas.fields import SpentForm
from forum.surfaces.schemas.symposium import SpokenForm, SymposiumForm

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
_MIN_VOTE_WIDTH, _MAX_VOTE_WIDTH = 8, 24


def panel_lines(told: DeliberationForm, columns: int, *, every: bool = False) -> list[str]:
    """Return the overview of a deliberation."""
    if isinstance(told, SymposiumForm):
        return _session_lines(told, columns, None if every else _MAX_MESSAGES_SHOWN)
    return _council_lines(told, columns, None if every else _MAX_SEATS_SHOWN)


def dissent_lines(told: DeliberationForm, columns: int) -> list[str]:
    """Return a few lines on how certain an answer is and which seats disagree."""
    if isinstance(told, SymposiumForm):
        pending = strip_control_characters(told.pending or "")
        asked = [f"  the panel asks: {pending}"] if pending else []
        return asked + _wrapped_all((f"left open: {one}" for one in told.unresolved), columns)
    return [
        *_verdict_lines(told, columns),
        *(line for one in told.minority for line in _minority_lines(one, columns, "minority    ")),
        *_blocker_lines(told, columns),
        *_warning_lines(told.warnings, columns),
    ]


def describe_sealed_ballots(told: council.CouncilForm) -> str:
    """Return how many ballots of the last round are sealed."""
    if not told.ballots:
        return f"0 of {pluralize(told.seated, 'ballot')} sealed"
    last = told.ballots[-1]
    # Later rounds ask only seats that have cast a ballot before.
    most = told.seated if last.round == 0 else max(one.sealed for one in told.ballots[:-1])
    return f"round {last.round}: {last.sealed} of {pluralize(most, 'ballot')} sealed"


def _council_lines(told: council.CouncilForm, columns: int, most: int | None) -> list[str]:
    head = click.style("council", bold=True)
    if told.end is None:
        return ["", f"{head}  {pluralize(told.seated, 'seat')}, {describe_sealed_ballots(told)}"]
    return [
        "",
        f"{head}  {pluralize(told.seated, 'seat')}, {_ENDS[told.end]}",
        *_verdict_lines(told, columns),
        *_vote_lines(told, columns, most),
        *_section("changed", (_describe_change(one) for one in told.changes), columns),
        *with_heading(
            "minority report",
            [line for one in told.minority for line in _minority_lines(one, columns)],
        ),
        *_section("would decide", told.decisive, columns),
        *_section("absent", (f"seat {one.seat}: {one.reason}" for one in told.absent), columns),
        *with_heading("blockers", _blocker_lines(told, columns)),
        *with_heading("warnings", _warning_lines(told.warnings, columns)),
    ]


def _verdict_lines(told: council.CouncilForm, columns: int) -> list[str]:
    """Return the outcome next to the baseline, with the cost of each."""
    if told.accord is None or told.ground is None:
        return []
    word, color = _ACCORDS[told.accord]
    if told.ground is Ground.NONE:
        word, color = "no answer", "red"
    by = f", {_GROUNDS[told.ground]}" if _GROUNDS[told.ground] else ""
    rounds = f", after {pluralize(told.rounds, 'exchange')}" if told.rounds else ""
    lines = [f"  outcome     {click.style(word, fg=color)}{by}{rounds}{_cost(told.spent)}"]
    base = told.baseline
    if base is not None:
        share = f"{round(100 * base.agreement)} % of those asked"
        cost = _cost(base.spent)
        said = first_line(base.answer, max(12, columns - len(share) - len(cost) - 20))
        lines.insert(0, f"  baseline    {said} ({share}){cost}")
        same = "the same answer as the baseline"
        changed = click.style("another answer than the baseline", fg="yellow")
        lines.append(f"              {changed if base.changed else same}")
    if told.changes:
        without = sum(one.conformity for one in told.changes)
        of = pluralize(len(told.changes), "change")
        rate = f"{round(100 * told.conformity)} %: {without} of {of} without a reason"
        lines.append(f"  conformity  {click.style(rate, fg='yellow') if without else rate}")
    return lines


def _cost(spent: SpentForm | None) -> str:
    if spent is None:
        return ""
    money = f", ${spent.usd}" if spent.usd.strip("0.") else ""
    return f", {pluralize(spent.tokens, 'token')}{money}"


def _vote_lines(told: council.CouncilForm, columns: int, most: int | None) -> list[str]:
    """Return the votes of each seat in each round, as a table."""
    seats = told.seats[:most]
    if not seats:
        return []
    rounds = range(max(vote.round for seat in seats for vote in seat.votes) + 1)
    who = max(len("seat"), *(len(_describe_seat(seat)) for seat in seats))
    room = (columns - who - 4 - 2 * len(rounds)) // len(rounds)
    longest = max(len(_vote(vote, 1000)) for seat in seats for vote in seat.votes)
    size = max(_MIN_VOTE_WIDTH, min(_MAX_VOTE_WIDTH, room - 2, longest))
    heads = "  ".join(f"{f'round {number}':<{size + 2}}" for number in rounds)
    lines = ["", click.style(f"  {'seat':<{who}}  {heads}".rstrip(), dim=True)]
    changes = {(change.seat, change.round): change for change in told.changes}
    for seat in seats:
        cells = "  ".join(
            _cell(seat, number, changes.get((seat.seat, number)), size) for number in rounds
        )
        lines.append(f"  {_describe_seat(seat):<{who}}  {cells}".rstrip())
    if len(told.seats) > len(seats):
        lines.append(f"  and {len(told.seats) - len(seats)} more seats (--all shows them)")
    marks = {_mark(change) for change in told.changes}
    words = {"*": "* changed for a reason", "~": "~ changed without one, so not weighed"}
    if marks:
        legend = ", ".join(words[mark] for mark in sorted(marks))
        lines.append(click.style(f"  {legend}", dim=True))
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
    colored = click.style(words, fg="yellow" if mark == "~" else "cyan") if change else words
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


def _minority_lines(one: council.MinorityForm, columns: int, lead: str = "") -> list[str]:
    seats = ", ".join(map(str, one.seats))
    who = f"seat{'s' if len(one.seats) > 1 else ''} {seats}"
    first, *rest = _wrapped(f"{one.answer} ({who})", columns - len(lead)) or [f"  ({who})"]
    lines = [f"  {lead}{first.strip()}", *rest]
    if one.argument:
        lines += _wrapped(f'best argument: "{one.argument}"', columns, 4)
        lines += _wrapped(f"look at: {one.evidence}", columns, 4) if one.evidence else []
        lines += _wrapped_all((f"against it: {why}" for why in one.attacks), columns, 4)
    return lines


def _blocker_lines(told: council.CouncilForm, columns: int) -> list[str]:
    blocks = (f"seat {one.seat} blocks: {one.text}" for one in told.blockers)
    lines = _wrapped_all(blocks, columns)
    return [click.style(line, fg="red") for line in lines]


def _warning_lines(warnings: Iterable[str], columns: int) -> list[str]:
    lines = _wrapped_all((f"! {one}" for one in warnings), columns)
    return [click.style(line, fg="yellow") for line in lines]


def _session_lines(told: SymposiumForm, columns: int, most: int | None) -> list[str]:
    head = click.style("symposium", bold=True)
    named = first_line(told.session or "(erased)", 40)
    lines = ["", f"{head}  {named}, {pluralize(told.rounds, 'round')}"]
    if told.panel:
        lines += _wrapped(f"panel: {', '.join(told.panel)}", columns)
    lines += [_message_line(one, columns) for one in told.messages[:most]]
    if most is not None and len(told.messages) > most:
        lines.append(f"  and {len(told.messages) - most} more messages (--all shows them)")
    if told.outcome is not None:
        synthesis = told.outcome is OutcomeKind.SYNTHESIS
        word = "synthesis" if synthesis else f"terminated: {told.reason}"
        ended = click.style(word, fg="green" if synthesis else "red")
        lines += ["", f"  outcome     {ended}{_cost(told.spent)}"]
    lines += [f"  digest      {told.digest}"] if told.digest else []
    lines += _wrapped(f"the panel asks: {told.pending}", columns) if told.pending else []
    return [*lines, *_section("left open", told.unresolved, columns)]


def _message_line(one: SpokenForm, columns: int) -> str:
    did = f" ({_TYPES[one.type]})" if _TYPES[one.type] else ""
    head = f"  {one.round}.{one.turn:<3} {first_line(one.speaker, 24)}{did}"
    said = first_line(one.text, max(20, columns - len(head) - 2))
    color = {MessageType.COORDINATION: "cyan", MessageType.CONTRACTION: "red"}.get(one.type)
    return f"{click.style(head, fg=color) if color else head}  {said}"


def _section(title: str, texts: Iterable[str], columns: int) -> list[str]:
    return with_heading(title, _wrapped_all(texts, columns))


def _wrapped_all(texts: Iterable[str], columns: int, indent: int = 2) -> list[str]:
    return [line for text in texts for line in _wrapped(text, columns, indent)]


def _wrapped(text: str, columns: int, indent: int = 2) -> list[str]:
    """Return a text wrapped, with further lines indented."""
    lead = " " * indent
    whole = strip_control_characters(" ".join(text.split()))
    return textwrap.wrap(whole, columns - 1, initial_indent=lead, subsequent_indent=f"{lead}  ")
