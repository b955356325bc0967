"""Names, calls and assignments: rules of our own, where ruff has none."""

import ast
import gc
from collections.abc import Iterator
from functools import cache

import pytest

from forum import errors
from tests.test_repository import ROOT, tracked

MAX_POSITIONAL = 4
MAX_ASSIGNED = 2
MAX_UNPACKED = 5  # the columns of a row

# What takes its arguments in order, mostly any number of them.
VARIADIC = {
    "add_reader", "builds", "datetime", "given", "ignore_patterns", "one_of", "pack", "partial",
    "prctl", "print", "run_in_executor", "run_in_threadpool", "submit", "syscall", "to_thread",
    # Errors take their facts in order: `ForumError`.
    "BudgetExceeded", "ReservationOverrun", "SharedCapExceeded",
}  # fmt: skip

# Words that an earlier vocabulary used for what is called by its type now.
OLD_WORDS = {
    "agenda", "alarm", "annexes", "board", "chairs", "chronicle", "deed", "desk", "door",
    "exchange", "house", "order", "pen", "staff", "talk", "ticket", "wish",
}  # fmt: skip
# Words that do not say what a variable holds.
VAGUE_WORDS = {"found", "known", "one", "said", "told"}
# Recorded facts, members of replies, and what the command line calls an option.
RELEASED = {
    ("src/forum/features/oversight/cli.py", "known"),
    ("src/forum/ledger/kinds.py", "door"),
    ("src/forum/runs/claims.py", "deed"),
    ("src/forum/surfaces/schemas/runs.py", "deed"),
}

PYTHON = (
    "src/*.py",
    "clients/python/*.py",
    "tests/*.py",
    "benchmarks/*.py",
    "deploy/*.py",
    "examples/*.py",
)


@cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax tree of every file of ours, by its path."""
    # Millions of nodes, none of them garbage: to look for it takes longer than to read them.
    gc.disable()
    try:
        return {
            path.relative_to(ROOT).as_posix(): ast.parse(path.read_text())
            for path in tracked(*PYTHON)
        }
    finally:
        gc.enable()


@pytest.fixture(scope="module", autouse=True)
def _keep_trees() -> Iterator[None]:
    """Keep the trees for the tests of this file only."""
    yield
    trees.cache_clear()
    nodes.cache_clear()


@cache
def nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Return the nodes of a tree, which is walked once for all rules."""
    return tuple(ast.walk(tree))


def called_name(call: ast.Call) -> str:
    """Return the last part of the name of what is called."""
    called = call.func
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""


def variadic_names(tree: ast.Module) -> set[str]:
    """Return the names of the functions that a module defines with any number of arguments.

    Under the name of a class, if that is how they are called.
    """
    names = set[str]()
    for node in nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.args.vararg:
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            inits = (part for part in node.body if isinstance(part, ast.FunctionDef))
            if any(part.name == "__init__" and part.args.vararg for part in inits):
                names.add(node.name)
    return names


def long_calls(tree: ast.Module, variadic: set[str]) -> list[int]:
    """Return the lines of calls in which a reader has to count arguments."""
    calls = (node for node in nodes(tree) if isinstance(node, ast.Call))
    return [
        call.lineno
        for call in calls
        if len(call.args) > MAX_POSITIONAL and called_name(call) not in variadic
    ]


def long_assignments(tree: ast.Module) -> list[int]:
    """Return the lines of assignments in which a reader has to count names."""
    lines = []
    for node in nodes(tree):
        if isinstance(node, ast.Assign):
            limit = MAX_ASSIGNED if isinstance(node.value, ast.Tuple) else MAX_UNPACKED
            sizes = [len(t.elts) for t in node.targets if isinstance(t, ast.Tuple)]
            lines += [node.lineno] if max(sizes, default=0) > limit else []
    return lines


