"""Print a deliberation; what renders that of a protocol is a part of its feature."""

import textwrap
from collections.abc import Iterable
from typing import Any, Protocol

from forum.app.formatting import pluralize, strip_control_characters
from forum.feature import load_part
from forum.features import FEATURES
from forum.surfaces.cli.output import with_heading
from forum.surfaces.schemas.fields import SpentForm
from forum.surfaces.schemas.panels import DeliberationForm


class PanelLines(Protocol):
    """What renders the results of one protocol, in the form of that protocol."""

    def overview(self, form: Any, columns: int, *, every: bool) -> list[str]:  # noqa: ANN401
        """Return the overview of a deliberation."""
        ...

    def dissent(self, form: Any, columns: int) -> list[str]:  # noqa: ANN401
        """Return a few lines on how certain an answer is and which seats disagree."""
        ...


def panel_lines(form: DeliberationForm, columns: int, *, every: bool = False) -> list[str]:
    """Return the overview of a deliberation."""
    return _load_lines(form).overview(form, columns, every=every)


def dissent_lines(form: DeliberationForm, columns: int) -> list[str]:
    """Return a few lines on how certain an answer is and which seats disagree."""
    return _load_lines(form).dissent(form, columns)


def _load_lines(form: DeliberationForm) -> PanelLines:
    # The form was read by the feature of this name, so it is there.
    name = next(each.panel_lines for each in FEATURES if each.name == form.__struct_config__.tag)
    lines: PanelLines = load_part(name)
    return lines


def describe_cost(spent: SpentForm | None) -> str:
    """Return what was spent, to be appended to a line; empty if that is not known."""
    if spent is None:
        return ""
    money = f", ${spent.usd}" if spent.usd.strip("0.") else ""
    return f", {pluralize(spent.tokens, 'token')}{money}"


def list_section(title: str, texts: Iterable[str], columns: int) -> list[str]:
    """Return texts below a heading; nothing without a text."""
    return with_heading(title, wrap_all(texts, columns))


def wrap_all(texts: Iterable[str], columns: int, indent: int = 2) -> list[str]:
    """Return texts wrapped, one after the other."""
    return [line for text in texts for line in wrap_text(text, columns, indent)]


def wrap_text(text: str, columns: int, indent: int = 2) -> list[str]:
    """Return a text wrapped, with further lines indented."""
    lead = " " * indent
    whole = strip_control_characters(" ".join(text.split()))
    return textwrap.wrap(whole, columns - 1, initial_indent=lead, subsequent_indent=f"{lead}  ")
