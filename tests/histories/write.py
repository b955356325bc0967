"""Write the history of a release: what its users have on disk on the day of the next one.

    python -m tests.histories.write dist/forumd-0.1.0-py3-none-any.whl tests/histories/0.1.0

Run it once for each release, with the wheel of that release, before anything else changes; later
releases are tested against what it wrote.  Every command is one of the release itself, started as a
user starts it.  The ledger has two epochs, notes, plans with several tasks and a gate, a council, a
redacted body, keys granted and revoked, an export, and runs that wait to be continued.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

from tests.soak.cluster import scratch_database

POSTGRES = "postgresql://postgres@127.0.0.1:5432/test"
LARGE_DATA = (".bits", ".js", ".js.gz", ".css", ".css.gz", ".woff2")
"""The weights of the router and the dashboard: nothing that a plan with named agents needs."""

# The name of a machine stands in rows of DBOS and in leases; it is nobody's business.
RUN_RELEASE = """
import socket, sys
socket.gethostname = lambda: "host"
from forum.surfaces.cli import main
sys.argv[0] = "forum"
main()
"""

PLAN = """\
request = "Write a short report about a river."

[[tasks]]
id = "facts"
instruction = "Name a river and its length."

[[tasks]]
id = "count"
instruction = "Count the words of what you are given."
needs = ["facts"]
agent = "counter"
done_when = "matches [0-9]+"

[[tasks]]
id = "report"
instruction = "Write the report."
needs = ["facts"]
after = ["count"]
agent = "writer"
done_when = "contains Danube"

[policy.agents.""]
kind = "scripted"
moves.facts = [{ say = "The Danube is 2850 km long." }]

[policy.agents.counter]
kind = "command"
argv = ["wc", "-w"]

[policy.agents.writer]
kind = "scripted"
moves.report = [{ say = "A report: the Danube is 2850 km long." }]
"""

PROJECT = """\
[models.ash]
kind = "scripted"
[models.ash.moves]
"~ballot.0.1" = [{ say = '{"answer": "yes", "confidence": 60}' }]
"~ballot.1.1" = [{ say = '{"answer": "no", "confidence": 90, "because": ["c1"]}' }]

[models.birch]
kind = "scripted"
[models.birch.moves]
"~ballot.0.2" = [{ say = '{"claims": [{"text": "7 times 13 is 91", "evidence": "multiply"}], "answer": "no", "confidence": 95}' }]
"~ballot.1.2" = [{ say = '{"answer": "no", "confidence": 95}' }]

