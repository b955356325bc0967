"""Start bubblewrap from a process of its own, which prepares what bubblewrap cannot.

It runs as a separate program, the last of Forum's before a confined one:

    python -I -S sandbox_start.py BUBBLEWRAP [--become UID,GID] [--relay IP,PORT,SOCKET]...
        [--pin FOLDER]... [--empty FILE] [--cover DEVICE,NUMBER,FILE]...
        --filter FILE -- OPTION... -- PROGRAM...

where each OPTION is one of bubblewrap's.  Before it becomes bubblewrap, the process

- joins a new session keyring, so that the keys of the user stay outside;
- opens what is to be bound, step by step and without following a link, and has bubblewrap bind the
  open descriptors: a path that another program replaces in the meantime leads nowhere;
- with `--cover`, mounts the empty file over a secret, by descriptor too, and fails if another file
  is there than was found; with `--pin`, mounts a folder onto itself, because no program can rename
  or remove what is a mount.  Both need a mount namespace of our own, that of an outer bubblewrap;
- with `--become`, makes a user namespace in which the program is that user and no other.  Root
  starts programs so, because user 0 owns the settings of the kernel wherever it is confined.  Root
  has a number there too, for bubblewrap to see root's folders, but no program can take it;
- with `--relay`, forwards connections to a loopback address to a Unix socket, where the worker
  connects them to the one address that it stands for.  The relay continues in a child process that
  the program can neither see nor stop.

Only the standard library is used, because the interpreter is started in isolated mode without
site-packages, and the slower parts of it only where they are needed.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

_CHUNK_BYTES = 1 << 16
_END = "--"
_OWN_OPTIONS = ("--become", "--relay", "--pin", "--empty", "--cover", "--filter")
_BINDS = {
    "--bind": "--bind-fd", "--bind-try": "--bind-fd",
    "--ro-bind": "--ro-bind-fd", "--ro-bind-try": "--ro-bind-fd",
}  # fmt: skip
_VALUES = {
    "--symlink": 2, "--tmpfs": 1, "--dir": 1, "--remount-ro": 1, "--proc": 1, "--dev": 1,
    "--chdir": 1, "--uid": 1, "--gid": 1, "--cap-drop": 1, "--unshare-user": 0,
    "--disable-userns": 0, "--unshare-pid": 0, "--unshare-ipc": 0, "--unshare-uts": 0,
    "--unshare-cgroup-try": 0, "--unshare-net": 0, "--die-with-parent": 0, "--new-session": 0,
}  # fmt: skip
"""How many values an option of bubblewrap has.  A value, such as the target of a link in the
project, may look like an option."""
_MORE_DESCRIPTORS, _MAX_DESCRIPTOR = 4096, 1 << 16
_CLONE_NEWUSER = 0x10000000
_MS_RDONLY, _MS_REMOUNT = 1, 32
_MS_BIND = 4096
_KEPT_FLAGS = 2 | 4 | 8 | 1024 | 2048
"""Flags of a mount (nosuid, nodev, noexec, noatime, nodiratime) that only its maker may remove."""
_O_PATH = getattr(os, "O_PATH", 0)  # only Linux has it, and this script runs nowhere else
_KEYCTL = {"x86_64": 250, "aarch64": 219}
_JOIN_SESSION_KEYRING = 1
_NO_KEYRING = (errno.ENOSYS, errno.EPERM, errno.EDQUOT)
"""Errors of a kernel without keys, of a container that forbids them, and of a user with too many.

