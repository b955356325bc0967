"""Writes what each feature has into its README: commands, kinds, endpoints; `just docs` runs it.

What follows a semicolon in these lines is written by hand, and stays.
"""

import re
from pathlib import Path

from forum.feature import Feature, load_part
from forum.features import FEATURES
from tests.docs.pages import ROOT


def page_of(feature: Feature) -> Path:
    """Return where the README of a feature is."""
    return ROOT / "src/forum/features" / feature.name / "README.md"


def render(feature: Feature) -> str:
    """Return the README of a feature with the names that the feature has now."""
    text = page_of(feature).read_text()
    kinds = sorted(kind.name for kind in load_part(feature.kinds)) if feature.kinds else []
    endpoints = load_part(feature.endpoints) if feature.endpoints else ()
    lines = {
        "Commands": [command.name for command in feature.commands],
        "Kinds": kinds,
        "Endpoints": [f"{endpoint.method} {endpoint.path}" for endpoint in endpoints],
    }
    for title, names in lines.items():
        text = _replace_names(text, title, names)
    return text


def _replace_names(text: str, title: str, names: list[str]) -> str:
    names_of_line = r"(?:none(?P<own> of its own)?|[^;]+?)(?P<rest>;.*)?"
    line = re.compile(rf"^- {title}: {names_of_line}\.$", re.MULTILINE)

    def filled(found: re.Match[str]) -> str:
        shown = ", ".join(f"`{name}`" for name in names) or f"none{found['own'] or ''}"
        return f"- {title}: {shown}{found['rest'] or ''}."

    return line.sub(filled, text)


def main() -> None:
    """Write all pages."""
    for feature in FEATURES:
        page_of(feature).write_text(render(feature))


if __name__ == "__main__":
    main()
