"""Renders a session of the open protocol: who said what, and how it ended."""

from forum.app.formatting import first_line, pluralize, strip_control_characters
from forum.runs.symposium_end import MessageType, OutcomeKind
from forum.surfaces.cli.console import style
from forum.surfaces.cli.panel_lines import describe_cost, list_section, wrap_all, wrap_text
from forum.surfaces.schemas.panels import SpokenForm, SymposiumForm

_TYPES = {
    MessageType.PROBLEM: "asks",
    MessageType.PRIMARY: "",
    MessageType.COORDINATION: "verdict",
    MessageType.BRANCH: "answers",
    MessageType.SYNTHESIS: "synthesis",
    MessageType.CONTRACTION: "",
}
_MAX_MESSAGES_SHOWN = 60


class SymposiumLines:
    """Renders the result of a session."""

    def overview(self, form: SymposiumForm, columns: int, *, every: bool) -> list[str]:
        """Return the messages and the outcome."""
        return _session_lines(form, columns, None if every else _MAX_MESSAGES_SHOWN)

    def dissent(self, form: SymposiumForm, columns: int) -> list[str]:
        """Return what the panel asks, and what it left open."""
        pending = strip_control_characters(form.pending or "")
        questions = [f"  the panel asks: {pending}"] if pending else []
        return questions + wrap_all((f"left open: {point}" for point in form.unresolved), columns)


LINES = SymposiumLines()


def _session_lines(form: SymposiumForm, columns: int, most: int | None) -> list[str]:
    head = style("symposium", bold=True)
    named = first_line(form.session or "(erased)", 40)
    lines = ["", f"{head}  {named}, {pluralize(form.rounds, 'round')}"]
    if form.panel:
        lines += wrap_text(f"panel: {', '.join(form.panel)}", columns)
    lines += [_message_line(message, columns) for message in form.messages[:most]]
    if most is not None and len(form.messages) > most:
        lines.append(f"  and {len(form.messages) - most} more messages (--all shows them)")
    if form.outcome is not None:
        synthesis = form.outcome is OutcomeKind.SYNTHESIS
        word = "synthesis" if synthesis else f"terminated: {form.reason}"
        ended = style(word, fg="green" if synthesis else "red")
        lines += ["", f"  outcome     {ended}{describe_cost(form.spent)}"]
    lines += [f"  digest      {form.digest}"] if form.digest else []
    lines += wrap_text(f"the panel asks: {form.pending}", columns) if form.pending else []
    return [*lines, *list_section("left open", form.unresolved, columns)]


def _message_line(message: SpokenForm, columns: int) -> str:
    did = f" ({_TYPES[message.type]})" if _TYPES[message.type] else ""
    head = f"  {message.round}.{message.turn:<3} {first_line(message.speaker, 24)}{did}"
    text = first_line(message.text, max(20, columns - len(head) - 2))
    color = {MessageType.COORDINATION: "cyan", MessageType.CONTRACTION: "red"}.get(message.type)
    return f"{style(head, fg=color) if color else head}  {text}"
