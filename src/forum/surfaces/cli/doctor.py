"""`forum doctor`: check this installation and print a remedy for each problem.

It writes nothing and creates no key, ledger or witness. A database that is not known to hold a log
of this project is opened in a read-only session. A check that fails with an error becomes a
finding, so that the other checks still run.
"""

import os
import shlex
import shutil
import stat
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from forum import __version__, app, errors, platform_calls, tlog
from forum.app import planner as planning
from forum.app.checked_clock import CheckedClock, ClockSkew
from forum.app.clock_ids_and_kinds import read_ticks
from forum.app.formatting import pluralize, strip_control_characters
from forum.config import PROJECT_FILE, Settings, list_secret_files
from forum.feature import place_parts
from forum.features import FEATURES
from forum.installation import install_command
from forum.ledger.log import check_strand_head
from forum.ledger.own_entries import REMEMBERED_STRANDS
from forum.ledger.ports import EntryReader, Store, StoreProbe
from forum.runs.cli_agents import CliAgent, cli_agent_of
from forum.runs.model_weights import MINILM, SMOLLM2
from forum.runs.policy import Command, McpServer, ToolSpec, model_of
from forum.runs.shared_tasks import run_of
from forum.surfaces.cli import EXIT_FAILED, common_options
from forum.surfaces.cli.config import mask_passwords
from forum.surfaces.cli.console import echo, style
from forum.surfaces.cli.output import print_json, terminal_width
from forum.units import format_age

_MINUTE = 60_000_000
_RECENT_ENTRIES = 1000
"""How many entries are looked at for times in the future."""
_UNSIGNED_US = 3_000_000
"""Age of an entry, in microseconds, at which it should have been signed."""
_LOW_DISK_BYTES, _MIN_DISK_BYTES = 1 << 30, 100 << 20
"""Free disk space, in bytes, below which a warning or a problem is reported."""
_MAX_COUNTED = 10_000
_READ_ONLY = "-c default_transaction_read_only=on"
_LABEL_WIDTH = 12

EXTRAS = {
    "postgres": (("psycopg", "psycopg_pool"), "a ledger in Postgres, for many machines"),
    "archive": (("obstore",), "archives in buckets"),
    "otel": (("opentelemetry.proto",), "OpenTelemetry, in and out"),
    "mcp": (("mcp",), "tools of MCP servers, and Forum as one"),
    "agents": (("pydantic_ai",), "every model that pydantic-ai reaches"),
    "semantic": (("numpy",), "routing by what a request means"),
    "dbos": (("dbos", "psycopg"), "workers whose runs DBOS assigns"),
    "temporal": (("temporalio",), "workers whose runs a Temporal server assigns"),
    "demo": (("xllamacpp",), "a real, very small model for `forum demo team`"),
}

_WEIGHTS = {"semantic": MINILM.name, "demo": SMOLLM2.name}
"""The weights that an extra needs; `forum models pull` installs them."""


