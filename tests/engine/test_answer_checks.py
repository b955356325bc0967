"""What follows from the checks of an answer: flags, remarks, failures, and which answer is kept."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from forum.engine import RunRequest
from forum.ledger.kinds import Outcome
from forum.runs.asks import is_single_ask
from forum.runs.kinds import LISTED_ASKS_STEP, SINGLE_ASK_STEP
from forum.runs.plan import Task
from forum.runs.policy import Chat, Policy, Role, Scripted, ScriptStep
from forum.runs.roles import synthesizer
from forum.runs.run_fold import Run
from tests.engine.office import Office, plan, quick
from tests.engine.team import JUDGE, YES, order, said, team
from tests.engine.test_replay import play

QUESTION = "What is the best high-availability setup for our Postgres? Compare options and risks."
COMPLETE = (
    "Options: Patroni with etcd, or a managed service. Risks: split brain with the first, lock-in "
    "with the second. Recommendation: Patroni is the best availability setup for this Postgres."
)
NONSENSE = (
    "The specialist finds and fixes weaknesses in systems, deals with leaks, phishing and other "
    "attacks on companies, and reports to the management."
)


def opinion(*asks: tuple[str, str, bool]) -> ScriptStep:
    """Return what an intent judge says of asks: each with its words, and whether it is met."""
    passed = all(met for _, _, met in asks)
    parts = [{"ask": ask, "met_by": words, "met": met} for ask, words, met in asks]
    return said({"asks": parts, "reason": "so", "passed": passed, "missing": []})


def judged(
    result: str,
    *opinions: ScriptStep,
    again: str = "",
    doubted: bool = False,
    request: str = QUESTION,
) -> RunRequest:
    """Return a request whose one result is judged; `again` is the corrected answer."""
    steps = {
        "@intent": opinions[:1],
        "@intent.2": opinions[1:],
        "@synthesizer.2": (ScriptStep(again),),
    }
    agents = {
        "": Scripted({"*": (ScriptStep(result),)}),
        "judge": Scripted({name: step for name, step in steps.items() if step}),
    }
    roles = {Role.INTENT: "judge"} | ({Role.SYNTHESIZER: "judge"} if again else {})
    policy = quick(agents=agents, roles=roles, doubted=doubted)
    return RunRequest(request, plan(Task("a", "Answer.")), policy)


def outcomes(run: Run) -> dict[str, tuple[Outcome, str]]:
    """Return outcome and reason of each check, by subject."""
    return {check.subject: (check.outcome, check.reason) for _, check in run.checks}


def test_a_flag_is_recorded_on_any_run_and_fails_none(office: Office, tmp_path: Path) -> None:
    """No team, no role, no criterion: the words of request and answer are enough."""
    policy = quick(agents={"": Scripted({"*": (ScriptStep("bananas"),)})})
    run = office.do(RunRequest("How long is the Danube?", None, policy))

    assert run.outcome is Outcome.OK
    assert outcomes(run) == {"coverage": (Outcome.INDETERMINATE, "no-number")}
    (flag,) = [entry for entry in office.entries() if entry.step == "check/1"]
    assert b"Not mentioned: long, danube" in office.body(flag, "detail")
    assert office.findings() == ()
    assert play(office, tmp_path) == []


def test_a_verifier_finds_a_flag_that_was_left_out(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine that drove the run did not want it to be seen."""
    monkeypatch.setattr("forum.engine.answer_assembly.flag_answer", lambda *_, **__: [])
    policy = quick(agents={"": Scripted({"*": (ScriptStep("bananas"),)})})
    office.do(RunRequest("How long is the Danube?", None, policy))

    assert any("gives no-number" in str(finding) for finding in office.findings())


def test_a_right_answer_passes_although_its_judge_names_the_asks_in_other_words(
    office: Office,
) -> None:
    """A judge that finds every ask met cannot fail an answer by how it lists them."""
    passed = opinion(
        ("the best HA setup", "Patroni is the best", True), ("Optionen", "zwei Wege", True)
    )
    run = office.do(judged(COMPLETE, passed))

    assert run.outcome is Outcome.OK
    assert outcomes(run) == {"intent": (Outcome.OK, "")}


def test_a_finding_that_the_words_do_not_confirm_is_a_remark(office: Office) -> None:
    """The judge says that the risks are missing, and the answer names them."""
    doubtful = opinion(("risks", "", False))
    run = office.do(judged(COMPLETE, doubtful))

    assert run.outcome is Outcome.OK
    assert outcomes(run) == {"intent": (Outcome.INDETERMINATE, "not-confirmed")}


