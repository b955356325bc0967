"""What operating systems do differently: the Linux way, and a portable way beside it.

No other module may use a call, a file or a program that only Linux has; a test reads the sources.
A portable way does the same as the Linux way, a little later or with one more process.  What has no
portable way is refused: `confinement_problem` says why programs cannot be confined here.

This file is also a script, which runs a program that ends with the process that started it:

    python -I -S platform_calls.py PARENT LOCK PROGRAM [ARGUMENT...]

It is run outside of Forum's environment and starts often, so this module imports only the standard
library, and the slower parts of it where they are used.
"""

import atexit
import errno
import fcntl
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from signal import SIGKILL
from threading import Lock, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctypes import _Pointer, c_void_p

SYSTEM: str = sys.platform
"""The operating system, as `sys.platform` names it."""

_PR_SET_PDEATHSIG, _PR_GET_PDEATHSIG = 1, 2
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_UNSUPPORTED = (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.ENOTSUP, errno.ENOTTY)
"""Errors of a system call that the kernel does not have, or that a container forbids."""


# The exit of a child process, noticed without reaping it.


def open_exit_handle(child: int) -> int:
    """Return a file descriptor that becomes readable when a child process exits.

    The child is not reaped, so that its process id stays its own.  Close the descriptor after use.
    """
    if sys.platform == "linux" and hasattr(os, "pidfd_open"):
        try:
            return os.pidfd_open(child)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
    return _wait_in_thread(child)


def _wait_in_thread(child: int) -> int:
    reading, writing = os.pipe()
    Thread(target=_report_exit, args=(child, writing), daemon=True).start()
    return reading


def _report_exit(child: int, writing: int) -> None:
    try:
        _wait_without_reaping(child)
        # Closing alone is not enough: a forked process may have a copy of this end of the pipe.
        with suppress(BrokenPipeError):
            os.write(writing, b"\n")
    finally:
        os.close(writing)


def _wait_without_reaping(child: int) -> None:
    """Wait until a child process has exited, or is no child of this process."""
    import ctypes

    # `os.waitid` is missing on macOS before Python 3.13; the function of the C library is not.
    libc = ctypes.CDLL(None, use_errno=True)
    by_process_id, result = 1, ctypes.create_string_buffer(256)  # larger than any siginfo_t
    options = os.WEXITED | os.WNOWAIT
    while libc.waitid(by_process_id, ctypes.c_uint(child), result, options):
        if ctypes.get_errno() != errno.EINTR:
            return


# Files that survive a loss of power.


def sync_file(descriptor: int) -> None:
    """Write a file to the disk, or the names in a folder."""
    if sys.platform == "darwin":
        # There fsync leaves the data in the cache of the drive.  Some file systems lack the other.
        with suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


# An environment that other processes of the same user cannot read.


def resident_bytes() -> int:
    """Return the memory that this process has in use; 0 where the system does not tell it."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123  read for each task
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def hide_environment() -> None:
    """Keep other programs of this user from reading the environment of this process.

    Linux also keeps debuggers out.  Elsewhere the values are only removed from where the system
    shows them.  Root can always read them.
    """
    if not (_has_prctl() and _prctl(_PR_SET_DUMPABLE, 0) == 0):
        _blank_environment()


def _blank_environment() -> None:
    """Overwrite the environment that the process was started with, and set it again elsewhere."""
    import ctypes

    variables = dict(os.environb)
    block, index = _environment_block(), 0
    while address := block[index]:
        name, _, value = ctypes.string_at(address).partition(b"=")
        ctypes.memset(address + len(name) + 1, 0, len(value))
        index += 1
    for name, value in variables.items():
        # `putenv` alone would overwrite the old value in its old place, where that is long enough.
        os.unsetenv(name)
        os.putenv(name, value)


def _environment_block() -> "_Pointer[c_void_p]":
    import ctypes

    pointer = ctypes.POINTER(ctypes.c_void_p)
    libc = ctypes.CDLL(None)
    # On macOS libraries do not see the variable `environ`, and call a function for its address.
    get_address = getattr(libc, "_NSGetEnviron", None)
    if get_address is None:
        return pointer.in_dll(libc, "environ")
    get_address.restype = ctypes.POINTER(pointer)
    block: _Pointer[c_void_p] = get_address().contents
    return block


# Programs that end with the process that started them, even if that is killed.

_NO_LOCK = "-"
_POLL_INTERVAL_S = 0.2
_life_files: list[tuple[int, int, str]] = []
"""Files that this process keeps locked: process id, descriptor, path."""
_LIFE_FILES_LOCK = Lock()


def command_that_ends_with_parent(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the command that runs a program which is killed when this process ends.

    A server lives for minutes between calls.  If its worker is killed, it should notice that its
    input has ended; a server that is busy does so late, and one that ignores it never.
    """
    lock = _NO_LOCK if _has_prctl() else _locked_file()
    return (sys.executable, "-I", "-S", __file__, str(os.getpid()), lock, *argv)


