"""The specification says what the code does: its examples, its tables, its arithmetic."""

import json
import re
from base64 import b64decode
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from forum.app import KINDS
from forum.features.council.ballots import Attack, Ballot, PeerAnswer, StatedClaim
from forum.features.council.report import (
    Argument,
    BaselineReport,
    Blocker,
    ComparisonReport,
    CouncilReport,
    MinorityPosition,
    ReportedChange,
    ReportedCost,
    ReportedPair,
    SeatReport,
    Vote,
)
from forum.features.symposium.violations import Invariant
from forum.runs.gate_rules import GateRule
from forum.runs.kinds import StopReason
from forum.runs.panel import Council, Seat, Symposium
from forum.runs.plan import RunBudget, Task
from forum.runs.policy import (
    Chat,
    Command,
    Extension,
    LaneBrief,
    Library,
    McpServer,
    Policy,
    PythonEntry,
    Scripted,
    ScriptStep,
    ToolCall,
    ToolSpec,
)
from forum.runs.record_comparison import Breach
from forum.verify import Problem
from tests.docs.examples import BLOCK, SPEC, examples
from tests.docs.kind_tables import generated_files
from tests.verify.samples import TRUST, as_json, make_bundle, verify_both

ENTRY, BUNDLE, RUN, DELIBERATION, REPORT = PAGES = tuple(
    (SPEC / name).read_text()
    for name in ("entry.md", "bundle.md", "run.md", "deliberation.md", "report.md")
)


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    """Return the examples as the code makes them now."""
    return examples()


@pytest.fixture(scope="module")
def shown() -> dict[str, str]:
    """Return the examples as the pages show them."""
    return {block[2]: block[3] for page in PAGES for block in BLOCK.finditer(page)}


def test_the_examples_are_what_the_code_makes(made: dict[str, str], shown: dict[str, str]) -> None:
    """Whoever writes a verifier tries it on these first.  `python -m tests.docs.examples`."""
    assert shown == made


# The arithmetic of the examples, with nothing but hashlib: what a stranger would do by hand.


def test_the_id_of_the_example_is_its_leaf_hash(shown: dict[str, str]) -> None:
    """SHA-256 over a zero byte and the bytes."""
    digest = sha256(b"\0" + shown["answer"].strip().encode()).hexdigest()

    assert digest == shown["answer-id"].strip()


@pytest.mark.parametrize(("entry", "name", "salt"), [("answer", "text", "answer-salt")])
def test_the_commitment_of_the_example(
    shown: dict[str, str], entry: str, name: str, salt: str
) -> None:
    """Domain, salt, length, body."""
    commitment = json.loads(shown[entry])["bodies"][name]
    message = b"forum/body/1\0" + bytes.fromhex(shown[salt].strip())

    assert commitment["size"] == 2
    assert sha256(message + (2).to_bytes(8, "big") + b"42").hexdigest() == commitment["h"]


def test_the_proof_of_the_example_leads_to_its_root(shown: dict[str, str]) -> None:
    """Entry 5 of 12: its neighbours stand left, left, right... from the leaf up to the root."""
    nodes = [b64decode(line) for line in shown["proof"].splitlines()]
    root = b64decode(shown["checkpoint"].split("\n")[2])
    node = bytes.fromhex(shown["answer-id"].strip())

    # 5 is odd; above it 2 is even, then 1 is odd, and 0 is even.
    for sibling, on_the_left in zip(nodes, (True, False, True, False), strict=True):
        node = sha256(b"\1" + (sibling + node if on_the_left else node + sibling)).digest()

    assert node == root
    assert nodes[-1] == b64decode(shown["consistency"])


def test_the_example_is_one_run(shown: dict[str, str]) -> None:
    """The close names the end of the strand, and the redaction a body of the entry before it."""
    close, strands = json.loads(shown["close"]), json.loads(shown["strands"])
    redaction, answer = json.loads(shown["redaction"]), json.loads(shown["answer"])

    assert strands == [[answer["strand"], answer["n"], shown["answer-id"].strip()]]
    assert close["facts"]["strands"] == len(strands)
    assert close["bodies"]["strands"]["size"] == len(shown["strands"].strip())
    assert redaction["parents"][0] == answer["prev"]
    assert redaction["facts"]["runs"] == [answer["run"]]


