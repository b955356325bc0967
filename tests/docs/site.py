"""Build the documentation site, and write the list of pages in llms.txt; `just docs` runs it.

    python -m tests.docs.site      writes llms.txt and docs/adr/README.md, builds build/docs/site

Pages keep their places: the site is made from a copy of the Markdown files of the repository, so
that a link which leads somewhere in the repository leads to the same page on the site.  The
navigation is in zensical.toml.
"""

import html
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from forum import __version__
from tests.docs import glossary
from tests.docs.pages import COMMANDS, REFERENCE

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "zensical.toml"
LLMS = ROOT / "llms.txt"
DECISIONS = ROOT / "docs/adr"
THEME = ROOT / "docs/theme"
LOGO = ROOT / "web/src/icon.svg"  # one logo for the dashboard and the site

_COPIED = (
    "*.md",
    "LICENSE",
    "llms.txt",
    "docs/**/*.md",
    "docs/**/*.schema.json",
    "docs/**/*.vectors.json",
    "docs/**/*.svg",
    "docs/**/*.png",
    "examples/**/*.py",
)
_CONSOLE = re.compile(
    r'(?P<open><div class="language-console highlight")>(?P<code>.*?</pre>)', re.DOTALL
)
_TAG = re.compile("<[^>]*>")
_LOOKED_UP = ("docs/spec/", "docs/adr/", "docs/reference/python", "docs/reference/client")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_SENTENCE = re.compile(r"(?<=[a-z`\d)\"*])[.](?=\s|$)")

_LLMS_HEAD = """\
# Forum

> Forum runs fleets of AI agents. Each step is an entry in a ledger before the next step begins. \
Anybody who holds an answer can verify offline how it came about.

Generated from the pages by `just docs`; do not edit.
"""
_DECISIONS_HEAD = """\
# Decisions

Each page is one decision: its context, the decision, its consequences, and what was rejected. \
A decision is never removed. A later page supersedes it, and its status says so. \
Superseded pages name modules as they were called then; \
[0087](0087-a-kernel-and-features-in-folders.md) has a table of where they are now.

Generated from the pages by `just docs`; do not edit.

| decision | status |
|---|---|
"""


def copy_pages(folder: Path) -> None:
    """Copy the pages, the configuration and the theme into the folder of a build."""
    pages = folder / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    for source in sorted(path for pattern in _COPIED for path in ROOT.glob(pattern)):
        target = pages / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    shutil.copytree(THEME, folder / "theme", dirs_exist_ok=True)
    shutil.copyfile(LOGO, folder / "theme/assets/logo.svg")
    (folder / CONFIG.name).write_text(_configuration())


def _configuration() -> str:
    """Return the configuration, with the pages of the commands, the version and its date."""
    pages = [REFERENCE, *sorted(COMMANDS.glob("*.md"))]
    listed = ", ".join(f'"{page.relative_to(ROOT)}"' for page in pages)
    changes = {
        f'    "{REFERENCE.relative_to(ROOT)}",\n': f'    {{ "Command line" = [{listed}] }},\n',
        'copyright = "Forum"': f'copyright = "Forum {__version__}{_commit_date()}"',
    }
    text = CONFIG.read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return text


