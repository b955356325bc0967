"""Writes the tables of kinds from the declared kinds; `just docs` runs it.

The stand-alone verifier has one table of all kinds, and each page of docs/spec one of its own.
"""

import re
import textwrap
from collections.abc import Iterable
from enum import Enum
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import msgspec

from forum.features.council.kinds import COUNCIL_KINDS
from forum.features.evidence.control_maps import encode_map
from forum.features.evidence.events import EVENT_FORMS
from forum.features.evidence.queries import QUERY_SETS
from forum.features.evidence.report import LIMITS
from forum.features.evidence.service import shipped_maps
from forum.features.oversight.kinds import OVERSIGHT_KINDS
from forum.features.symposium.kinds import SYMPOSIUM_KINDS
from forum.ledger.entry import Limit
from forum.ledger.kinds import LEDGER_KINDS, Kind
from forum.runs.kinds import WORK_KINDS
from forum.runs.report_kinds import REPORT_KINDS
from tests.docs.pages import ROOT
from tests.ledger.samples import members_of

_PAGES = {
    "entry.md": [*LEDGER_KINDS, *OVERSIGHT_KINDS],
    "run.md": list(WORK_KINDS),
    "report.md": list(REPORT_KINDS),
    "deliberation.md": [*COUNCIL_KINDS, *SYMPOSIUM_KINDS],
}
_IN_PAGE = re.compile(r"(?<=<!-- kinds -->\n).*?(?=\n\n)", re.DOTALL)
_IN_VERIFIER = re.compile(r"(?<=# <kinds>\n).*?(?=\n# </kinds>)", re.DOTALL)
_IN_VERIFIER_OF_PACKS = re.compile(r"(?<=# <packs>\n).*?(?=\n# </packs>)", re.DOTALL)
_WIDTH = 100


def generated_files() -> dict[Path, str]:
    """Return the text that each file with a table of kinds must have."""
    texts = {}
    for name, kinds in _PAGES.items():
        page = ROOT / "docs/spec" / name
        texts[page] = _replace_table(page, _IN_PAGE, _page_table(kinds))
    every_kind = [kind for kinds in _PAGES.values() for kind in kinds]
    verifier = ROOT / "src/forum/verify/standalone.py"
    text = _replace_table(verifier, _IN_VERIFIER, _verifier_table(every_kind))
    texts[verifier] = _IN_VERIFIER_OF_PACKS.sub(lambda _: _pack_tables(), text)
    texts[ROOT / "clients/go/kinds.txt"] = "\n\n".join(_both_tables(every_kind).values()) + "\n"
    return texts


def _pack_tables() -> str:
    """Return what the stand-alone verifier must know to compute a report."""
    limits = sha256(msgspec.json.encode(LIMITS)).hexdigest()
    maps = [
        f"{used.name} {used.version} {sha256(encode_map(used)).hexdigest()}"
        for used in shipped_maps().values()
    ]
    titles = [f"{used.name} {used.title}" for used in shipped_maps().values()]
    events = [line for kind, form in EVENT_FORMS.items() for line in _wrap([kind, "; ".join(form)])]
    lines = [
        "KNOWN_QUERIES = (",
        *(
            f'    ({len(queries)}, "{sha256(msgspec.json.encode(queries)).hexdigest()}"),'
            for queries in QUERY_SETS
        ),
        ")",
        f'KNOWN_LIMITS = "{limits}"',
        *('KNOWN_MAPS = """', *maps, '"""'),
        *('MAP_TITLES = """', *titles, '"""'),
        *('EVENT_TABLE = """', *events, '"""'),
    ]
    return "\n".join(lines)


def _replace_table(path: Path, place: re.Pattern[str], table: str) -> str:
    text, count = place.subn(lambda _: table, path.read_text())
    if count != 1:
        raise ValueError(f"{path} has {count} marked tables of kinds, not one")
    return text


def _page_table(kinds: Iterable[Kind[Any]]) -> str:
    """Return the table of a page: one row for each fact, and for each kind without facts."""
    rows = ["| kind | member | type | default | bodies |", "|---|---|---|---|---|"]
    for kind in kinds:
        name, bodies = f"`{kind.name}`", ", ".join(f"`{body}`" for body in sorted(kind.bodies))
        facts = [[f"`{fact}`", _prose_type(hint), default] for fact, hint, default in _facts(kind)]
        for fact, fact_type, default in facts or [["", "", ""]]:
            cells = (name, fact, fact_type, f"`{default}`" if default else "", bodies)
            rows.append(" ".join(f"| {' | '.join(cells)} |".split()))
            name = bodies = ""
    return "\n".join(rows)


def _prose_type(hint: Any) -> str:  # noqa: ANN401  a type of any form
    if get_origin(hint) is tuple:
        return f"array of {_prose_type(get_args(hint)[0])}"
    if isinstance(hint, type) and issubclass(hint, Enum):
        return ", ".join(f"`{value}`" for value in _values(hint))
    return _name_number(hint) or "string"


def _verifier_table(kinds: list[Kind[Any]]) -> str:
    """Return both tables of the stand-alone verifier: the enumerations, then the kinds."""
    return "\n".join(f'{name} = """\n{table}\n"""' for name, table in _both_tables(kinds).items())


def _both_tables(kinds: list[Kind[Any]]) -> dict[str, str]:
    """Return the tables of enumerations and of kinds by their names."""
    enums: dict[str, type[Enum]] = {}
    lines = []
    for kind in kinds:
        words = [kind.name]
        for fact, hint, default in _facts(kind):
            words.append(f"{fact}:{_short_type(hint, enums)}{'=' if default else ''}{default}")
        lines += _wrap([*words, *(f"+{body}" for body in sorted(kind.bodies))])
    choices = [line for name in sorted(enums) for line in _wrap([name, *_values(enums[name])])]
    return {"CHOICE_TABLE": "\n".join(choices), "KIND_TABLE": "\n".join(lines)}


def _short_type(hint: Any, enums: dict[str, type[Enum]]) -> str:  # noqa: ANN401  any type
    """Return the type of a fact in one word; an enumeration is collected under its name."""
    if get_origin(hint) is tuple:
        return f"{_short_type(get_args(hint)[0], enums)}[]"
    if isinstance(hint, type) and issubclass(hint, Enum):
        if enums.setdefault(hint.__name__, hint) is not hint:
            raise ValueError(f"two enumerations are called {hint.__name__}")
        return hint.__name__
    return _name_number(hint) or "text"


def _name_number(hint: Any) -> str:  # noqa: ANN401  any type
    """Return the name of a type of integers, or nothing for another type."""
    if get_origin(hint) is not Annotated:
        return ""
    return "limit" if hint == Limit else "count"


def _facts(kind: Kind[Any]) -> list[tuple[str, Any, str]]:
    """Return name, type and default of each fact; the default as JSON, empty if there is none."""
    hints = members_of(kind.facts)
    return [
        (
            field.name,
            hints[field.name],
            ""
            if field.default is msgspec.NODEFAULT
            else msgspec.json.encode(field.default).decode(),
        )
        for field in msgspec.structs.fields(kind.facts)
    ]


def _values(enum: type[Enum]) -> list[str]:
    return [member.value or '""' for member in enum]


def _wrap(words: list[str]) -> list[str]:
    return textwrap.wrap(
        " ".join(words),
        _WIDTH,
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def main() -> None:
    """Write the tables into their files."""
    for path, text in generated_files().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
