"""Mount a file system, or uncover what a mount hides."""

import os
import sys

from _tools import call, succeed, target

if os.fork() == 0:
    covered = [os.fsencode(path) + b"\0" for path in target()["secrets"]]
    tries: list[tuple[str, *tuple[bytes | int | None, ...]]] = [
        ("mount", b"none\0", b"/tmp\0", b"tmpfs\0", 0, None)
    ]
    tries += [("umount2", path, 2) for path in (b"/proc/sys\0", b"/proc\0", *covered)]
    for name, *arguments in tries:
        try:
            if name == "mount":
                call("unshare", 0x20000)  # do not disturb the machine on which this succeeds
                call("mount", None, b"/\0", None, 1 << 14 | 1 << 18, None)
            call(name, *arguments)
            os._exit(0)
        except OSError as error:
            print(error)
    os._exit(1)
if os.wait()[1] == 0:
    succeed("mounted")
sys.exit("nothing")