class DoctorState(StrEnum):
    """What a check came to."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


_MARKS = {
    DoctorState.OK: ("✓", "green"),
    DoctorState.WARNING: ("!", "yellow"),
    DoctorState.PROBLEM: ("✗", "red"),
}


class DoctorFinding(msgspec.Struct, frozen=True):
    """The result of one check, with a remedy if it is not ok."""

    check: str
    state: DoctorState
    found: str
    next: str | None = None


def _ok(check: str, text: str) -> DoctorFinding:
    return DoctorFinding(check, DoctorState.OK, text)


def _warn(check: str, text: str, step: str) -> DoctorFinding:
    return DoctorFinding(check, DoctorState.WARNING, text, step)


def _problem(check: str, text: str, step: str) -> DoctorFinding:
    return DoctorFinding(check, DoctorState.PROBLEM, text, step)


class MachineRole(StrEnum):
    """What a machine does for a log; the checks that it needs follow from this."""

    NEW = "new"
    """There is no log here yet."""
    SIGNER = "signer"
    """It has the key that signs the log."""
    WRITER = "writer"
    """It adds entries that another machine signs: servers and workers."""
    READER = "reader"
    """It has the public key only."""
    GATEWAY = "gateway"
    """It relays calls of other programs; beside one of the others."""


_ROLE_TEXTS = {
    MachineRole.NEW: "no log is here yet",
    MachineRole.SIGNER: "it has the key that signs the log",
    MachineRole.WRITER: "it adds entries as server or worker; another machine signs them",
    MachineRole.READER: "it reads, and cannot write: there is no write.key",
    MachineRole.GATEWAY: "it relays calls of programs to providers",
}


@dataclass
class Installation:
    """The installation under test, opened only as far as possible without changing anything."""

    settings: Settings
    origin: str = ""
    """Name of the log, once its key was read."""
    store: Store | None = None
    """The store, once it was opened."""

    @cached_property
    def forum(self) -> app.Forum:
        """The ledger of the current directory."""
        # Registering the project would write to the state directory, and a check changes nothing.
        return app.Forum(self.settings, register=False)

    @cached_property
    def role(self) -> MachineRole:
        """What this machine does, by the keys that it has or remembers."""
        settings = self.settings
        has_ledger = settings.ledger_file.exists() and not settings.database
        if settings.key_file.is_file() or has_ledger:
            return MachineRole.SIGNER
        with suppress(errors.NoLedger, errors.KeyUnreadable):
            try:
                self.forum.origin  # noqa: B018  raises if this machine remembers a key
            except (errors.LogKeyMissing, errors.LogKeyChanged):
                return MachineRole.SIGNER
        # Either file is enough: where one of them was lost, no new log may be begun.
        if settings.write_key_file.is_file():
            return MachineRole.WRITER
        return MachineRole.READER if settings.public_key_file.is_file() else MachineRole.NEW

    @property
    def roles(self) -> frozenset[MachineRole]:
        """The role of this machine, and that of a gateway if it is one."""
        is_gateway = "gateway" in self.settings.sections
        return frozenset({self.role, MachineRole.GATEWAY} if is_gateway else {self.role})

    def choose_step(self, on_signer: str, elsewhere: str) -> str:
        """Return the remedy that fits: a log is begun only where it is signed."""
        may_sign = self.role in {MachineRole.SIGNER, MachineRole.NEW}
        return on_signer if may_sign else elsewhere

    @cached_property
    def memory_dir(self) -> Path:
        """Where this machine keeps its memory of the log: beside the local policy."""
        return app.Forum(replace(self.settings, policy=None)).policy_file.parent

    def open_store(self) -> Store | None:
        """Open the store of an existing log; return None where opening would create one."""
        if not self.origin:
            return None
        if self.settings.database:
            try:
                with self.forum.open_reader():  # it adds no log
                    return self.forum.store
            except errors.NoSuchLog:
                return None
        if not self.settings.ledger_file.exists():
            return None
        with self.forum.open_reader():  # raises for a file that does not hold this log
            pass
        return self.forum.store


@common_options.command(examples=("forum doctor", "forum doctor --json"))
@common_options.as_json
def doctor(*, as_json: bool) -> None:
    """Check this installation: files, key, database, witnesses, workers, models, extras.

    Nothing is written, and no model is called.  Each problem is printed with its remedy.

    Exit status: 0 no problem (there may be warnings), 1 a problem.
    """
    findings = list(run_doctor_checks(common_options.current_settings))
    broken = sum(finding.state is DoctorState.PROBLEM for finding in findings)
    doubtful = sum(finding.state is DoctorState.WARNING for finding in findings)
    if as_json:
        print_json("forum.doctor/1", {"ok": not broken, "checks": findings})
    else:
        for finding in findings:
            echo(*_lines(finding, terminal_width()))
        words = [pluralize(broken, "problem")] if broken else []
        words += [pluralize(doubtful, "warning")] if doubtful else []
        echo("", ", ".join(words) or "no problems", err=True)
    raise SystemExit(EXIT_FAILED if broken else 0)


def _lines(finding: DoctorFinding, columns: int) -> list[str]:
    mark, color = _MARKS[finding.state]
    room = columns - _LABEL_WIDTH - 3
    wrapped = [
        part
        for line in strip_control_characters(finding.found).split("\n")
        for part in textwrap.wrap(line, room, break_long_words=False, break_on_hyphens=False)
    ]
    head, *rest = wrapped or [""]
    lines = [f"{style(mark, fg=color)} {finding.check:<{_LABEL_WIDTH}} {head}"]
    lines += [f"{'':{_LABEL_WIDTH + 2}} {line}" for line in rest]
    # Commands to type must not be wrapped, so they are broken between steps.
    first, *then = strip_control_characters(finding.next or "").split(", then: ")
    if first:
        lines.append(f"{'':{_LABEL_WIDTH + 2}} {style(f'→ {first}', fg=color)}")
    lines += [f"{'':{_LABEL_WIDTH + 4}} {style(f'then: {step}', fg=color)}" for step in then]
    return lines


def run_doctor_checks(load: Callable[[], Settings]) -> Iterator[DoctorFinding]:
    """Run all checks and yield their findings; a failing check does not stop the others."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield _ok("python", f"{version} ({sys.executable}), forumd {__version__}")
    yield _check_platform()
    try:
        settings = load()
    except (errors.ForumError, OSError) as error:
        file = error.path if isinstance(error, errors.BadSettings) else PROJECT_FILE
        yield _problem("project", str(error), f"correct {file}, then: forum doctor")
    else:
        context = Installation(settings)
        with closing(context.forum):
            yield from _run_check("machine", partial(_describe_machine, context))
            for check in all_checks():
                if check.roles & context.roles:
                    yield from _run_check(check.name, partial(check.run, context))
    yield from _run_check("extras", _check_extras)


