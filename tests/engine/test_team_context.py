"""What the members of a team see, and what follows from what their judges write."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from forum.engine import RouteDecision, RunRequest, accept_run
from forum.ledger.kinds import Outcome
from forum.models import make_model
from forum.runs.acceptance_criteria import Check
from forum.runs.asks import is_echo, is_repetition
from forum.runs.call_rules import CURRENT_RULES
from forum.runs.kinds import Basis, CallFacts, Next, RouteFacts
from forum.runs.plan import Task
from forum.runs.policy import (
    PROMPT_VERSION,
    Agent,
    Chat,
    Command,
    LaneBrief,
    Policy,
    Role,
    Scripted,
    ScriptStep,
)
from forum.runs.prompt import MessageRole
from tests.engine.office import PERSON, RUN, Office, plan
from tests.engine.team import CHIEF, JUDGE, LANES, PLAN, REQUEST, ROLES, YES, order, said, team
from tests.engine.test_replay import play

CHAIN = plan(
    Task("elbe", "How long is the Elbe?", "a length is given", lane="geography"),
    Task("sum", "Add the lengths.", "contains 1094", needs=("elbe",), lane="geography"),
)
DONE = said({"parts": [{"from": "sum", "text": "1094 km"}]})


def agents_with(
    worker: Scripted, judge: Scripted = JUDGE, chief: Scripted = CHIEF
) -> dict[str, Scripted]:
    """Return the agents of a team with these members."""
    return {"": Scripted(), "worker": worker, "judge": judge, "chief": chief}


def moves(agent: Scripted, **steps: tuple[ScriptStep, ...]) -> Scripted:
    """Return an agent with other steps; `at_x` is the role `@x`."""
    named = {name.replace("at_", "@").replace("_2", ".2"): step for name, step in steps.items()}
    return Scripted({**agent.moves, **named}, agent.usd)


def test_a_rejection_goes_back_with_reason_evidence_and_what_is_missing(office: Office) -> None:
    """An author who is told no more than "no" can only guess what to mend."""
    no = {"reason": "No unit.", "evidence": "1094", "passed": False, "missing": ["the unit"]}
    worker = Scripted(
        {"elbe": (ScriptStep("1094"), ScriptStep("1094 km")), "sum": (ScriptStep("1094"),)}
    )
    agents = agents_with(
        worker, moves(JUDGE, elbe=(said(no), said(YES))), moves(CHIEF, at_synthesizer=(DONE,))
    )
    run = office.do(RunRequest(REQUEST, CHAIN, team(agents=agents)))

    assert run.outcome is Outcome.OK
    assert [verdict.next for verdict in run.task("elbe").verdicts] == [Next.RETRY, Next.ACCEPT]
    second = office.prompt("elbe", 2)
    for part in (b"No unit.", b"Evidence in the result: 1094", b"Missing: the unit"):
        assert part in second
    assert office.findings() == ()


def test_a_long_result_goes_back_by_relevance(office: Office) -> None:
    """The context of the model limits what its author sees again, not a number of bytes."""
    long = "The sea is wide and blue. " * 2000 + "\n\nThe Elbe is 1094 units long."
    no = {"reason": "No unit.", "evidence": "", "passed": False, "missing": []}
    worker = Scripted(
        {"elbe": (ScriptStep(long), ScriptStep("1094 km")), "sum": (ScriptStep("1094"),)}
    )
    agents = agents_with(
        worker, moves(JUDGE, elbe=(said(no), said(YES))), moves(CHIEF, at_synthesizer=(DONE,))
    )
    office.do(RunRequest(REQUEST, CHAIN, team(agents=agents)))

    assert b"The Elbe is 1094 units long." in office.prompt("elbe", 2)
    assert office.findings() == ()


def test_a_criterion_that_code_checks_is_explained_too(office: Office) -> None:
    """A result that lacks a demanded text is written again by an author who knows which."""
    worker = Scripted(
        {"elbe": (ScriptStep("1094 km"),), "sum": (ScriptStep("none"), ScriptStep("1094"))}
    )
    agents = agents_with(worker, chief=moves(CHIEF, at_synthesizer=(DONE,)))
    run = office.do(RunRequest(REQUEST, CHAIN, team(agents=agents)))

    assert run.outcome is Outcome.OK
    assert b"The check 'contains' failed" in office.prompt("sum", 1)
    assert b"contains 1094" in office.prompt("sum", 1)


@pytest.mark.parametrize("by_judge", [False, True])
def test_a_prompt_without_a_frame_goes_on_without_one(office: Office, *, by_judge: bool) -> None:
    """A small model repeats frames. The result is its own turn, and only a judge is quoted."""
    worker = Scripted({"a": (ScriptStep("1094"), ScriptStep("1094 km"))})
    no = {"reason": "No unit.", "evidence": "", "passed": False, "missing": []}
    judge = moves(JUDGE, a=(said(no), said(YES)))
    alone = plan(Task("a", REQUEST, "" if by_judge else "contains km", lane="geography"))
    office.do(RunRequest(REQUEST, alone, team(agents=agents_with(worker, judge))))

    sent = [call.turns for call in office.hands.calls if call.step.startswith("attempt")]
    first, second = sent[0], sent[2 if by_judge else 1]
    assert second[: len(first)] == first
    own, note = second[len(first) :]
    assert (own.who, own.text) == (MessageRole.AGENT, b"1094")
    assert (b"---" in note.text) == by_judge
    assert (b"No unit." if by_judge else b"The check 'contains' failed") in note.text
    assert office.findings() == ()


def test_the_validator_sees_what_the_worker_saw(office: Office) -> None:
    """A judge that sees neither request nor inputs can compare with nothing."""
    tasks = plan(
        Task("elbe", "How long is the Elbe?", "contains km", lane="geography"),
        Task("sum", "Add the lengths.", "the sum is right", needs=("elbe",), lane="geography"),
    )
    worker = Scripted({"elbe": (ScriptStep("1094 km"),), "sum": (ScriptStep("in all 1094"),)})
    agents = agents_with(
        worker, moves(JUDGE, sum=(said(YES),)), moves(CHIEF, at_synthesizer=(DONE,))
    )
    office.do(RunRequest(REQUEST, tasks, team(agents=agents)))

    judged = office.prompt("sum", 1)
    for part in (REQUEST, "Add the lengths.", "the sum is right", "1094 km", "in all 1094"):
        assert part.encode() in judged


def test_a_long_result_is_summarized_by_recorded_calls(office: Office, tmp_path: Path) -> None:
    """It is never cut in silence: the reader is told, and the summary is on record."""
    long = "\n\n".join(f"Section {n}. " + "water " * 150 for n in range(300))
    worker = Scripted({"elbe": (ScriptStep(long),), "sum": (ScriptStep("1094"),)})
    chief = moves(CHIEF, at_synthesizer=(DONE,), sum=(ScriptStep("all sections are water"),))
    chief = moves(chief, elbe=(ScriptStep("water"),))
    policy = team(
        agents=agents_with(worker, moves(JUDGE, elbe=(said(YES),)), chief),
        roles={**ROLES, Role.SUMMARIZER: "chief"},
    )
    run = office.do(RunRequest(REQUEST, CHAIN, policy))

    assert run.outcome is Outcome.OK
    roles = [call.called.role for call in run.task("sum").calls]
    assert roles[0] == "summarizer"
    own = office.prompt("sum", roles.index(""))
    assert f"a summary; the whole text has {len(long)} bytes".encode() in own
    assert b"all sections are water" in own
    assert b"water water" not in own
    assert office.findings() == ()
    assert play(office, tmp_path) == []


def test_a_summarizer_that_fails_leaves_an_excerpt_that_says_so(office: Office) -> None:
    """The work goes on with what fits, and the prompt names what is left out."""
    long = "\n\n".join(f"Section {n}. " + "water " * 150 for n in range(300))
    worker = Scripted({"elbe": (ScriptStep(long),), "sum": (ScriptStep("1094"),)})
    broken = (ScriptStep(fail="503"),)
    chief = moves(CHIEF, at_synthesizer=(DONE,), sum=broken, elbe=broken)
    policy = team(
        agents=agents_with(worker, moves(JUDGE, elbe=(said(YES),)), chief),
        roles={**ROLES, Role.SUMMARIZER: "chief"},
    )
    run = office.do(RunRequest(REQUEST, CHAIN, policy))

    own = office.prompt("sum", [c.called.role for c in run.task("sum").calls].index(""))
    assert b"bytes are left out where it says so" in own
    assert b"bytes left out here, beginning" in own
    assert office.findings() == ()


def test_the_ordered_lane_holds_for_every_task(office: Office) -> None:
    """Who orders a specialist gets that one, whatever the Coordinator writes."""
    ordered = RouteDecision(RouteFacts("cooking", Basis.GIVEN))
    run = office.do(replace(order(), route=ordered))

    assert run.outcome is Outcome.OK
    assert office.prompt("elbe").startswith(LANES["cooking"].instructions.encode())
    assert office.prompt("danube").startswith(LANES["cooking"].instructions.encode())
    planning = [
        e for e in office.entries() if e.strand == "role/coordinator" and e.kind == "call/1"
    ]
    assert b"geography" not in office.body(planning[0], "prompt")


def test_a_plan_that_leaves_out_an_ask_is_revised_once(office: Office) -> None:
    """The Coordinator is told what is missing, and its second plan is carried out."""
    gap = {**PLAN, "asks": ["the Elbe", "the Danube"]}
    gap["tasks"] = [{**PLAN["tasks"][0], "covers": [1]}]
    full = {**PLAN, "asks": ["the Elbe", "the Danube"]}
    full["tasks"] = [{**task, "covers": [n]} for n, task in enumerate(PLAN["tasks"], 1)]
    agents = agents_with(
        Scripted({"elbe": (ScriptStep("1094 km"),), "danube": (ScriptStep("2850 km"),)}),
        chief=moves(CHIEF, at_coordinator=(said(gap), said(full))),
    )
    run = office.do(order(agents=agents))

    assert run.outcome is Outcome.OK
    calls = [e for e in office.entries() if e.strand == "role/coordinator" and e.kind == "call/1"]
    assert b"no task covers ask 2: the Danube" in office.body(calls[1], "prompt")
    assert office.findings() == ()


def test_a_plan_that_still_has_the_hole_is_carried_out(office: Office) -> None:
    """Most of an answer is better than none; the check of the answer finds the rest."""
    gap = {"asks": ["the Elbe", "the Danube"], "tasks": [{**PLAN["tasks"][0], "covers": [1]}]}
    agents = agents_with(
        Scripted({"elbe": (ScriptStep("1094 km"),)}),
        chief=moves(CHIEF, at_coordinator=(said(gap), said(gap))),
    )
    run = office.do(order(agents=agents))

    assert run.outcome is Outcome.OK
    assert office.answer() == b"1094 km"


@pytest.mark.parametrize(
    "answer", [REQUEST, REQUEST.upper(), f'"{REQUEST}"'], ids=["same", "case", "quotes"]
)
def test_an_answer_that_repeats_the_request_fails(office: Office, answer: str) -> None:
    """All words of the request occur in it, and it says nothing."""
    document = {"tasks": [PLAN["tasks"][0]]}
    agents = agents_with(
        Scripted({"elbe": (ScriptStep(answer),)}),
        chief=moves(CHIEF, at_coordinator=(said(document),), at_synthesizer_2=(ScriptStep(" "),)),
    )
    run = office.do(order(agents=agents))

    assert run.outcome is Outcome.FAILED
    assert {check.subject: check.outcome for _, check in run.checks} == {
        "coverage": Outcome.INDETERMINATE,
        "intent": Outcome.FAILED,
    }
    assert {(check.check, check.reason) for _, check in run.checks} == {(Check.COVERAGE, "echo")}


def test_a_team_answers_what_it_can_and_has_failed_all_the_same(office: Office) -> None:
    """What one task found is not lost because another failed; the answer says what is missing."""
    partial = said({"parts": [{"from": "elbe", "text": "1094 km; the Danube is missing"}]})
    agents = agents_with(
        Scripted({"elbe": (ScriptStep("1094 km"),), "danube": (ScriptStep("unknown"),)}),
        chief=moves(CHIEF, at_synthesizer=(partial,)),
    )
    run = office.do(order(agents=agents))

    assert run.outcome is Outcome.FAILED
    assert office.answer() == b"1094 km; the Danube is missing [elbe]"
    (call,) = [e for e in office.entries() if e.strand == "role/synthesizer" and e.kind == "call/1"]
    assert b"danube (failed): How long is the Danube?" in office.body(call, "prompt")
    assert office.findings() == ()


def test_a_run_of_the_first_rules_keeps_its_course(office: Office, tmp_path: Path) -> None:
    """It was accepted by an earlier release, and its record is audited by those rules."""
    accept_run(office.ledger, RUN, RunRequest(REQUEST, None, team().with_rules(1)), PERSON)
    run = office.work()

    assert run.outcome is Outcome.OK
    assert office.prompt("elbe").startswith(b"Give lengths in km.\n\nHow long is the Elbe?")
    assert "@intent" not in run.tasks
    assert office.findings() == ()
    assert play(office, tmp_path) == []


def test_prompts_of_another_version_are_taken_from_the_record(
    office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release with other prompts replays what it would word in another way."""
    run = office.do(order())
    assert run.outcome is Outcome.OK
    monkeypatch.setattr("forum.runs.roles.worker.SYSTEM", "Other words.")
    monkeypatch.setattr("forum.runs.roles.validator.SYSTEM", "Other words.")

    (tmp_path / "same").mkdir()
    assert play(office, tmp_path / "same") != []
    monkeypatch.setattr("forum.engine.recorded_runs.PROMPT_VERSION", 99)
    (tmp_path / "other").mkdir()
    assert play(office, tmp_path / "other") == []


