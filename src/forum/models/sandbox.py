"""Confine the programs of agents with bubblewrap: limit the files and the network they can reach.

A confined program sees the system's programs and libraries, the project folder and the folders
named in `[agents]`, all read-only unless they are listed under `write`.  It has an empty folder for
temporary files and an empty home.  It sees no other process, and reaches no network address except
those listed under `connect`.  Files with Forum's secrets are hidden wherever they are:
`secret_paths` finds them, `mounts` leaves them out.  It has a session without a terminal, no key of
the user, and a filter of system calls (`seccomp`).  It is never user 0: root's programs run as the
owner of the project, or as a user that owns nothing.

The program runs in a new network namespace without any route out.  For each allowed address, the
worker listens on a Unix socket in a private folder and connects it to that one address;
`sandbox_start` listens inside the namespace, under the address's own name.  The program therefore
needs no proxy support, and it can resolve no name that was not allowed.
"""

import errno
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingUnixStreamServer
from threading import Lock, Thread
from weakref import finalize

from forum import platform_calls
from forum.config import SecretRules, Settings
from forum.errors import NotConfined
from forum.models import sandbox_session, sandbox_start, seccomp, secret_paths
from forum.models.mounts import SecretFilter, trace
from forum.models.process_environment import OPERATOR, allowed_environment
from forum.models.secret_paths import FoundSecret

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
_ETC = (
    "alternatives", "ca-certificates", "crypto-policies", "group", "ld.so.cache", "ld.so.conf",
    "ld.so.conf.d", "localtime", "mime.types", "nsswitch.conf", "passwd", "pki", "protocols",
    "services", "ssl", "timezone",
)  # fmt: skip
"""The files of /etc that programs need.  The rest may hold passwords and is not bound."""
_SCRATCH = ("/tmp", "/var/tmp", "/run")  # noqa: S108  mounted empty in the sandbox
_SESSION_SCRIPT = "/run/forum-session.py"
_CONNECT_TIMEOUT_S = 30.0
_POLL_INTERVAL_S = 0.1
_RELAY_IP_PREFIX = "127.77.0."
"""Prefix of the loopback addresses to which allowed host names resolve inside the sandbox."""
_NOBODY = 65533
"""A user that owns nothing: neither Debian nor systemd gives the number out, as they do 65534."""
_LISTEN_LOCK = Lock()
"""Held while a relay socket is created, because several threads may start programs."""


@dataclass(frozen=True, slots=True)
class AllowedAddress:
    """An address that confined programs may connect to."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether the address is the worker's own machine, which keeps its loopback name inside."""
        return self.host == "localhost" or self.host.startswith("127.")


@dataclass(frozen=True, slots=True)
class ProgramUser:
    """The user and the group that root's confined programs run as."""

    uid: int
    gid: int

    def may(self, path: Path, bits: int) -> bool:
        """Return whether the mode of a file allows all of these accesses (4 read, 2 write, 1)."""
        status = path.stat()
        shift = 6 if status.st_uid == self.uid else 3 if status.st_gid == self.gid else 0
        return status.st_mode >> shift & bits == bits


@dataclass(frozen=True, slots=True)
class ProgramSession:
    """Descriptors by which Forum and a confined program share a terminal and signals.

    `sandbox_session` says how.
    """

    control: int
    terminal: int = -1