The filter of the program denies all use of keys, whatever keyring it has.
"""
_MOVED = "what is to be hidden was moved or replaced; start the program again"
_ROOT_INSIDE = 65532
"""The number of root in the user namespace of a program.  Not 0: a process that leaves user 0 loses
its rights, and bubblewrap needs them until it has mounted everything."""


def main(words: list[str]) -> None:
    """Prepare the process, and replace it by bubblewrap."""
    asked = iter(words)
    command = next(asked)
    values: dict[str, list[str]] = {name: [] for name in _OWN_OPTIONS}
    for name in asked:
        if name == _END:
            break
        values[name].append(next(asked))
    relays = [_listen(*value.split(",", 2)) for value in values["--relay"]]
    _join_new_keyring()
    if relays:
        _start_relay(relays)
    # Without a filter no program is started.
    (filter_file,) = values["--filter"]
    options = ["--seccomp", str(_inherit(os.open(filter_file, os.O_RDONLY)))]
    for become in values["--become"]:
        uid, gid = map(int, become.split(","))
        _give_pipes(uid, gid)
        namespace = _make_namespace(uid, gid)
        # Bubblewrap closes its `--sync-fd` before it starts the program.
        options += ["--userns", str(namespace), "--sync-fd", str(namespace)]
        options += ["--uid", str(uid), "--gid", str(gid)]
    _pin_folders(values["--pin"])
    for empty in values["--empty"]:
        _cover_secrets(empty, values["--cover"])
    options += _bind_by_descriptor(asked)
    os.execvp(command, [command, *options, _END, *asked])  # noqa: S606  Forum composed it


def _inherit(descriptor: int) -> int:
    os.set_inheritable(descriptor, True)  # noqa: FBT003  as Python has it
    return descriptor


# Secrets where programs may make files.


def _pin_folders(paths: list[str]) -> None:
    """Mount folders onto themselves, outer ones first."""
    for path in paths:
        folder = _open_anew(path)
        _mount(folder, folder, _MS_BIND)
        os.close(folder)


def _cover_secrets(empty: str, covered: list[str]) -> None:
    """Mount an empty file over secrets.  Raises `OSError` if one is not where it was found."""
    for device, number, path in (word.split(",", 2) for word in covered):
        source, secret = _open_anew(empty), _open_anew(path)
        status = os.fstat(secret)
        if (status.st_dev, status.st_ino) != (int(device), int(number)):
            raise OSError(errno.ESTALE, _MOVED, path)
        _mount(source, secret, _MS_BIND)
        cover = _open_anew(path)
        flags = os.fstatvfs(cover).f_flag & _KEPT_FLAGS
        _mount(cover, cover, _MS_BIND | _MS_REMOUNT | _MS_RDONLY | flags)
        for descriptor in (source, secret, cover):
            os.close(descriptor)


def _open_anew(path: str) -> int:
    """Return a descriptor of what is mounted at a path by now."""
    opener = _PathOpener()
    try:
        return opener.open(path)
    except FileNotFoundError:
        raise OSError(errno.ESTALE, _MOVED, path) from None
    finally:
        opener.close()


def _mount(source: int, target: int, flags: int) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    ends = (f"/proc/self/fd/{number}".encode() for number in (source, target))
    if libc.mount(*ends, None, ctypes.c_ulong(flags), None):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "mount")


# Binding by descriptor.


def _bind_by_descriptor(words: Iterator[str]) -> Iterator[str]:
    """Yield bubblewrap's options up to the end mark, with descriptors in place of bound paths."""
    opener = _PathOpener()
    for word in words:
        if word == _END:
            break
        if word in _BINDS:
            source, target = next(words), next(words)
            try:
                descriptor = opener.open(source)
            except FileNotFoundError:
                # The file may have vanished, like an editor's temporary file.
                if word.endswith("-try"):
                    continue
                raise
            yield from (_BINDS[word], str(descriptor), target)
        else:
            # A word that is not known has no number of values: nothing is started.
            yield word
            for _ in range(_VALUES[word]):
                yield next(words)
    opener.close()


class _PathOpener:
    """Opens paths without following any link.  Keeps the last folder open, which is often next."""

    def __init__(self) -> None:
        self._folder, self._descriptor = "", -1

    def open(self, path: str) -> int:
        """Return a descriptor that bubblewrap inherits.  Raises `OSError`, also for a link."""
        folder, name = os.path.split(path)
        if folder != self._folder:
            self.close()
            self._folder, self._descriptor = folder, self._open_folder(folder)
        try:
            descriptor = self._open_step(name or ".", self._descriptor)
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
            _raise_descriptor_limit()
            descriptor = self._open_step(name or ".", self._descriptor)
        if stat.S_ISLNK(os.fstat(descriptor).st_mode):
            raise OSError(errno.ELOOP, "a link took the place of what is to be bound", path)
        return _inherit(descriptor)

    def close(self) -> None:
        """Close the last folder."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._folder, self._descriptor = "", -1

    def _open_folder(self, path: str) -> int:
        here = os.open("/", _O_PATH | os.O_DIRECTORY)
        for step in path.split("/"):
            if step:
                inner = self._open_step(step, here, os.O_DIRECTORY)
                os.close(here)
                here = inner
        return here

    def _open_step(self, name: str, folder: int, flags: int = 0) -> int:
        return os.open(name, _O_PATH | os.O_NOFOLLOW | flags, dir_fd=folder)


def _raise_descriptor_limit() -> None:
    """Allow some more open descriptors: a folder that is shown entry by entry may need many."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft + _MORE_DESCRIPTORS, hard), hard))


# Rights.