def chat(model: str) -> Chat:
    """Return an agent that is this model."""
    return Chat("http://127.0.0.1:9", model)


def test_the_judge_is_another_model_than_the_author_wherever_there_is_one() -> None:
    """A model that judges its own work finds it good; where there is no other, it is said."""
    agents: dict[str, Agent] = {"": chat("a"), "strong": chat("b"), "same": chat("a")}
    policy = Policy(
        agents=agents, roles={Role.VALIDATOR: "same"}, ladder=("", "strong")
    ).with_rules(2)

    assert policy.judge_of(Role.VALIDATOR, [""]) == "strong"
    assert policy.judge_of(Role.VALIDATOR, ["strong"]) == "same"
    assert policy.judge_of(Role.VALIDATOR, ["", "strong"]) == "same"
    assert policy.judge_of(Role.INTENT, [""]) is None
    assert policy.with_rules(1).judge_of(Role.VALIDATOR, [""]) == "same"


def test_no_call_is_recorded_that_the_rules_do_not_have(office: Office) -> None:
    """A team asks each role as often as it needs, and no more."""
    office.do(order())
    calls = [e.facts for e in office.entries() if isinstance(e.facts, CallFacts)]

    assert sorted(call.role for call in calls) == sorted(
        ["", "", "classifier", "coordinator", "intent", "synthesizer", "validator"]
    )