def _run_check(name: str, check: Callable[[], Iterable[DoctorFinding]]) -> list[DoctorFinding]:
    """Return the findings of a check; an error that stops it is a finding, too."""
    try:
        return list(check())
    except (errors.ForumError, OSError) as error:
        remedy = (
            error.next_step if isinstance(error, errors.ForumError) else errors.ForumError.remedy
        )
        return [_problem(name, mask_passwords(" ".join(str(error).split())), remedy)]
    except Exception as error:  # noqa: BLE001  reported as a finding
        text = f"the check failed: {type(error).__name__}: {error}"
        return [_problem(name, mask_passwords(text), "forum --version, and report both")]


def _check_platform() -> DoctorFinding:
    """Report what this operating system lacks of what Forum uses on Linux."""
    system, missing = platform_calls.SYSTEM, platform_calls.missing_features()
    text = "; ".join((system, *missing))
    if system == "linux":
        return _ok("platform", text)
    step = "for what is missing, run Forum in a Linux container or virtual machine"
    return _warn("platform", f"{text}; Forum is tested on Linux only", step)


def is_installed(module: str) -> bool:
    """Return whether a module can be imported, without importing it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it would be in
        return False


def _check_extras() -> Iterator[DoctorFinding]:
    installed, addable = [], []
    unfilled = []
    lacking = {weights.model.name for weights in planning.inspect_weights() if weights.missing}
    for name, (modules, gives) in EXTRAS.items():
        if not all(map(is_installed, modules)):
            addable.append(f"{name}: {gives}")
        elif _WEIGHTS.get(name) in lacking:
            unfilled.append(f"{name} needs its weights: forum models pull {_WEIGHTS[name]}")
        else:
            installed.append(name)
    lines = [f"installed: {', '.join(installed) or 'none, and none is needed to begin'}", *unfilled]
    lines += [f"can be added: {line}" for line in addable]
    finding = _ok("extras", "\n".join(lines))
    yield msgspec.structs.replace(finding, next=install_command("NAME")) if addable else finding


def _describe_machine(context: Installation) -> Iterator[DoctorFinding]:
    """Say which kind of machine this is: what is missing on one is right on another."""
    texts = [_ROLE_TEXTS[role] for role in MachineRole if role in context.roles]
    yield _ok("machine", f"{', '.join(sorted(context.roles))}: {'; '.join(texts)}")


def _check_project(context: Installation) -> Iterator[DoctorFinding]:
    settings = context.settings
    user = f"; for all projects: {short_path(settings.user_file)}" if settings.user_file else ""
    if settings.file:
        yield _ok("project", f"{short_path(settings.file)}{user}")
    elif context.role is not MachineRole.NEW:
        yield _ok(
            "project",
            f"no {PROJECT_FILE} here or above; data are in {short_path(settings.data)}{user}",
        )
    else:
        yield _warn(
            "project", f"no {PROJECT_FILE} here or above, and no ledger{user}", "forum init"
        )


def _check_folders(context: Installation) -> Iterator[DoctorFinding]:
    for name, folder in (("data", context.settings.data), ("state", context.settings.state)):
        if folder.is_dir():
            yield _check_folder(name, folder)
        else:
            step = context.choose_step("forum init", f"mkdir -m 700 {shlex.quote(str(folder))}")
            yield _warn(name, f"{short_path(folder)} is not made yet", step)


def _check_folder(name: str, folder: Path) -> DoctorFinding:
    if not os.access(folder, os.W_OK | os.X_OK):
        step = f"sudo chown -R {os.getuid()} {shlex.quote(str(folder))}"
        return _problem(name, f"{short_path(folder)} cannot be written by this user", step)
    open_files = (
        [] if _has_private_mode(folder) else list(islice(_find_exposed_files(folder), _MAX_COUNTED))
    )
    if open_files:
        first = short_path(open_files[0])
        text = f"{first} is open to others" + (", and more are" if open_files[1:] else "")
        return _problem(name, text, f"chmod -R go= {shlex.quote(str(folder))}")
    if name == "state" and not _has_private_mode(folder):
        text = f"{short_path(folder)} can be entered by other users"
        return _problem(name, text, f"chmod 700 {shlex.quote(str(folder))}")
    return _ok(name, f"{short_path(folder)}, for this user only")


def _check_secrets(context: Installation) -> Iterator[DoctorFinding]:
    """Check the modes of files that contain passwords, keys and tokens."""
    for path, what in _list_secret_files(context.settings):
        if path.is_file() and (
            exposed := _check_mode("secrets", path, f"others could read {what}")
        ):
            yield exposed
    try:
        context.forum.access.check_operator_token()
    except errors.KeyUnreadable as error:
        # Changing the mode would not help: whoever has read the token can keep using it.
        text = f"the operator's token opens nothing: {short_path(Path(error.path))}: {error.why}"
        yield _problem("secrets", text.partition("; ")[0], "forum token --rotate")


def _list_secret_files(settings: Settings) -> Iterator[tuple[Path, str]]:
    """Yield the files that contain a secret, with a description of it."""
    if settings.database and app.read_password(settings.database):
        said_in = settings.origins.get("database.url", "")
        own = (file for file in (settings.file, settings.user_file) if file is not None)
        yield from ((file, "the password of the database") for file in own if str(file) == said_in)
    yield from list_secret_files(settings)


def _find_exposed_files(folder: Path) -> Iterator[Path]:
    """Yield the files that others can read, except empty ones, which are locks."""
    for path in sorted(folder.rglob("*")):
        # A file in a private folder is out of reach whatever its own mode is.
        if path.is_file() and path.stat().st_size and not _has_private_mode(path, path.parent):
            yield path


def _check_mode(check: str, path: Path, risk: str) -> DoctorFinding | None:
    """Return a problem if other users have access to a file."""
    if _has_private_mode(path):
        return None
    text = f"{short_path(path)} has mode {stat.S_IMODE(path.stat().st_mode):04o}: {risk}"
    return _problem(check, text, f"chmod 600 {shlex.quote(str(path))}")


def _has_private_mode(*paths: Path) -> bool:
    """Return whether one of these paths is closed to other users."""
    return any(not stat.S_IMODE(path.stat().st_mode) & 0o077 for path in paths)


def _check_disk(context: Installation) -> Iterator[DoctorFinding]:
    place = next(p for p in (context.settings.data, *context.settings.data.parents) if p.is_dir())
    free = shutil.disk_usage(place).free
    text = f"{free / (1 << 30):.1f} GiB free at {short_path(place)}"
    step = f"make room on the disk of {shlex.quote(str(place))}"
    if free < _MIN_DISK_BYTES:
        yield _problem("disk", text, step)
    else:
        yield _warn("disk", text, step) if free < _LOW_DISK_BYTES else _ok("disk", text)


def _check_key(context: Installation) -> Iterator[DoctorFinding]:
    path = context.settings.key_file
    if not path.is_file():
        if context.settings.ledger_file.exists() and not context.settings.database:
            text = f"{short_path(path)} is gone, but its ledger is here"
            yield _problem("key", text, f"restore {shlex.quote(str(path))} from a backup")
            return
        with suppress(errors.NoLedger):
            context.forum.origin  # noqa: B018  raises if this machine remembers a log here
        yield _warn("key", f"there is none yet at {short_path(path)}", "forum init")
        return
    context.origin = origin = context.forum.origin
    yield _check_mode("key", path, f"others could sign for {origin}") or _ok(
        "key", f"{short_path(path)}, for this user only; it signs {origin}"
    )


def _check_public_key(context: Installation) -> Iterator[DoctorFinding]:
    path = context.settings.public_key_file
    if not path.is_file():
        step = f"copy log.pub from the machine that signs to {shlex.quote(str(path))}"
        yield _problem("key", f"{short_path(path)} is gone, but write.key is here", step)
        return
    context.origin = context.forum.origin
    yield _ok("key", f"{short_path(path)} is the public key of {context.origin}")
    if not context.settings.database:
        text = "there is no database here in which other machines could see entries"
        yield _problem("database", text, "set FORUM_DATABASE_URL to the database of the log")
    write_key = context.settings.write_key_file
    if context.role is MachineRole.READER:
        step = f"copy write.key from the machine that signs to {shlex.quote(str(write_key))}"
        yield _warn("writers", f"there is no {short_path(write_key)}: only reading works", step)


def _check_database(context: Installation) -> Iterator[DoctorFinding]:
    url = context.settings.database
    place = mask_passwords(url) if url else short_path(context.settings.ledger_file)
    if context.role is not MachineRole.NEW and not context.origin:
        return  # the check of the key has reported it
    context.store = context.open_store()
    if context.store is not None:
        yield _ok("database", f"{place} answers, durable, schema as this release needs it")
    elif url:
        _open_read_only(context.settings, url)
        text = f"{place} answers, durable, schema as this release needs it; no log of ours yet"
        other = "correct the address of the database, or copy log.pub from the machine that signs"
        if context.role in {MachineRole.SIGNER, MachineRole.NEW}:
            yield _warn("database", text, "forum init")
        else:
            yield _problem("database", text, other)
    elif context.role in {MachineRole.SIGNER, MachineRole.NEW}:
        yield _warn("database", f"{place} is not made yet", "forum init")


def _open_read_only(settings: Settings, url: str) -> None:
    """Open a database read-only; the last step of opening fails because it would create a log."""
    mark = "&" if "?" in url else "?"
    address = f"{url}{mark}options={quote(_READ_ONLY)}"
    if "://" not in url:
        address = f"{url} options='{_READ_ONLY}'"
    with app.Forum(replace(settings, database=address), register=False) as forum:
        # A placeholder: opening a store needs the name of a log, and nothing is signed.
        forum.key = tlog.SigningKey(bytes(32), "forum.local/doctor")
        try:
            forum.store.head()
        except errors.StoreFailed as error:
            # Opening the log inserts a row, which a read-only session always refuses.  If only this
            # last step failed, the database is usable.
            if isinstance(error, errors.StoreConnectionLost) or error.doing != "opening the log":
                raise


def _check_catalogue(context: Installation) -> Iterator[DoctorFinding]:
    """Check that the database consists of what the migrations make, and of nothing else."""
    if context.store is None:
        return
    check = context.store.check_catalogue()
    if check.not_checked:
        text = f"not compared with the migrations: {check.not_checked}"
        yield _warn("catalogue", text, "grant this user the right to read pg_catalog")
    for difference in check.differences:
        step = "undo the change, or restore a backup on the machine that signs"
        yield _problem("catalogue", difference, step)
    if not (check.differences or check.not_checked):
        yield _ok("catalogue", "tables, indexes and rules are those of the migrations")


def _check_ledger(context: Installation) -> Iterator[DoctorFinding]:
    if context.store is None:
        return
    with context.store.snapshot() as reader:
        size, note = reader.head().size, reader.checkpoint()
        signed = tlog.parse_checkpoint(note).size if note else 0
        # Bounded, because the backlog may be large.
        waiting = sum(1 for _ in islice(reader.unsequenced_entries(), _MAX_COUNTED))
        oldest = _oldest_unsigned(reader, signed, size)
        newest = _time_of(next(reader.entries(size - 1, size), None)) if size else None
    text = f"{size:,} entries, {signed:,} of them signed"
    if waiting:
        text += f", {waiting:,} more wait for an index"
    if newest is not None:
        text += f"; the newest is {format_age(app.now() - newest)} old"
    if oldest is not None and app.now() - oldest > _UNSIGNED_US:
        text += f"; the oldest without a signature is {format_age(app.now() - oldest)} old"
        yield _warn_unsigned(context.store, text)
    else:
        yield _ok("ledger", text)


def _warn_unsigned(store: StoreProbe, text: str) -> DoctorFinding:
    """Warn of entries that nobody signs: the lock of the signer may be a stuck process's."""
    holder = store.find_sequencer()
    if holder is None:
        return _warn("ledger", text, "forum worker, on the machine that signs")
    text += f"; a session from {holder.client} holds the lock of the signer, and does nothing"
    step = (
        f"restart the server or worker on {holder.client}; if that machine is gone, on the "
        f"database: SELECT pg_terminate_backend({holder.process})"
    )
    return _warn("ledger", text, step)