@dataclass(frozen=True)
class Sandbox:
    """The files, addresses and variables that confined programs may use.  Paths are absolute."""

    folder: Path | None
    """The project folder."""
    hidden: tuple[Path, ...]
    """Files and folders that hold secrets of this project."""
    required: tuple[Path, ...] = ()
    """Secrets that must exist: if one was moved, it would be visible at its new path."""
    registry: Path | None = None
    """The folder with the records of all projects of this user."""
    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    connect: tuple[AllowedAddress, ...] = ()
    env: tuple[str, ...] = ()
    """Variables of the worker's environment that are passed to every confined program."""
    rules: SecretRules = OPERATOR
    """Which variables a single program may name."""

    def environment(self, names: Iterable[str], **added: str) -> dict[str, str]:
        """Return the environment of a confined program: only the variables that were allowed."""
        return allowed_environment({*filter(self.rules.owns_variable, names), *self.env}, **added)

    def command(
        self, argv: Sequence[str], session: ProgramSession | None = None
    ) -> tuple[str, ...]:
        """Return the command that runs a program in the sandbox.

        A program without a session of its own gets no signals, and no terminal.
        Raises `FileNotFoundError` if the program does not exist or is not visible inside the
        sandbox, and `NotConfined` if this machine has no sandbox or a secret cannot be hidden.
        """
        _require_confinement()
        # Computed anew for each program: a secret or a
        # project may have been added since the last one.
        secrets = self._filter_secrets()
        program = (self._find_program(argv[0], secrets), *argv[1:])
        if session:
            leader = (sys.executable, "-I", "-S", _SESSION_SCRIPT)
            program = (*leader, str(session.control), str(session.terminal), *program)
        user = self.user
        if user:
            self._check_modes(user)
        # Root's programs always have the first bubblewrap around them: the second one becomes
        # another user, by which the kernel forgets that it is to end with its parent.
        # Files are covered in its namespace.
        covers = tuple(secrets.cover(self._writable))
        has_outer = bool(self.connect or user or covers)
        options = (
            *platform_calls.confining_options(with_network=has_outer, is_root=user is not None),
            *self._bind_files(secrets),
            *self._place(secrets),
            *(("--ro-bind", sandbox_session.__file__, _SESSION_SCRIPT) if session else ()),
        )
        start = (
            sys.executable, "-I", "-S", sandbox_start.__file__, platform_calls.BUBBLEWRAP,
            "--filter", str(self._private_folder / "filter"),
            *(("--become", f"{user.uid},{user.gid}") if user else ()),
        )  # fmt: skip
        if not has_outer:
            return (*start, "--", *options, "--", *program)
        # A first bubblewrap creates the network namespace.  Only our
        # relay runs in it, with the capabilities to listen on any port.
        # The second one drops all capabilities and confines the program.
        own = () if user else ("--uid", str(os.getuid()), "--gid", str(os.getgid()))
        return (
            *platform_calls.network_namespace_command(is_root=user is not None),
            *start, *covers, *self._relay_arguments(), "--", *options, *own, "--", *program,
        )  # fmt: skip

    def check_usable(self) -> None:
        """Run a trivial program in the sandbox.  Raises `NotConfined` if that fails."""
        try:
            done = subprocess.run(  # noqa: S603  # a constant command
                self.command(("true",)), stdin=subprocess.DEVNULL, capture_output=True,
                text=True, timeout=30, check=False,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            raise NotConfined(str(error), "see docs/guides/confine-agents.md") from None
        if done.returncode:
            why = " ".join(done.stderr.split()) or f"exit {done.returncode}"
            step = "allow user namespaces"
            if "bind-fd" in why:
                why, step = "bubblewrap is too old: it binds no descriptors", "upgrade bubblewrap"
            raise NotConfined(why, f"{step}; see docs/guides/confine-agents.md")

    @property
    def _own_folders(self) -> tuple[Path, ...]:
        """The folders that Forum and its Python are installed in."""
        return tuple(sorted({Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()}))

    @cached_property
    def _bind_mounts(self) -> tuple[tuple[str, Path], ...]:
        """Bound folders, outer ones first, because a later mount covers an earlier one."""
        folders = (*self._own_folders, *((self.folder,) if self.folder else ()), *self.read)
        shown = [("--ro-bind", path.resolve()) for path in folders]
        shown += [("--bind", path.resolve()) for path in self.write]
        return tuple(sorted(shown, key=lambda shown: (len(shown[1].parts), shown[0] == "--bind")))

    def _bind_files(self, secrets: SecretFilter) -> Iterable[str]:
        """Yield the bubblewrap arguments for the visible files."""
        for path in map(Path, _SYSTEM):
            if path.is_symlink():
                yield from ("--symlink", str(path.readlink()), str(path))
            elif path.is_dir():
                yield from secrets.bind("--ro-bind", path, path)
        for path in (Path("/etc") / name for name in _ETC):
            if path.exists():
                yield from secrets.bind("--ro-bind", path.resolve(), path)
        yield from platform_calls.kernel_file_systems(str(self._private_folder / "empty"))
        home = os.environ.get("HOME", "")
        for name in (*_SCRATCH, *([home] if len(Path(home).parts) > 1 else [])):
            yield from ("--tmpfs", name)
        for how, path in self._bind_mounts:
            yield from secrets.bind(how, path, path)

    @property
    def user(self) -> ProgramUser | None:
        """The user that a program runs as if this is root: the owner of the project, or nobody.

        As user 0 of the host, a program could change settings of the kernel, whatever its rights.
        """
        if os.geteuid() != 0:
            return None
        owner = self.folder.stat() if self.folder else None
        if owner is None or owner.st_uid == 0:
            return ProgramUser(_NOBODY, _NOBODY)
        return ProgramUser(owner.st_uid, owner.st_gid or _NOBODY)

    def _check_modes(self, user: ProgramUser) -> None:
        """Raise `NotConfined` if root's programs could not use what they were given."""
        for how, path in self._bind_mounts:
            wanted = (5 if path.is_dir() else 4) | (2 if how == "--bind" else 0)
            if not path.exists() or user.may(path, wanted):
                continue
            verb, step = ("write to", "chown -R") if how == "--bind" else ("read", "chown")
            why = f"root's programs run as user {user.uid}, which may not {verb} {path}"
            raise NotConfined(why, f"{step} {user.uid} {path}, or run Forum as another user")

    def _filter_secrets(self) -> SecretFilter:
        """Return the filter that hides the secrets of this and all other projects.

        Raises `NotConfined` if a secret could be moved out of its hiding place by a program, or if
        a required secret is missing.
        """
        for path in self.required:
            if self._is_bound(trace(path)[-1]) and not os.path.exists(path):  # noqa: PTH110
                why = f"{path} does not exist; if it was moved, programs could read it"
                raise NotConfined(why, "put it back, or correct its name in the settings")
        empty = self._private_folder / "empty"
        hidden = (*self.hidden, *secret_paths.list_private_folders())
        own = SecretFilter(hidden, empty)
        found_secrets = list(self._search_secrets())
        others = [
            path for path in self._find_secrets_of_forum(found_secrets) if not own.hides(path)
        ]
        for path in others:
            self._check_fixed(path)
        # A file that the settings name is shown, unless it is a secret of Forum.
        named = {path.resolve() for path in (*self.read, *self.write)}
        covered = [s for s in found_secrets if not s.is_of_forum and s.path not in named]
        secrets = SecretFilter((*hidden, *others), empty, covered)
        self._check_nesting(secrets)
        return secrets

    def _search_secrets(self) -> Iterable[FoundSecret]:
        """Return the secrets in the folders that programs see, this project's included."""
        wanted = (self.folder, *self.read, *self.write)
        searched = {path.resolve() for path in wanted if path and path.is_dir()}
        return secret_paths.search_secrets(searched, self._own_folders, self._writable)

    @property
    def _writable(self) -> list[Path]:
        return [path.resolve() for path in self.write]

    def _find_secrets_of_forum(self, secrets: Iterable[FoundSecret]) -> Iterable[Path]:
        """Yield the real paths of secrets of all projects that programs could see."""
        registered = secret_paths.find_registered(self.registry) if self.registry else ()
        for path in (*registered, *(secret.path for secret in secrets if secret.is_of_forum)):
            # What this user may not look at is closed to the user's programs as well.
            if os.path.exists(path) and self._is_bound(trace(path)[-1]):  # noqa: PTH110
                yield trace(path)[-1]

    def _check_fixed(self, path: Path) -> None:
        """Raise `NotConfined` if programs may write to a folder on the path to a secret.

        A program that is already running could move the secret after it was found, or replace an
        entry beside it by a symbolic link before it is bound.  Secrets of this project are safe,
        because no program was ever given write access to their folders.
        """
        for place in trace(path):
            if any(map(place.is_relative_to, self._writable)):
                why = f"{path} has keys of Forum, in a folder that programs may change"
                step = "remove it if a program made it; else move it, or name other folders"
                raise NotConfined(why, f"{step} in [agents] write")

    def _check_nesting(self, secrets: SecretFilter) -> None:
        """Raise `NotConfined` if programs may change a folder on the path to a bound one.

        They could put a link or another folder there, and the next program would see its target.
        """
        writable = [path for how, path in self._bind_mounts if how == "--bind"]
        for _, path in self._bind_mounts:
            for folder in path.parents:
                if any(map(folder.is_relative_to, writable)) and not secrets.holds(folder):
                    why = f"{path} lies in {folder}, which programs may change"
                    step = "name folders in [agents] read and write that lie beside each other"
                    raise NotConfined(why, step)

    def _is_bound(self, path: Path) -> bool:
        """Return whether a path is inside a bound folder, hidden or not."""
        return any(map(path.is_relative_to, self._bound))

    @cached_property
    def _bound(self) -> tuple[Path, ...]:
        etc = ((Path("/etc") / name).resolve() for name in _ETC)
        return (*(path for _, path in self._bind_mounts), *map(Path, _SYSTEM), *etc)

    def _place(self, secrets: SecretFilter) -> tuple[str, ...]:
        """Return the arguments for the working directory and the hosts file."""
        wanted = [Path.cwd(), *([self.folder.resolve()] if self.folder else [])]
        visible = (path for path in wanted if self._is_bound(path) and not secrets.hides(path))
        where = next(visible, Path(_SCRATCH[0]))
        return (
            "--ro-bind",
            str(self._private_folder / "hosts"),
            "/etc/hosts",
            "--chdir",
            str(where),
        )

    @cached_property
    def _private_folder(self) -> Path:
        """A folder that only this user can enter; removed with the sandbox object."""
        room = Path(tempfile.mkdtemp(prefix="forum-"))
        finalize(self, shutil.rmtree, room, ignore_errors=True)
        lines = ["127.0.0.1 localhost", "::1 localhost"]
        lines += [f"{ip} {address.host}" for address, ip in self._ips if not address.is_loopback]
        (room / "hosts").write_text("\n".join(dict.fromkeys(lines)) + "\n")
        (room / "empty").touch()
        (room / "filter").write_bytes(seccomp.assemble_filter(platform_calls.machine()))
        return room

    def _find_program(self, name: str, secrets: SecretFilter) -> str:
        """Return the path of a program.  Raises `FileNotFoundError` if it is not visible inside."""
        location = shutil.which(name)
        if location is None:
            raise FileNotFoundError(errno.ENOENT, "no such program", name)
        path = Path(os.path.abspath(location))  # noqa: PTH100  `resolve` would follow the link of a launcher
        places = (path, path.resolve())
        if not all(self._is_bound(place) and not secrets.hides(place) for place in places):
            why = "confined programs cannot see it; name its folder in [agents] read"
            raise FileNotFoundError(errno.ENOENT, why, name)
        return str(path)

    @property
    def _ips(self) -> list[tuple[AllowedAddress, str]]:
        names = list(dict.fromkeys(a.host for a in self.connect if not a.is_loopback))
        ips = {name: f"{_RELAY_IP_PREFIX}{number}" for number, name in enumerate(names, 1)}
        ips["localhost"] = "127.0.0.1"
        return [(address, ips.get(address.host, address.host)) for address in self.connect]

    def _relay_arguments(self) -> Iterable[str]:
        """Yield the arguments for the relay; the worker listens on each of its sockets."""
        room = self._private_folder
        for number, (address, ip) in enumerate(self._ips):
            path = room / str(number)
            with _LISTEN_LOCK:
                if not path.exists():
                    finalize(self, _stop_server, _serve_address(address, path))
            yield from ("--relay", f"{ip},{address.port},{path}")


def _require_confinement() -> None:
    """Raise `NotConfined` if this machine has nothing that confines programs."""
    if problem := platform_calls.confinement_problem():
        raise NotConfined(*problem)
    if (machine := platform_calls.machine()) not in seccomp.ARCHITECTURES:
        why = f"there is no system call filter for {machine}"
        raise NotConfined(why, f"run Forum on {' or '.join(seccomp.ARCHITECTURES)}")


def make_sandbox(settings: Settings) -> Sandbox | None:
    """Return the sandbox for the programs of a project, or None if they are not to be confined.

    Raises `NotConfined` if they are to be, and cannot be on this machine.
    """
    rules = settings.agents
    if not rules.confine:
        return None
    _require_confinement()
    folders = (settings.data, settings.state)
    named = secret_paths.list_named_secrets(settings)
    return Sandbox(
        folder=settings.file.parent if settings.file else None,
        hidden=secret_paths.list_secrets(settings),
        required=tuple(path for path in named if not any(map(path.is_relative_to, folders))),
        registry=settings.state / "projects",
        read=rules.read,
        write=rules.write,
        connect=tuple(AllowedAddress(host, port) for host, port in rules.connect),
        env=rules.env,
        rules=settings.secrets,
    )


def _serve_address(address: AllowedAddress, path: Path) -> ThreadingUnixStreamServer:
    """Forward every connection to a Unix socket to one fixed address, in background threads."""

    class RelayHandler(BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                where = (address.host, address.port)
                with socket.create_connection(where, _CONNECT_TIMEOUT_S) as outside:
                    outside.settimeout(None)
                    sandbox_start.relay_both_ways(self.request, outside)

    server = ThreadingUnixStreamServer(str(path), RelayHandler)
    server.daemon_threads = True
    path.chmod(0o600)
    Thread(target=server.serve_forever, args=(_POLL_INTERVAL_S,), daemon=True).start()
    return server


def _stop_server(server: ThreadingUnixStreamServer) -> None:
    server.shutdown()
    server.server_close()