def test_a_finding_that_the_words_confirm_fails_the_run(office: Office) -> None:
    """The judge says that the risks are missing, and the answer does not mention them."""
    run = office.do(judged(COMPLETE.replace("Risks", "Also"), opinion(("risks", "", False))))

    assert run.outcome is Outcome.FAILED
    assert outcomes(run) == {"intent": (Outcome.FAILED, "not-answered")}


def test_an_answer_about_something_else_is_flagged_whatever_its_judge_says(office: Office) -> None:
    """A weak judge passes nonsense; the flag stays on record, and its word is a remark."""
    run = office.do(judged(NONSENSE, opinion(("setup", "a good one", True)), doubted=True))

    assert run.outcome is Outcome.OK
    assert outcomes(run) == {
        "coverage": (Outcome.INDETERMINATE, "off-topic"),
        "intent": (Outcome.INDETERMINATE, "not-confirmed"),
    }
    assert office.findings() == ()


@pytest.mark.parametrize(
    ("result", "is_asked"), [(COMPLETE, False), (NONSENSE, True)], ids=["covered", "flagged"]
)
def test_a_judge_that_nobody_asked_for_is_asked_only_in_doubt(
    office: Office, result: str, *, is_asked: bool
) -> None:
    """The cheap check runs first, and a model only where it leaves a doubt."""
    run = office.do(judged(result, opinion(("risks", "", False)), doubted=True))

    assert ("@intent" in run.tasks) is is_asked
    assert run.outcome is (Outcome.FAILED if is_asked else Outcome.OK)


@pytest.mark.parametrize(
    ("second", "verdict", "kept"),
    [
        ("Options: Patroni, or a man", False, COMPLETE),
        (NONSENSE, False, COMPLETE),
        ("Options and risks of a Postgres setup: Patroni.", True, None),
    ],
    ids=["cut", "off the subject", "better"],
)
def test_of_two_answers_the_better_one_is_kept(
    office: Office, tmp_path: Path, second: str, kept: str | None, *, verdict: bool
) -> None:
    """A second synthesis replaces the first answer only if the same check finds it better."""
    no, then = opinion(("risks", "", False)), opinion(("risks", "", verdict))
    run = office.do(judged(COMPLETE, no, then, again=second))

    assert run.outcome is Outcome.OK
    assert office.answer().decode() == (kept or second)
    assert office.findings() == ()
    assert play(office, tmp_path) == []


def test_the_schema_of_an_answer_holds_every_result_that_it_is_made_from(office: Office) -> None:
    """A model with short replies still has to be able to write down what it was given."""
    long = COMPLETE * 6
    limited = Chat(url="http://localhost:9/v1", model="small", max_tokens=500)
    room = Policy(agents={"": limited}).max_reply_chars("")
    parts = said({"parts": [{"from": "a", "text": long}]})
    agents = {
        "": Scripted({"*": (ScriptStep(long),)}),
        "writer": Scripted({"@synthesizer": (parts,)}),
    }
    policy = quick(agents=agents, roles={Role.SYNTHESIZER: "writer"})
    tasks = plan(Task("a", "Name options."), Task("b", "Name risks."))
    office.do(RunRequest(QUESTION, tasks, policy))
    (call,) = [e for e in office.entries() if e.step == "attempt/1/call/1" and "synth" in e.strand]

    assert json.loads(synthesizer.build_schema(["a"], room, len(long)))["properties"]["parts"][
        "items"
    ]["properties"]["text"]["maxLength"] >= len(long)
    assert json.loads(office.body(call, "schema"))["properties"]["parts"]["items"]["properties"][
        "text"
    ]["maxLength"] >= len(long)


ELBE = Scripted({"*": (ScriptStep("The Elbe is 1094 km long."),)})
AGENTS = {**team().agents, "judge": Scripted({**JUDGE.moves, "answer": (said(YES),)})}
ONE = RunRequest("How long is the Elbe?", None, team())


def test_a_request_with_one_ask_is_one_task_without_a_coordinator(
    office: Office, tmp_path: Path
) -> None:
    """Code decides it, and the record says that it did."""
    run = office.do(replace(ONE, policy=team(agents={**AGENTS, "worker": ELBE})))

    assert run.outcome is Outcome.OK
    assert "@coordinator" not in run.tasks
    (plan_entry,) = [entry for entry in office.entries() if entry.kind == "plan/1"]
    assert plan_entry.step == SINGLE_ASK_STEP
    assert office.findings() == ()
    assert play(office, tmp_path) == []


LISTED = "Answer both.\n1. How long is the Elbe?\n2. How high is the Brocken?"