def fields(tree: ast.Module) -> Iterator[ast.Name | ast.Attribute]:
    """Yield the fields that classes declare, and the attributes that are set."""
    for node in nodes(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node
        elif isinstance(node, ast.ClassDef):
            targets = (part.target for part in node.body if isinstance(part, ast.AnnAssign))
            yield from (target for target in targets if isinstance(target, ast.Name))


def variables(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each parameter, variable and declared field."""
    for node in nodes(tree):
        match node:
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield node.lineno, name
            case _:
                pass


def unclear_names(tree: ast.Module) -> list[str]:
    """Return the names that do not say what they hold, with their lines.

    A field may be called `found` or `known`: its class says of what, and many are recorded.
    """
    declared = {(n.lineno, n.id if isinstance(n, ast.Name) else n.attr) for n in fields(tree)}
    return [
        f"{name}:{line}"
        for line, name in sorted(declared.union(variables(tree)))
        if name.lstrip("_") in OLD_WORDS or (name in VAGUE_WORDS and (line, name) not in declared)
    ]


def test_a_call_names_its_arguments_after_the_fourth() -> None:
    """Two arguments of one type that are swapped must not pass by luck."""
    variadic = VARIADIC.union(*map(variadic_names, trees().values()))
    lines = [(path, line) for path, tree in trees().items() for line in long_calls(tree, variadic)]

    assert lines == []


def test_an_error_gets_its_facts_in_order() -> None:
    """`ForumError` takes no keywords, and a type checker does not see where one is given."""
    plain = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type)
        and issubclass(kind, errors.ForumError)
        and kind.__init__ is errors.ForumError.__init__
    }
    lines = [
        (path, node.lineno)
        for path, tree in trees().items()
        for node in nodes(tree)
        if isinstance(node, ast.Call)
        and node.keywords
        and isinstance(node.func, ast.Name | ast.Attribute)
        and (node.func.id if isinstance(node.func, ast.Name) else node.func.attr) in plain
    ]

    assert lines == []


def test_an_assignment_has_few_names() -> None:
    """A reader sees which value goes to which name without counting."""
    lines = [(path, line) for path, tree in trees().items() for line in long_assignments(tree)]

    assert lines == []


def test_names_say_what_they_hold() -> None:
    """A parameter is named after its type, and a variable by a noun."""
    places = [
        (path, *name.split(":"))
        for path, tree in trees().items()
        if path.startswith("src/")
        for name in unclear_names(tree)
    ]

    assert {(path, name) for path, name, _ in places} >= RELEASED
    assert [place for place in places if place[:2] not in RELEASED] == []


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("f(1, 2, 3, 4)", []),
        ("f(1, 2, 3, 4, 5)", [1]),
        ("f(1, 2, 3, 4, last=5)", []),
        ("f(1, 2, 3, 4, *rest)", [1]),
        ("own.f(1, 2, 3, 4, 5)", [1]),
        ("many(1, 2, 3, 4, 5)", []),
        ("x = 1\ny = f(g(1, 2, 3, 4, 5))", [2]),
        ("def f(*many): ...\nf(1, 2, 3, 4, 5)", []),
        ("class f:\n def __init__(self, *many): ...\nf(1, 2, 3, 4, 5)", []),
        ("class f:\n def __init__(self, a, b, c, d, e): ...\nf(1, 2, 3, 4, 5)", [3]),
    ],
)
def test_calls_of_both_sides_of_the_rule(code: str, lines: list[int]) -> None:
    """The rule sees what it is for, and nothing else."""
    tree = ast.parse(code)

    assert long_calls(tree, {"many"} | variadic_names(tree)) == lines


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("a, b = 1, 2", []),
        ("a, b, c = 1, 2, 3", [1]),
        ("self.a, self.b, self.c = 1, 2, 3", [1]),
        ("x = a, b, c = 1, 2, 3", [1]),
        ("a = 1, 2, 3", []),
        ("a, b, c = f()", []),
        ("a, b, c, d, e = row", []),
        ("a, b, c, d, e, f = row", [1]),
    ],
)
def test_assignments_of_both_sides_of_the_rule(code: str, lines: list[int]) -> None:
    """The rule sees what it is for, and nothing else."""
    assert long_assignments(ast.parse(code)) == lines


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("def f(desk): ...", ["desk"]),
        ("lambda order: order", ["order"]),
        ("def f(*, known=0): ...", ["known"]),
        ("_pen = 1", ["_pen"]),
        ("for one in lines: ...", ["one"]),
        ("[told for told in lines]", ["told"]),
        ("if said := f(): ...", ["said"]),
        ("try: ...\nexcept ValueError as found: ...", ["found"]),
        ("match x:\n case C() as found: ...", ["found"]),
        ("self._house = 1", ["_house"]),
        ("class A:\n staff: int", ["staff"]),
        ("class A:\n found: int", []),
        ("self.known = 1", []),
        ("class A:\n @property\n def order(self): ...", []),
        ("finding = report.found", []),
        ("f(door=1)", []),
        ("tenant = 1", []),
    ],
)
def test_names_of_both_sides_of_the_rule(code: str, names: list[str]) -> None:
    """The rule sees what it is for, and nothing else."""
    assert [name.partition(":")[0] for name in unclear_names(ast.parse(code))] == names
