"""Sessions of the open protocol symposium from Python: `forum.symposium`.

`run` holds a session and records it; `replay` executes the session of a folder again.  Agents are
functions of the program, agents of `forum.toml`, models of the config whose provider's variables
are set, or a script of the protocol.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

import msgspec

from forum import errors
from forum.app import Forum, write_files
from forum.app.extensions import register_agent
from forum.app.planner import AgentRegistry, CallerAuthority
from forum.config import load_settings
from forum.engine import RunRequest
from forum.errors import PinningViolation
from forum.features.recorder.named_parts import find_agent
from forum.features.symposium import schemas
from forum.features.symposium.artifact import ARTIFACT, MANIFEST
from forum.features.symposium.decoders import read_artifact, read_config, read_script
from forum.features.symposium.kinds import OutcomeKind, Reason, ReplayPin
from forum.features.symposium.provider_calls import FakeScript
from forum.features.symposium.service import (
    LINK_FILE,
    RunLink,
    SymposiumOperations,
    hold_unrecorded,
    locate_artifact,
    read_config_file,
)
from forum.features.symposium.simulator import build_scripted_panel
from forum.features.symposium.transcript import message_text, message_type, pending_request
from forum.runs.panel import Symposium
from forum.runs.plan import RunBudget, read_limits
from forum.runs.policy import Agent
from forum.runs.symposium_end import MessageType

__all__ = [
    "PinningViolation",
    "SymposiumArguments",
    "SymposiumMessage",
    "SymposiumReplay",
    "SymposiumResult",
    "fixed_clock",
    "replay",
    "run",
]

T = TypeVar("T")
ReplyFunction = Callable[[str], Any]
Document = Mapping[str, Any] | str | Path
_STOP_SECONDS = 30


class SymposiumMessage(msgspec.Struct, frozen=True):
    """A message of the transcript."""

    id: str
    round: int
    speaker: str
    type: MessageType
    text: str


class SymposiumResult(msgspec.Struct, frozen=True):
    """How a session ended."""

    session: str
    run: str | None
    """The run that records it; None under a made-up clock, where nothing is recorded."""
    outcome: OutcomeKind
    reason: Reason | None
    """Why there is no answer; None if there is one."""
    answer: str | None
    dissent: tuple[schemas.UnresolvedDisagreement, ...]
    """What the panel left open: each topic with the positions of the agents."""
    question: str | None
    """What the panel has to know first, if it has ended with a question."""
    digest: str
    """SHA-256 of the canonical transcript."""
    usage: schemas.MessageUsage
    """Tokens and cost of all messages."""
    messages: tuple[SymposiumMessage, ...]
    artifact: bytes
    """The artifact of the protocol, as its file."""
    folder: Path | None
    """Where its files are; None without `output`."""


class SymposiumReplay(msgspec.Struct, frozen=True):
    """The result of executing a session again."""

    holds: bool
    """Whether the same session came of it."""
    digest: str
    """The digest of the transcript now."""
    stored: str
    """The digest that the artifact states."""
    first_difference: str
    """The first message that differs, or how the ledger differs; empty if nothing does."""
    conditions_checked: tuple[ReplayPin, ...]
    """Pins that two sources state, and state the same."""
    conditions_assumed: tuple[ReplayPin, ...]
    """Pins that were taken over from the record, the script or the artifact."""


class SymposiumArguments(TypedDict, total=False):
    """The options of `symposium.run`."""

    problem: str
    """Takes the place of the config's `problem_statement`."""
    script: Document | None
    """A `fake_provider_script` that answers all calls, as a mapping or a file."""
    selector_script: Document | None
    """The replies to the choice of the panel, if they are apart."""
    output: str | Path | None
    """Where to write the folder of the session, named after its id; it must not exist."""
    project: str | Path
    """The folder of the project whose ledger records the session; the current one."""
    clock: Callable[[], int] | None
    """A made-up clock for tests, such as `fixed_clock(...)`: the session is held, and nothing of it
    is recorded.  Only functions without a cost and scripts can take part."""
    usd: float | str | None
    """The most that the session may cost, in dollars, within the budget of the config."""


