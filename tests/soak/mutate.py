"""Change the code of a room in one place, run the room's tests, and see whether any fails.

    python -m tests.soak.mutate --count 210 --seed 1 [--rooms tlog ledger verify] [--own] [--json]

A change that no test notices is a survivor: it is equivalent to the code, cannot be observed, or
shows a test that is missing.  Each room gets the same share of the changes, chosen by the seed.
Changes are made in a copy of the repository; messages, docstrings and annotations are not changed.
Tests that need Postgres or Go are left out, and properties try few examples: it is about which
lines are held by a test at all.
"""

import argparse
import ast
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import pytest

ROOT = Path(__file__).parent.parent.parent
ROOMS = ("tlog", "ledger", "verify")
LIMIT_SECONDS = 300
"""Of the processor, for one change: more than the tests of a room take, unless it is endless."""
BROKEN = 70
"""The exit status of a child in which not even the tests could be started."""
OUTCOMES = {
    0: "survived", BROKEN: "not tried", -signal.SIGXCPU: "endless", -signal.SIGKILL: "endless",
}  # fmt: skip
LIBRARIES = (
    "anyio", "click", "cryptography.hazmat.primitives.asymmetric.ed25519", "dbos", "httpx2",
    "hypothesis.strategies", "jsonschema", "msgspec", "psycopg_pool", "yaml",
)  # fmt: skip
"""What the tests load anyway: loaded once, before each change is tried in a child."""

TESTS_OF = {
    "ledger/access": ["surfaces/test_access_keys", "ledger/test_log"],
    "ledger/zip_archive": ["verify/test_bundle"],
    "ledger/bundle": ["verify/test_bundle"],
    "ledger/ports/publishing": ["ledger/test_sequencer", "ledger/test_publisher"],
    "ledger/sequencer": ["ledger/test_sequencer", "ledger/test_publisher"],
    "verify/entry_checker": [
        "verify/test_entry_checker",
        "verify/test_ledger_audit",
        "verify/test_bundle",
    ],
    "verify/bundle_audit": ["verify/test_bundle"],
    "verify/report": ["verify/test_ledger_audit", "verify/test_bundle"],
    "verify/session_checker": ["verify/test_deliberation"],
    "verify/standalone": ["verify/test_standalone", "verify/test_agreement", "verify/test_bundle"],
    "verify/trust": ["verify/test_ledger_audit", "verify/test_bundle"],
}
"""Which tests to run first, where that does not follow from the name of the module."""

FEW_EXAMPLES = """
settings.register_profile("mutate", deadline=None, derandomize=True, max_examples={examples})
settings.load_profile("mutate")
"""

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change to one module."""

    module: str
    line: int
    change: str
    number: int
    """Which change of the module it is."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the tests said of a change."""

    mutant: Mutant
    outcome: str
    seconds: float


