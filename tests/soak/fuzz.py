"""Requests that are made up from the OpenAPI document, by the thousand, by everybody who may come.

A server answers each of them as its document says, whatever they hold: no 5xx, no status, media
type or form that is not declared; nothing is let in that breaks its schema, nothing without a key.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from forum.ledger import Scope
from tests.e2e.project import eventually
from tests.surfaces.serving import Served, served, serving

SETTINGS = '[models.default]\nkind = "scripted"\n'
UNLIMITED = ("--rate", "1000000")
_GATES = 4
_LIKELY = 0.7
"""How often something is asked for that is there."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who comes with a key, or with none."""

    name: str
    scope: Scope | None = None
    here: bool = False
    """Whether on the machine itself, where the server asks nobody for a key."""


LOCAL = Visitor("local", here=True)
STRANGER = Visitor("stranger")
ADMIN = Visitor("admin", Scope.ADMIN)
VISITORS = (LOCAL, STRANGER, *(Visitor(scope, scope) for scope in Scope))


@dataclass(frozen=True, slots=True)
class Found:
    """What came of it."""

    visitor: str
    cases: int
    failures: tuple[str, ...]
    trouble: tuple[str, ...]
    """What the server had to say on stderr meanwhile."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is tried."""

    examples: int
    phases: str = "examples,coverage,fuzzing"
    without: tuple[str, ...] = ()
    """Tags of operations that are left out."""


class House:
    """A ledger with something of everything in it, and two servers: one of them asks for keys."""

    def __init__(self, local: Served, guarded: Served) -> None:
        self._local, self._guarded = local, guarded
        forum = local.project.forum
        self._keys = {scope: str(forum.grant(scope, {scope})) for scope in Scope}
        self._gates = [self._gate() for _ in range(_GATES)]
        self._run = local.submit()
        for run in self._gates:
            local.project.wait(run)
        eventually(lambda: forum.store.backlog() == 0)

    def _gate(self) -> str:
        asked = {"request": "Name a river.", "gates": {"what": ["plan"]}}
        return str(self._local.client.post("/api/v1/runs", json=asked).json()["run"])

    def _digest(self, run: str) -> str:
        """Return what somebody has to name who decides about a plan."""
        where = f"/api/v1/runs/{run}/gate"
        return str(self._local.client.get(where, params={"subject": "plan"}).json()["digest"])

    def fuzz(self, visitor: Visitor, effort: Effort) -> Found:
        """Have a visitor ask for everything that there is, rightly and wrongly."""
        server = self._local if visitor.here else self._guarded
        home, log = server.project.home, server.project.home / "serve.log"
        told = log.read_text()
        document = server.client.get("/openapi.json").json()
        if not visitor.here:
            _require_keys(document)
        (home / "openapi.json").write_text(json.dumps(document))
        (home / "fuzz.toml").write_text(self._known(document))
        argv = [*_command(home, effort), "--url", server.url, str(home / "openapi.json")]
        if visitor.scope is not None:
            argv += ["--header", f"Authorization: Bearer {self._keys[visitor.scope]}"]
        done = subprocess.run(argv, cwd=home, capture_output=True, text=True, check=False)
        report = home / "report.json"
        assert report.exists(), done.stdout + done.stderr
        trouble = log.read_text().removeprefix(told).splitlines()
        return _read(visitor, json.loads(report.read_text()), done.stdout, trouble)

    def _known(self, document: Mapping[str, Any]) -> str:
        """Say what is there to be asked for."""
        known = {
            "path.run": [self._run, *self._gates],
            "path.entry": list(map(str, range(20))),
            "path.name": ["request", "answer", "output", "shown"],
            "path.path": ["000.p/8", "000.p/1", "001", "x001/000"],
            "path.level": ["0", "1"],
            "path.model": ["forum", "team", "replay:" + self._run],
            "query.subject": ["plan"],
            "body.subject": ["plan"],
            "body.digest": list(map(self._digest, self._gates)),
            "body.model": ["forum", "replay:" + self._run],
        }
        lines = [_dictionary(f"d{number}", has) for number, has in enumerate(known.values())]
        lines += ["[parameters]"]
        lines += [f'"{name}" = {_likely(f"d{number}")}' for number, name in enumerate(known)]
        # Whoever follows a run that has not ended follows it for ever.
        ended = {"path.run": "ended"}
        lines += [_dictionary("ended", [self._run]), "[[operations]]"]
        lines += ['include-operation-id = "follow_run"']
        lines += [f'parameters."{name}" = {_likely(of)}' for name, of in ended.items()]
        for name in _with_rules(document):
            lines += ["[[operations]]", f'include-operation-id = "{name}"']
            lines += ["checks.positive_data_acceptance.enabled = false"]
        return "\n".join(lines)


def _dictionary(name: str, values: Sequence[str]) -> str:
    return f"[dictionaries.{name}]\nvalues = {json.dumps(values)}"


def _likely(dictionary: str) -> str:
    return f'{{ dictionary = "{dictionary}", probability = {_LIKELY} }}'


def _require_keys(document: Mapping[str, Any]) -> None:
    """Let the document say what this server does: nobody comes in without a key."""
    for methods in document["paths"].values():
        for operation in methods.values():
            operation["security"] = [way for way in operation["security"] if way]


def _with_rules(document: Mapping[str, Any]) -> Iterator[str]:
    """Name the operations whose bodies have to obey more than their schema."""
    for methods in document["paths"].values():
        for operation in methods.values():
            if "requestBody" in operation:
                yield operation["operationId"]


def _command(home: Path, effort: Effort) -> list[str]:
    (home / "report.json").unlink(missing_ok=True)
    argv = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(home / "fuzz.toml")]
    argv += ["run", "--phases", effort.phases, "--continue-on-failure"]
    argv += ["--max-examples", str(effort.examples), "--generation-deterministic"]
    argv += ["--request-timeout", "30", "--warnings", "off", "--no-color"]
    argv += [part for tag in effort.without for part in ("--exclude-tag", tag)]
    return [*argv, "--report", "json", "--report-json-path", str(home / "report.json")]


def _read(visitor: Visitor, report: Mapping[str, Any], said: str, trouble: Sequence[str]) -> Found:
    failures = [f"{one['title']}: {', '.join(one['operations'])}" for one in report["failures"]]
    failures += [str(error) for error in report["errors"]]
    if failures:
        failures.append(said)
    return Found(visitor.name, report["test_cases"]["generated"], tuple(failures), tuple(trouble))


@contextmanager
def house(home: Path) -> Iterator[House]:
    """Serve a ledger to those on the machine, and once more to those with a key."""
    with ExitStack() as stack:
        local = stack.enter_context(served(home, options=UNLIMITED, settings=SETTINGS))
        guarded = stack.enter_context(serving(local.project, (*UNLIMITED, "--require-keys")))
        yield House(local, guarded)


def main() -> None:
    """Try everything, and print what was found as one JSON object."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--examples", type=int, default=20, help="for each operation")
    effort = Effort(reader.parse_args().examples)
    with tempfile.TemporaryDirectory() as folder, house(Path(folder)) as made:
        found = []
        for visitor in VISITORS:
            found.append(made.fuzz(visitor, effort))
            print(f"{visitor.name}: {found[-1].cases} cases", file=sys.stderr)
    cases = sum(one.cases for one in found)
    print(json.dumps({"cases": cases, "visitors": [asdict(one) for one in found]}))
    sys.exit(any(one.failures or one.trouble for one in found))


if __name__ == "__main__":
    main()