def _has_prctl() -> bool:
    import ctypes

    if not hasattr(ctypes.CDLL(None), "prctl"):
        return False
    result = ctypes.c_int()
    return _prctl(_PR_GET_PDEATHSIG, ctypes.addressof(result)) == 0


def _prctl(option: int, argument: int) -> int:
    """Change or read a setting of this process; return 0, or -1 if the kernel refuses."""
    import ctypes

    zero = ctypes.c_ulong(0)
    result: int = ctypes.CDLL(None).prctl(option, ctypes.c_ulong(argument), zero, zero, zero)
    return result


def _locked_file() -> str:
    """Return the path of a file that is locked for as long as this process lives.

    The kernel releases the lock however the process ends.
    """
    import tempfile

    me = os.getpid()
    with _LIFE_FILES_LOCK:
        for process, descriptor, path in _life_files:
            # A forked process has the list, but not the locks.  Old temporary files are cleaned up.
            if process == me and _is_same_file(descriptor, path):
                return path
        descriptor, path = tempfile.mkstemp(prefix="forum-", suffix=".lock")
        fcntl.lockf(descriptor, fcntl.LOCK_EX)
        _life_files.append((me, descriptor, path))
        atexit.register(_remove_own_file, me, path)
        return path


def _is_same_file(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))  # noqa: PTH116
    except OSError:
        return False


def _remove_own_file(owner: int, path: str) -> None:
    if os.getpid() == owner:
        with suppress(OSError):
            os.unlink(path)  # noqa: PTH108  as `os.open` takes it


def _run_until_parent_ends(parent: int, lock: str, argv: list[str]) -> None:
    """Replace this process by a program that is killed when the parent ends."""
    if lock != _NO_LOCK:
        _start_watcher(lock)
    # The kernel keeps this setting when the program takes the place of this process.
    elif _prctl(_PR_SET_PDEATHSIG, SIGKILL):
        sys.exit(f"{argv[0]}: not started, because it could outlive Forum: prctl failed")
    if os.getppid() != parent:
        sys.exit(1)  # the parent died before the setting took effect
    try:
        os.execvp(argv[0], argv)  # noqa: S606  # the operator configured the command
    except OSError as error:
        sys.exit(f"{argv[0]}: {error.strerror}")


def _start_watcher(lock: str) -> None:
    """Start a process that kills this one, whatever program it becomes, when the lock is free."""
    program, (reading, writing) = os.getpid(), os.pipe()
    if os.fork() == 0:
        try:
            # A session of its own: Ctrl-C, and the end of the program's process group, spare it.
            os.setsid()
            # A second fork, so that the program has no child that it does not know.
            if os.fork() == 0:
                _watch(program, lock, writing)
        finally:
            os._exit(0)
    os.wait()
    os.close(writing)
    if not os.read(reading, 1):
        sys.exit("not started, because it could outlive Forum: the watching process has failed")
    os.close(reading)


def _watch(program: int, lock: str, writing: int) -> None:
    """Kill a program as soon as the lock of its parent is free; return when the program is gone."""
    descriptor = os.open(lock, os.O_RDWR)
    nowhere = os.open(os.devnull, os.O_RDWR)
    # The watcher must not hold the program's pipes: their readers wait for end of file.
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    os.write(writing, b"\n")
    os.close(writing)
    # An id is not used again within one interval: the kernel gives out all others before.
    while _exists(program):
        with suppress(BlockingIOError, PermissionError):
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(ProcessLookupError, PermissionError):
                os.kill(program, SIGKILL)
            with suppress(OSError):
                os.unlink(lock)  # noqa: PTH108  pathlib is slow to import
            return
        time.sleep(_POLL_INTERVAL_S)


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it has become another user's, as with sudo
        return True
    return True


# All processes that descend from one.

_PROCESSES = "/proc"


def adopt_orphans() -> bool:
    """Become the parent of every descendant whose own parent ends; return False if none can."""
    return _has_prctl() and _prctl(_PR_SET_CHILD_SUBREAPER, 1) == 0