def run(
    config: Document,
    agents: Mapping[str, ReplyFunction | str] | ReplyFunction | None = None,
    **options: Unpack[SymposiumArguments],
) -> SymposiumResult:
    """Hold a session, record it, and return how it ended.

    `config` is a config of the protocol: a mapping, or a file in YAML or JSON.  `agents` says who
    speaks for each id of the config: a function from a prompt to a reply (a text, or what becomes
    JSON), or the name of an agent of `forum.toml`; one function alone speaks for all.  Ids that are
    not named are served by `forum.toml`, or by the model of the config if its provider is `openai`
    or `anthropic` and the provider's variables are set.  See `SymposiumArguments`.  Raises
    `BadPlan`, `Malformed`, `AgentUnusable`, and `FileExistsError` for an `output` that is taken.
    """
    for name in options.keys() - SymposiumArguments.__annotations__.keys():
        raise TypeError(f"symposium.run() has no option {name!r}")
    return _outside_event_loop(lambda: _run(_read_config(config), agents, options))


def replay(
    folder: str | Path,
    *,
    script: Document | None = None,
    selector_script: Document | None = None,
    project: str | Path = ".",
) -> SymposiumReplay:
    """Execute the session of a folder again, from its run or from a script, and compare the two.

    No agent is called.  Raises `PinningViolation`, which names the `pin` that cannot be held, and
    then executes nothing; `NoSuchSession` if there is no artifact; `Malformed` if it cannot be
    read.
    """

    def execute() -> SymposiumReplay:
        file = locate_artifact(Path(folder))
        with Forum(load_settings(Path(project), os.environ)) as opened:
            run_id = SymposiumOperations(opened).find_at(file, str(folder))
            played = SymposiumOperations(opened).execute_again(
                run_id, _read_script(script), _read_script(selector_script)
            )
        return SymposiumReplay(
            holds=played.holds,
            digest=played.replayed.digest,
            stored=played.replayed.stored,
            first_difference=played.replayed.parted or played.difference,
            conditions_checked=played.conditions.checked,
            conditions_assumed=played.conditions.assumed,
        )

    return _outside_event_loop(execute)


def fixed_clock(at: str | datetime, step: float = 0) -> Callable[[], int]:
    """Return a clock for tests: it begins at a time, and advances by `step` seconds a reading."""
    begun = datetime.fromisoformat(at) if isinstance(at, str) else at
    if begun.tzinfo is None:
        begun = begun.replace(tzinfo=UTC)
    moment = (begun - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)

    def tell() -> int:
        nonlocal moment
        now, moment = moment, moment + round(1e6 * step)
        return now

    return tell


def _run(
    config: dict[str, Any],
    agents: Mapping[str, ReplyFunction | str] | ReplyFunction | None,
    options: SymposiumArguments,
) -> SymposiumResult:
    problem = options.get("problem") or str(config["problem_statement"])
    folder = _reserve_folder(config, options.get("output"))
    try:
        with Forum(load_settings(Path(options.get("project", ".")), os.environ)) as opened:
            registry = AgentRegistry(opened.settings)
            panel, own = _seat(config, problem, agents, options)
            policy = registry.current_policy()
            policy = msgspec.structs.replace(policy, agents={**policy.agents, **own})
            budget = _read_budget(options.get("usd"))
            request = registry.decide(
                RunRequest(problem, None, policy, budget), CallerAuthority.OPERATOR, panel=panel
            )
            clock = options.get("clock")
            if clock is not None:
                run_id, files = None, hold_unrecorded(request, clock)
            else:
                run_id = _hold(opened, request)
                files = SymposiumOperations(opened).files(run_id)
                link = RunLink(run_id, opened.origin)
                files[LINK_FILE] = msgspec.json.encode(link) + b"\n"
        if ARTIFACT not in files:
            raise errors.RunNotEnded(run_id or "the session")
        if folder is not None:
            names = sorted(files, key=lambda name: (name != LINK_FILE, name == MANIFEST))
            write_files(folder, {name: files[name] for name in names})
        return _result(files[ARTIFACT], run_id, folder)
    finally:
        # Empty if the session was not held; it would block the next attempt.
        if folder is not None and not any(folder.iterdir()):
            folder.rmdir()


