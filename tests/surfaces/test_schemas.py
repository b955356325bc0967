"""The JSON of the surfaces: every form has a schema, and what is printed is of its form."""

import json
import subprocess
import sys
from importlib import import_module
from inspect import getmembers, isclass
from pathlib import Path
from pkgutil import iter_modules
from typing import Annotated

import msgspec
import pytest

from forum.app import KINDS
from forum.app.planner import load_roster
from forum.features.evaluation.schemas import EvaluationForm
from forum.features.evidence.schemas import PackForm
from forum.features.oversight.schemas import IncidentForm, IncidentsForm, ReviewForm
from forum.features.retention.schemas import HoldsForm, RetentionForm
from forum.features.symposium.artifact_forms import ArtifactForm
from forum.ledger.log import LocatedEntry
from forum.ledger.ports import Amount
from forum.runs.agent_inspection import AgentInspection, KeyStatus
from forum.surfaces import schemas
from forum.surfaces.schemas.comparison import BenchForm, DiffForm, ReplayForm
from forum.surfaces.schemas.fields import (
    AmountForm,
    CapForm,
    Moment,
    RecordedText,
    Usd,
    amount_form,
    fill,
)
from forum.surfaces.schemas.gates import DecisionForm, GatesForm, ShownGateForm
from forum.surfaces.schemas.lanes import LaneForm, RouteForm
from forum.surfaces.schemas.ledger import (
    CheckpointForm,
    EntriesForm,
    EntryForm,
    ProofForm,
    RecordedForm,
    SummaryForm,
    WhyForm,
    entry_form,
)
from forum.surfaces.schemas.models import AgentView, ModelForm, ModelsCheckForm, model_form
from forum.surfaces.schemas.reports import ReportForm
from forum.surfaces.schemas.runs import RunForm, RunsForm
from forum.surfaces.schemas.transcripts import TranscriptForm
from forum.tlog import hash_leaf
from tests.surfaces.terminal import Terminal
from tests.test_repository import ROOT

MODULES = [
    *(f"{schemas.__name__}.{module.name}" for module in iter_modules(schemas.__path__)),
    *(
        f"forum.features.{path.parent.name}.schemas"
        for path in sorted((ROOT / "src/forum/features").glob("*/schemas.py"))
        if path.parent.name != "symposium"  # the schemas of its protocol, which is older
    ),
    "forum.features.symposium.artifact_forms",
]
FORMS: list[type[msgspec.Struct]] = [
    form
    for module in MODULES
    for _, form in getmembers(import_module(module), isclass)
    if issubclass(form, msgspec.Struct) and form.__module__ == module
]
PLAN = """
request = "Prepare the release"
budget = { usd = 0.50 }
policy.agents."" = { kind = "scripted", usd = "0.012", moves."*" = [{ say = "one", tokens = 64 }] }

[[tasks]]
id = "changelog"
instruction = "Write the changelog."

[[tasks]]
id = "build"
instruction = "Build the packages."
needs = ["changelog"]
done_when = "contains two"
"""


def of_form(form: type[msgspec.Struct], printed: str) -> object:
    """Return what was printed, having read and written it by its form."""
    return json.loads(msgspec.json.encode(msgspec.json.decode(printed, type=form)))


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """Return somebody with one run that failed, and one that waits at a gate."""
    user = Terminal(tmp_path_factory.mktemp("forms"))
    (user.folder / "plan.toml").write_text(PLAN)
    assert user.call("init").exit_code == 0
    for more in ((), ("--gate", "plan")):
        done = user.type("submit", "--plan", "plan.toml", "--retries", "0", *more)
        assert done.returncode in (1, 6), done.stderr
    return user


@pytest.fixture(scope="module")
def runs(user: Terminal) -> dict[str, str]:
    """Return the names of the two runs."""
    waiting, failed = user.ask("runs")["runs"]
    return {"FAILED": failed["run"], "WAITING": waiting["run"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "form"),
    [
        ("runs", RunsForm),
        ("show FAILED", RunForm),
        ("show WAITING", RunForm),
        ("show FAILED --transcript", TranscriptForm),
        ("gate list", GatesForm),
        ("gate show WAITING plan", ShownGateForm),
        ("diff FAILED WAITING", DiffForm),
        ("replay FAILED", ReplayForm),
        ("bench FAILED WAITING", BenchForm),
        ("models check", ModelsCheckForm),
        ("route Mend-the-checkout", RouteForm),
        ("why 9", WhyForm),
        ("ledger show --limit 99", EntriesForm),
        ("ledger get 5", EntryForm),
        ("ledger proof 5", ProofForm),
        ("ledger checkpoint", CheckpointForm),
        ("ledger summary", SummaryForm),
        ("ledger verify", ReportForm),
        ("ledger note seen", RecordedForm),
        ("gate approve WAITING plan", DecisionForm),
        ("review", ReviewForm),
        ("review FAILED --done --remark seen", ReviewForm),
        ("incident open --severity low late", IncidentForm),
        ("incident list", IncidentsForm),
        ("retention set call 30d", RetentionForm),
        ("hold place case", HoldsForm),
    ],
)
def test_what_the_command_line_prints_is_of_its_form(
    user: Terminal, runs: dict[str, str], words: str, form: type[msgspec.Struct]
) -> None:
    """Reading by the schema and writing again gives the same object: the schema omits nothing."""
    typed = [runs.get(word, word) for word in words.split()]
    printed = user.call(*typed, "--json").stdout

    content = json.loads(printed)
    assert content.pop("schema").startswith("forum.")
    assert of_form(form, printed) == content


