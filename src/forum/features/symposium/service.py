"""Sessions of the open protocol: configs and scripts to read, files to derive, replays."""

from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from forum import __version__, errors
from forum.app import Forum
from forum.app.clock_ids_and_kinds import KINDS, OPERATOR, new_run_id, new_salt
from forum.app.formatting import first_line, short_id
from forum.app.reads import read_session_notes
from forum.app.runs import load_claim_finder
from forum.engine import read_run
from forum.features.symposium.artifact import (
    ARTIFACT,
    JOURNAL,
    MANIFEST,
    build_session_files,
    read_recorded_session,
)
from forum.features.symposium.canonical_json import read_json
from forum.features.symposium.decoders import read_artifact, read_config, read_manifest
from forum.features.symposium.kinds import ReplayPin
from forum.features.symposium.provider_calls import FakeScript
from forum.features.symposium.replay import (
    ReplayConditions,
    SessionReplay,
    compute_pins,
    find_unheld_pin,
    record_conditions,
    replay_execution,
    replay_transcript,
    script_conditions,
)
from forum.features.symposium.simulator import build_scripted_panel
from forum.features.symposium.transcript import to_json_object
from forum.ledger.log import Ledger
from forum.ledger.ports import Clock
from forum.runs.panel import Symposium
from forum.runs.policy import Extension, Policy, Scripted
from forum.runs.session_steps import Session, SessionNote

if TYPE_CHECKING:
    from forum.engine import RunRequest

LINK_FILE = "forum.json"
RUNTIME = f"forum {__version__}"
_ADVICE = {
    ReplayPin.RUNTIME: (
        "carry it out again with what has written it; its manifest.json says what that is"
    ),
    ReplayPin.ADAPTER: (
        "say what its calls were answered: --script FILE; or ask where its ledger is"
    ),
    ReplayPin.TRANSCRIPT_PREFIX: (
        "something of its record was erased, or its problem is another one"
    ),
}


class RunLink(msgspec.Struct, frozen=True):
    """The run and the ledger that a folder belongs to."""

    run: str
    origin: str


_link = msgspec.json.Decoder(RunLink)


class FoundSession(msgspec.Struct, frozen=True):
    """A session to be checked: its artifact, and its run if that is in this ledger."""

    name: str
    artifact: bytes
    run: str | None
    runtime: str
    """Name and version of the software that claims to have run it; empty if unknown."""
    folder: Path | None = None
    """Where its artifact is; None if it was derived from the record."""


class ExecutionReplay(msgspec.Struct, frozen=True):
    """The result of executing a session again."""

    replayed: SessionReplay
    conditions: ReplayConditions
    files: Mapping[str, bytes]
    """The files of the session as it was executed now."""
    difference: str = ""
    """How the artifact differs from the ledger, in words; empty if it does not."""

    @property
    def holds(self) -> bool:
        """Whether the execution gave the same session again."""
        return self.replayed.holds and not self.difference


class _StrictYamlLoader(yaml.SafeLoader):
    """YAML restricted to what JSON can express.

    Aliases are rejected because a few nested ones expand to gigabytes, and duplicate keys because
    readers disagree on which one counts.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node; raise for an alias."""
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                problem=f"an alias, *{event.anchor}: write out what it stands for",
                problem_mark=event.start_mark,
            )
        return super().compose_node(parent, index)

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002  theirs
    ) -> dict[Hashable, Any]:
        """Construct a mapping; raise for a duplicate key."""
        names = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in names:
                why = f"{key.value[:64]!r} is there twice"
                raise yaml.MarkedYAMLError(problem=why, problem_mark=key.start_mark)
            names.add(key.value)
        return super().construct_mapping(node, deep)


def read_config_file(data: bytes) -> dict[str, Any]:
    """Read a config in JSON or YAML. Raises `Malformed`."""
    try:
        config = read_json(data, "config")
    # JSON first: YAML rejects JSON's tabs and surrogate pairs.
    except errors.Malformed:
        config = _load_yaml(data)
    if not isinstance(config, dict):
        raise errors.Malformed("config", "it is not an object")
    read_config(config)
    return config


