"""Renders a council: votes, changes of answer with their reasons, and dissent."""

from collections.abc import Iterable

from forum.app.formatting import first_line, pluralize
from forum.runs.council_end import Accord, End, Ground
from forum.surfaces.cli.console import style
from forum.surfaces.cli.output import with_heading
from forum.surfaces.cli.panel_lines import describe_cost, list_section, wrap_all, wrap_text
from forum.surfaces.schemas import panels

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
_MAX_SEATS_SHOWN = 40
_MAX_PAIRS_SHOWN = 6
_MIN_VOTE_WIDTH, _MAX_VOTE_WIDTH = 8, 24


class CouncilLines:
    """Renders the result of a panels."""

    def overview(self, form: panels.CouncilForm, columns: int, *, every: bool) -> list[str]:
        """Return votes, changes of answer with their reasons, and dissent."""
        return _council_lines(form, columns, None if every else _MAX_SEATS_SHOWN)

    def dissent(self, form: panels.CouncilForm, columns: int) -> list[str]:
        """Return a few lines on how certain an answer is and which seats disagree."""
        return [
            *_verdict_lines(form, columns),
            *list_section("because", map(_describe_claim, form.claims), columns),
            *_comparison_lines(form, columns),
            *(
                line
                for minority in form.minority
                for line in _minority_lines(minority, columns, "minority    ")
            ),
            *_blocker_lines(form, columns),
            *_warning_lines(form.warnings, columns),
        ]


LINES = CouncilLines()


def describe_sealed_ballots(form: panels.CouncilForm) -> str:
    """Return how many ballots of the last round are sealed."""
    if not form.ballots:
        return f"0 of {pluralize(form.seated, 'ballot')} sealed"
    last = form.ballots[-1]
    # Later rounds ask only seats that have cast a ballot before.
    most = form.seated if last.round == 0 else max(earlier.sealed for earlier in form.ballots[:-1])
    return f"round {last.round}: {last.sealed} of {pluralize(most, 'ballot')} sealed"


def _council_lines(form: panels.CouncilForm, columns: int, most: int | None) -> list[str]:
    head = style("council", bold=True)
    if form.end is None:
        return ["", f"{head}  {pluralize(form.seated, 'seat')}, {describe_sealed_ballots(form)}"]
    return [
        "",
        f"{head}  {pluralize(form.seated, 'seat')}, {_ENDS[form.end]}",
        *_verdict_lines(form, columns),
        *_vote_lines(form, columns, most),
        *list_section("because", map(_describe_claim, form.claims), columns),
        *with_heading("same answer?", _comparison_lines(form, columns)),
        *list_section("changed", (_describe_change(change) for change in form.changes), columns),
        *with_heading(
            "minority report",
            [line for minority in form.minority for line in _minority_lines(minority, columns)],
        ),
        *list_section("would decide", form.decisive, columns),
        *list_section(
            "absent", (f"seat {absence.seat}: {absence.reason}" for absence in form.absent), columns
        ),
        *with_heading("blockers", _blocker_lines(form, columns)),
        *with_heading("warnings", _warning_lines(form.warnings, columns)),
    ]


def _verdict_lines(form: panels.CouncilForm, columns: int) -> list[str]:
    """Return the outcome next to the baseline, with the cost of each."""
    if form.accord is None or form.ground is None:
        return []
    word, color = _ACCORDS[form.accord]
    if form.ground is Ground.NONE:
        word, color = "no answer", "red"
    by = f", {_GROUNDS[form.ground]}" if _GROUNDS[form.ground] else ""
    rounds = f", after {pluralize(form.rounds, 'exchange')}" if form.rounds else ""
    lines = [f"  outcome     {style(word, fg=color)}{by}{rounds}{describe_cost(form.spent)}"]
    base = form.baseline
    if base is not None:
        share = f"{round(100 * base.agreement)} % of those asked"
        cost = describe_cost(base.spent)
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


