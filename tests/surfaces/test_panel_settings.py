"""Panels of forum.toml: they judge, decide, and stand at the end of a ladder, on each surface."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from forum.app.planner import AgentRegistry, CallerAuthority, load_team_settings
from forum.config import load_settings
from forum.errors import BadPlan, BadSettings
from forum.features.recorder.plan_values import read_plan_value
from forum.runs.council_end import Requirement
from forum.runs.panel import Council
from forum.runs.policy import PANEL_ROLES, Policy, Role
from forum.surfaces.mcp.arguments import SubmitAsk
from forum.surfaces.requests import AskForm, PanelAsk, TaskAsk, run_request_from_form
from tests.docs.pages import ROOT
from tests.e2e.project import project as end_to_end
from tests.features.council.test_deliberation_http import visiting
from tests.spoken import ballot
from tests.surfaces.panels import QUESTION, project
from tests.surfaces.talks import Talk, over_pipes, talk
from tests.surfaces.terminal import Terminal

BOARD = '[panels.board]\nmodels = ["ann", "bob"]\nseats = 3\nrounds = 1\n'
JUDGES = '[roles]\nvalidator = "board"\n'
WORK = {"*": "Perhaps."}


def saying(first: str, other: str) -> dict[str, str]:
    """Return three seats of which the first stays alone."""
    rounds = (0, 1)
    return {f"~ballot.{n}.1": ballot(first) for n in rounds} | {
        f"~ballot.{n}.{seat}": ballot(other) for n in rounds for seat in (2, 3)
    }


def settings_of(folder: Path, text: str) -> Any:  # noqa: ANN401
    """Return the team settings of a project file."""
    (folder / "forum.toml").write_text(text)
    return load_team_settings(load_settings(folder, {}))


def test_a_panel_of_the_settings_is_a_council_of_its_models(tmp_path: Path) -> None:
    """With the members that a panel has elsewhere."""
    team = settings_of(
        tmp_path,
        project(WORK) + BOARD + 'require = "agreement"\nthreshold = 0.5\n' + JUDGES,
    )
    council = team.panels["board"]

    assert isinstance(council, Council)
    assert [seat.agent for seat in council.seats] == ["ann", "bob", "ann"]
    assert (council.rounds, council.threshold, council.require) == (1, 500, Requirement.AGREEMENT)
    assert team.roles == {Role.VALIDATOR: "board"}


def test_the_panels_of_the_guide_and_of_a_new_project_are_settings(tmp_path: Path) -> None:
    """A reader copies the block, or removes the comment signs of `forum init`."""
    guide = (ROOT / "docs/guides/let-a-council-decide.md").read_text()
    blocks = re.findall(r"^```toml\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    (settings,) = (block for block in blocks if block.startswith("[panels"))
    plans = [tomllib.loads(block) for block in blocks if block is not settings]
    offered = (ROOT / "src/forum/surfaces/cli/project_template.toml").read_text()
    commented = re.search(r"^# (\[panels(?:.|\n# )*)", offered, re.MULTILINE)
    assert commented
    names = ("ash", "birch", "cedar", "cheap", "capable", "frontier")
    models = "".join(f'[models.{name}]\ncmd = "cat"\n' for name in names)

    team = settings_of(tmp_path, models + settings)
    assert team.roles == {Role.VALIDATOR: "board", Role.INTENT: "board"}
    decisions = [task for plan in plans for task in plan["tasks"] if "decide" in task]
    assert decisions
    assert all(read_plan_value([task]).tasks[0].panel for task in decisions)
    board = settings_of(tmp_path, models + commented[1].replace("\n# ", "\n")).panels["board"]
    assert [seat.agent for seat in board.seats[:3]] == ["cheap", "capable", "frontier"]
    assert board.require is Requirement.AGREEMENT


@pytest.mark.parametrize(("other", "state"), [("cat", "warning"), ("tac", "ok")])
def test_doctor_names_the_panels(tmp_path: Path, other: str, state: str) -> None:
    """Seats of one model err alike, so a panel of them decides no better than it alone."""
    terminal = Terminal(tmp_path)
    models = f'[models.ann]\ncmd = "cat"\n[models.bob]\ncmd = "{other}"\n'
    (terminal.folder / "forum.toml").write_text(models + BOARD)
    checks = json.loads(terminal.call("doctor", "--json").stdout)["checks"]

    (found,) = (check for check in checks if check["check"] == "panel")
    assert (found["state"], found["found"].partition(": one")[0]) == (state, "board: ann, bob")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[panels.board]\nmodels = ["eve"]\n', "no model is called 'eve'"),
        ('[panels.board]\nmodels = "ann"\n', "models: write a list"),
        ("[panels.board]\nseats = 0\n", "seats: write a whole number from 1 to 100"),
        ('[panels.board]\nrequire = "much"\n', "require"),
        ("[panels.board]\nchairs = 3\n", "chairs"),
        ("[panels.board]\nthreshold = -0.5\n", "threshold: write a share from 0"),
        ("[panels.board]\nthreshold = nan\n", "threshold: write a share from 0"),
        ("[panels]\nboard = 3\n", "panels.board"),
    ],
)
def test_a_panel_that_cannot_sit_is_refused_with_its_place(
    tmp_path: Path, text: str, said: str
) -> None:
    """When the settings are read, and not by a run that fails."""
    with pytest.raises(BadSettings, match=said):
        settings_of(tmp_path, project(WORK) + text)


def test_a_validator_of_the_settings_can_be_a_panel_over_http(tmp_path: Path) -> None:
    """The verdict says how far it agreed, and in which run."""
    settings = project(WORK, saying("reject", "accept")) + BOARD + JUDGES
    tasks = [{"id": "look", "instruction": QUESTION}]
    with visiting(tmp_path, settings) as visitor:
        run = visitor.end(None, tasks=tasks, retries=0)
        (verdict,) = run["tasks"][0]["verdicts"]
        inner = visitor.get(f"/api/v1/runs/{verdict['run']}")

    assert run["outcome"] == "ok"
    assert (verdict["judge"], verdict["accord"]) == ("board", "majority")
    assert "The council decided by a majority" in verdict["opinion"]["reason"]
    assert inner["within"] == run["run"]
    assert inner["answer"] == "accept"


def test_a_split_validator_is_called_so_over_http(tmp_path: Path) -> None:
    """In the word of the run, and in its exit status."""
    two = BOARD.replace("seats = 3", "seats = 2")
    settings = project(WORK, saying("reject", "accept")) + two + JUDGES
    tasks = [{"id": "look", "instruction": QUESTION}]
    with visiting(tmp_path, settings) as visitor:
        run = visitor.end(None, tasks=tasks, retries=0)

    assert (run["word"], run["status"]) == ("split", 8)
    assert run["tasks"][0]["verdicts"][0]["reason"] == "split"


def test_a_ladder_ends_with_a_panel_over_http(tmp_path: Path) -> None:
    """One of the request, or one of the settings."""
    asked = {"id": "look", "instruction": QUESTION, "done_when": "contains yes"}
    settings = project(WORK, saying("no", "yes")) + BOARD
    own = {"mine": {"models": ["ann", "bob"], "seats": 3, "rounds": 1}}
    with visiting(tmp_path, settings) as visitor:
        runs = [
            visitor.end(None, tasks=[asked], ladder=["board"], retries=0),
            visitor.end(None, tasks=[asked], ladder=["mine"], panels=own, retries=0),
        ]

    for run in runs:
        assert run["outcome"] == "ok"
        assert run["tasks"][0]["accord"] == "majority"


@pytest.mark.parametrize("role", sorted(PANEL_ROLES))
@pytest.mark.parametrize("ask", [AskForm, SubmitAsk])
def test_no_client_replaces_a_panel_of_the_operator(
    tmp_path: Path, ask: type[AskForm | SubmitAsk], role: str
) -> None:
    """Whether a role names it or not: a client would choose its own judge."""
    other = BOARD.replace("board", "spare")
    (tmp_path / "forum.toml").write_text(
        project(WORK) + BOARD + other + f'[roles]\n{role} = "board"\n'
    )
    registry = AgentRegistry(load_settings(tmp_path, {}))
    tasks = (TaskAsk("look", QUESTION),)

    def decide(name: str, authority: CallerAuthority) -> Policy:
        asked = ask(QUESTION, tasks=tasks, ladder=(name,), panels={name: PanelAsk(models=("ann",))})
        form = asked if isinstance(asked, AskForm) else asked.form
        return run_request_from_form(form, registry, authority).policy

    for name in ("board", "spare"):
        with pytest.raises(BadPlan, match=f"the operator has a panel {name!r}"):
            decide(name, CallerAuthority.CLIENT)
    usual = decide("mine", CallerAuthority.CLIENT)
    assert usual.roles == {role: "board"}
    assert usual.panels["board"] == registry.team_settings.panels["board"]
    assert decide("board", CallerAuthority.OPERATOR).panels["board"].speakers == {"ann"}


DECISION = [
    {"id": "pick", "instruction": QUESTION, "decide": ["yes", "no"]},
    {"id": "tell", "instruction": "Tell it.", "needs": ["pick"]},
]


def test_a_plan_over_http_has_a_panel_decide(tmp_path: Path) -> None:
    """The accord is told with the task; the panel may be named."""
    settings = project(WORK, saying("no", "yes")) + BOARD
    named = [{**DECISION[0], "agent": "board"}, DECISION[1]]
    with visiting(tmp_path, settings) as visitor:
        runs = [visitor.end(None, tasks=tasks) for tasks in (DECISION, named)]

    for run in runs:
        assert run["outcome"] == "ok"
        assert run["tasks"][0]["accord"] == "majority"


@pytest.mark.parametrize(
    ("panels", "task", "text"),
    [
        ("", {}, "no panel is configured"),
        (BOARD, {"agent": "crowd"}, "no panel is called 'crowd'"),
        (BOARD, {"decide": ["yes"]}, "two or more"),
        (BOARD, {"panel": {}}, "leave out panel"),
    ],
)
def test_a_decision_that_nobody_can_take_is_refused(
    tmp_path: Path, panels: str, task: dict[str, object], text: str
) -> None:
    """With the reason."""
    with visiting(tmp_path, project(WORK) + panels) as visitor:
        refused = visitor.ask(None, tasks=[{**DECISION[0], **task}])

    assert refused.status_code == 422
    assert text in refused.json()["detail"]


def test_a_program_passes_a_decision_as_a_dictionary() -> None:
    """As a plan file has it."""
    council = read_plan_value(DECISION).by_id["pick"].panel

    assert isinstance(council, Council)
    assert council.options == ("yes", "no")
    with pytest.raises(BadPlan, match="two or more"):
        read_plan_value([{**DECISION[0], "decide": []}])
    with pytest.raises(BadPlan, match="no list of texts"):
        read_plan_value([{**DECISION[0], "decide": "yes"}])


def test_panels_over_mcp(tmp_path: Path) -> None:
    """A validator of the settings, a ladder with a panel of the request, and a decision."""
    spoken = {**saying("no", "yes"), "look": "Perhaps."}
    own = {"mine": {"models": ["ann", "bob"], "seats": 3, "rounds": 1}}
    ladder = [{"id": "look", "instruction": QUESTION, "done_when": "contains yes"}]

    async def asked(begun: Talk) -> list[dict[str, Any]]:
        orders: list[dict[str, Any]] = [
            {"tasks": ladder, "ladder": ["mine"], "panels": own},
            {"tasks": DECISION},
        ]
        taken = [await begun.well("submit", request=QUESTION, **document) for document in orders]
        return [await begun.well("show", run=each["run"]) for each in taken]

    with end_to_end(tmp_path, None, project(spoken) + BOARD) as made:
        for shown in talk(over_pipes(made), asked, "2026-07-28"):
            assert shown["outcome"] == "ok"
            assert shown["tasks"][0]["accord"] == "majority"
