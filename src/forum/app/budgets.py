"""Setting caps, teams and the freeze, at once for all processes of a ledger."""

from forum.app.clock_ids_and_kinds import OPERATOR, new_salt
from forum.app.project import ProjectContext
from forum.app.runs import RunOperations
from forum.errors import Malformed, NoSuchCap
from forum.ledger.body import text_content
from forum.ledger.cap_orders import BUDGETS_STRAND, CapName
from forum.ledger.entry import Facts
from forum.ledger.kinds import CapChange, CapFacts, FreezeAct, FreezeFacts, TeamFacts
from forum.ledger.ports import NO_LIMIT
from forum.ledger.strand import Attachment, Draft
from forum.runs.shared_caps import Team, check_teams, recorded_teams


class BudgetOperations:
    """Sets caps over many runs.

    Each change is a control entry, which only the machine that signs can write: `NotSigner` is
    raised elsewhere.  When a method has returned, no process can reserve by the caps as they were.
    """

    def __init__(self, project: ProjectContext, runs: RunOperations) -> None:
        self._project, self._runs = project, runs

    def set_cap(self, name: CapName, most: int, actor: str = OPERATOR) -> None:
        """Set a cap, in place of an earlier one."""
        self._change(name, CapChange.SET, most, actor)

    def raise_cap(self, name: CapName, more: int, actor: str = OPERATOR) -> None:
        """Add an amount to a cap.  Raises `NoSuchCap`."""
        self.set_cap(name, min(self._find_cap(name) + more, NO_LIMIT), actor)

    def unset_cap(self, name: CapName, actor: str = OPERATOR) -> None:
        """Remove a cap.  Raises `NoSuchCap`."""
        self._find_cap(name)
        self._change(name, CapChange.REMOVE, 0, actor)

    def set_team(self, team: Team, actor: str = OPERATOR) -> None:
        """Say who is in a team, in place of what was said of it.  Raises `Malformed`."""
        teams = {**self._runs.teams, **recorded_teams(self._runs.read_cap_orders())}
        try:
            check_teams({**teams, team.name: team})
        except ValueError as error:
            raise Malformed("team", str(error)) from None
        self._record("team", TeamFacts(team.name, team.members, team.within), actor)

    def freeze(self, act: FreezeAct, reason: str = "", actor: str = OPERATOR) -> None:
        """Let no call that costs something be made, in any process, or end that."""
        bodies = (Attachment("reason", text_content(reason)),) if reason else ()
        self._record(act.value, FreezeFacts(act), actor, *bodies)

    def _change(self, name: CapName, act: CapChange, most: int, actor: str) -> None:
        facts = CapFacts(name.subject, name.per, name.unit, act, name=name.name, most=most)
        self._record("cap", facts, actor)

    def _find_cap(self, name: CapName) -> int:
        caps = self._runs.read_cap_orders().caps
        if name not in caps:
            raise NoSuchCap(f"{name.subject}:{name.name}".rstrip(":"), name.unit, name.per)
        return caps[name]

    def _record(self, what: str, facts: Facts, actor: str, *bodies: Attachment) -> None:
        # A random suffix makes each step unique: an equal change is another entry.
        step = f"{what}/{new_salt()[:8].hex()}"
        draft = Draft(step, actor, facts, bodies=bodies)
        self._project.ledger.append_log_entry(draft, BUDGETS_STRAND)
        # After the entry.  A crash before this line leaves slices that were allotted by the caps as
        # they were; their processes return them within a second, when they read the entry.
        self._project.store.recall_slices()
        self._runs.budgets.refresh()