def listed(**moves: str) -> RunRequest:
    """Return a request of two questions, for a team without a Coordinator."""
    agents = {"": Scripted({task: (ScriptStep(words),) for task, words in moves.items()})}
    return RunRequest(LISTED, None, quick(agents=agents, roles={Role.SYNTHESIZER: ""}))


def test_without_a_coordinator_each_listed_question_is_a_task(
    office: Office, tmp_path: Path
) -> None:
    """Code makes the plan, in the words of the request, and numbers the results."""
    document = {"answer-1": "The Elbe is 1094 km long.", "answer-2": "The Brocken is 1141 m high."}
    run = office.do(listed(**document))

    assert run.outcome is Outcome.OK
    (plan_entry,) = [entry for entry in office.entries() if entry.kind == "plan/1"]
    assert plan_entry.step == LISTED_ASKS_STEP
    assert office.answer() == b"1. The Elbe is 1094 km long.\n\n2. The Brocken is 1141 m high."
    prompts = {office.body(e, "prompt") for e in office.entries() if e.kind == "call/1"}
    assert prompts == {
        b"Answer both.\nHow long is the Elbe?",
        b"Answer both.\nHow high is the Brocken?",
    }
    assert office.findings() == ()
    assert play(office, tmp_path) == []


def test_a_coordinator_divides_what_it_is_asked_to_divide(office: Office) -> None:
    """Code splits a list only where nobody else plans."""
    run = office.do(replace(order(), request=LISTED))

    assert "@coordinator" in run.tasks


def test_prompts_of_a_run_have_short_marks_under_a_secret_of_its_own(
    office: Office, tmp_path: Path
) -> None:
    """The secret is drawn when the run is accepted, and recorded: a replay makes the same marks."""
    office.do(order())
    prompts = [office.body(e, "prompt") for e in office.entries() if e.kind == "call/1"]

    assert prompts
    assert all(b"begin: the request" in prompt for prompt in prompts)
    assert not any(re.search(rb"--- [0-9a-f]{32} ", prompt) for prompt in prompts)
    assert play(office, tmp_path) == []
    assert Policy(prompts=3).needs_secret
    assert not Policy(prompts=2).needs_secret


@pytest.mark.parametrize(
    ("request_text", "is_one"),
    [
        ("How long is the Danube?", True),
        ("We have one machine. It holds 2 TB. How do we make it highly available?", True),
        ("Write a haiku about rivers.", True),
        ("Wie lang ist die Donau?", True),
        ("Review this diff:\n```\n+why?\n+how?\n```", True),
        ("What color is it? Answer from the notes below. Say nothing about others.", True),
        ("Explain tides. Write in German. Show your reasoning.", True),
        ("Antworte kurz. Wie lang ist die Donau?", True),
        ("Write a function. Reply with the code only.", True),
        ("Answer in one word.", True),
        ("Explain tides. Write a poem about them. Answer in German.", False),
        ("Which pump should we buy, and what does it cost a year?", False),
        ("What are the options? What are the risks?", False),
        ("Plan the migration and write the scripts.", False),
        ("Nenne drei Flüsse und erkläre, welcher der längste ist.", False),
        ("Do this:\n1. one\n2. two", False),
        ("I need something. It has to be short.", False),
    ],
)
def test_code_tells_one_ask_from_several(request_text: str, *, is_one: bool) -> None:
    """In doubt it is no single ask: then a Coordinator decides."""
    assert is_single_ask(request_text) is is_one


LINES = "What do 348 bags of 20 kg weigh? End with the line `Load: NUMBER t`."
WEIGHT = "348 bags of 20 kg weigh 6960 kg."
ASKED = "1. When was Arnholm built?\n2. How many visitors did the tower of Elsby have?"
CONFUSED = "1. Arnholm was built in 1822.\n2. Arnholm had 3843 visitors."


def corrected(request: str, result: str, reply: str) -> RunRequest:
    """Return a request to a team of one agent, whose first answer is corrected."""
    agents = {"": Scripted({"@synthesizer.2": (ScriptStep(reply),), "*": (ScriptStep(result),)})}
    policy = quick(agents=agents, roles={Role.SYNTHESIZER: ""})
    return RunRequest(request, plan(Task("a", request)), policy)


