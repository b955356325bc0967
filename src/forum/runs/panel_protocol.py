"""The protocols that panels follow, each a part of a feature, which is loaded when it is used."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from forum.errors import ProtocolMissing
from forum.ledger.entry import Entry, Facts
from forum.ledger.kinds import Kinds
from forum.runs.kinds import AccordFacts
from forum.runs.panel import Panel
from forum.runs.personas import Persona
from forum.runs.plan import RunBudget
from forum.runs.policy import Agent, Api
from forum.runs.session_steps import ProtocolSteps, Session

ENVIRONMENT_PROVIDERS = {"openai": Api.CHAT, "anthropic": Api.ANTHROPIC}
"""Providers of a config whose models are called without a section in the project file, if the
provider's own variables are set."""


class _Recorded(Protocol):
    """A recorded entry, as the engine or a verifier holds it."""

    @property
    def entry(self) -> Entry[Any]:
        """The entry."""


RecordedT = TypeVar("RecordedT", bound=_Recorded)
PanelT = TypeVar("PanelT", bound=Panel)


class UnservedModel(NamedTuple):
    """A model that a panel names, and no agent of the policy serves."""

    id: str
    """The seat that names it."""
    provider: str
    model: str


class PanelDraft(NamedTuple):
    """What a request says of a panel that has no configuration of its own."""

    session: str
    """The name of its session."""
    problem: str
    personas: Sequence[Persona] = ()
    """Each has a seat.  Empty: those of the protocol."""
    agents: Sequence[str] = ()
    """They take the seats in rotation.  Empty: the seats are unassigned until `seat`."""
    rounds: int | None = None
    budget: RunBudget | None = None


class PanelProtocol(Generic[PanelT]):
    """How one kind of panel is seated, how it deliberates, and what its record says."""

    closes: tuple[type[Facts], ...]
    """The facts that end a session."""

    def start(self, session: Session) -> ProtocolSteps:
        """Start the protocol for a session of such a panel."""
        raise NotImplementedError

    def seat(self, panel: PanelT, agents: Mapping[str, Agent]) -> PanelT:
        """Return a panel in which every seat has an agent.  Raises `BadPlan`, `Malformed`."""
        raise NotImplementedError

    def draft(self, draft: PanelDraft) -> PanelT:
        """Return a panel that a request describes, with the defaults of the protocol."""
        raise NotImplementedError

    def play_script(
        self, panel: PanelT, problem: str, script: object, selector: object = None
    ) -> tuple[PanelT, dict[str, Agent]]:
        """Return a panel with the agents that make its session follow a script, as parsed JSON.

        Raises `Malformed`.
        """
        raise NotImplementedError

    def find_unserved(
        self,
        panel: PanelT,  # noqa: ARG002  for those that name models
        agents: Mapping[str, Agent],  # noqa: ARG002
    ) -> tuple[UnservedModel, ...]:
        """Return the models that a panel names and no agent serves."""
        return ()

    def budget_of(self, panel: PanelT) -> RunBudget:  # noqa: ARG002  for those that have caps
        """Return the caps of the panel itself."""
        return RunBudget()

    def read_accord(self, record: "PanelRecord[Any]") -> AccordFacts | None:
        """Return how far a panel that has closed agreed; None if it has no answer."""
        raise NotImplementedError

    def read_text(self, record: "PanelRecord[Any]") -> str:
        """Return what a panel that has closed found; empty without an answer."""
        raise NotImplementedError


def find_protocol(kinds: Kinds, panel: PanelT) -> PanelProtocol[PanelT]:
    """Return the protocol of a panel.  Raises `ProtocolMissing` if its feature is not there."""
    return load_protocol(kinds, str(type(panel).__struct_config__.tag))


def load_protocol(kinds: Kinds, name: str) -> PanelProtocol[Any]:
    """Return the protocol of this name.  Raises `ProtocolMissing` if its feature is not there."""
    if name not in kinds.protocols:
        raise ProtocolMissing(name)
    protocol: PanelProtocol[Any] = kinds.protocols[name]()
    return protocol


def start_protocol(kinds: Kinds, session: Session) -> ProtocolSteps:
    """Start the protocol of a session's panel.

    Raises `ValueError` if the policy has no panel, and `ProtocolMissing`.
    """
    if session.policy.panel is None:
        raise ValueError("nobody sits on this panel")
    return find_protocol(kinds, session.policy.panel).start(session)


class PanelRecord(Generic[RecordedT]):
    """The entries of a panel's run up to its close, with a function that reads their bodies.

    The engine reads it for the task that the panel worked on, and a verifier reads it again.
    """

    def __init__(
        self,
        run: str,
        kinds: Kinds,
        entries: Iterable[RecordedT],
        read: Callable[[RecordedT, str], bytes],
    ) -> None:
        self.run, self.read = run, read
        self.entries: list[RecordedT] = []
        self._protocol: PanelProtocol[Any] | None = None
        protocols: list[PanelProtocol[Any]] = [load() for load in kinds.protocols.values()]
        for item in entries:
            self.entries.append(item)
            facts = item.entry.facts
            closed = (each for each in protocols if isinstance(facts, each.closes))
            self._protocol = next(closed, None)
            if self._protocol is not None:
                break

    @property
    def has_closed(self) -> bool:
        """Whether the deliberation has ended."""
        return self._protocol is not None

    @property
    def close(self) -> RecordedT:
        """The entry that ended the deliberation."""
        return self.entries[-1]

    def read_accord(self) -> AccordFacts | None:
        """Return how far the panel agreed; None if it has no answer.

        Raises what the function raises that reads the entries, and `Malformed`.
        """
        return self._protocol.read_accord(self) if self._protocol else None

    def read_text(self) -> str:
        """Return what the panel found; empty without an answer. Raises like `read_accord`."""
        return self._protocol.read_text(self) if self._protocol else ""