def test_a_scripted_agent_that_nobody_chose_is_no_judge() -> None:
    """It says the same whatever it is shown; and an agent that the run does not use has no key."""
    agents: dict[str, Agent] = {"": Scripted(), "a": chat("a"), "unused": chat("b")}
    policy = Policy(
        agents=agents,
        roles={Role.VALIDATOR: "a"},
        lanes={"x": LaneBrief(agent="a"), "y": LaneBrief(agent="")},
    ).with_rules(2)

    assert policy.judge_of(Role.VALIDATOR, ["a"]) == "a"


def test_the_audit_knows_the_judge_of_an_answer_without_a_synthesizer(office: Office) -> None:
    """The judge depends on who wrote the results that the answer is made of, and no others."""
    agents: dict[str, Agent] = {
        name: Command(("/bin/echo", name, '{"passed": true}')) for name in ("a", "b")
    }
    agents["c"] = Command(("/bin/echo", "c", "rivers"))
    office.hands.model = lambda agent: make_model(Scripted({"*": (said(YES),)}))  # type: ignore[method-assign]
    tasks = plan(Task("first", "x", agent="c"), Task("last", "y", needs=("first",), agent="b"))
    policy = team(agents=agents, roles={Role.INTENT: "a"}, lanes={}, ladder=("a", "c"))
    run = office.do(RunRequest("Say something about rivers", tasks, policy))

    assert run.outcome is Outcome.OK
    assert office.findings() == ()