[models.cedar]
kind = "scripted"
[models.cedar.moves]
"~ballot.0.3" = [{ say = '{"answer": "yes", "confidence": 70}' }]
"~ballot.1.3" = [{ say = '{"answer": "no", "confidence": 50}' }]
"""  # noqa: E501

TEN_YEARS = "315360000"
"""For how long a gate waits: the tests of later releases decide it."""


@dataclass(frozen=True, slots=True)
class Release:
    """A release that is unpacked beside the present one, with the same libraries."""

    folder: Path

    def environ(self, home: Path, database: str | None) -> dict[str, str]:
        """Return the environment in which its commands find a project and nothing of ours."""
        mine = {n: v for n, v in os.environ.items() if not n.startswith(("FORUM_", "PYTHON"))}
        mine |= {"FORUM_STATE_DIR": str(home / "state"), "PYTHONPATH": str(self.folder)}
        # Python takes only what is on the path: an editable install of ours would come later.
        return mine | ({"FORUM_DATABASE_URL": database} if database else {})

    def call(
        self, home: Path, database: str | None, *words: str, status: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a project."""
        done = subprocess.run(
            [sys.executable, "-c", RUN_RELEASE, *words],
            cwd=home,
            env=self.environ(home, database),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != status:
            raise RuntimeError(f"forum {' '.join(words)}: {done.returncode} {done.stderr}")
        return done


def unpack(archive: Path, folder: Path) -> Release:
    """Unpack a release, from its wheel or from what was kept of it, into a folder."""
    if archive.suffix == ".whl":
        with ZipFile(archive) as wheel:
            wheel.extractall(folder)  # noqa: S202  a wheel of ours
    else:
        with tarfile.open(archive) as kept:
            kept.extractall(folder, filter="data")
    return Release(folder)


def pack(wheel: Path, target: Path) -> None:
    """Keep the code of a wheel without its largest data, packed tighter than a wheel can be."""
    with ZipFile(wheel) as whole, tarfile.open(target, "w:xz", preset=9) as packed:
        for name in sorted(whole.namelist()):
            if not name.endswith(LARGE_DATA):
                item = tarfile.TarInfo(name)
                item.size = whole.getinfo(name).file_size
                packed.addfile(item, whole.open(name))


def write_ledger(release: Release, home: Path, database: str | None) -> dict[str, Any]:
    """Make a ledger in a project folder, and return what later releases must find in it."""

    def forum(*words: str, status: int = 0) -> str:
        return release.call(home, database, *words, status=status).stdout.strip()

    def ask(*words: str, status: int = 0) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(forum(*words, "--json", status=status))
        return document

    (home / "forum.toml").write_text(PROJECT)
    (home / "plan.toml").write_text(PLAN)
    forum("init")
    first = ask("ledger", "note", "The first note of the first epoch.")
    forum("submit", "Count these words.", "--cmd", "wc -w", "--no-route")
    forum("ledger", "epoch", "--yes")
    # From here on in the second epoch.
    kept = ask("ledger", "note", "Überlebt: a note that stays. \u2028 \U0001f30a")
    erased = ask("ledger", "note", "A note with a name in it, which is erased.")
    forum("ledger", "redact", erased["id"], "text", "--reason", "legal")
    forum("submit", "Count these words too.", "--cmd", "wc -w", "--no-route")
    run = forum("submit", "--plan", "plan.toml", "--gate", "task:report", "--no-route", "--detach")
    forum("resume", run, status=6)
    forum("gate", "approve", run, "task/report")
    answer = forum("resume", run)
    question = ["deliberate", "Is 91 a prime number?", "--models", "ash,birch,cedar"]
    council = ask(*question, "--option", "yes", "--option", "no")
    stays = ask("keys", "create", "--name", "auditor", "--scope", "audit", "--scope", "read")
    gone = ask("keys", "create", "--name", "former", "--scope", "admin")
    forum("keys", "revoke", gone["key"]["id"])
    forum("ledger", "export", run, "-o", "bundle.zip")
    (home / "policy").write_text(forum("ledger", "policy") + "\n")
    gate = ("--gate", "task:report", "--gate-seconds", TEN_YEARS)
    waits = forum("submit", "--plan", "plan.toml", *gate, "--no-route", "--detach")
    forum("resume", waits, status=6)
    accepted = forum("submit", "--plan", "plan.toml", "--no-route", "--detach")
    forum("ledger", "note", "The last note before the next release.")
    forum("ledger", "verify")  # whose exit status says that everything holds
    summary = ask("ledger", "summary")
    return {
        "release": forum("--version").rpartition(" ")[2],
        "origin": summary["origin"],
        "size": summary["size"],
        "root": summary["root"],
        "first_note": first["id"],
        "note": kept["id"],
        "redacted": erased["id"],
        "run": run,
        "answer": answer,
        "council": council["run"],
        "key": stays["key"]["id"],
        "revoked_key": gone["key"]["id"],
        "waiting_run": waits,
        "accepted_run": accepted,
    }


def write_rotated(release: Release, home: Path) -> dict[str, Any]:
    """Make a ledger that goes on under another signing key, and bundles of before and after."""

    def forum(*words: str) -> str:
        return release.call(home, None, *words).stdout.strip()

    (home / "forum.toml").write_text("")
    forum("init")
    before = json.loads(forum("ledger", "note", "Under the first key.", "--json"))
    (home / "policy").write_text(forum("ledger", "policy") + "\n")
    forum("keys", "rotate-log", "--yes")
    after = json.loads(forum("ledger", "note", "Under the second key.", "--json"))
    forum("ledger", "export", after["run"], "-o", "bundle.zip")
    forum("ledger", "verify")
    return {"before": before["run"], "after": after["run"]}


def keep(home: Path, target: Path, expected: dict[str, Any]) -> None:
    """Keep what a user would still have: data and state, the bundle and its policy."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    without = shutil.ignore_patterns("*.lock", ".gitignore", "*-wal", "*-shm", "projects")
    # Under a name that no .gitignore knows.
    shutil.copytree(home / ".forum", target / "data", ignore=without)
    shutil.copytree(home / "state", target / "state", ignore=without)
    for name in ("forum.toml", "bundle.zip", "policy"):
        shutil.copy(home / name, target / name)
    (target / "expected.json").write_text(json.dumps(expected, indent=2, sort_keys=True) + "\n")


def dump(database: str) -> str:
    """Return the tables of Forum and DBOS as statements that any client can send."""
    options = ["--no-owner", "--no-privileges", "--inserts", "--schema=forum", "--schema=dbos"]
    done = subprocess.run(
        ["pg_dump", *options, database], capture_output=True, text=True, check=True
    )
    # Lines with a backslash are for psql alone.
    return "".join(x for x in done.stdout.splitlines(keepends=True) if not x.startswith("\\"))


def main() -> None:
    """Write the history of one release on both databases."""
    wheel, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as name:
        release = unpack(wheel, Path(name) / "release")
        pack(wheel, folder / "release.tar.xz")
        for kind in ("sqlite", "postgres", "rotated"):
            home = Path(name) / kind
            home.mkdir()
            if kind == "rotated":
                keep(home, folder / kind, write_rotated(release, home))
            elif kind == "sqlite":
                keep(home, folder / kind, write_ledger(release, home, None))
            else:
                with scratch_database(os.environ.get("FORUM_TEST_POSTGRES", POSTGRES)) as url:
                    release.call(home, url, "db", "upgrade")
                    keep(home, folder / kind, write_ledger(release, home, url))
                    (folder / kind / "dump.sql").write_text(dump(url))


if __name__ == "__main__":
    main()
