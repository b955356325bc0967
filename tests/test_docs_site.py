"""The documentation site: built for real, then read as a browser would read it."""

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from forum import __version__
from tests.docs.glossary import LINKING, MAX_TERMS, link_terms, read_terms
from tests.docs.pages import commands
from tests.docs.site import (
    CONFIG,
    DECISIONS,
    LLMS,
    ROOT,
    build_site,
    navigation,
    render_decisions,
    render_llms,
)
from tests.surfaces.chromium import chromium

# What a page loads by itself, and by which attribute; a link of an <a> is followed by its reader.
LOADS = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "img": "src",
    "link": "href",
    "object": "data",
    "script": "src",
    "source": "src",
    "video": "src",
}
# Classes for which the scripts of the theme load a library from another host.
FETCHING = re.compile(r'class="[^"]*\b(?:mermaid|glightbox|pyodide|tablesort)\b')


@dataclass
class Page(HTMLParser):
    """The ids, links and loaded files of one built page."""

    text: str
    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    policies: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of what a tag refers to."""
        values = {name: value or "" for name, value in attrs}
        self.ids |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if LOADS.get(tag) in values:
            self.loads.append(values[LOADS[tag]])
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policies.append(values["content"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site; a broken link or anchor that the builder sees fails here."""
    return build_site(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """Return every built page."""
    return {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}


def is_foreign(link: str) -> bool:
    """Tell whether a link leads to another host, or out of the web."""
    parts = urlsplit(link)
    return bool(parts.netloc) or parts.scheme not in ("", "data")


def target(site: Path, page: Path, link: str) -> Path:
    """Return the file that a link of a page names."""
    path = unquote(urlsplit(link).path)
    base = site if path.startswith("/") else page.parent
    found = (base / path.lstrip("/")).resolve() if path else page
    return found / "index.html" if found.is_dir() else found


def broken(site: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """Return every link and loaded file of the site that leads nowhere."""
    for path, page in pages.items():
        for link in (*page.links, *page.loads):
            if is_foreign(link) or link.startswith("data:"):
                continue
            found, anchor = target(site, path, link), unquote(urlsplit(link).fragment)
            if not found.is_file() or (
                anchor and found in pages and anchor not in pages[found].ids
            ):
                yield f"{path.relative_to(site)}: {link}"


@pytest.mark.slow
def test_every_link_and_anchor_of_the_site_resolves(site: Path, pages: dict[Path, Page]) -> None:
    """A reader who follows a link arrives at the page and at the section that it names."""
    assert len(pages) > 80
    assert list(broken(site, pages)) == []


@pytest.mark.slow
def test_every_page_is_reachable_from_the_start_page(site: Path, pages: dict[Path, Page]) -> None:
    """A page that nothing leads to is read by nobody."""
    start = site / "index.html"
    reached, waiting = {start}, [start]
    while waiting:
        path = waiting.pop()
        fresh = {
            target(site, path, link) for link in pages[path].links if not is_foreign(link)
        } & pages.keys()
        waiting += fresh - reached
        reached |= fresh

    sources = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    built = {path.relative_to(site) for path in reached}
    assert [path for path in sources if _built(path.relative_to(ROOT)) not in built] == []


def _built(source: Path) -> Path:
    """Return where the site has a page of the repository."""
    folder = source.parent if source.stem == "README" else source.with_suffix("")
    return folder / "index.html"


@pytest.mark.slow
def test_the_site_loads_nothing_from_other_hosts(site: Path, pages: dict[Path, Page]) -> None:
    """Whoever reads the documentation tells nobody else about it."""
    foreign = {link for page in pages.values() for link in page.loads if is_foreign(link)}
    fetching = [path for path, page in pages.items() if FETCHING.search(page.text)]
    styles = "".join(path.read_text() for path in site.rglob("*.css"))

    assert foreign == set()
    assert fetching == []
    assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)\s]*", styles) == []
    for page in pages.values():
        (policy,) = page.policies
        assert policy.startswith("default-src 'self';")
        assert "//" not in policy
        assert "*" not in policy


@pytest.mark.slow
def test_pages_name_the_version_and_have_titles_of_their_own(
    site: Path, pages: dict[Path, Page]
) -> None:
    """A reader sees of which release a page is, and tells its tab from others."""
    titles = {path: re.findall("<title>(.+)</title>", page.text) for path, page in pages.items()}

    assert titles[site / "index.html"] == [f"Forum: {_setting('site_description')}"]
    assert [path for path, title in titles.items() if "Forum - Forum" in title] == []
    assert [path for path, page in pages.items() if f"Forum {__version__}" not in page.text] == []


