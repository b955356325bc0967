"""What a session has used, and whether that is more than the caps of its config."""

from collections import Counter
from decimal import Decimal

import msgspec

from forum.deliberation.steps import ZERO_AMOUNT, TurnResult
from forum.deliberation.symposium.kinds import Reason
from forum.deliberation.symposium.schemas import SymposiumConfig
from forum.ledger import NO_LIMIT, Amount
from forum.work import NANO_USD

MICROSECONDS_PER_SECOND = 1_000_000
MAX_RESERVE_S = 120
"""How many seconds are kept for an answer from what there is, where one is wanted."""


class BudgetMeter(msgspec.Struct):
    """What a session has used so far."""

    config: SymposiumConfig
    begun: int
    now: int
    """When it was last heard of anybody.  It never goes back, whatever the clocks say."""
    spent: Amount = ZERO_AMOUNT
    """By all turns, those included that came to nothing."""
    tokens: Counter[str] = msgspec.field(default_factory=Counter)
    """By each agent, in its turns."""

    def add_turn(self, said: TurnResult) -> None:
        """Count what came of a question."""
        self.now = max(self.now, said.at)
        self.spent = self.spent.plus(said.spent)

    def exceeded_cap(self) -> Reason | None:
        """Return why a session ends that has used more than it may."""
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
        """Return what an agent may use until a cap is passed: it is asked about between calls.

        Past a cap that is nothing: whoever is asked for an answer all the same, and is turned
        away for nothing, has used no more than that.
        """
        budget, used = self.config.budget, self.tokens[agent]
        tokens = budget.max_total_tokens - self.spent.tokens
        own = budget.per_agent_token_budget.get(agent, used + tokens) - used
        usd = usd_to_nano(budget.max_total_cost_usd) - self.spent.usd
        return Amount(max(0, usd), max(0, min(tokens, own)), NO_LIMIT)

    def exceeded_before_turn(self) -> Reason | None:
        """Return why one ends here: also because the time that is left is needed for an answer."""
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
    """Return a price in nano-dollars, as it is written."""
    return int(Decimal(str(usd)) * NANO_USD)
