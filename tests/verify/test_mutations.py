"""Whatever is altered in the record of a session is found, but for what nobody can know.

Here nobody thinks of a fraud: every fact, body, type, cause, actor, step and time is replaced, and
every entry left out, written twice, cut off and swapped.  What may pass is a list, with reasons.
"""

from forum.app.clock_ids_and_kinds import KINDS
from forum.verify.session_audit import audit_session
from tests.verify.forging import Story, minutes_of
from tests.verify.honest import recorded
from tests.verify.mutating import Mutation, mutations

SESSIONS = (
    "divided",
    "a symposium with everything",
    "agreed at the gate",
    "a seat fails",
    "a malformed reply",
    "a judge",
    "a tool",
    "seventeen seats",
    "no money left",
    "no money",
    "no time",
    "cancelled",
    "no more calls for a seat",
    "an answer that claims something",
    "a route",
    "a call that was lost",
    "a fork",
    "a symposium without money",
    "a symposium without time",
)

TOLD = ("reply/1", "reply/1, not ok")
ENGINE = {
    *("run.open/1", "accepted/1", "route/1", "stop/1", "answer/1", "run.close/1", "join/1"),
    *("cancel/1", "control.close/1", "call/1", "intent/1", "verdict/1", "skip/1", "ballot/1"),
    *("council/1", "baseline/1", "reveal/1", "council.close/1"),
    *("panel/1", "message/1", "symposium.close/1"),
}
CONFIG = "policy.panel.config."
OF_MODELS = ("model", "provider")

FREE: dict[str, dict[str, set[str]]] = {
    "clocks differ; a symposium binds the times of its request and its replies": {
        kind: {"ts"} for kind in (*ENGINE, *TOLD, "outcome/1")
    },
    "what is done at the same time has no order": {"two strands": {"swapped"}},
    "whoever took the request on says for whom, and how it was routed": {
        "accepted/1": {"depth", "parent_run", "parent_task", "fork_run", "fork_index"},
        "route/1": {
            *("lane", "basis", "confidence", "runner_up", "margin", "roster"),
            *("body evidence", "left out"),
        },
        "cancel/1": {"actor"},
    },
    "a limit that was not met could have been another one": {
        "accepted/1": {
            *("usd", "tokens", "calls", "milliseconds", "policy.turns", "policy.repeats"),
            *("policy.input_bytes", "policy.panel.threshold"),
            *(f"{CONFIG}budget.max_total_{what}" for what in ("cost_usd", "tokens")),
            f"{CONFIG}budget.max_wallclock_seconds",
        },
    },
    "no step of a session follows from it": {
        "accepted/1": {
            *("policy.agents", "policy.backoff_milliseconds", "policy.parallel", "policy.retries"),
            *("policy.gate_default", "policy.gate_milliseconds"),
            # They are about tasks, and answers to them.
            *("policy.marks", "policy.doubted", "policy.panel.require"),
            *(f"{CONFIG}{who}.{what}" for who in ("agents", "coordinator") for what in OF_MODELS),
            *(f"{CONFIG}problem_statement", f"{CONFIG}session_id"),
        },
    },
    "a session names no version of rules and prompts, and follows the first": {
        "accepted/1": {"policy.prompts", "policy.rules"}
    },
    "nobody was asked, so nobody was told": {"accepted/1": {"body request"}},
    "what a call can cost, and who answers, is the word of whoever sells it": {
        "call/1": {"model", "usd", "tokens"},
        **{k: {"model", "prices", "input_tokens", "milliseconds", "pause"} for k in TOLD},
    },
    "how it went is the word of an agent's system": {
        "reply/1": {"why", "code", "body uses", "body error"},
        "reply/1, not ok": {"outcome", "why", "code", "body uses", "body error", "body output"},
        "outcome/1": {"why", "code", "body result", "body error"},
    },
    "what has cost nothing may have been said here, or in the run that is forked": {
        "reply/1": {"source"}
    },
    "what was under way then is told within bounds": {"stop/1": {"body spent"}},
    "nothing shows an error of the engine": {"stop/1": {"reason"}},
    "by which words a claim is recognised is the business of engines": {
        "answer/1": {"body claims"}
    },
    "a run that is not closed may go on": {
        "answer/1": {"cut off"},
        "run.close/1": {"cut off", "left out"},
        "join/1": {"cut off"},
    },
    "it is checked in every run, with strands and checkpoints": {
        "run.open/1": {"after_size", "after_root"},
        "answer/1": {"swapped"},
        "run.close/1": {"strands", "body strands"},
    },
    "the list of strands names what a close follows from": {"run.close/1": {"parents"}},
}
"""What may be altered without a finding, somewhere, and why: nobody else knows it."""


def test_whatever_is_altered_is_found() -> None:
    """Unless it is on the list; and the list holds nothing that is found everywhere."""
    done: set[object] = set()
    free = {
        (mutation.kind, mutation.what)
        for name in SESSIONS
        for mutation in mutations(recorded(name), done)
        if not _is_told(recorded(name), mutation)
    }
    listed = [(kind, what) for kinds in FREE.values() for kind in kinds for what in kinds[kind]]

    assert sorted(free) == sorted(listed)


def _is_told(story: Story, mutation: Mutation) -> bool:
    """Tell whether a verifier finds a change, or says that it could not check everything."""
    altered = story.copy()
    mutation.make(altered)
    session_audit = audit_session(minutes_of(altered), KINDS)
    return bool(session_audit.faults or session_audit.not_checked)