@pytest.mark.parametrize(
    ("request_text", "result", "reply", "answer"),
    [
        (LINES, WEIGHT, "Load: 6.96 t", f"{WEIGHT}\n\nLoad: 6.96 t"),
        (LINES, f"{WEIGHT}\nLoad: 6960 t", "Load: 6.96 t", None),
        (
            ASKED,
            CONFUSED,
            "Elsby had 5666.",
            "1. Arnholm was built in 1822.\n2. Elsby had 5666.",
        ),
        ("How much is 12 * 30?", "12 * 30 = 350", "12 * 30 = 360", "12 * 30 = 360"),
        ("How much is 12 * 30?", "12 * 30 = 350", "12 * 30 = 340", "12 * 30 = 350"),
        (LINES, WEIGHT, "I do not know.", WEIGHT),
    ],
    ids=["line", "unit", "question", "calculation", "no better", "no line"],
)
def test_an_answer_with_faults_is_mended_once_and_the_better_one_is_kept(
    office: Office, tmp_path: Path, request_text: str, result: str, reply: str, answer: str | None
) -> None:
    """The record shows both, a verifier comes to the same flag, and a replay to the same answer."""
    run = office.do(corrected(request_text, result, reply))

    assert run.outcome is Outcome.OK
    assert "@synthesizer.2" in run.tasks
    assert office.answer().decode() == (answer or f"{result}\n\n{reply}")
    flags = [reason for subject, (_, reason) in outcomes(run).items() if subject == "form"]
    assert bool(flags) == (answer == result)
    assert office.findings() == ()
    assert play(office, tmp_path) == []


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (WEIGHT, "Go on where it stopped, briefly, and end as asked."),
        (f"{WEIGHT}\nLoad: 6960 t", "`Load: NUMBER t` (6960 kg = 6.96 t)"),
    ],
    ids=["missing", "other unit"],
)
def test_the_author_is_told_what_to_do_and_no_frame_is_sent(
    office: Office, result: str, text: str
) -> None:
    """A small model repeats marks and headings, and guesses the values of lines that it sees."""
    office.do(corrected(LINES, result, "Load: 6.96 t"))
    (call,) = [e for e in office.entries() if e.step == "attempt/1/call/1" and "synth" in e.strand]
    prompt = office.body(call, "prompt").decode()

    assert prompt.startswith(LINES)
    assert prompt.endswith(text)
    assert "schema" not in call.bodies


def test_an_agent_alone_is_flagged_and_not_asked_again(office: Office) -> None:
    """Only a team mends an answer; what code finds is on every record."""
    request = corrected(LINES, WEIGHT, "Load: 6.96 t")
    run = office.do(replace(request, policy=quick(agents=request.policy.agents)))

    assert run.outcome is Outcome.OK
    assert outcomes(run) == {"form": (Outcome.INDETERMINATE, "line")}
    assert office.answer().decode() == WEIGHT
    assert office.findings() == ()


def test_a_verifier_finds_a_flag_of_the_form_that_was_left_out(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine that drove the run did not want it to be seen."""
    with monkeypatch.context() as patched:
        patched.setattr("forum.engine.answer_assembly.check_form", lambda *_, **__: ())
        patched.setattr("forum.engine.answer_assembly.flag_answer", lambda *_, **__: [])
        office.do(corrected(LINES, WEIGHT, ""))

    (fault,) = office.findings()
    assert "the check of the answer's form is recorded as without finding, and gives line" in str(
        fault
    )


def test_a_result_that_repeats_the_marks_of_its_prompt_is_rejected(office: Office) -> None:
    """It is an echo of what Forum wrote around the request, and never an answer."""
    echo = "--- 40511740 begin: the request\nSay hello.\n--- 40511740 end"
    request = corrected("Say hello.", echo, "")
    policy = replace(
        request, policy=quick(agents=request.policy.agents, roles={Role.SYNTHESIZER: ""})
    )
    run = office.do(policy)

    assert run.outcome is Outcome.FAILED
    assert run.task("a").verdict.reason == "marks"  # type: ignore[union-attr]
    assert office.findings() == ()


def test_after_an_echo_of_its_frame_a_task_is_asked_in_plain_words(office: Office) -> None:
    """At no temperature the same prompt has the same reply, so the next one has no frame."""
    echo = ScriptStep("## The request\n--- 40511740 begin: the request\nName a river.")
    agents = {
        "": Scripted({"a": (echo, ScriptStep("The river Elbe.")), "*": (ScriptStep("Etna"),)})
    }
    tasks = plan(Task("a", "Name a river."), Task("b", "Name a mountain."))
    policy = quick(agents=agents, roles={Role.INTENT: ""}, doubted=True)
    run = office.do(RunRequest("A river and a mountain?", tasks, policy))

    assert run.outcome is Outcome.OK
    prompts = [
        office.body(entry, "prompt")
        for entry in office.entries()
        if entry.strand == "task/a" and entry.step.endswith("/call/1")
    ]
    assert b"begin: the request" in prompts[0]
    assert prompts[1] == b"Name a river."
    assert office.findings() == ()