def _check_writes(context: Installation) -> Iterator[DoctorFinding]:
    """Check that the database can be written, without a change of the log."""
    if context.store is None:
        return
    troubles = context.forum.monitor.look()
    for trouble in troubles:
        text = f"{trouble.condition.text}: {trouble.why}"
        yield _problem("writes", text, trouble.condition.remedy)
    if not troubles:
        yield _ok("writes", "the database takes a commit, and its disk has room for one")


def _check_writers(context: Installation) -> Iterator[DoctorFinding]:
    """Check that only entries of this log's writers get signed."""
    store = context.store
    if store is None:
        return
    if count := store.count_quarantined():
        text = f"somebody put {pluralize(count, 'row')} into the database; set aside"
        step = "forum ledger quarantine"
        other = f"on the machine that signs: {step}"
        yield _problem("writers", text, context.choose_step(step, other))
    path, keys = context.settings.write_key_file, context.forum.write_keys
    if keys is None:
        step = context.choose_step("forum init", "copy write.key from the machine that signs")
        yield _warn("writers", f"there is no write key at {short_path(path)}", step)
        return
    if exposed := _check_mode("writers", path, "others could forge entries"):
        yield exposed
    elif not keys.is_enforced:
        text = "entries without a tag are still signed: an older release may be running"
        step = "forum db upgrade --post" if context.settings.database else "stop it; forum init"
        other = f"on the machine that signs: {step}, then: copy write.key from there"
        yield _warn("writers", text, context.choose_step(step, other))
    else:
        yield _ok("writers", f"entries are signed only with a tag of {short_path(path)}")


