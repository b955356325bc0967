"""What a session has used, and whether that is more than the caps of its config."""

from collections import Counter
from decimal import Decimal

import msgspec

from forum.deliberation.steps import NOTHING, Said
from forum.deliberation.symposium.forms import Config
from forum.deliberation.symposium.kinds import Reason
from forum.ledger import NO_LIMIT, Amount
from forum.work import NANO

MICRO = 1_000_000
MOST_RESERVE = 120
"""How many seconds are kept for an answer from what there is, where one is wanted."""


class Meter(msgspec.Struct):
    """What a session has used so far."""

    config: Config
    begun: int
    now: int
    """When it was last heard of anybody.  It never goes back, whatever the clocks say."""
    spent: Amount = NOTHING
    """By all turns, those included that came to nothing."""
    tokens: Counter[str] = msgspec.field(default_factory=Counter)
    """By each agent, in its turns."""

    def take(self, said: Said) -> None:
        """Count what came of a question."""
        self.now = max(self.now, said.at)
        self.spent = self.spent.plus(said.spent)

    def passed_cap(self) -> Reason | None:
        """Return why a session ends that has used more than it may."""
        budget = self.config.budget
        if self._is_past(budget.max_wallclock_seconds):
            return Reason.TIMEOUT
        caps = budget.per_agent_token_budget
        over = any(tokens > caps.get(name, tokens) for name, tokens in self.tokens.items())
        dear = self.spent.usd > nanos(budget.max_total_cost_usd)
        if over or dear or self.spent.tokens > budget.max_total_tokens:
            return Reason.BUDGET_EXCEEDED
        return None

    def allowance(self, agent: str) -> Amount:
        """Return what an agent may use until a cap is passed: it is asked about between calls.

        Past a cap that is nothing: whoever is asked for an answer all the same, and is turned
        away for nothing, has used no more than that.
        """
        budget, used = self.config.budget, self.tokens[agent]
        tokens = budget.max_total_tokens - self.spent.tokens
        own = budget.per_agent_token_budget.get(agent, used + tokens) - used
        usd = nanos(budget.max_total_cost_usd) - self.spent.usd
        return Amount(max(0, usd), max(0, min(tokens, own)), NO_LIMIT)

    def passed_before_turn(self) -> Reason | None:
        """Return why one ends here: also because the time that is left is needed for an answer."""
        seconds, wanted = (
            self.config.budget.max_wallclock_seconds,
            self.config.runtime.synthesize_on_terminate,
        )
        reserve = min(MOST_RESERVE, seconds // 4) if wanted else 0
        late = Reason.TIMEOUT if self._is_past(seconds - reserve) else None
        return self.passed_cap() or late

    def _is_past(self, seconds: int) -> bool:
        return self.now - self.begun > seconds * MICRO


def nanos(usd: float) -> int:
    """Return a price in nano-dollars, as it is written."""
    return int(Decimal(str(usd)) * NANO)