def die_with_parent(parent: int) -> None:
    """Have this process, or the program in its place, killed when its parent ends, if it can be."""
    if _has_prctl():
        _prctl(_PR_SET_PDEATHSIG, SIGKILL)
        if os.getppid() != parent:
            os._exit(1)  # the parent died before the setting took effect


_THREADS_FIELD = 14
"""Where the number of threads stands in the file `stat` of a process, behind its process group."""


def list_descendants(ancestor: int, *, group: int = 0) -> list[tuple[int, str]]:
    """Return the processes that descend from one, with their names; of a group too, if given.

    Those that have ended and were not reaped are none.
    """
    processes = _read_processes()
    family, size = {ancestor}, 0
    while len(family) > size:
        size = len(family)
        family |= {process for process, (parent, _, _) in processes.items() if parent in family}
    if group:
        family |= {process for process, (_, of, _) in processes.items() if of == group}
    return [
        (process, processes[process][2])
        for process in sorted(family & processes.keys() - {ancestor})
    ]


def has_variable(process: int, variable: str) -> bool:
    """Return whether a process was started with a variable, given as NAME=VALUE."""
    threads = f"{_PROCESSES}/{process}/task"
    with suppress(OSError):
        # Of each thread: the first one, by which a process is known, may have ended.
        for thread in os.listdir(threads):  # noqa: PTH208  pathlib is slow to import
            with suppress(OSError), open(f"{threads}/{thread}/environ", "rb") as file:  # noqa: PTH123
                if variable.encode() in file.read().split(b"\0"):
                    return True
    return False


def _read_processes() -> dict[int, tuple[int, int, str]]:
    """Return parent, process group and name of each process that has not ended."""
    if not os.path.isdir(f"{_PROCESSES}/self"):  # noqa: PTH112  pathlib is slow to import
        return _ask_for_processes()
    processes = {}
    for name in os.listdir(_PROCESSES):  # noqa: PTH208  the same
        if name.isdigit():
            # A process may end while it is looked at.
            with suppress(OSError, ValueError):
                with open(f"{_PROCESSES}/{name}/stat", "rb") as file:  # noqa: PTH123
                    data = file.read()
                # The name may have any bytes, also parentheses and blanks.
                start, end = data.index(b"(") + 1, data.rindex(b")")
                state, parent, group, *rest = data[end + 2 :].split()
                # Of a program whose first thread has ended, the others may go on.
                if state not in (b"Z", b"X") or int(rest[_THREADS_FIELD]) > 1:
                    named = data[start:end].decode(errors="replace")
                    processes[int(name)] = (int(parent), int(group), named)
    return processes


def _ask_for_processes() -> dict[int, tuple[int, int, str]]:
    """Return the same where there is no /proc."""
    import subprocess

    argv = ["/bin/ps", "-axo", "pid=,ppid=,pgid=,stat=,comm="]
    listed = subprocess.run(argv, capture_output=True, check=False).stdout  # noqa: S603  constant
    processes = {}
    for line in listed.decode(errors="replace").splitlines():
        process, parent, group, state, *name = line.split(None, 4)
        if not state.startswith("Z"):
            processes[int(process)] = (int(parent), int(group), os.path.basename("".join(name)))  # noqa: PTH119
    return processes


# A control group, which the kernel kills as a whole.


def make_control_group(name: str) -> str:
    """Make a control group within that of this process, and return its folder; "" if none can be.

    It needs version 2 of control groups, Linux 5.14, and a folder that this user may write to.
    """
    folder = _own_control_group()
    if not folder:
        return ""
    made = os.path.join(folder, name)  # noqa: PTH118  pathlib is slow to import
    try:
        os.mkdir(made)  # noqa: PTH102
    except OSError:
        return ""
    if os.path.exists(f"{made}/cgroup.kill"):  # noqa: PTH110
        return made
    remove_control_group(made)
    return ""


def _own_control_group() -> str:
    try:
        with open("/proc/self/cgroup") as file:  # noqa: PTH123
            own = next((line[3:].strip() for line in file if line.startswith("0::")), "")
        with open("/proc/self/mountinfo") as file:  # noqa: PTH123
            for line in file:
                mount, _, source = line.partition(" - ")
                root, place = mount.split()[3:5]
                base = root.rstrip("/")
                if source.startswith("cgroup2 ") and own.startswith(f"{base}/"):
                    return place + own.removeprefix(base)
    except (OSError, ValueError):
        pass
    return ""


def join_control_group(folder: str) -> None:
    """Move this process into a control group, if that is allowed."""
    _write_control(folder, "cgroup.procs", "0")


