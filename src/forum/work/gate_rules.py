"""Gate rules of the operator, which no submitter can leave out.

A rule names a tool, a lane, or both. It is recorded in the policy of every run that is accepted
under it, so that an independent verifier can compare the run's tool uses with its rules. Rules fail
closed: an amount that is missing, given twice or not a number counts as a match, so that it cannot
pass for a small one.
"""

import json
import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase

import msgspec

from forum.work.strict_json import reject_constant, reject_folded_twins

_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?").fullmatch
"""A decimal that every tool parses alike: no exponent, plus sign or non-ASCII digit."""


class GateRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One rule of an operator: what a person has to approve."""

    name: str
    tool: str = ""
    """A pattern (`*`, `?`, `[abc]`) for tool names; without one, the rule is about tasks."""
    lane: str = ""
    """The lane of the tasks that the rule is about; empty for every lane."""
    argument: str = ""
    """The argument of the tool that holds an amount."""
    above: str = ""
    """The amount up to which no approval is needed; a decimal number."""

    def holds_for_task(self, lane: str) -> bool:
        """Tell whether a task of this lane needs approval before it begins."""
        return not self.tool and self.lane == lane

    def holds_for_tool(self, tool: str, lane: str) -> bool:
        """Tell whether a use of this tool may need approval.

        A task without a lane counts as one of every lane: otherwise a submitter could avoid the
        rule by leaving out the lane.
        """
        return (
            # A rule without a tool is about tasks and never matches a tool use.
            bool(self.tool)
            and fnmatchcase(tool, self.tool)
            and self.lane in ("", lane or self.lane)
        )

    def holds_for_use(self, tool: str, lane: str, arguments: str) -> bool:
        """Tell whether this use of a tool needs approval."""
        if not self.holds_for_tool(tool, lane):
            return False
        if not self.argument:
            return True
        amount = _read_amount(arguments, self.argument)
        # A negative amount needs approval as well: it is not simply a small one.
        return amount is None or not 0 <= amount <= Decimal(self.above)


def rule_for_use(
    rules: Iterable[GateRule], tool: str, lane: str, arguments: str
) -> GateRule | None:
    """Return the first rule that requires approval for this use of a tool."""
    return next((rule for rule in rules if rule.holds_for_use(tool, lane, arguments)), None)


def _read_amount(arguments: str, name: str) -> Decimal | None:
    """Return a named argument as a number; None if it is missing or ambiguous."""
    try:
        # Of two members with one name, this parser might use one and the tool the other.  Many
        # tools bind arguments to parameters regardless of case: to them "Amount" after "amount" is
        # a second value.
        values = json.loads(
            arguments,
            object_pairs_hook=reject_folded_twins,
            parse_float=Decimal,
            parse_int=Decimal,
            parse_constant=reject_constant,
        )
        value = values[name]
        if not isinstance(value, Decimal) and not (isinstance(value, str) and _DECIMAL(value)):
            return None
        amount = Decimal(value)
    except (ValueError, LookupError, TypeError, RecursionError, InvalidOperation):
        return None
    return amount if amount.is_finite() else None
