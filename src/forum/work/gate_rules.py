"""Gates that an operator forces: rules that no submitter can leave out.

A rule names a tool, a lane, or both.  It is recorded in the policy of every run that is accepted
under it, so that a stranger can compare the effects of a run with the rules that held for it.
Whatever a rule cannot read counts as a match: an amount that is missing, written twice or not a
number must not pass for a small one.
"""

import json
import re
import unicodedata
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from typing import Any, NoReturn

import msgspec

_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?").fullmatch
"""A number in a string that every tool reads alike: no exponent, plus sign or foreign digit."""


class GateRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One rule of an operator: what has to be approved by a person."""

    name: str
    tool: str = ""
    """A pattern (`*`, `?`, `[abc]`) for names of tools.  Without one, tasks are approved."""
    lane: str = ""
    """The lane of the tasks that it is about; without one, every lane."""
    argument: str = ""
    """The argument of the tool that holds an amount."""
    above: str = ""
    """Up to this amount nobody is asked; a decimal number."""

    def holds_for_task(self, lane: str) -> bool:
        """Tell whether a task of this lane has to be approved before it begins."""
        return not self.tool and self.lane == lane

    def holds_for_tool(self, tool: str, lane: str) -> bool:
        """Tell whether a use of this tool may have to be approved.

        A task without a lane counts as one of every lane: leaving the lane out must not open a
        way around the rule.
        """
        return (
            bool(self.tool)
            and fnmatchcase(tool, self.tool)
            and self.lane in ("", lane or self.lane)
        )

    def holds_for_use(self, tool: str, lane: str, arguments: str) -> bool:
        """Tell whether a person has to approve this very use of a tool."""
        if not self.holds_for_tool(tool, lane):
            return False
        if not self.argument:
            return True
        amount = _read_amount(arguments, self.argument)
        return amount is None or not 0 <= amount <= Decimal(self.above)


def rule_for_use(
    rules: Iterable[GateRule], tool: str, lane: str, arguments: str
) -> GateRule | None:
    """Return the first rule by which a use of a tool has to be approved."""
    return next((rule for rule in rules if rule.holds_for_use(tool, lane, arguments)), None)


def _read_amount(arguments: str, name: str) -> Decimal | None:
    """Return a named argument as a number; nothing where it is not there, or not exactly one."""
    try:
        # Two members of one name mean one thing to this parser and perhaps another to the tool.
        given = json.loads(
            arguments,
            object_pairs_hook=_reject_duplicates,
            parse_float=Decimal,
            parse_int=Decimal,
            parse_constant=_reject_constant,
        )
        value = given[name]
        if not isinstance(value, Decimal) and not (isinstance(value, str) and _DECIMAL(value)):
            return None
        amount = Decimal(value)
    except (ValueError, LookupError, TypeError, RecursionError, InvalidOperation):
        return None
    return amount if amount.is_finite() else None


def _reject_duplicates(members: list[tuple[str, Any]]) -> dict[str, Any]:
    # Many tools bind arguments to their parameters without regard to case: "Amount" behind
    # "amount" is a second one to them.
    if len({_fold(name) for name, _ in members}) != len(members):
        raise ValueError("a member is written twice")
    return dict(members)


def _fold(name: str) -> str:
    """Return the form that names have in common which differ in case or in width only."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")