def _oldest_unsigned(reader: EntryReader, signed: int, size: int) -> int | None:
    if signed < size:
        return _time_of(next(reader.entries(signed, signed + 1), None))
    return _time_of(next(reader.unsequenced_entries(), None))


def _time_of(data: bytes | None) -> int | None:
    return app.KINDS.read(data).ts if data else None


def _check_signer(context: Installation) -> Iterator[DoctorFinding]:
    if not context.origin:
        return
    guard = context.memory_dir / "guard.note"
    if context.store is None and not guard.is_file():
        return
    size, note = 0, None
    if context.store is not None:
        size, note = context.store.head().size, context.store.checkpoint()
    if not guard.is_file():
        if note is None:
            yield _ok("signer", "nothing is signed yet")
        else:
            text = "another machine signs this log; this one adds entries only"
            yield _ok("signer", f"{text}. If none does: forum ledger epoch --help")
        return
    remembered = tlog.parse_checkpoint(guard.read_bytes()).size
    # A database smaller than the tree that was signed last is an old copy: signing it would fork
    # the log.
    if remembered > size:
        text = f"{remembered} entries were signed here, and the database has {size}: it is older"
        step = "restore the newest database, or: forum ledger epoch"
        yield _problem("signer", text, step)
    else:
        yield _ok("signer", f"this machine signs, and remembers the tree of {remembered:,} entries")


