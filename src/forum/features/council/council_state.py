"""The state of a council while its protocol runs, and how its turns are asked."""

from contextlib import suppress

import msgspec

from forum.features.council import prompts as council_prompts
from forum.features.council.report import CouncilRecord
from forum.features.council.tally import Tally, best_wording
from forum.ledger.ports import Amount
from forum.runs import session_steps as steps
from forum.runs.panel import Council
from forum.runs.prompt import Quotation


class SessionStopped(Exception):
    """Raised when the session was stopped by a limit or a cancellation."""


class CouncilState(CouncilRecord, kw_only=True):
    """The state of a council while its protocol runs."""

    session: steps.Session
    stands: dict[int, str] = msgspec.field(default_factory=dict)
    """The normalized answer of each seat's last ballot."""
    answered: dict[int, council_prompts.AnsweredQuestion] = msgspec.field(default_factory=dict)
    """Questions of seats that others answered in this round."""
    labels: dict[int, dict[str, int]] = msgspec.field(default_factory=dict)
    """For each reader, the letters that stood for the other seats in this round."""
    spent: Amount = steps.ZERO_AMOUNT
    seed: str = ""
    round: int = 0
    news: int = 0
    """Number of claims that were new in this round."""

    @property
    def council(self) -> Council:
        """The rules of the council."""
        panel = self.session.policy.panel
        assert isinstance(panel, Council)  # noqa: S101  `start_protocol` checked the type
        return panel

    @property
    def question(self) -> Quotation:
        """The question as it is quoted in prompts, cut to the input limit of the policy."""
        whole = self.session.problem.encode(errors="replace")
        return Quotation("the question", whole[: self.session.policy.input_bytes], len(whole))

    def ask(
        self, turns: tuple[steps.AgentTurn | steps.ToolProbe, ...]
    ) -> steps.ProtocolPart[steps.BatchResult]:
        """Have turns taken, all concurrently, and add their costs."""
        batch = yield steps.TurnBatch(turns)
        for result in batch.said:
            self.spent = self.spent.plus(result.spent)
        return batch

    def wording(self, stand: str) -> str:
        """Return a position in the wording of the seat with the highest confidence in it."""
        return best_wording(self.casts, stand, self.position)

    def count_ballots(self) -> Tally:
        """Return the weight of each position by the weighed ballots, and the seats that hold it."""
        return Tally(self.weighed.values(), self.position)

    def rank_positions(self) -> list[str]:
        """Return the positions, heaviest first; the baseline's position wins a tie."""
        return self.count_ballots().rank_positions(self.position(self.baseline_answer))


def parse_result(turn: steps.AgentTurn, result: steps.TurnResult) -> object:
    """Return the parsed reply, or None if the turn failed or its output was erased since."""
    if result.fate is steps.TurnStatus.SAID:
        with suppress(ValueError):
            return turn.read(result.output)
    return None