def _commit_date() -> str:
    """Return when the pages were committed; empty without the history, as in an sdist."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%cd", "--date=format:%-d %B %Y"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    return f", {shown.stdout.strip()}" if shown.returncode == 0 else ""


def build_site(folder: Path) -> Path:
    """Build the site in a folder, and return where it is; a warning is an error.

    Every page is beside its HTML as Markdown too: that is where the links of llms.txt lead.
    """
    copy_pages(folder)
    site = folder / "site"
    shutil.rmtree(site, ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if built.returncode != 0:
        raise RuntimeError(built.stdout + built.stderr)
    for built_page in site.rglob("*.html"):
        built_page.write_text(_finish_page(built_page.read_text(), built_page.relative_to(site)))
    search = site / "search.json"
    search.write_text(json.dumps(_order_search(json.loads(search.read_text()))))
    for page in (folder / "pages").rglob("*.md"):
        shutil.copyfile(page, site / page.relative_to(folder / "pages"))
    return site


def _finish_page(page: str, path: Path) -> str:
    """Return a built page with what the builder does not add."""
    page = _CONSOLE.sub(_add_copied_text, page)
    if path.parent == glossary.GLOSSARY.relative_to(ROOT).with_suffix(""):
        return glossary.add_anchors(page)
    if str(path).startswith(glossary.LINKING):
        return glossary.link_terms(page, "../../glossary/")
    return page


def _order_search(index: dict[str, Any]) -> dict[str, Any]:
    """Return the search index, in which sections of references name their page in their title.

    A short title that is the searched word alone comes first, and a reader wants the guide before
    the specification.
    """
    titles = {item["location"]: item["title"] for item in index["items"]}
    for item in index["items"]:
        page, _, section = item["location"].partition("#")
        if section and page.startswith(_LOOKED_UP):
            item["title"] = f"{titles[page]}: {item['title']}"
    return index


def _add_copied_text(block: re.Match[str]) -> str:
    """Return a console block with the text that its button copies: commands, without prompts."""
    lines = html.unescape(_TAG.sub("", block["code"])).split("\n")
    copied = "\n".join(line[2:] for line in lines if line.startswith("$ "))
    return f'{block["open"]} data-copy="{html.escape(copied)}">{block["code"]}'


def navigation() -> dict[str, list[str]]:
    """Return the pages of each section of the navigation."""
    project = tomllib.loads(CONFIG.read_text())["project"]
    return {title: _pages(items) for section in project["nav"] for title, items in section.items()}


def _pages(items: list[Any]) -> list[str]:
    """Return the pages of a section and of the sections in it."""
    pages: list[str] = []
    for item in items:
        if isinstance(item, str):
            pages.append(item)
        else:
            pages += [page for section in item.values() for page in _pages(section)]
    return pages


def decisions() -> list[Path]:
    """Return the pages of decisions, oldest first."""
    return sorted(DECISIONS.glob("[0-9]*.md"))


def title_of(page: Path) -> str:
    """Return the title of a page."""
    return " ".join(page.read_text().split("\n", 1)[0].removeprefix("# ").split())


def summary_of(page: Path) -> str:
    """Return the first sentence of a page; of a decision, the first one of what was decided."""
    text = page.read_text().split("\n", 1)[1]
    if page.parent == DECISIONS and "**Decision** " in text:
        text = text.split("**Decision** ")[1]
    paragraph = text.strip().split("\n\n")[0].replace("\n", " ")
    return _SENTENCE.split(_LINK.sub(r"\1", paragraph))[0].replace("**", "") + "."


def render_llms() -> str:
    """Return llms.txt: every page of the navigation and every decision, each with one sentence."""
    sections = {
        title: [ROOT / page for page in pages]
        for title, pages in navigation().items()
        if title != "Decisions"
    }
    sections["Optional"] = decisions()  # by the convention: what a short context may leave out
    parts = [_LLMS_HEAD]
    for title, pages in sections.items():
        lines = [
            f"- [{title_of(page)}]({page.relative_to(ROOT)}): {summary_of(page)}" for page in pages
        ]
        parts.append("\n".join([f"## {title}", "", *lines, ""]))
    return "\n".join(parts)


def render_decisions() -> str:
    """Return the index of decisions, with the status of each."""
    rows = [f"| [{title_of(page)}]({page.name}) | {_status(page)} |\n" for page in decisions()]
    return _DECISIONS_HEAD + "".join(rows)


def _status(page: Path) -> str:
    return page.read_text().split("\nStatus: ")[1].split("\n")[0]


if __name__ == "__main__":
    (DECISIONS / "README.md").write_text(render_decisions())
    LLMS.write_text(render_llms())
    print(build_site(ROOT / "build/docs"))  # noqa: T201
