"""Gate rules of the operator, which no submitter can leave out.

A rule names a tool, a lane, or both. It is recorded in the policy of every run that is accepted
under it, so that an independent verifier can compare the run's tool uses with its rules. Rules fail
closed: an amount that is missing, given twice or not a number counts as a match, so that it cannot
pass for a small one.  A rule may add up the amounts of a run or of a day: what passes without
approval is reserved in the commit of the intent, in the store, like a cap over many runs.
"""

import json
import re
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, InvalidOperation
from fnmatch import fnmatchcase

import msgspec

from forum.ledger.ports import NO_LIMIT, Spend
from forum.runs.shared_caps import UNCAPPED, GatePeriod, Limit
from forum.runs.strict_json import reject_constant, reject_folded_twins

_SUM_UNITS = 1_000_000
"""The units of an amount that are added up."""
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
    per: GatePeriod = GatePeriod.USE
    """What the amount is of: one use, or all uses without approval of a run or a day."""

    def adds_up(self, tool: str, lane: str) -> bool:
        """Tell whether a use of this tool counts in a sum of this rule."""
        return self.per is not GatePeriod.USE and self.holds_for_tool(tool, lane)

    @property
    def can_add_up(self) -> bool:
        """Whether the store can add up amounts to this limit."""
        return self.sum_limit < NO_LIMIT

    @property
    def sum_limit(self) -> int:
        """The limit of a sum, in the units that the store adds up."""
        return _to_units(Decimal(self.above), ROUND_FLOOR)

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


def sums_for_use(
    rules: Iterable[GateRule], tool: str, lane: str, arguments: str, run: str
) -> tuple[tuple[Limit, Spend], ...]:
    """Return what a use without approval adds to the sums of rules, and their limits.

    `run` is the outermost run: a plan within a plan is no way out.
    """
    sums: dict[str, tuple[Limit, Spend]] = {}
    for rule in rules:
        if not rule.adds_up(tool, lane):
            continue
        amount, cap = _read_amount(arguments, rule.argument), rule.sum_limit
        # What a rule for one use would stop does not come here; no sum may take it for little.
        added = NO_LIMIT if amount is None else _to_units(amount, ROUND_CEILING)
        # No name of a run has a slash, so the end of the run finds its sums.
        scope = f"gate:{rule.name}" + (f"/{run}" if rule.per is GatePeriod.RUN else "")
        if scope in sums:
            # A rule that the operator has changed: it holds as recorded and as it is now.
            before, more = sums[scope]
            cap, added = min(cap, before.cap.usd), max(added, more.usd)
        limit = Limit(scope, rule.per, UNCAPPED._replace(usd=cap))
        sums[scope] = limit, Spend(usd=added)
    return tuple(sums.values())


def _to_units(amount: Decimal, rounding: str) -> int:
    """Return an amount as whole units; rounding is towards asking a person."""
    return int((amount * _SUM_UNITS).to_integral_value(rounding))


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