def test_a_plan_with_a_hole_counts_if_its_revision_is_unusable(office: Office) -> None:
    """The first plan can be carried out, and is better than none."""
    gap = {"asks": ["the Elbe", "the Danube"], "tasks": [{**PLAN["tasks"][0], "covers": [1]}]}
    refusal = ScriptStep("The plan is complete as it is.")
    agents = agents_with(
        Scripted({"elbe": (ScriptStep("1094 km"),)}),
        chief=moves(CHIEF, at_coordinator=(said(gap), refusal)),
    )
    run = office.do(order(agents=agents))

    assert run.outcome is Outcome.OK
    assert office.answer() == b"1094 km"
    assert office.findings() == ()


def test_a_part_that_could_not_be_summarized_is_named(office: Office) -> None:
    """The reader must not take the summary of one part for that of the whole."""
    long = "\n\n".join(f"Section {n}. " + "water " * 150 for n in range(300))
    worker = Scripted({"elbe": (ScriptStep(long),), "sum": (ScriptStep("1094"),)})
    partly = (ScriptStep("the beginning"), ScriptStep(fail="503"))
    chief = moves(CHIEF, at_synthesizer=(DONE,), sum=partly, elbe=(ScriptStep("water"),))
    policy = team(
        agents=agents_with(worker, moves(JUDGE, elbe=(said(YES),)), chief),
        roles={**ROLES, Role.SUMMARIZER: "chief"},
    )
    run = office.do(RunRequest(REQUEST, CHAIN, policy))

    own = office.prompt("sum", [c.called.role for c in run.task("sum").calls].index(""))
    assert b"the beginning" in own
    assert b"bytes, could not be summarized]" in own