def _load_yaml(data: bytes) -> object:
    try:
        return yaml.load(data, _StrictYamlLoader)  # noqa: S506  a safe one
    except RecursionError:
        raise errors.Malformed("config", "nested too deeply") from None
    # PyYAML raises a plain ValueError for a text that looks like a date and is none: 2026-99-99.
    except (yaml.YAMLError, ValueError) as error:
        raise errors.Malformed("config", str(error)) from None


def read_link(folder: Path) -> RunLink | None:
    """Return the run that a folder belongs to, or None."""
    try:
        return _link.decode((folder / LINK_FILE).read_bytes())
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
        return None


def locate_artifact(path: Path) -> Path:
    """Return the path of an artifact, given the file or its folder.  Raises `NoSuchSession`."""
    if not path.exists():
        raise errors.NoSuchSession(str(path), "no such file", "RUN")
    if not path.is_dir():
        return path
    if not (path / ARTIFACT).exists():
        link = read_link(path)
        run = first_line(short_id(link.run), 40) if link else "RUN"
        raise errors.NoSuchSession(str(path), f"it has no {ARTIFACT}", run)
    return path / ARTIFACT


def read_runtime(folder: Path) -> str:
    """Return the software that the manifest in a folder names, or ""."""
    try:
        producer = read_manifest((folder / MANIFEST).read_bytes()).producer
    except (OSError, errors.Malformed):
        return ""
    return f"{producer.name} {producer.version}"


class SymposiumOperations:
    """Derives the files of sessions from the ledger, and executes sessions again."""

    def __init__(self, forum: Forum) -> None:
        self._project, self._reads = forum, forum.reads
        self._runs = forum.runs

    def files(self, run: str) -> dict[str, bytes]:
        """Return the files of a session, derived from the ledger. Raises `BodyGone`."""
        return _derive_files(
            run, self._reads.read_session(run), read_session_notes(self._project.ledger, run)
        )

    def find_at(self, file: Path, name: str) -> FoundSession:
        """Return the session whose artifact is this file."""
        link = read_link(file.parent)
        run = link.run if link and self._is_in_ledger(link) else None
        return FoundSession(
            name, file.read_bytes(), run, read_runtime(file.parent), folder=file.parent
        )

    def _is_in_ledger(self, link: RunLink) -> bool:
        """Return whether the linked run is a symposium in this ledger, which may not exist.

        The link is not trusted: a folder from elsewhere may name any run.
        """
        try:
            present = link.origin == self._project.origin and bool(
                self._project.store.strands(link.run)
            )
            return present and isinstance(
                self._reads.read_run_request(link.run).policy.panel, Symposium
            )
        except errors.BodyGone:
            return True  # the code that needs the erased body reports it
        except (errors.NoLedger, errors.NoSuchEntry):
            return False

    def execute_again(
        self,
        source: FoundSession,
        script: FakeScript | None = None,
        selector: FakeScript | None = None,
    ) -> ExecutionReplay:
        """Execute a session again, from its script or from the record of its run.

        No agent is called. Raises `PinningViolation` if a pin cannot be held, and then executes
        nothing; `Malformed` if the artifact or the script cannot be read.
        """
        if script is not None:
            return _execute_script(source, script, selector)
        if source.run is not None:
            return self._execute_record(source, source.run)
        read_artifact(source.artifact)
        raise _violation(ReplayPin.ADAPTER if source.runtime == RUNTIME else ReplayPin.RUNTIME)

    def _execute_record(self, source: FoundSession, run: str) -> ExecutionReplay:
        session = self._reads.read_session(run)
        # The artifact may differ from the record, so its pins are computed from its own config.
        was = compute_pins(_session_in(source, session), source.runtime)
        now = compute_pins(session, RUNTIME)
        if pin := find_unheld_pin(_fixed_by_record(was), _fixed_by_record(now)):
            raise _violation(pin)
        executed: dict[str, bytes] = {}

        def keep_files(scratch: Ledger) -> None:
            executed.update(_derive_files(run, session, read_session_notes(scratch, run)))

        try:
            parted = self._runs.replay(run, keep_files)
        except errors.ReplayMiss:
            raise _violation(ReplayPin.TRANSCRIPT_PREFIX) from None
        files = self.files(run)
        replayed = replay_transcript(source.artifact, read_journal(files))
        why = (
            f"the engine differs from it at {parted[0].strand}, {parted[0].step}" if parted else ""
        )
        if not why and files[ARTIFACT] != source.artifact:
            why = "it is not what the ledger says"
        conditions = record_conditions(was, has_manifest=source.folder is not None)
        return ExecutionReplay(replayed, conditions, executed, why)


