"""The contracts of pyproject.toml bite: each deliberate break of the house is reported.

A contract that nothing can break is a comment.  Here each break is planted into a copy of the
package, and the contract that it breaks must be named.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
NAMES: dict[str, str] = {contract["id"]: contract["name"] for contract in SETTINGS["contracts"]}

MAX_EXCEPTIONS = 5
LIST_OF_FEATURES = {
    "forum -> forum.*",
    "forum -> forum.features.**",
    "forum.app.** -> forum.features",
    "forum.surfaces.** -> forum.features",
    "forum.surfaces.cli -> forum.features",
    "forum.config -> forum.features",
}
"""Imports of the list, which names no module of a feature, and those for type checkers."""

# The id of a contract, and a break of it: lines planted at the end of modules, made if missing.
BREAKS: list[tuple[str, dict[str, str]]] = [
    ("layers", {"attic": "'''A package that has no place in the order.'''"}),
    ("layers", {"tlog.p": "import forum.ledger"}),
    ("layers", {"ledger.p": "import forum.stores"}),
    ("layers", {"models.p": "import forum.stores"}),
    ("layers", {"verify.p": "import forum.engine"}),
    ("layers", {"runs.p": "import forum.features.claims.words"}),
    ("layers", {"app.p": "import forum.features.demo.team"}),
    ("layers", {"surfaces.p": "import forum.features.pages.html"}),
    ("layers", {"surfaces.p": "import forum.features.council.panel_view"}),
    ("layers", {"app.p": "def load():\n    import forum.features.retention.service"}),
    ("features-apart", {"features.council.p": "import forum.features.symposium.schemas"}),
    ("features-apart", {"features.archive.p": "import forum.features.webhooks.retries"}),
    ("features-apart", {"features.claims.p": "import forum.features.oidc.tokens"}),
    ("pure", {"tlog.p": "import os"}),
    ("pure", {"ledger.p": "from time import time_ns"}),
    ("pure", {"runs.p": "import random"}),
    ("pure", {"verify.p": "def connect():\n    import socket"}),
    ("pure", {"errors": "import logging"}),
    ("pure", {"features.webhooks.rules": "import asyncio"}),
    ("pure", {"features.oversight.kinds": "import pathlib"}),
    ("pure", {"features.evidence.audit": "import time"}),
    ("pure", {"features.symposium.panel_protocol": "import time"}),
    ("engine-ports", {"engine.p": "import forum.verify"}),
    ("engine-ports", {"engine.p": "import sqlite3"}),
    ("client-apart", {"forum_client.p": "import forum.errors"}),
    ("only-client", {"surfaces.p": "import forum_client"}),
    ("only-keys", {"features.witness.p": "from cryptography.hazmat.primitives import hashes"}),
    ("only-stores", {"models.p": "import psycopg"}),
    ("only-stores", {"features.tenants.p": "import dbos"}),
    ("only-surfaces", {"stores.p": "import click"}),
    ("only-surfaces", {"app": "from rich.console import Console"}),
    ("only-keys", {"forum_client.p": "import cryptography"}),
    ("only-surfaces", {"features.gateway.p": "import click"}),
    ("only-surfaces", {"forum_client.p": "import click"}),
    ("postgres-apart", {"stores.postgres": "import forum.stores.sqlite"}),
    ("postgres-apart", {"stores.postgres_backup": "import forum.stores.sqlite_schema"}),
    ("sqlite-apart", {"stores.sqlite": "import forum.stores.postgres"}),
    ("sqlite-apart", {"stores.sqlite_errors": "import forum.stores.postgres_appending"}),
    ("sqlite-apart", {"stores.sql_queries": "import forum.stores.postgres_sessions"}),
    ("surfaces-apart", {"surfaces.http": "import forum.surfaces.mcp", "surfaces.mcp": ""}),
    ("acyclic", {"tlog.p": "import forum.tlog.q", "tlog.q": "import forum.tlog.p"}),
    ("door-tlog", {"surfaces.p": "import forum.tlog.q", "tlog.q": ""}),
    ("door-verify", {"surfaces.p": "import forum.verify.q", "verify.q": ""}),
    ("door-engine", {"models.p": "import forum.engine.q", "engine.q": ""}),
    ("door-stores", {"surfaces.p": "import forum.stores.q", "stores.q": ""}),
    ("door-models", {"surfaces.p": "import forum.models.q", "models.q": ""}),
    ("door-surfaces", {"app": "import forum.surfaces.q", "surfaces.q": ""}),
]


def plant(copied_tree: Path, module: str, line: str) -> None:
    """Put a line at the end of a module, which is made if it is not there."""
    package = copied_tree if module.startswith("forum_client.") else copied_tree / "forum"
    path = package.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    file.unlink(missing_ok=True)  # a link to a file of all copies
    file.write_text(f"{text}\n{line}\n", encoding="utf-8")


def broken_contracts(copied_tree: Path, *contracts: str) -> set[str]:
    """Return the names of the contracts, all or some, which lint-imports finds broken in a copy."""
    lint_imports = str(Path(sys.executable).with_name("lint-imports"))
    run = subprocess.run(
        [
            lint_imports,
            "--no-cache",
            "--no-logo",
            *(f"--contract={contract}" for contract in contracts),
        ],
        cwd=copied_tree,
        env={"COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    verdicts = dict(re.findall(r"^(.+) (KEPT|BROKEN)\b", run.stdout, flags=re.MULTILINE))
    assert verdicts.keys() == {NAMES[one] for one in contracts or NAMES}, run.stdout + run.stderr
    return {name for name, verdict in verdicts.items() if verdict == "BROKEN"}


@pytest.fixture(scope="module")
def whole_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the package and its contracts."""
    folder = tmp_path_factory.mktemp("whole")
    sources = shutil.ignore_patterns("__pycache__", "ui", "*.sql")
    shutil.copytree(ROOT / "src/forum", folder / "forum", ignore=sources)
    client = ROOT / "clients/python/src/forum_client"
    shutil.copytree(client, folder / "forum_client", ignore=sources)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@pytest.fixture
