"""`python -m benchmarks.routing_weights`: what the semantic rung remembers of the default roster.

To be run whenever the roster has changed; it takes some minutes, and a test notices if it was not.
"""

from pathlib import Path

import forum.models
from forum.app.planner import load_roster
from forum.models.embedding import MiniLM
from forum.models.semantic_routing import signs_file_name, signs_of
from forum.models.user_cache import write_atomically

FOLDER = Path(forum.models.__file__).parent


def main() -> None:
    """Write the file that belongs to the roster, and remove those of earlier ones."""
    roster = load_roster()
    file = FOLDER / signs_file_name(roster)
    write_atomically(file, signs_of(roster, MiniLM()).tobytes())
    for other in FOLDER.glob("roster-*.bits"):
        if other != file:
            other.unlink()
    print(f"{file.name}: {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