def _read_budget(usd: float | str | None) -> RunBudget:
    try:
        return read_limits({"usd": usd})
    except ValueError as error:
        raise errors.BadPlan(f"symposium.run.{error}") from None


def _hold(opened: Forum, request: RunRequest) -> str:
    """Record and drive a session, and return its run."""
    opened.keys.initialise()
    # Before the run is accepted: its time limit counts from then on.
    with opened.runs.run_worker(patience=_STOP_SECONDS):
        run_id = opened.runs.submit(request)
        opened.reads.follow_run(run_id)
    return run_id


def _seat(
    config: dict[str, Any],
    problem: str,
    agents: Mapping[str, ReplyFunction | str] | ReplyFunction | None,
    options: SymposiumArguments,
) -> tuple[Symposium, dict[str, Agent]]:
    """Return the panel, and the agents that the program brings along.  Raises `BadPlan`."""
    script = _read_script(options.get("script"))
    if script is not None:
        if agents is not None:
            raise errors.BadPlan("a script answers all calls: leave out the agents")
        selector = _read_script(options.get("selector_script"))
        return build_scripted_panel(config, problem, script, selector)
    parsed = read_config(config)
    ids = [entry.id for entry in (*parsed.agents, parsed.coordinator)]
    named = agents if isinstance(agents, Mapping) else dict.fromkeys(ids, agents)
    for name in named.keys() - set(ids):
        raise errors.BadPlan(f"the config has no agent {name!r}; it has: {', '.join(ids)}")
    speaking: dict[str, str] = {}
    own: dict[str, Agent] = {}
    for name, speaker in named.items():
        if isinstance(speaker, str):
            speaking[name] = speaker
        elif speaker is not None:
            speaking[name] = name
            decorated = find_agent(speaker)
            own[name] = (
                decorated.agent
                if decorated is not None
                else register_agent(f"symposium-{name}", speaker, usd=0, tokens=0)
            )
    return Symposium(config, speaking), own


def _read_config(config: Document) -> dict[str, Any]:
    if isinstance(config, Mapping):
        read_config(config)
        return dict(config)
    return read_config_file(Path(config).read_bytes())


def _read_script(script: Document | None) -> FakeScript | None:
    if script is None:
        return None
    return read_script(script if isinstance(script, Mapping) else Path(script).read_bytes())


def _reserve_folder(config: Mapping[str, Any], output: str | Path | None) -> Path | None:
    """Create the folder of a session, so that no other session can.  Raises `FileExistsError`."""
    if output is None:
        return None
    session = str(config["session_id"])
    if session != Path(session).name or session.startswith(".") or not session.isprintable():
        raise errors.Malformed("session_id", "it has to be the name of a folder")
    folder = Path(output) / session
    Path(output).mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        raise FileExistsError(
            f"{folder} holds a session already. Give another session_id or another output."
        ) from None
    return folder


def _result(data: bytes, run_id: str | None, folder: Path | None) -> SymposiumResult:
    artifact = read_artifact(data)
    ending = (
        artifact.outcome.termination_artifact
        if isinstance(artifact.outcome, schemas.TerminationOutcome)
        else None
    )
    last = artifact.canonical_transcript[-1]
    return SymposiumResult(
        session=artifact.session_id,
        run=run_id,
        outcome=OutcomeKind.TERMINATION if ending else OutcomeKind.SYNTHESIS,
        reason=ending.reason if ending else None,
        answer=last.content.integrated_answer if isinstance(last, schemas.Synthesis) else None,
        dissent=artifact.cumulative_unresolved,
        question=pending_request(ending),
        digest=artifact.transcript_digest,
        usage=artifact.cumulative_usage,
        messages=tuple(
            SymposiumMessage(
                message.id,
                message.round,
                message.speaker,
                type=message_type(message),
                text=message_text(message),
            )
            for message in artifact.canonical_transcript
        ),
        artifact=data,
        folder=folder,
    )


def _outside_event_loop(function: Callable[[], T]) -> T:
    """Call a function in a thread if an event loop runs here: a worker starts a loop of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return function()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()