@pytest.mark.slow
def test_an_entry_in_its_form_still_hashes_to_its_id(user: Terminal) -> None:
    """A reader can check the id of an entry from the very bytes that it was sent."""
    printed = user.ask("ledger", "get", "5")
    data = msgspec.json.encode(printed["entry"])
    sent = msgspec.json.encode(entry_form(LocatedEntry(5, data, KINDS.read(data))))

    read = msgspec.json.decode(sent, type=EntryForm)
    assert hash_leaf(bytes(read.entry)).hex() == read.id == printed["id"]


def test_every_form_has_a_schema_that_says_what_it_is() -> None:
    """Documents for programmers are made from these; names must not clash between them."""
    assert {IncidentForm, HoldsForm, EvaluationForm, PackForm, ArtifactForm, RunForm} <= {*FORMS}
    references, components = msgspec.json.schema_components(FORMS)

    assert [reference["$ref"] for reference in references] == [
        f"#/$defs/{form.__name__}" for form in FORMS
    ]
    assert all(
        "." not in name and reference["description"] for name, reference in components.items()
    )


def test_a_model_says_what_is_known_of_its_key_and_never_the_key() -> None:
    """Keys have names and states here; there is no field that could hold one."""
    agent_inspection = AgentInspection(
        "chat",
        model="m",
        where="localhost",
        key=KeyStatus.SET,
        key_name="MY_KEY",
        read_usd=250,
        said_usd=2000,
    )
    agent = AgentView(
        "",
        origin="forum.toml:3",
        found=agent_inspection,
        tiers=(),
        roles=("planner",),
        lanes=("backend",),
        default=True,
    )

    form = model_form(agent)
    assert msgspec.json.decode(msgspec.json.encode(form), type=ModelForm) == form
    assert (form.key, form.key_name, form.usable) == ("set", "MY_KEY", True)
    assert (form.price.input_usd, form.price.output_usd) == ("0.00025", "0.002")


def test_every_lane_of_the_roster_has_its_form() -> None:
    """What a lane is for is told; how requests for it are known is the router's business."""
    for lane in load_roster(None).lanes:
        form = fill(LaneForm, lane)

        assert msgspec.json.decode(msgspec.json.encode(form), type=LaneForm) == form
        assert (form.name, form.does) == (lane.name, lane.does)


def test_money_is_a_text() -> None:
    """A number would be read as a float, which cannot hold a tenth of a dollar."""
    form = amount_form(Amount(100_000_001, 3, 1))

    assert msgspec.json.encode(form) == b'{"usd":"0.100000001","tokens":3,"calls":1}'


class _Stay(msgspec.Struct):
    """What `_StayForm` is filled from: amounts and times are numbers, as in the core."""

    cost: Amount
    arrived: int
    left: int
    note: str
    costs: list[Amount]


class _StayForm(msgspec.Struct):
    cost: AmountForm
    arrived: Moment
    left: Moment | None
    note: Annotated[str | None, msgspec.Meta(description="Null if there is none.")]
    costs: tuple[AmountForm, ...]
    usd: Usd
    found: AmountForm | CapForm | None


class _Answer(msgspec.Struct):
    recorded: str | None
    other: str | None


class _AnswerForm(msgspec.Struct, frozen=True):
    recorded: Annotated[RecordedText | None, msgspec.Meta(description="Null if it was erased.")]
    other: str | None


def test_a_form_is_filled_as_its_members_are_declared() -> None:
    """Dollars and times become texts, objects forms; what is not there becomes null."""
    cost = Amount(1_500_000_000, 3, 1)
    stay = _Stay(cost, arrived=0, left=0, note="", costs=[cost])

    cap = CapForm(None, 3, None, None)
    form = fill(_StayForm, stay, usd=cost.usd, found=cap)

    written = AmountForm("1.50", 3, 1)
    assert form == _StayForm(
        written,
        arrived="1970-01-01T00:00:00Z",
        left=None,
        note=None,
        costs=(written,),
        usd="1.50",
        found=cap,
    )
    assert fill(_StayForm, stay, usd="2", left=1_000_000, found=None).left == "1970-01-01T00:00:01Z"


def test_an_empty_answer_is_told_from_one_that_is_not_there(tmp_path: Path) -> None:
    """An answer that was recorded empty was not erased."""
    told = Terminal(tmp_path).call(
        "submit", "Say nothing.", "--cmd", "false", "--retries", "0", "--json"
    )

    assert json.loads(told.stdout)["answer"] == ""
    assert fill(_AnswerForm, _Answer("", "")) == _AnswerForm(recorded="", other=None)
    assert fill(_AnswerForm, _Answer(None, None)) == _AnswerForm(recorded=None, other=None)


def test_forms_bring_no_framework_along() -> None:
    """The command line loads them before it prints a word."""
    line = f"import sys, {', '.join(MODULES)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)

    heavy = {"click", "pydantic", "starlette", "mcp", "dbos", "httpx", "numpy"}
    assert not heavy & set(done.stdout.split())