def _join_new_keyring() -> None:
    """Leave the session keyring of the user, which a child process shares.

    Raises `OSError` if that fails for a reason that does not keep the program from keys as well.
    """
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    number = _KEYCTL[os.uname().machine]
    if libc.syscall(number, _JOIN_SESSION_KEYRING, None) < 0:
        code = ctypes.get_errno()
        if code not in _NO_KEYRING:
            raise OSError(code, os.strerror(code), "keyctl")


def _make_namespace(uid: int, gid: int) -> int:
    """Return a user namespace with root and one other user, in which no other can be made."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    (from_child, to_parent), (from_parent, to_child) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if libc.unshare(_CLONE_NEWUSER) == 0:
                # The numbers of /proc may be those of an outer namespace of processes.
                os.write(to_parent, os.readlink("/proc/self").encode())  # noqa: PTH115
                os.read(from_parent, 1)
                # The setting is that of the namespace of the process that writes it.
                with open("/proc/sys/user/max_user_namespaces", "w") as file:  # noqa: PTH123
                    file.write("0")
                os.write(to_parent, b"done")
        finally:
            os._exit(0)
    os.close(to_parent)
    process = _hear(from_child)
    for name, number in (("uid", uid), ("gid", gid)):
        lines = f"{_ROOT_INSIDE} 0 1\n{number} {number} 1\n"
        with open(f"/proc/{process}/{name}_map", "w") as file:  # noqa: PTH123
            file.write(lines)
    namespace = os.open(f"/proc/{process}/ns/user", os.O_RDONLY)
    os.write(to_child, b"1")
    _hear(from_child)
    for end in (from_child, from_parent, to_child):
        os.close(end)
    os.waitpid(child, 0)
    return _inherit(namespace)


def _hear(pipe: int) -> str:
    """Return what the child has to say.  Ends this process if the child has failed."""
    words = os.read(pipe, 100).decode()
    if not words:
        sys.exit("root cannot make a user namespace for the program; run Forum as another user")
    return words


def _give_pipes(uid: int, gid: int) -> None:
    """Let the program open its own streams again, as `cat /dev/stdin` does."""
    for number in (0, 1, 2):
        with suppress(OSError):
            # Only a pipe without a name, which is the program's own: others may use a named one.
            if os.readlink(f"/proc/self/fd/{number}").startswith("pipe:["):  # noqa: PTH115
                os.fchown(number, uid, gid)


# The relay.


def _start_relay(listening: list[tuple[socket.socket, str]]) -> None:
    """Fork a child that relays for as long as the network namespace has processes."""
    from threading import Thread

    if os.fork():
        for listener, _ in listening:
            listener.close()
        return
    # The relay must not hold the program's pipes: their readers wait for end of file.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    # Nor anything else that was meant for the program, such as the other end of its terminal.
    first = 3
    for number in (*sorted(listener.fileno() for listener, _ in listening), _MAX_DESCRIPTOR):
        os.closerange(first, number)
        first = number + 1
    servers = [Thread(target=_serve, args=pair) for pair in listening]
    for server in servers:
        server.start()
    # Python 3.12 starts no thread for a client once the main thread has ended.
    for server in servers:
        server.join()
    os._exit(0)


def _listen(ip: str, port: str, path: str) -> tuple[socket.socket, str]:
    import socket

    return socket.create_server((ip, int(port)), backlog=128), path


def _serve(listener: socket.socket, path: str) -> None:
    from threading import Thread

    while True:
        client, _ = listener.accept()
        Thread(target=_relay_client, args=(client, path), daemon=True).start()


def _relay_client(client: socket.socket, path: str) -> None:
    import socket

    with client, socket.socket(socket.AF_UNIX) as outside:
        try:
            outside.connect(path)
        except OSError:
            return
        relay_both_ways(client, outside)


def relay_both_ways(client: socket.socket, other: socket.socket) -> None:
    """Copy bytes in both directions until both sides have ended."""
    from threading import Thread

    back = Thread(target=_copy_stream, args=(other, client), daemon=True)
    back.start()
    _copy_stream(client, other)
    back.join()


def _copy_stream(source: socket.socket, target: socket.socket) -> None:
    from socket import SHUT_RDWR, SHUT_WR

    try:
        while piece := source.recv(_CHUNK_BYTES):
            target.sendall(piece)
        target.shutdown(SHUT_WR)
    except OSError:
        # One side is gone: wake the other direction, which would wait forever.
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(SHUT_RDWR)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as problem:
        sys.exit(f"the sandbox cannot be made: {problem}")