def test_the_seed_of_the_example_follows_from_its_ballots(shown: dict[str, str]) -> None:
    """Digests of the question and of the ballots, and the digest of these."""
    sealed = [
        "Is the bridge safe?",
        *(shown[f"{nth}-ballot"].strip() for nth in ("first", "second")),
    ]
    digests = b"".join(sha256(text.encode()).digest() for text in sealed)

    assert sha256(digests).hexdigest() == shown["seed"].strip()


def test_the_claims_of_the_example_are_in_the_order_of_its_seed(shown: dict[str, str]) -> None:
    """Who sits where cannot be told from the ids of claims: the seats were shuffled for them."""
    seed, ballots = shown["seed"].strip(), [shown["first-ballot"], shown["second-ballot"]]
    order = sorted((1, 2), key=lambda seat: sha256(f"{seed}/claims/{seat}".encode()).digest())
    made = [json.loads(ballots[seat - 1])["claims"][0]["text"] for seat in order]
    listed = re.findall(r'^{"id":"(c\d)","claim":"([^"]+)"', shown["exchange-prompt"], re.MULTILINE)

    assert sorted(listed) == [("c1", made[0]), ("c2", made[1])]


def test_the_quotations_of_the_example_carry_their_own_digests(shown: dict[str, str]) -> None:
    """Nobody can write a text that ends its own quotation."""
    prompts = [text for name, text in shown.items() if name.endswith("-prompt")]
    quoted = re.compile(
        r"^--- ([0-9a-f]{32}) begin: [^\n]*\n(.*?)\n--- \1 end$", re.DOTALL | re.MULTILINE
    )

    for prompt in prompts:
        assert quoted.findall(prompt)
        for mark, text in quoted.findall(prompt):
            assert sha256(text.encode()).hexdigest()[:32] == mark


# Tables