def _check_strands(context: Installation) -> Iterator[DoctorFinding]:
    """Check that the log's own strands reach as far as their tags, and this machine's memory."""
    if context.store is None or not context.origin:
        return
    heads = {name: context.forum.heads.latest(name) for name in sorted(REMEMBERED_STRANDS)}
    is_whole = True
    for name, remembered in heads.items():
        try:
            check_strand_head(context.store, context.forum.write_keys, name, remembered)
        except errors.TamperDetected as error:
            is_whole = False
            step = "put the newest database back; to see what else: forum ledger verify"
            yield _problem("strands", str(error), step)
    if is_whole:
        yield _ok("strands", f"{', '.join(heads)} reach as far as when they were seen here")


def _check_workers(context: Installation) -> Iterator[DoctorFinding]:
    if context.store is None:
        return
    # A stopped worker keeps its expired lease until another worker has taken over its runs.
    alive = context.store.live_workers()
    due = {run_of(timer.run) for timer in context.store.timers(None, _MAX_COUNTED, due=True)}
    if alive:
        yield _ok("workers", f"{len(alive)} alive, {pluralize(len(due), 'run')} due")
    elif due:
        text = f"none, and {pluralize(len(due), 'run')} to go on with"
        yield _warn("workers", text, "forum worker")
    else:
        yield _ok("workers", "none, and nothing waits for one; `forum submit` needs none")


