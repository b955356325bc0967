"""A network that can be cut: a namespace behind a router that drops packets and resets nothing.

It needs the rights of root, which a container may refuse.
"""

import os
import shutil
import subprocess
from contextlib import suppress
from secrets import randbelow
from types import TracebackType
from typing import Self


def can_make_networks() -> bool:
    """Return whether this process may make networks."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"forum-try-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return made.returncode == 0


class SeparateNetwork:
    """Programs in a namespace, which reach this machine at `address` until they are cut off."""

    def __init__(self) -> None:
        self._id = randbelow(10_000)
        self._router, self._inside = f"forum-r{self._id}", f"forum-i{self._id}"
        base = f"10.{64 + self._id // 250}.{self._id % 250}"
        self.address = f"{base}.1"
        """This machine, as the programs inside reach it."""
        self._near, self._far = f"{base}.2", f"{base}.6"
        self._own = f"{base}.5"
        self._behind = f"{base}.4/30"

    def __enter__(self) -> Self:
        router, inside = self._router, self._inside
        links = (f"fa{self._id}", f"fb{self._id}")
        try:
            for namespace in (router, inside):
                _ip("netns", "add", namespace)
                _ip("-n", namespace, "link", "set", "lo", "up")
            _ip("link", "add", links[0], "type", "veth", "peer", "name", "near", "netns", router)
            _ip("addr", "add", f"{self.address}/30", "dev", links[0])
            _ip("link", "set", links[0], "up")
            _ip("-n", router, "link", "add", "far", "type", "veth", "peer", "name", "own",
                "netns", inside)  # fmt: skip
            for namespace, link, address in (
                (router, "near", self._near),
                (router, "far", self._far),
                (inside, "own", self._own),
            ):
                _ip("-n", namespace, "addr", "add", f"{address}/30", "dev", link)
                _ip("-n", namespace, "link", "set", link, "up")
            _ip("-n", inside, "route", "add", "default", "via", self._far)
            _ip("route", "add", self._behind, "via", self._near)
            self.join()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()

    @property
    def prefix(self) -> list[str]:
        """The words before a command that runs in this network."""
        return ["ip", "netns", "exec", self._inside]

    @property
    def subnet(self) -> str:
        """The addresses of programs inside."""
        return self._behind

    def cut(self) -> None:
        """Drop all packets from now on."""
        self._forward("0")

    def join(self) -> None:
        """Pass packets on."""
        self._forward("1")

    def _forward(self, value: str) -> None:
        write = f"echo {value} > /proc/sys/net/ipv4/ip_forward"
        subprocess.run(["ip", "netns", "exec", self._router, "sh", "-c", write], check=True)

    def _remove(self) -> None:
        for namespace in (self._inside, self._router):
            with suppress(subprocess.CalledProcessError):
                _ip("netns", "del", namespace)
        with suppress(subprocess.CalledProcessError):  # gone with its other end, a moment later
            _ip("link", "del", f"fa{self._id}")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