def rows(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading that begins like this."""
    below = page[page.index(f"| {heading}") :]
    table = below[: below.index("\n\n")].split("\n")[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_the_tables_of_kinds_are_those_of_the_declared_kinds() -> None:
    """In the pages and in the stand-alone verifier; `just docs` writes them anew."""
    for path, text in generated_files().items():
        assert path.read_text() == text


def test_the_table_of_bodies_names_each() -> None:
    """Whoever is shown a body can look up what it holds."""
    listed, kinds = set(), ""
    pages = (RUN, DELIBERATION, REPORT)
    for cell, body, _, _ in (row for page in pages for row in rows(page, "kind | body")):
        kinds = cell or kinds
        listed |= {(kind, body.strip("`")) for kind in in_code(kinds)}
    ledger = {name.strip("`") for name, *_ in rows(ENTRY, "kind | member")}

    assert listed == {(k.name, body) for k in KINDS if k.name not in ledger for body in k.bodies}


def test_the_table_of_stops_is_complete() -> None:
    """Each reason is explained once."""
    reasons = [name.strip("`") for name, *_ in rows(RUN, "`reason` | `limit`")]

    assert sorted(reasons) == sorted(reason.value for reason in StopReason)


@pytest.mark.parametrize(
    ("page", "heading", "objects"),
    [
        (RUN, "### The plan", {"task": Task, "budget": RunBudget}),
        (
            RUN,
            "### The policy",
            {
                "policy": Policy,
                "scripted agent": Scripted,
                "move": ScriptStep,
                "use": ToolCall,
                "command": Command,
                "chat": Chat,
                "pydantic-ai": Library,
                "extension": Extension,
                "entry": PythonEntry,
                "server": McpServer,
                "tool": ToolSpec,
                "gate rule": GateRule,
                "lane": LaneBrief,
            },
        ),
        (
            DELIBERATION,
            "## The panel",
            {"council": Council, "seat": Seat, "symposium": Symposium},
        ),
        (
            DELIBERATION,
            "### Ballots",
            {"ballot": Ballot, "claim": StatedClaim, "attack": Attack, "reply": PeerAnswer},
        ),
        (
            DELIBERATION,
            "### The report",
            {
                "report": CouncilReport,
                "spent": ReportedCost,
                "baseline": BaselineReport,
                "seat": SeatReport,
                "vote": Vote,
                "change": ReportedChange,
                "minority": MinorityPosition,
                "argument": Argument,
                "comparison": ComparisonReport,
                "pair": ReportedPair,
                "blocker": Blocker,
            },
        ),
    ],
)
def test_the_tables_of_recorded_forms_are_complete(
    page: str, heading: str, objects: dict[str, type[msgspec.Struct]]
) -> None:
    """What follows the page is read by an engine, and what an engine writes is on the page."""
    expected = [
        [name if nth == 0 else "", f"`{field.name}`", default_of(field)]
        for name, form in objects.items()
        for nth, field in enumerate(msgspec.structs.fields(form))
    ]
    table = rows(page[page.index(f"{heading}\n") :], "object | member")

    assert [[name, member, default] for name, member, _, default, _ in table] == expected


def test_the_table_of_laws_is_complete() -> None:
    """Whoever is told that an artifact breaks a law can look it up."""
    laws = [name.strip("`") for name, _ in rows(DELIBERATION, "law |")]

    assert laws == [law.value for law in Invariant]


def test_the_table_of_what_is_found_in_sessions_is_complete() -> None:
    """Each way in which a session can be wrong, under the word that it takes away."""
    listed = {name.strip("`"): claim for name, claim, _ in rows(DELIBERATION, "finding | refutes")}
    problems = [Problem(f"session-{breach}") for breach in Breach]

    assert listed == {str(problem): str(problem.claim) for problem in problems}


def default_of(field: msgspec.structs.FieldInfo) -> str:
    """Return the default of a member as the table writes it."""
    if field.default_factory is not msgspec.NODEFAULT:
        return f"`{msgspec.json.encode(field.default_factory()).decode()}`"
    if field.default is msgspec.NODEFAULT:
        return ""
    return f"`{msgspec.json.encode(field.default).decode()}`"


def test_the_table_of_findings_is_complete() -> None:
    """Under the claim that each refutes; what only a whole ledger can show stands below it."""
    listed = {name.strip("`"): claim for name, claim in rows(BUNDLE, "finding | refutes")}
    others = BUNDLE[BUNDLE.index("A whole ledger can have others") :].split("\n")[0]

    assert listed == {str(p): str(p.claim) for p in Problem if p not in set(in_code(others))}
    assert {*listed, *in_code(others)} == {str(problem) for problem in Problem}


def test_the_table_of_checks_names_real_findings() -> None:
    """A check that is described must be one that can be found broken."""
    checks = rows(ENTRY, "check | finding")

    for _, name, claim in checks:
        assert Problem(name.strip("`")).claim == claim


def test_every_finding_is_explained() -> None:
    """Each is the outcome of a step of the procedure, or of a check of entries."""
    steps = BUNDLE[BUNDLE.index("## Verification") : BUNDLE.index("### Findings")]
    explained = {*in_code(steps), *(name.strip("`") for _, name, _ in rows(ENTRY, "check | f"))}

    assert {name.strip("`") for name, _ in rows(BUNDLE, "finding | refutes")} <= explained


def test_the_table_of_the_report_is_complete(tmp_path: Path) -> None:
    """A program that reads reports finds every member described."""
    described = [name for cell, _ in rows(BUNDLE, "member |") for name in in_code(cell)]

    report = as_json(verify_both(make_bundle(tmp_path), TRUST))

    assert described == list(report)


def in_code(text: str) -> list[str]:
    """Return what stands between backticks."""
    return re.findall(r"`([^`]+)`", text)