def _check_clock(context: Installation) -> Iterator[DoctorFinding]:
    """Compare this machine's clock with the database's, and recent entries with both."""
    if context.store is None:
        return
    skew = None
    if context.settings.database:
        skew = CheckedClock(app.now, read_ticks, context.store.now).measure()
        text = f"{skew} the database's"
        if skew.is_excessive:
            yield _problem("clock", f"this machine's is {text}: nothing is written here", _NTP)
        else:
            yield _ok("clock", text)
    yield from _check_entry_times(context.store, skew)


_NTP = "timedatectl set-ntp true"


def _check_entry_times(store: Store, skew: ClockSkew | None) -> Iterator[DoctorFinding]:
    """Report entries that are dated in the future, and whose clock that was."""
    now = app.now() - (skew.ahead if skew else 0)
    with store.snapshot() as reader:
        size = reader.head().size
        recent = reader.entries(max(0, size - _RECENT_ENTRIES), size)
        entries = [app.KINDS.read(data) for data in recent if data]
        early = [entry for entry in entries if entry.ts > now + _MINUTE]
    if not early:
        return
    last = max(early, key=lambda entry: entry.ts)
    ahead = format_age(last.ts - now)
    actors = ", ".join(sorted({entry.actor for entry in early}))
    text = (
        f"{pluralize(len(early), 'entry')} by {actors} dated up to {ahead} in the future, the last "
        f"of them {last.run}/{last.strand}/{last.n}"
    )
    if skew is None:
        text += "; this machine's clock is behind, or was ahead when they were written"
        yield _problem("clock", text, f"see that the date is right, then: {_NTP}")
        return
    workers = ", ".join(sorted(store.workers())) or "none has a lease now"
    text += f"; the clock of the process that wrote them was ahead. Workers: {workers}"
    yield _problem("clock", text, f"on the machine that wrote them: {_NTP}")


def _check_models(context: Installation) -> Iterator[DoctorFinding]:
    team = planning.load_team_settings(context.settings)
    named = {name: agent for name, agent in team.agents.items() if name} or team.agents
    for name, agent in named.items():
        inspected = planning.inspect_agent(agent)
        label = name or "default"
        cli = cli_agent_of(agent) if isinstance(agent, Command) else None
        if inspected.problem:
            step = f"npm install -g {cli.package}" if cli else "forum models check"
            yield _problem("model", f"{label}: {inspected.problem}", step)
        elif cli and isinstance(agent, Command):
            yield from _check_cli_agents(label, agent)
        elif inspected.warning:
            yield _warn("model", f"{label}: {inspected.warning}", "forum models check")
        else:
            yield _ok(
                "model", f"{label}: {inspected.model} ({inspected.kind}) at {inspected.where}"
            )
    if not named:
        step = f"name one under [models.capable] in {PROJECT_FILE}, then: forum models check --call"
        yield _warn("model", "none is configured; requests are only repeated", step)
    programs: dict[str, ToolSpec | McpServer] = {**team.tools, **team.servers}
    for name, program in programs.items():
        if program.argv and shutil.which(program.argv[0]) is None:
            text = f"{name}: there is no program {program.argv[0]!r} on this machine"
            yield _problem("tool", text, f"install it, or correct {PROJECT_FILE}")


def _check_panels(context: Installation) -> Iterator[DoctorFinding]:
    team = planning.load_team_settings(context.settings)
    for name, panel in sorted(team.panels.items()):
        seated = sorted(filter(None, panel.speakers))
        text = f"{name}: {', '.join(seated) or 'any of the models'}"
        if seated and len({model_of(team.agents[agent]) for agent in seated}) == 1:
            step = f"name other models under [panels.{name}] in {PROJECT_FILE}"
            yield _warn("panel", f"{text}: one model, whose seats err alike", step)
        else:
            yield _ok("panel", text)


def _check_cli_agents(label: str, agent: Command) -> Iterator[DoctorFinding]:
    """Report on the coding agent's program and on those of its fallback that are installed."""
    for program in agent.programs:
        cli_agent = cli_agent_of(program)
        if cli_agent and shutil.which(program.argv[0]):
            yield _check_cli_agent(label, program.argv[0], cli_agent)