@pytest.mark.parametrize(
    ("request_text", "answer", "is_repeated"),
    [
        (
            "Which is longer, the Elbe or the Danube?",
            "Which is longer, the Elbe or the Danube?",
            True,
        ),
        (
            "Which is longer, the Elbe or the Danube?",
            "Which is longer, the Elbe or the Danube? Danube.",
            False,
        ),
        ("What is the sum of 2 and 2?", "What is the sum of 2 and 2? 4.", False),
        ("Hello", "Hello!", False),
    ],
)
def test_an_echo_says_nothing_but_the_request(
    request_text: str, answer: str, *, is_repeated: bool
) -> None:
    """One more word may be the answer."""
    assert is_echo(request_text, answer) == is_repeated


def test_a_statement_meets_the_ask_that_it_turns_around() -> None:
    """It has the words of the ask, because the ask names what to decide."""
    ask = "Say whether the Danube is longer than the Elbe"

    assert not is_repetition("The Danube is longer than the Elbe", ask)
    assert is_repetition("say whether the Danube is longer than the Elbe!", ask)


def _survey() -> str:
    """Return a long request with a section for each of some rivers, the asked ones late."""
    parts = [f"{REQUEST} The notes follow."]
    for river in ("Ems", "Main", "Oder", "Saale", "Weser", "Elbe", "Danube", "Rhine"):
        remarks = [f"Remark {n}: the weather was fair and the water was calm." for n in range(60)]
        remarks[30] = f"Remark 30: the weather was fair, and the code-{river.upper()}. was seen."
        parts += [f"## {river}", *remarks]
    return "\n\n".join([*parts, "Thank you."])


SURVEY = _survey()
HAS_SECTION = {name: f"code-{name.upper()}.".encode() for name in ("Elbe", "Danube", "Rhine")}


def prompts_of(office: Office, run: str = RUN) -> dict[tuple[str, str], bytes]:
    """Return the prompt of each call of a run, by its strand and step."""
    calls = [entry for entry in office.entries(run) if entry.kind == "call/1"]
    return {(call.strand, call.step): office.body(call, "prompt") for call in calls}