class Mutator(ast.NodeVisitor):
    """Finds every place of a module that can be changed, and changes one of them."""

    def __init__(self, chosen: int | None = None) -> None:
        self.chosen = chosen
        self.found: list[tuple[int, str]] = []

    def _offer(self, node: ast.AST, change: str) -> bool:
        """Count a change, and tell whether it is the one to make."""
        self.found.append((getattr(node, "lineno", 0), change))
        return len(self.found) - 1 == self.chosen

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave messages alone."""

    def visit_arguments(self, node: ast.arguments) -> None:
        """Change defaults, not annotations."""
        for default in (*node.defaults, *filter(None, node.kw_defaults)):
            self.visit(default)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Change the value, not the annotation."""
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Change what a function does: not its name, its decorators or what it returns."""
        self.visit(node.args)
        self._visit_statements(node.body)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_If(self, node: ast.If) -> None:
        """Turn a condition round."""
        if self._offer(node.test, "negate if"):
            node.test = ast.UnaryOp(ast.Not(), node.test)
        self.visit(node.test)
        self._visit_statements(node.body)
        self._visit_statements(node.orelse)

    def _visit_statements(self, body: list[ast.stmt]) -> None:
        """Visit statements, of which each that has an effect may be left out."""
        for place, statement in enumerate(body):
            docstring = isinstance(statement, ast.Expr) and isinstance(
                statement.value, ast.Constant
            )
            if docstring:
                continue
            self.visit(statement)
            removable = isinstance(statement, ast.Expr | ast.Raise | ast.AugAssign)
            if removable and self._offer(statement, f"delete {ast.unparse(statement)[:60]}"):
                body[place] = ast.copy_location(ast.Pass(), statement)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Leave the words of errors alone."""

    def visit_Return(self, node: ast.Return) -> None:
        """Return nothing."""
        if node.value is None:
            return
        self.visit(node.value)
        if not _is_none(node.value) and self._offer(node, f"return None for {_short(node.value)}"):
            node.value = ast.Constant(None)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Exchange an operator for its neighbour."""
        for place, operator in enumerate(node.ops):
            other = SWAPPED[type(operator)]
            if self._offer(node, f"{_short(node)}: {type(operator).__name__} to {other.__name__}"):
                node.ops[place] = other()  # type: ignore[call-overload]
        self.generic_visit(node)

    def _swap(self, node: Any) -> None:  # noqa: ANN401  a node with an operator
        other = SWAPPED.get(type(node.op))
        if other and self._offer(
            node, f"{_short(node)}: {type(node.op).__name__} to {other.__name__}"
        ):
            node.op = other()
        self.generic_visit(node)

    visit_BoolOp = visit_BinOp = visit_AugAssign = _swap  # noqa: N815

    def visit_Constant(self, node: ast.Constant) -> None:
        """Add one to a number, turn a truth round."""
        if isinstance(node.value, bool):
            if self._offer(node, f"{node.value} to {not node.value}"):
                node.value = not node.value
        elif isinstance(node.value, int) and self._offer(node, f"{node.value} to {node.value + 1}"):
            node.value += 1


def _short(node: ast.AST) -> str:
    return ast.unparse(node)[:60]


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def mutants_of(module: Path) -> list[Mutant]:
    """Return every change that can be made to a module."""
    finder = Mutator()
    finder.visit(ast.parse(module.read_text()))
    name = module.relative_to(ROOT).as_posix()
    return [Mutant(name, line, change, i) for i, (line, change) in enumerate(finder.found)]


def mutated(source: str, number: int) -> str:
    """Return a module with one change made."""
    tree = deepcopy(ast.parse(source))
    Mutator(number).visit(tree)
    return ast.unparse(ast.fix_missing_locations(tree))


def sample(rooms: list[str], count: int, seed: int) -> Iterator[Mutant]:
    """Choose changes: as many in each room, at random."""
    chance = random.Random(seed)
    for room in rooms:
        modules = sorted((ROOT / "src/forum" / room).rglob("*.py"))
        mutants = [m for path in modules if path.name != "__init__.py" for m in mutants_of(path)]
        yield from chance.sample(mutants, min(len(mutants), -(-count // len(rooms))))


def tests_for(module: str, *, own_only: bool) -> list[str]:
    """Return the tests that hold a module: its own first, then the others of its room."""
    path = Path(module).relative_to("src/forum")
    room, key = path.parts[0], path.with_suffix("").as_posix()
    own = [f"tests/{test}.py" for test in TESTS_OF.get(key, [f"{room}/test_{path.stem}"])]
    folder = ROOT / "tests" / room
    others = [] if own_only and (ROOT / own[0]).exists() else sorted(folder.glob("test_*.py"))
    others.sort(key=lambda path: path.stat().st_size)
    every = dict.fromkeys([*own, *(path.relative_to(ROOT).as_posix() for path in others)])
    return [test for test in every if (ROOT / test).exists()]


def run_tests(copy: Path, tests: list[str]) -> int:
    """Run tests in a process of their own, and return its exit status."""
    child = os.fork()
    if child == 0:
        try:
            _run_tests_here(copy, tests)
        finally:  # never back into what the parent is doing
            os._exit(BROKEN)
    _, status = os.waitpid(child, 0)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what its tests have left running
    return os.waitstatus_to_exitcode(status)


def _run_tests_here(copy: Path, tests: list[str]) -> NoReturn:
    """Run tests in this process, which has loaded their libraries but nothing of the copy."""
    os.setpgid(0, 0)
    # Time of the processor, not of the clock: a busy machine makes no change endless.
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_SECONDS, LIMIT_SECONDS))
    os.chdir(copy)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    for name in [name for name in sys.modules if name.split(".")[0] in ("forum", "tests")]:
        del sys.modules[name]
    sys.path[:] = [str(copy / "src"), str(copy), *(p for p in sys.path if Path(p) != ROOT and p)]
    os.environ["PYTHONPATH"] = f"{copy / 'src'}{os.pathsep}{copy}"
    words = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    words += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of libraries loaded before
    os._exit(int(pytest.main([*words, "-m", "not postgres and not go", *tests])))


def judge(copy: Path, mutant: Mutant, *, own_only: bool) -> Verdict:
    """Make a change in the copy, run its tests, and take it back."""
    target = copy / mutant.module
    source = target.read_text()
    begun = time.monotonic()
    try:
        target.write_text(mutated(source, mutant.number))
        status = run_tests(copy, tests_for(mutant.module, own_only=own_only))
    finally:
        target.write_text(source)
    outcome = OUTCOMES.get(status, "killed")
    return Verdict(mutant, outcome, round(time.monotonic() - begun, 1))


def main() -> None:
    """Judge a sample of changes, and print what came of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=210)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rooms", nargs="*", default=list(ROOMS))
    parser.add_argument("--examples", type=int, default=20, help="for each property")
    parser.add_argument("--own", action="store_true", help="run only the module's own tests")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    for library in LIBRARIES:
        import_module(library)
    with TemporaryDirectory(prefix="forum-mutate-") as name:
        copy = Path(name) / "copy"
        skipped = shutil.ignore_patterns(
            ".git", ".venv", "build", "dist", "__pycache__", ".*_cache"
        )
        shutil.copytree(ROOT, copy, ignore=skipped)
        with (copy / "tests/conftest.py").open("a") as conftest:
            conftest.write(FEW_EXAMPLES.format(examples=asked.examples))
        verdicts = []
        for mutant in sample(asked.rooms, asked.count, asked.seed):
            verdict = judge(copy, mutant, own_only=asked.own)
            verdicts.append(verdict)
            where = f"{mutant.module}:{mutant.line}"
            print(f"{verdict.outcome:9} {verdict.seconds:6} {where} {mutant.change}", flush=True)
    totals = Counter(verdict.outcome for verdict in verdicts)
    if asked.json:
        print(json.dumps({"totals": totals, "verdicts": [asdict(v) for v in verdicts]}))
    else:
        print(", ".join(f"{number} {outcome}" for outcome, number in totals.items()))


if __name__ == "__main__":
    main()