def _describe_claim(argument: panels.ArgumentForm) -> str:
    """Return a claim for the answer, with its source and how it stands."""
    source = f" [source: {argument.evidence}]" if argument.evidence else " [no source]"
    support = f", supported by {pluralize(argument.support, 'other seat')}"
    standing = f" ({argument.status}{support if argument.support else ''})"
    against = "".join(f"; against it: {why}" for why in argument.attacks)
    return f'"{argument.claim}"{source}{standing}{against}'


def _comparison_lines(form: panels.CouncilForm, columns: int) -> list[str]:
    """Return which wordings count as one answer, and which step decided that."""
    compared = form.comparison
    if compared is None or not compared.pairs:
        return []
    pairs = (_describe_pair(pair) for pair in compared.pairs[:_MAX_PAIRS_SHOWN])
    lines = wrap_all(pairs, columns)
    if compared.encoder is None:
        note = (
            "Without the extra `semantic` and its weights, only the text of answers was compared."
        )
        lines += wrap_text(note, columns)
    return lines


def _describe_pair(pair: panels.PairForm) -> str:
    first, second = (first_line(text, 60) for text in (pair.first, pair.second))
    score = "" if pair.score is None else f", similarity {pair.score:.2f}"
    rule = f", rule: {pair.rule}" if pair.rule else ""
    verdict = "same" if pair.same else "different"
    return f'{verdict} by {pair.step}{score}{rule}: "{first}" and "{second}"'


def _vote_lines(form: panels.CouncilForm, columns: int, most: int | None) -> list[str]:
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


def _describe_seat(seat: panels.SeatForm) -> str:
    names = dict.fromkeys(name for name in (seat.agent, seat.model) if name)
    return first_line(f"{seat.seat} {'/'.join(names)}", 28)


def _cell(seat: panels.SeatForm, number: int, change: panels.ChangeForm | None, size: int) -> str:
    vote = next((vote for vote in seat.votes if vote.round == number), None)
    if vote is None:
        return f"{'-':<{size + 2}}"
    mark = _mark(change) if change else " "
    words = f"{_vote(vote, size)} {mark}"
    room = " " * (size + 2 - len(words))
    colored = style(words, fg="yellow" if mark == "~" else "cyan") if change else words
    return f"{colored}{room}"


def _vote(vote: panels.VoteForm, size: int) -> str:
    sure = f" {vote.confidence} %"
    return f"{first_line(vote.answer, max(3, size - len(sure)))}{sure}"


def _mark(change: panels.ChangeForm) -> str:
    return "~" if change.conformity else "*"


def _describe_change(change: panels.ChangeForm) -> str:
    way = f"seat {change.seat}, round {change.round}: {change.before} -> {change.after}"
    if change.conformity:
        return f"{way}, without a reason: conformity, not weighed"
    reasons = [f'"{claim}"' for claim in change.because]
    reasons += [change.evidence] if change.evidence else []
    return f"{way}, because {', '.join(reasons)}"


def _minority_lines(minority: panels.MinorityForm, columns: int, lead: str = "") -> list[str]:
    seats = ", ".join(map(str, minority.seats))
    label = f"seat{'s' if len(minority.seats) > 1 else ''} {seats}"
    first, *rest = wrap_text(f"{minority.answer} ({label})", columns - len(lead)) or [
        f"  ({label})"
    ]
    lines = [f"  {lead}{first.strip()}", *rest]
    if minority.argument:
        lines += wrap_text(f'best argument: "{minority.argument}"', columns, 4)
        lines += wrap_text(f"look at: {minority.evidence}", columns, 4) if minority.evidence else []
        lines += wrap_all((f"against it: {why}" for why in minority.attacks), columns, 4)
    return lines


def _blocker_lines(form: panels.CouncilForm, columns: int) -> list[str]:
    blocks = (f"seat {blocker.seat} blocks: {blocker.text}" for blocker in form.blockers)
    lines = wrap_all(blocks, columns)
    return [style(line, fg="red") for line in lines]


def _warning_lines(warnings: Iterable[str], columns: int) -> list[str]:
    lines = wrap_all((f"! {warning}" for warning in warnings), columns)
    return [style(line, fg="yellow") for line in lines]