def _check_cli_agent(label: str, program: str, cli_agent: CliAgent) -> DoctorFinding:
    """Report the version and the login of a coding agent's program."""
    status, text = planning.inspect_cli_agent(program, cli_agent), f"{label}: {program}"
    if not status.version:
        step = f"run it by hand: {program} --version"
        return _problem("model", f"{text} does not say its version", step)
    text = f"{text}, {strip_control_characters(status.version)}"
    if status.is_logged_in is None:
        return _ok("model", f"{text}; login not checked")
    if status.is_logged_in:
        return _ok("model", f"{text}; logged in")
    return _problem("model", f"{text}; not logged in", cli_agent.login)


def _check_roster(context: Installation) -> Iterator[DoctorFinding]:
    path = planning.load_team_settings(context.settings).roster
    lanes = planning.load_roster(Path(path) if path else None).by_name
    place = short_path(Path(path)) if path else "the one that comes with Forum"
    if path and b"[[agent]]" in Path(path).read_bytes():
        place += " (of forum-engine; its agents are taken as lanes)"
    yield _ok("roster", f"{place}, {pluralize(len(lanes), 'lane')}")


def _check_confinement(context: Installation) -> Iterator[DoctorFinding]:
    """Report what agent programs can access."""
    settings, team = context.settings, planning.load_team_settings(context.settings)
    # The default agent is listed under its name and under the empty name: report it once.
    agents = {a: name for name, a in sorted(team.agents.items()) if isinstance(a, Command)}
    programs = [f"the agent {name or 'default'}" for name in agents.values()]
    programs += [f"the tool {name}" for name, tool in team.tools.items() if tool.argv]
    programs += [f"the server {name}" for name, server in team.servers.items() if server.argv]
    if not settings.agents.confine and programs:
        text = (
            f"{', '.join(programs)}: not confined, and so able to do what you can: read the keys "
            "of this project and its operator's token, approve at gates, make keys"
        )
        yield _warn("confined", text, f"set confine = true in [agents] of {PROJECT_FILE}")
    elif planning.check_confinement(settings):
        places = ", ".join(f"{host}:{port}" for host, port in settings.agents.connect)
        yield _ok("confined", f"programs of agents, by bubblewrap; network: {places or 'none'}")


_ALL = frozenset(MachineRole) - {MachineRole.GATEWAY}


class DoctorCheck(NamedTuple):
    """A check, and the roles of the machines that need it."""

    name: str
    run: Callable[[Installation], Iterable[DoctorFinding]]
    roles: frozenset[MachineRole] = _ALL
    after: str = ""
    """The check that it follows, if it is one of a feature."""


_ANY_LOG = _ALL - {MachineRole.NEW}
_WRITERS = frozenset({MachineRole.SIGNER, MachineRole.WRITER})
_SIGNER = frozenset({MachineRole.SIGNER})
_RUNS = _ALL - {MachineRole.READER}
"""Machines that carry out runs, or will."""

_CHECKS = (
    DoctorCheck("project", _check_project, _ALL),
    DoctorCheck("data", _check_folders, _ALL),
    DoctorCheck("secrets", _check_secrets, _ALL),
    DoctorCheck("disk", _check_disk, _ALL),
    DoctorCheck("key", _check_key, frozenset({MachineRole.SIGNER, MachineRole.NEW})),
    DoctorCheck("key", _check_public_key, frozenset({MachineRole.WRITER, MachineRole.READER})),
    DoctorCheck("database", _check_database, _ALL),
    DoctorCheck("writes", _check_writes, _WRITERS),
    DoctorCheck("catalogue", _check_catalogue, _ANY_LOG),
    DoctorCheck("ledger", _check_ledger, _ANY_LOG),
    DoctorCheck("writers", _check_writers, _WRITERS),
    DoctorCheck("signer", _check_signer, _SIGNER),
    DoctorCheck("strands", _check_strands, _WRITERS),
    DoctorCheck("workers", _check_workers, _ANY_LOG),
    DoctorCheck("clock", _check_clock, _ANY_LOG),
    DoctorCheck("model", _check_models, _RUNS),
    DoctorCheck("panel", _check_panels, _RUNS),
    DoctorCheck("roster", _check_roster, _RUNS),
    DoctorCheck("confined", _check_confinement, _RUNS),
)


def all_checks() -> Sequence[DoctorCheck]:
    """Return the checks of the kernel and of the features, in their order."""
    return place_parts(_CHECKS, FEATURES, "doctor")


def short_path(path: Path) -> str:
    """Return a path with ~ for the home directory."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