def hold_unrecorded(request: "RunRequest", clock: Clock) -> dict[str, bytes]:
    """Hold a session under a made-up clock, and return its files; nothing of it is kept.

    The engine drives it in a ledger of its own, which is deleted: a log must not hold made-up
    times. So only functions and scripts can take part, which cost nothing. Raises `BadPlan`.
    """
    import asyncio
    from tempfile import TemporaryDirectory

    from forum.engine import Engine, LocalRunner, accept_run
    from forum.models import make_model, open_tools
    from forum.stores.sqlite import SqliteStore

    for name in sorted(request.policy.panel.speakers if request.policy.panel else ()):
        agent = request.policy.agents[name]
        if not isinstance(agent, Extension | Scripted) or agent.usd:
            raise errors.BadPlan(
                f"clock: {name!r} costs money, and nothing is recorded under a made-up clock; "
                "use functions or a script"
            )

    async def drive(ledger: Ledger, run: str) -> None:
        accept_run(ledger, run, request, OPERATOR)
        engine = Engine(
            ledger, make_model, open_tools, real_time=False, find_claims=load_claim_finder()
        )
        runner = LocalRunner(engine)
        runner.enqueue_run(run)
        await runner.wait_until_idle()

    with TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "session.db", "forum.invalid/unrecorded")
        try:
            ledger, run = Ledger(store, KINDS, clock, new_salt), new_run_id()
            asyncio.run(drive(ledger, run))
            session = Session(request.request, request.policy, read_run(ledger, run).begun)
            return _derive_files(run, session, read_session_notes(ledger, run))
        finally:
            store.close()


def _derive_files(run: str, session: Session, notes: Iterable[SessionNote]) -> dict[str, bytes]:
    try:
        return dict(build_session_files(read_recorded_session(session, notes), __version__))
    except KeyError as missing:
        raise errors.BodyGone(f"run {run}", str(missing.args[0])) from None


def read_journal(files: Mapping[str, bytes]) -> list[bytes]:
    """Return the messages of a session's journal."""
    return files[JOURNAL].splitlines()


def _violation(pin: ReplayPin) -> errors.PinningViolation:
    advice = _ADVICE.get(pin, "what it depended on then is not what is here now")
    return errors.PinningViolation(pin.value, advice)


def _fixed_by_record(pins: Mapping[ReplayPin, str]) -> dict[ReplayPin, str]:
    """Return pins in which those that no model can fix are fixed by the record."""
    return {pin: value or "recorded" for pin, value in pins.items()}


def _session_in(source: FoundSession, session: Session) -> Session:
    """Return a session with the config and the problem of its artifact."""
    artifact = read_artifact(source.artifact)
    panel = session.policy.panel
    assert isinstance(panel, Symposium)  # noqa: S101  who found the session checked the type
    stated = msgspec.structs.replace(panel, config=to_json_object(artifact.config))
    policy = msgspec.structs.replace(session.policy, panel=stated)
    return msgspec.structs.replace(
        session, problem=artifact.config.problem_statement, policy=policy
    )


def _execute_script(
    source: FoundSession, script: FakeScript, selector: FakeScript | None
) -> ExecutionReplay:
    """Execute a session again by its script, and compare each message."""
    config = read_artifact(source.artifact).config
    panel, agents = build_scripted_panel(
        to_json_object(config), config.problem_statement, script, selector
    )
    session = Session(config.problem_statement, Policy(agents=agents, panel=panel), 0)
    if pin := find_unheld_pin(
        compute_pins(session, source.runtime), compute_pins(session, RUNTIME)
    ):
        raise _violation(pin)
    replayed = replay_execution(session, source.artifact, script, selector)
    assert replayed.executed is not None  # noqa: S101  it was just executed
    files = dict(build_session_files(replayed.executed, __version__))
    return ExecutionReplay(replayed, script_conditions(), files)
