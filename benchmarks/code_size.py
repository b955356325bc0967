"""`python -m benchmarks.code_size [CHECKOUT]`: lines of the package, by package and feature.

Of each: modules, lines, lines of code (without blank lines, docstrings and comments), docstrings
and comments per thousand lines of code, and how many imports go from the kernel into features.
"""

import ast
import io
import json
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path


def measure(file: Path) -> Counter[str]:
    """Count the lines of a module by what they are."""
    source = file.read_text()
    tree = ast.parse(source)
    prose: set[int] = set()
    for node in ast.walk(tree):
        for text in _texts(node):
            prose.update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    comments = {
        token.start[0]
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip()
    }
    lines = source.splitlines()
    filled = {number for number, line in enumerate(lines, 1) if line.strip()}
    return Counter(
        modules=1,
        lines=len(lines),
        code=len(filled - prose - comments),
        docstrings=len(prose),
        comments=len(comments),
        inverted=sum(_is_inverted(file, node) for node in ast.walk(tree)),
    )


def _texts(node: ast.AST) -> Iterator[ast.expr]:
    """Yield docstrings, and the strings below attributes, which describe these."""
    body = getattr(node, "body", None)
    for statement in body if isinstance(body, list) else ():
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            yield statement.value


def _is_inverted(file: Path, node: ast.AST) -> bool:
    """Tell whether an import goes from the kernel into a module of a feature."""
    inside = "/features/" in file.as_posix() or file.as_posix().endswith("src/forum/__init__.py")
    module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
    return not inside and module.startswith("forum.features.")


def main() -> None:
    """Print the sums as JSON."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "src" / "forum"
    sums: dict[str, Counter[str]] = {}
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root).with_suffix("").parts
        name = "/".join(parts[:2]) if parts[0] == "features" and len(parts) > 2 else parts[0]
        for key in (name, "total"):
            sums[key] = sums.get(key, Counter()) + measure(file)
    table = {
        name: {**of, "prose_per_1000": 1000 * (of["docstrings"] + of["comments"]) // of["code"]}
        for name, of in sums.items()
        if of["code"]
    }
    print(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