def kill_control_group(folder: str) -> None:
    """Kill all processes of a control group at once, so that none can start another one."""
    _write_control(folder, "cgroup.kill", "1")


def _write_control(folder: str, name: str, text: str) -> None:
    # Without the group, its members are found one by one.
    with suppress(OSError), open(f"{folder}/{name}", "w") as file:  # noqa: PTH123
        file.write(text)


def remove_control_group(folder: str) -> None:
    """Remove a control group whose processes have been killed."""
    for _ in range(50):
        try:
            os.rmdir(folder)  # noqa: PTH106
        except OSError as error:
            if error.errno != errno.EBUSY:
                return
            time.sleep(0.01)


# Confinement of programs, by bubblewrap.

BUBBLEWRAP = "bwrap"
_READ_ONLY_KERNEL_FILES = ("bus", "driver", "fs", "irq", "mtrr", "pressure", "sys", "sysrq-trigger")
"""Parts of /proc with settings of the kernel.  Bubblewrap leaves some of them to their modes, and
for root those of /proc/sys allow everything."""
_HIDDEN_KERNEL_FILES = (
    "acpi", "asound", "kcore", "key-users", "keys", "kmsg", "latency_stats", "sched_debug", "scsi",
    "timer_list",
)  # fmt: skip
"""Parts of /proc that tell of the machine, or of keys, what no program needs."""


def confinement_problem() -> tuple[str, str] | None:
    """Return why programs cannot be confined on this machine and what to do, or None.

    There is no portable way: where there is a problem, a program that must be confined is not run.
    """
    import shutil

    if SYSTEM != "linux":
        return (
            f"confinement needs Linux, and this is {SYSTEM}",
            "run Forum in a Linux container or virtual machine",
        )
    if shutil.which(BUBBLEWRAP) is None:
        return "bubblewrap is not installed", "apt install bubblewrap"
    return None


def machine() -> str:
    """Return the name of the processor's architecture, as this process uses it."""
    name = os.uname().machine
    return name if sys.maxsize > 1 << 32 else f"{name} with 32 bits"


def confining_options(*, with_network: bool, is_root: bool) -> tuple[str, ...]:
    """Return the options of bubblewrap that leave a program no rights, and its own processes.

    `with_network` keeps the network namespace of the caller.  A program of root gets a user
    namespace that was made before, with another user in it.
    """
    return (
        *(() if is_root else ("--unshare-user", "--disable-userns")),
        "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
        "--die-with-parent", "--new-session", "--cap-drop", "ALL",
        *(() if with_network else ("--unshare-net",)),
    )  # fmt: skip


def kernel_file_systems(empty: str) -> Iterator[str]:
    """Yield options that show a program its own processes and a few devices, and no more.

    `empty` is an empty file that takes the place of hidden ones.
    """
    yield from ("--proc", "/proc", "--dev", "/dev")
    for name in _READ_ONLY_KERNEL_FILES:
        path = f"/proc/{name}"
        if os.path.lexists(path):
            yield from ("--ro-bind", path, path)
    for name in _HIDDEN_KERNEL_FILES:
        path = f"/proc/{name}"
        if os.path.isdir(path):  # noqa: PTH112  pathlib is slow to import
            yield from ("--tmpfs", path, "--remount-ro", path)
        elif os.path.lexists(path):
            yield from ("--ro-bind", empty, path)


def network_namespace_command(*, is_root: bool) -> tuple[str, ...]:
    """Return the beginning of a command that runs a program of ours in a network of its own.

    Root needs no user namespace for that, and one would not have the user of the program.
    """
    user = ("--unshare-user", "--uid", "0", "--gid", "0")
    return (
        BUBBLEWRAP, *(() if is_root else user), "--unshare-net", "--unshare-pid",
        "--die-with-parent", "--cap-add", "ALL", "--dev-bind", "/", "/", "--",
    )  # fmt: skip


def missing_features() -> list[str]:
    """Return what this machine lacks of what Forum uses on Linux, and what happens instead."""
    missing = []
    if not hasattr(os, "pidfd_open"):
        missing.append("no pidfd: a thread waits for the exit of each program")
    if not _has_prctl():
        missing.append(
            "no prctl: if Forum is killed, a second process ends its programs; a debugger of the "
            "same user can read the keys of `forum run`"
        )
    if problem := confinement_problem():
        missing.append(f"no confinement: {problem[0]}")
    return missing


if __name__ == "__main__":
    _run_until_parent_ends(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
