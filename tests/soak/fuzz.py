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

from forum.ledger.kinds import FreezeAct, Scope
from tests.e2e.project import eventually
from tests.surfaces.serving import Served, served, serving

SETTINGS = '[models.default]\nkind = "scripted"\n'
UNLIMITED = ("--rate", "1000000")
_GATES = 4
_AT_EASE = "checks.positive_data_acceptance.enabled = false"


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who comes with a key, or with none."""

    name: str
    scope: Scope | None = None
    is_operator: bool = False
    is_open: bool = False
    """Whether at a server that lets anybody submit and read."""


OPERATOR = Visitor("operator", is_operator=True)
OPEN = Visitor("open", is_open=True)
STRANGER = Visitor("stranger")
ADMIN = Visitor("admin", Scope.ADMIN)
VISITORS = (OPERATOR, OPEN, STRANGER, *(Visitor(scope, scope) for scope in Scope))


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


@dataclass(frozen=True, slots=True)
class Known:
    """What is there to be asked for, in a place of a request."""

    place: str
    values: Sequence[str | int]
    operations: tuple[str, ...] = ()
    """Only in these; otherwise in all."""
    often: float = 0.7


class House:
    """A ledger with something of everything in it, and two servers: one of them is open."""

    def __init__(self, guarded: Served, opened: Served) -> None:
        self._guarded, self._opened = guarded, opened
        self._run = guarded.submit()

    def fuzz(self, visitor: Visitor, effort: Effort) -> Found:
        """Have a visitor ask for everything that there is, rightly and wrongly."""
        server = self._opened if visitor.is_open else self._guarded
        home, log = server.project.home, server.project.home / "serve.log"
        self._lift_caps()
        shown, known = self._shown(visitor), self._known()
        text = log.read_text()
        document = server.client.get("/openapi.json").json()
        if visitor.is_open:
            _allow_anybody(document)
        (home / "openapi.json").write_text(json.dumps(document))
        (home / "fuzz.toml").write_text(_settings(known, document))
        argv = [*_command(home, effort), "--url", server.url, str(home / "openapi.json")]
        argv += [part for name in shown.items() for part in ("--header", ": ".join(name))]
        done = subprocess.run(argv, cwd=home, capture_output=True, text=True, check=False)
        report = home / "report.json"
        assert report.exists(), done.stdout + done.stderr
        # Who has locked themselves out has heard nothing else since.
        assert not shown or server.client.get("/api/v1/runs", headers=shown).status_code != 401
        trouble = log.read_text().removeprefix(text).splitlines()
        return _read(visitor, json.loads(report.read_text()), done.stdout, trouble)

    def _lift_caps(self) -> None:
        """Undo what an earlier visitor has set: under a cap of zero no run would be accepted."""
        forum = self._guarded.project.forum
        orders = forum.runs.read_cap_orders()
        for name in orders.caps:
            forum.budgets.unset_cap(name)
        if orders.is_frozen:
            forum.budgets.freeze(FreezeAct.UNFREEZE)
        # The server follows once the entries are signed.
        asked = {"request": "Name a river."}
        eventually(lambda: "run" in self._guarded.client.post("/api/v1/runs", json=asked).json())

    def _shown(self, visitor: Visitor) -> dict[str, str]:
        """Return what a visitor shows at the door."""
        forum = self._guarded.project.forum
        if visitor.is_operator:
            return {"Authorization": f"Bearer {forum.access.operator_token()}"}
        if visitor.scope is None:
            return {}
        return {"Authorization": f"Bearer {forum.access.grant(visitor.name, {visitor.scope})}"}

    def _known(self) -> list[Known]:
        """Make what can be asked for, and say what it is."""
        made, run = self._guarded.project, self._run
        gates = [self._gate() for _ in range(_GATES)]
        for gate in gates:
            made.wait(gate)
        eventually(lambda: made.forum.store.backlog() == 0)
        page = self._guarded.client.get(
            "/api/v1/entries", params={"run": run, "limit": 1000}
        ).json()
        entries = [entry["index"] for entry in page["entries"]]
        return [
            Known("path.run", [run, *gates]),
            # Whoever follows a run that has not ended follows it for ever.
            Known("path.run", [run], ("follow_run", "fork_run")),
            Known("path.run", gates[1:], ("show_gate", "decide_gate", "edit_gate")),
            Known("path.run", gates[:1], ("cancel_run",)),
            Known(
                "path.key",
                [made.forum.access.grant("victim", {Scope.READ}).id],
                ("revoke_key",),
                1.0,
            ),
            Known("path.entry", [*map(str, entries)]),
            Known("path.name", ["request", "answer", "output", "shown"]),
            Known("path.path", ["000", "001"]),
            Known("path.level", ["0", "1"]),
            Known("path.model", ["forum", "team", f"replay:{run}"]),
            Known("query.subject", ["plan"]),
            Known("query.run", [run]),
            Known("body.subject", ["plan"]),
            Known("body.digest", [self._digest(gate) for gate in gates]),
            Known("body.model", ["forum", f"replay:{run}"]),
            Known("body.at", entries),
        ]

    def _gate(self) -> str:
        asked = {"request": "Name a river.", "gates": {"what": ["plan"]}}
        return str(self._guarded.client.post("/api/v1/runs", json=asked).json()["run"])

    def _digest(self, run: str) -> str:
        """Return what somebody has to name who decides about a plan."""
        where = f"/api/v1/runs/{run}/gate"
        return str(self._guarded.client.get(where, params={"subject": "plan"}).json()["digest"])


def _settings(known: Sequence[Known], document: Mapping[str, Any]) -> str:
    """Write down what is known, as the tool reads it."""
    lines, parameters = [], ["[parameters]"]
    by_operation: dict[str, list[str]] = {name: [_AT_EASE] for name in _with_rules(document)}
    for number, one in enumerate(known):
        lines += [f"[dictionaries.d{number}]", f"values = {json.dumps(one.values)}"]
        drawn = f'{{ dictionary = "d{number}", probability = {one.often} }}'
        for name in one.operations:
            by_operation.setdefault(name, []).append(f'parameters."{one.place}" = {drawn}')
        if not one.operations:
            parameters.append(f'"{one.place}" = {drawn}')
    lines += parameters
    for name, texts in by_operation.items():
        lines += ["[[operations]]", f'include-operation-id = "{name}"', *texts]
    return "\n".join(lines)


def _allow_anybody(document: Mapping[str, Any]) -> None:
    """Let the document say what an open server does: nobody needs a key to ask."""
    for methods in document["paths"].values():
        for operation in methods.values():
            operation["security"] = [*operation["security"], {}]


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
    argv += ["--exclude-operation-id", "follow_log"]  # its reply has no end
    argv += [part for tag in effort.without for part in ("--exclude-tag", tag)]
    return [*argv, "--report", "json", "--report-json-path", str(home / "report.json")]


def _read(visitor: Visitor, report: Mapping[str, Any], text: str, trouble: Sequence[str]) -> Found:
    failures = [f"{one['title']}: {', '.join(one['operations'])}" for one in report["failures"]]
    failures += [str(error) for error in report["errors"]]
    if failures:
        failures.append(text)
    return Found(visitor.name, report["test_cases"]["generated"], tuple(failures), tuple(trouble))


@contextmanager
def house(home: Path) -> Iterator[House]:
    """Serve a ledger to those with a key, and once more to anybody."""
    with ExitStack() as stack:
        guarded = stack.enter_context(served(home, options=UNLIMITED, settings=SETTINGS))
        opened = serving(guarded.project, (*UNLIMITED, "--open-loopback"))
        yield House(guarded, stack.enter_context(opened))


def main() -> None:
    """Try everything, and print what was found as one JSON object."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--examples", type=int, default=20, help="for each operation")
    effort = Effort(reader.parse_args().examples)
    with tempfile.TemporaryDirectory() as folder, house(Path(folder)) as made:
        results = []
        for visitor in VISITORS:
            results.append(made.fuzz(visitor, effort))
            print(f"{visitor.name}: {results[-1].cases} cases", file=sys.stderr)
    cases = sum(span.cases for span in results)
    print(json.dumps({"cases": cases, "visitors": [asdict(span) for span in results]}))
    sys.exit(any(span.failures or span.trouble for span in results))


if __name__ == "__main__":
    main()