def copied_tree(whole_tree: Path, tmp_path: Path) -> Path:
    """Return a copy to be broken, which shares the files that stay as they are."""
    shutil.copytree(whole_tree, tmp_path / "copy", copy_function=os.link)
    return tmp_path / "copy"


def test_the_house_as_it_stands_keeps_every_contract(copied_tree: Path) -> None:
    """Otherwise a break below could be reported for a reason that was there before it."""
    assert broken_contracts(copied_tree) == set()


@pytest.mark.parametrize(
    ("contract", "planted"),
    BREAKS,
    ids=[f"{contract}-{'+'.join(lines)}" for contract, lines in BREAKS],
)
def test_a_break_is_reported(copied_tree: Path, contract: str, planted: dict[str, str]) -> None:
    """One forbidden line anywhere is enough for its contract to be named."""
    for module, line in planted.items():
        plant(copied_tree, module, line)

    assert broken_contracts(copied_tree, contract) == {NAMES[contract]}


def test_few_exceptions_are_written_down() -> None:
    """The kernel imports the list of features only; at most five imports lead between features."""
    ignored = {
        contract["id"]: [
            line for line in contract.get("ignore_imports", ()) if line not in LIST_OF_FEATURES
        ]
        for contract in SETTINGS["contracts"]
    }

    assert not ignored["layers"]
    assert not ignored["acyclic"]
    assert len(ignored["features-apart"]) <= MAX_EXCEPTIONS


def test_every_module_of_a_store_is_on_its_side() -> None:
    """A part that is split off does not leave the contracts that keep the stores apart."""
    by_id = {contract["id"]: contract for contract in SETTINGS["contracts"]}
    folder = ROOT / "src/forum/stores"
    postgres, sqlite, common = (
        {f"forum.stores.{path.stem}" for path in folder.glob(pattern)}
        for pattern in ("postgres*.py", "sqlite*.py", "sql_*.py")
    )

    assert set(by_id["postgres-apart"]["source_modules"]) == postgres
    assert set(by_id["postgres-apart"]["forbidden_modules"]) == sqlite
    assert set(by_id["sqlite-apart"]["source_modules"]) == sqlite | common
    assert set(by_id["sqlite-apart"]["forbidden_modules"]) == postgres
    assert len(postgres) > 5
    assert len(sqlite) > 2
    assert len(common) > 5


def test_every_contract_has_a_break() -> None:
    """A contract that is added without one could be satisfied by everything."""
    assert {contract for contract, _ in BREAKS} == NAMES.keys()
