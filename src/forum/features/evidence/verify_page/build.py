"""Joins the sources of the page into one file: the same bytes each time, without a build tool.

The sources are ES modules in this folder.  A page from a `file:` address may not load others, so
their imports and exports are cut off, and all of them share one scope: a name means one thing in
all modules, and a module comes after those that it imports.  The joined modules are the text of a
worker; the page starts it.
"""

import ast
import base64
import json
import re
from hashlib import sha256
from importlib.resources import files

from forum.features.evidence import page as drawn_page
from forum.features.evidence.queries import SECTIONS

_WORKER_MODULES = (
    "rejected",
    "text",
    "bytes",
    "json",
    "sha256",
    "sha512",
    "ed25519",
    "tree",
    "note",
    "checkpoint",
    "policy",
    "kinds",
    "entry",
    "zip",
    "shared_bodies",
    "bundle",
    "findings",
    "run_checker",
    "report_checker",
    "log_keys",
    "witness_records",
    "verifier",
    "pack_tables",
    "pack_counts",
    "pack_log",
    "counted_times",
    "pack",
    "view",
    "page_tables",
    "pack_page",
    "story",
    "contents",
    "kind_tables",
    "worker",
)
"""The modules of the worker, each after those that it imports."""

_IMPORT = re.compile(r'^import [^;]*? from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=const|function|class)", re.MULTILINE)
_BLOCK_COMMENT = re.compile(r"(?ms)^[ \t]*/\*\*(?:(?!\*/).)*\*/\n|/\*\*(?:(?!\*/).)*\*/ ?")
_LINE_COMMENT = re.compile(r"^[ \t]*//.*\n", re.MULTILINE)
_DECLARATION = re.compile(r"^(?:const|let|function\*?|class) (\w+)", re.MULTILINE)


def build_page() -> str:
    """Return the text of `verify.html`."""
    style = _read("page.css").strip()
    worker = _join(_WORKER_MODULES)
    page = _join(("page",))
    # Only these scripts and styles run, and nothing is loaded or sent.  The worker is made from the
    # text of the page, so its address is a blob.
    policy = (
        f"default-src 'none'; script-src '{_digest(page)}' blob:; worker-src blob:; "
        f"style-src '{_digest(style)}'; base-uri 'none'; form-action 'none'"
    )
    parts = {"policy": policy, "style": style, "worker": worker, "page": page}
    return re.sub(r"{{(\w+)}}", lambda match: parts[match[1]], _read("page.html"))


def _join(names: tuple[str, ...]) -> str:
    """Join modules into one script."""
    sources = {name: _source(name) for name in names}
    _check_order(sources)
    bare = [_strip(source) for source in sources.values()]
    script = '"use strict";\n' + "".join(f"\n{text.strip()}\n" for text in bare)
    _check_names(script)
    if "</script" in script or "<!--" in script:
        raise ValueError("a script of the page would end before its end")
    return script


_TABLES = {
    "kind_tables": ("CHOICE_TABLE", "KIND_TABLE"),
    "pack_tables": ("KNOWN_QUERIES", "KNOWN_LIMITS", "KNOWN_MAPS", "MAP_TITLES", "EVENT_TABLE"),
}
"""The modules that are made of tables of the stand-alone verifier, with the names of these."""


def _source(name: str) -> str:
    if name == "page_tables":
        return _declare(
            SECTIONS=SECTIONS,
            QUESTIONS=drawn_page.QUESTIONS,
            TILES=drawn_page.TILES,
            CHARTS=drawn_page.CHARTS,
            LIMITS_TITLE=drawn_page.LIMITS_TITLE,
        )
    return _make_tables(_TABLES[name]) if name in _TABLES else _read(f"{name}.js")


def _make_tables(names: tuple[str, ...]) -> str:
    """Return a module with tables of the stand-alone verifier."""
    tree = ast.parse((files("forum.verify") / "standalone.py").read_text("utf-8"))
    tables = {
        ast.unparse(node.targets[0]): node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
    }
    return _declare(**{name: ast.literal_eval(tables[name]) for name in names})


def _declare(**values: object) -> str:
    """Return a module with constants."""
    return "".join(f"export const {name} = {_write(value)};\n" for name, value in values.items())


def _write(value: object) -> str:
    """Return a text of several lines as it is, and all else as JSON."""
    return f"`{value}`" if isinstance(value, str) and "\n" in value else json.dumps(value)


def _strip(source: str) -> str:
    """Cut off imports, exports and comments; who reads the code reads it in this folder."""
    bare = _EXPORT.sub("", _IMPORT.sub("", source))
    return _LINE_COMMENT.sub("", _BLOCK_COMMENT.sub("", bare))


def _check_order(sources: dict[str, str]) -> None:
    """Refuse an order in which a module is used before it is there."""
    before: set[str] = set()
    for name, source in sources.items():
        missing = set(_IMPORT.findall(source)) - before
        if missing:
            raise ValueError(f"{name}.js imports {', '.join(sorted(missing))}, which come later")
        before.add(name)


def _check_names(script: str) -> None:
    """Refuse a name that two modules declare: they share one scope."""
    names = _DECLARATION.findall(script)
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"declared in two modules: {', '.join(sorted(twice))}")


def _digest(text: str) -> str:
    """Return the hash of a script or a style as a content security policy names it."""
    return f"sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}"


def _read(name: str) -> str:
    return (files("forum.features.evidence.verify_page") / name).read_text("utf-8")
