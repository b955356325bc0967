"""Pages that load nothing: one file with its styles, readable without scripts, and on paper."""

from base64 import b64encode
from collections.abc import Iterable, Sequence

from forum.untrusted_text import escape_html, isolate_html

_STYLE = """\
:root { color-scheme: light dark; --ink: #1b1b1f; --paper: #fff; --line: #8a8a94; --mark: #1f5fbf;
  --soft: #f2f2f5; --dim: #56565f; --good: #1a6b35; --bad: #b3261e; --wait: #8a5a00; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8ee; --paper: #16161a; --line: #7d7d88; --mark: #7fb2ff;
    --soft: #222229; --dim: #a9a9b4; --good: #7ddc9a; --bad: #ff9c94; --wait: #f0c069; }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .25rem .75rem; border-bottom: 1px solid var(--line);
  overflow-wrap: normal; }
th:first-child, td:first-child { text-align: left; }
caption { text-align: left; font-weight: 600; padding: .25rem 0; }
svg { max-width: 100%; height: auto; margin: 1rem 0; }
svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
svg .axis { stroke: var(--line); }
code { font-size: .9em; }
.scroll { overflow-x: auto; }
"""


def render_page(title: str, parts: Iterable[str], style: str = "") -> str:
    """Return a page of its title, its parts in HTML, and styles beyond the common ones."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # Nothing is loaded and no script runs, whatever a text on the page says.
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">\n"
        f"<title>{escape_html(title)}</title>\n<style>\n{_STYLE}{style}</style>\n</head>\n"
        "<body>\n<main>\n" + "\n".join(part for part in parts if part) + "\n</main>\n</body>\n"
        "</html>\n"
    )


def render_table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of texts; nothing if it has no rows."""
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{escape_html(name)}</th>' for name in heads)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{isolate_html(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    title = f"<caption>{escape_html(caption)}</caption>" if caption else ""
    return (
        f'<div class="scroll"><table>{title}\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def render_file(name: str, content: bytes, kind: str, words: str) -> str:
    """Return a link that saves a file which the page itself holds."""
    data, shown = b64encode(content).decode(), escape_html(words)
    return f'<a download="{escape_html(name)}" href="data:{kind};base64,{data}">{shown}</a>'