def policy_of(version: int, **members: Any) -> Policy:  # noqa: ANN401
    """Return the policy of a team as a run with this version of the prompts records it."""
    policy = team(**members).with_rules(CURRENT_RULES).with_secret(b"s" * 16)
    return msgspec.structs.replace(policy, prompts=version)


def test_a_task_and_its_judge_see_the_part_of_a_long_request_that_it_names(
    office: Office, tmp_path: Path
) -> None:
    """What a plan costs grows with its tasks: only who plans needs the whole request."""
    accept_run(office.ledger, RUN, RunRequest(SURVEY, None, policy_of(PROMPT_VERSION)), PERSON)
    run = office.work()

    assert run.outcome is Outcome.OK
    shown = {
        place: {river for river, words in HAS_SECTION.items() if words in text}
        for place, text in prompts_of(office).items()
    }
    assert shown["role/coordinator", "attempt/1/call/1"] == set(HAS_SECTION)
    worker, judge = ("task/elbe", "attempt/1/call/1"), ("task/elbe", "attempt/1/call/2")
    assert shown[worker] == shown[judge] == {"Elbe"}
    assert shown["task/danube", "attempt/1/call/1"] == {"Danube"}
    assert 4 * len(prompts_of(office)["role/synthesizer", "attempt/1/call/1"]) < len(SURVEY)
    for place in (worker, judge, ("role/synthesizer", "attempt/1/call/1")):
        data = prompts_of(office)[place]
        assert REQUEST.encode() in data
        assert b"bytes are left out where it says so" in data
    assert office.findings() == ()
    assert play(office, tmp_path) == []


def test_a_rejected_task_sees_more_of_the_request_each_time(office: Office) -> None:
    """What its author was not shown may be the reason: first what the judge names, then all."""
    no = {"reason": "The Rhine is missing.", "evidence": "", "passed": False, "missing": []}
    tries = tuple(ScriptStep(f"{n} km") for n in range(3))
    worker = Scripted({"elbe": tries, "danube": (ScriptStep("2850 km"),)})
    agents = agents_with(worker, moves(JUDGE, elbe=(said(no), said(no), said(YES))))
    policy = policy_of(PROMPT_VERSION, agents=agents, retries=2)
    accept_run(office.ledger, RUN, RunRequest(SURVEY, None, policy), PERSON)
    run = office.work()

    assert run.outcome is Outcome.OK
    prompts = prompts_of(office)
    seen = [
        [river for river, words in HAS_SECTION.items() if words in prompts["task/elbe", step]]
        for attempt in (1, 2, 3)
        for step in (f"attempt/{attempt}/call/1", f"attempt/{attempt}/call/2")
    ]
    first, second = ["Elbe"], ["Elbe", "Rhine"]
    whole = list(HAS_SECTION)
    assert seen == [first, first, second, second, whole, whole]
    assert office.findings() == ()


def test_a_task_that_names_no_part_sees_the_whole_request(office: Office) -> None:
    """A part of a text cannot be translated or counted for the whole of it."""
    tasks = plan(
        Task("elbe", "Translate the whole document into French.", lane="geography"),
        Task("danube", "How long is the Danube?", lane="geography"),
    )
    policy = policy_of(PROMPT_VERSION)
    accept_run(office.ledger, RUN, RunRequest(SURVEY, tasks, policy), PERSON)
    office.work()

    assert SURVEY.encode() in office.prompt("elbe")
    assert SURVEY.encode() not in office.prompt("danube")


@pytest.mark.parametrize("request_text", [SURVEY, REQUEST], ids=["long", "short"])
def test_a_run_keeps_the_prompts_of_the_release_that_accepted_it(
    office: Office, tmp_path: Path, request_text: str
) -> None:
    """It goes on after an upgrade. A short request has the same prompts in both versions."""
    for run, version in (("before", 4), ("now", PROMPT_VERSION)):
        request = RunRequest(request_text, None, policy_of(version))
        accept_run(office.ledger, run, request, PERSON)
        assert office.work(run).outcome is Outcome.OK

    before, now = prompts_of(office, "before"), prompts_of(office, "now")
    assert (before == now) == (request_text == REQUEST)
    assert all(request_text.encode() in text for text in before.values())
    assert office.findings() == ()
