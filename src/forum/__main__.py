"""What `forum` and ``python -m forum`` start: the command line.

`forum hook` guards a tool: it runs within `hook_guard`, imports included.
"""

import os
import sys

_BLOCKED = 2


def main() -> None:
    """Run the command line."""
    command = ""
    for command in sys.argv[1:]:
        if not command.startswith("-"):
            break
    if command != "hook":
        _run()
        return
    try:
        from forum.hook_guard import run_guarded

        run_guarded(_run)
    finally:
        # Reached only if the guard itself cannot be imported.
        os._exit(_BLOCKED)


def _run() -> None:
    from forum.surfaces.cli import main as run_command

    run_command()


if __name__ == "__main__":
    main()