def _setting(name: str) -> str:
    return str(tomllib.loads(CONFIG.read_text())["project"][name])


@pytest.mark.slow
def test_the_copy_button_copies_commands_without_prompt_and_output(
    site: Path, tmp_path: Path
) -> None:
    """What is copied can be pasted into a terminal."""
    page = "docs/guides/five-minutes.md"
    with chromium(tmp_path) as tab:
        # A server is needed only by the search; the button works from a file, too.
        tab.open(site / _built(Path(page)))
        tab.wait_for("document.querySelector('.language-console button.md-code__button')")
        # The theme copies from a text field that it makes for the purpose.
        tab.evaluate(
            "window.copied = []; document.execCommand = () => "
            "copied.push(document.querySelector('body > textarea').value) > 0"
        )
        copied = tab.evaluate(
            "[...document.querySelectorAll('.language-console')].map((block) => {"
            " block.querySelector('button.md-code__button').click(); return copied.at(-1); })"
        )

    assert "\n".join(copied).split("\n") == commands(page, None)


@pytest.mark.slow
def test_a_section_of_a_specification_is_found_under_its_page(site: Path) -> None:
    """A guide that has the searched word in a heading comes before a section named by it alone."""
    items = json.loads((site / "search.json").read_text())["items"]
    (title,) = (item["title"] for item in items if item["location"] == "docs/spec/run/#budgets")

    assert title == "Runs: the kinds of work: Budgets"


@pytest.mark.slow
def test_a_page_links_each_term_of_the_glossary_once(site: Path) -> None:
    """Whoever meets a word of ours finds out what it means, and is not stopped at each use."""
    linked = {
        path: re.findall('<a class="term" href="[^"]*#([^"]+)"', path.read_text())
        for folder in LINKING
        for path in (site / folder).glob("*/index.html")
    }
    terms = {term.anchor for term in read_terms()}

    assert len(terms) <= MAX_TERMS
    assert [path for path, found in linked.items() if len(found) != len(set(found))] == []
    # A term that no guide and no concept uses is not one that a reader has to look up.
    assert terms - {term for found in linked.values() for term in found} == set()


def test_a_term_is_linked_where_it_is_first_used_as_one() -> None:
    """Not in code, headings or links, and not where the word is a verb."""
    page = "<article><h1>A run</h1><p>To run <code>a run</code>, runs the run, a run.</p></article>"

    assert re.findall(r"(.{8})<a class=.term[^>]*>(\w+)</a>(.)", link_terms(page, "glossary")) == [
        ("uns the ", "run", ",")
    ]


def test_no_page_installs_from_an_index() -> None:
    """Forum is on none, so such a command fails, or brings somebody else's package."""
    install = re.compile(r"(?:pip|pipx|uv tool) install [^`\n]*\bforumd?(?![\w/-]*[.*])")
    pages = (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))

    assert [page for page in pages if install.search(page.read_text())] == []


def test_the_list_of_pages_for_models_is_up_to_date() -> None:
    """It is generated: `just docs` writes llms.txt anew."""
    assert LLMS.read_text() == render_llms()


def test_the_index_of_decisions_is_up_to_date() -> None:
    """It is generated: `just docs` writes it anew."""
    assert (DECISIONS / "README.md").read_text() == render_decisions()


@pytest.mark.slow
def test_the_list_of_pages_for_models_follows_the_convention(site: Path) -> None:
    """A title, a summary in a quote, then sections of links, each with one sentence."""
    head, *sections = LLMS.read_text().split("\n## ")
    lines = [line for section in sections for line in section.split("\n")[1:] if line]
    links = [re.fullmatch(r"- \[[^\]]+\]\(([^)]+)\): (\S.{10,350}\.)", line) for line in lines]

    assert re.match(r"# Forum\n\n> \S.*\n\n", head)
    assert [line for line, link in zip(lines, links, strict=True) if link is None] == []
    paths = [link[1] for link in links if link]
    assert {page for pages in navigation().values() for page in pages} - set(paths) == {
        "docs/adr/README.md"
    }
    assert [path for path in paths if not (site / path).is_file()] == []
