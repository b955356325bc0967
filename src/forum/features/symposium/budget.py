"""The spending of a session, compared with the caps of its config."""

from collections import Counter
from decimal import Decimal

import msgspec

from forum.features.symposium.kinds import Reason
from forum.features.symposium.schemas import SymposiumConfig
from forum.ledger.ports import NO_LIMIT, Amount
from forum.runs.session_steps import ZERO_AMOUNT, TurnResult
from forum.units import NANO_USD

MICROSECONDS_PER_SECOND = 1_000_000
MAX_RESERVE_S = 120
"""Upper limit, in seconds, of the time reserved for salvaging an answer before the timeout."""


class BudgetMeter(msgspec.Struct):
    """The spending of a session so far."""

    config: SymposiumConfig
    begun: int
    now: int
    """End of the last turn. It never decreases, even if the clocks of workers differ."""
    spent: Amount = ZERO_AMOUNT
    """Of all turns, including failed ones."""
    tokens: Counter[str] = msgspec.field(default_factory=Counter)
    """Tokens of each agent in its turns."""

    def add_turn(self, result: TurnResult) -> None:
        """Add the result of a turn."""
        self.now = max(self.now, result.at)
        self.spent = self.spent.plus(result.spent)

    def exceeded_cap(self) -> Reason | None:
        """Return why the session must end because a cap was exceeded, or None."""
        budget = self.config.budget
        if self._is_past(budget.max_wallclock_seconds):
            return Reason.TIMEOUT
        caps = budget.per_agent_token_budget
        over = any(tokens > caps.get(name, tokens) for name, tokens in self.tokens.items())
        dear = self.spent.usd > usd_to_nano(budget.max_total_cost_usd)
        if over or dear or self.spent.tokens > budget.max_total_tokens:
            return Reason.BUDGET_EXCEEDED
        return None

    def remaining_allowance(self, agent: str) -> Amount:
        """Return the amount that an agent may use before a cap is exceeded.

        The engine compares it with the turn's spending between calls. Past a cap it is zero: a
        salvage attempt is then still made, and one that is refused at no cost does not exceed it.
        """
        budget, used = self.config.budget, self.tokens[agent]
        tokens = budget.max_total_tokens - self.spent.tokens
        own = budget.per_agent_token_budget.get(agent, used + tokens) - used
        usd = usd_to_nano(budget.max_total_cost_usd) - self.spent.usd
        return Amount(max(0, usd), max(0, min(tokens, own)), NO_LIMIT)

    def exceeded_before_turn(self) -> Reason | None:
        """Return why the session must end before the next turn, or None.

        If an answer is to be salvaged at the end, part of the time is reserved for that.
        """
        seconds, wanted = (
            self.config.budget.max_wallclock_seconds,
            self.config.runtime.synthesize_on_terminate,
        )
        reserve = min(MAX_RESERVE_S, seconds // 4) if wanted else 0
        late = Reason.TIMEOUT if self._is_past(seconds - reserve) else None
        return self.exceeded_cap() or late

    def _is_past(self, seconds: int) -> bool:
        return self.now - self.begun > seconds * MICROSECONDS_PER_SECOND


def usd_to_nano(usd: float) -> int:
    """Return a price in nano-dollars; converted by its decimal text to avoid rounding errors."""
    return int(Decimal(str(usd)) * NANO_USD)
