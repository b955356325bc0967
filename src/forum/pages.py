"""Pages that load nothing: one file with its styles, readable without scripts, and on paper.

The pages of runs, evaluations and evidence packs share their head, styles and tables.  Texts that
others wrote are escaped with `forum.untrusted_text`.
"""

from base64 import b64encode
from collections.abc import Iterable, Sequence

from forum.untrusted_text import escape_html, isolate_html

# Pages in packs of release 0.2 are compared byte by byte, from their first line to the last of
# these styles: a change of them belongs into the styles of a page.
_STYLE = """\
:root { color-scheme: light dark; --ink: #1b1b1f; --paper: #fff; --line: #b9b9c2; --dim: #56565f;
  --soft: #f3f3f6; --mark: #1f5fbf; --wait: #8a5a00; --waitbg: #fff4dc;
  --c1: #2a78d6; --c2: #c8372d; --c3: #c77700; --c4: #7a5cc4; --c5: #8a8a94; --c6: #1b8a5a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8ee; --paper: #16161a; --line: #4a4a55;
  --dim: #a9a9b4; --soft: #222229; --mark: #7fb2ff; --wait: #f0c069; --waitbg: #33291a;
  --c1: #5a9cf0; --c2: #f07067; --c3: #e8a33d; --c4: #a98df0; --c5: #9a9aa6; --c6: #4fc48e; } }
* { box-sizing: border-box; }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 70rem; margin: 1.5rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.2rem; margin: 1.8rem 0 .4rem; }
h3 { font-size: 1rem; margin: 0; } p { margin: .4rem 0; } a { color: var(--mark); }
table { border-collapse: collapse; width: 100%; margin: .4rem 0; }
th, td { text-align: left; vertical-align: top; padding: .25rem .5rem;
  border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--dim); font-size: .85rem; overflow-wrap: normal; }
td.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
td.w { min-width: 9rem; } td.s { overflow-wrap: normal; }
.dim { color: var(--dim); font-size: .87rem; }
code { font-size: .87em; }
"""
FIGURE_STYLE = """\
caption { text-align: left; font-weight: 600; padding: .25rem 0; }
.scroll { overflow-x: auto; }
figure { margin: 1rem 0; }
svg { max-width: 100%; height: auto; margin: .5rem 0; }
svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
svg .axis { stroke: var(--line); }
"""
"""Styles of what `render_table` returns, and of pictures."""


def render_page(title: str, parts: Iterable[str], style: str) -> str:
    """Return a page of a title and parts, which are HTML, with styles beyond the common ones."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # Nothing is loaded and no script runs, whatever a text on the page says.
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">\n"
        f"<title>{title}</title>\n<style>\n{_STYLE}{style}</style>\n</head>\n"
        "<body>\n<main>\n" + "\n".join(part for part in parts if part) + "\n</main>\n</body>\n"
        "</html>\n"
    )


def render_table_head(names: Sequence[str], style: str = "", caption: str = "") -> str:
    """Return how a table begins: its caption and the heads of its columns."""
    cells = "".join(f'<th scope="col">{escape_html(name)}</th>' for name in names)
    table = f'<table class="{style}">' if style else "<table>"
    title = f"<caption>{escape_html(caption)}</caption>" if caption else ""
    return f"{table}{title}\n<thead><tr>{cells}</tr></thead>\n<tbody>"


def render_table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of texts; nothing if it has no rows."""
    if not rows:
        return ""
    body = "\n".join(
        "<tr>" + "".join(f"<td>{isolate_html(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    head = render_table_head(heads, caption=caption)
    return f'<div class="scroll">{head}\n{body}\n</tbody></table></div>'


def render_file(name: str, content: bytes, kind: str, words: str) -> str:
    """Return a link that saves a file which the page itself holds."""
    data, shown = b64encode(content).decode(), escape_html(words)
    return f'<a download="{escape_html(name)}" href="data:{kind};base64,{data}">{shown}</a>'
