"""Decode the sections of a settings file: a struct declares each, and all errors have one form.

An error names the file, the section, the setting and what to write instead.  It quotes no value but
an unknown choice: somebody may have written a key where its name belongs.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import inspect

from forum.errors import BadSettings
from forum.spelling import suggest_or_list

Table = Mapping[str, Any]
S = TypeVar("S", bound=msgspec.Struct)


class WrittenAmount(Decimal):
    """A number, or a text that holds one; `forum.units` turns it into recorded units."""


class Dollars(WrittenAmount):
    """An amount of money; its text may begin with $."""


FilePath = Annotated[str, msgspec.Meta(extra={"file": True})]
"""The name of a file, which is relative to the file that it is written in."""
FilePaths = Annotated[tuple[Annotated[str, msgspec.Meta(min_length=1)], ...],
                      msgspec.Meta(extra={"file": True})]  # fmt: skip

SecretFile = Annotated[FilePath, msgspec.Meta(extra={"secret": True})]
"""The name of a file with a secret; the title says which, with {} for the section's name."""
SecretVariable = Annotated[str, msgspec.Meta(extra={"secret": True})]
"""The name of a variable with a secret."""

_MISSING = re.compile(r"Object missing required field `(.+)`").fullmatch
_UNKNOWN = re.compile(r"Invalid enum value (.+)").fullmatch
_STEP = re.compile(r"\.([^.\[]+)|\[([0-9]+|\.\.\.)\]")


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A section of a settings file."""

    is_named: ClassVar[bool] = False
    """Whether it has subsections, whose names the user chooses."""
    is_merged: ClassVar[bool] = True
    """Whether its settings may come from several files."""


class NamedSection(Section, frozen=True):
    """A section `[KIND.NAME]`."""

    is_named = True


Sections = Mapping[str, type[Section]]


def collect_sections(*parts: Sections) -> Sections:
    """Return one table of all sections.  Raises `ValueError` for one that is declared twice."""
    table: dict[str, type[Section]] = {}
    for part in parts:
        if twice := table.keys() & part.keys():
            raise ValueError(f"sections that are declared twice: {', '.join(sorted(twice))}")
        table |= part
    for section in table.values():
        # Let msgspec inspect it now: two threads that do so at the same time crash the process.
        msgspec.json.Decoder(section)
    return table


@cache
def list_file_settings(section: type[Section]) -> frozenset[str]:
    """Return the settings of a section that name files."""
    fields = msgspec.structs.fields(section)
    return frozenset(f.encode_name for f in fields if _is_marked(f.type, "file"))


@cache
def _list_secret_settings(section: type[Section]) -> Mapping[str, str]:
    """Return the settings of a section that name a secret's place, with the titles of files."""
    return {
        field.encode_name: "".join(meta.title or "" for meta in field.type.__metadata__)
        for field in msgspec.structs.fields(section)
        if _is_marked(field.type, "secret")
    }


def _is_marked(kind: object, mark: str) -> bool:
    return any(mark in (meta.extra or {}) for meta in getattr(kind, "__metadata__", ()))


class SectionTables(msgspec.Struct, frozen=True):
    """The sections of the settings files of a project, as they are written."""

    tables: Mapping[str, Any] = {}
    """By the name of the section; numbers are as exact as they were written."""
    file: str = "forum.toml"
    """The file that an error names if nothing is known of the origin of a setting."""
    origins: Mapping[str, str] = {}
    """The file or the variable that a setting like `server.port` is from."""

    def __contains__(self, name: str) -> bool:
        return name in self.tables

    def raw(self, name: str) -> Table:
        """Return a section, or the sections `[NAME.*]` by name, undecoded."""
        table: Table = self.tables.get(name, {})
        return table

    def read(self, name: str, into: type[S], *, strict: bool = True) -> S:
        """Decode a section.  Raises `BadSettings`."""
        with self.errors(name):
            return convert_table(self.raw(name), into, strict=strict)

    def read_named(self, kind: str, into: type[S]) -> dict[str, S]:
        """Decode the sections `[KIND.NAME]`, by name.  Raises `BadSettings`."""
        sections = {}
        for name, table in self.raw(kind).items():
            with self.errors(f"{kind}.{name}"):
                sections[name] = convert_table(table, into)
        return sections

    def list_secrets(self, sections: Sections) -> Iterator[tuple[str, str]]:
        """Yield the names of the variables and files that hold secrets.

        Each has the title of what the file holds; it is empty for a variable.
        """
        for kind, section in sections.items():
            table = self.raw(kind)
            for name, each in table.items() if section.is_named else [("", table)]:
                for setting, title in _list_secret_settings(section).items():
                    if isinstance(value := each.get(setting), str) and value:
                        yield value, title.format(name)

    @contextmanager
    def errors(self, name: str) -> Iterator[None]:
        """Turn a `ValueError`, whose text begins with a setting, into `BadSettings`."""
        try:
            yield
        except ValueError as error:
            setting = re.split(r"[:.\[]", str(error))[0]
            where = self.origins.get(f"{name}.{setting}") or self.origins.get(name) or self.file
            raise BadSettings(where, f"[{name}] {error}") from None


def convert_table(table: Table, into: type[S], *, strict: bool = True) -> S:
    """Convert a table to a struct.  Raises `ValueError` with the setting and what to write."""
    refuse_unknown(table, into)
    try:
        return msgspec.convert(table, into, strict=strict, dec_hook=_decode_amount)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at ")
        path = place.strip("`").removeprefix("$")
        if missing := _MISSING(what):
            path, what = f"{path}.{missing[1]}", "it is missing"
        elif isinstance(error.__cause__, ValueError) or not path:  # said by the struct itself
            raise ValueError(f"{path[1:]}: {what}" if path else what) from None
        else:
            unknown = _UNKNOWN(what)
            what = f"{unknown[1]} is unknown" if unknown else ""
        expected = f"write {_describe(_find_type(inspect.type_info(into), path))}"
        raise ValueError(f"{path[1:]}: {'; '.join(filter(None, (what, expected)))}") from None


def _decode_amount(kind: type[WrittenAmount], value: object) -> WrittenAmount:
    """Return an amount as it is written.  Raises `TypeError` if it is not a number."""
    text = value.removeprefix("$" if kind is Dollars else "") if isinstance(value, str) else value
    if isinstance(text, bool) or not isinstance(text, int | str | Decimal):
        raise TypeError
    try:
        return kind(text)
    except InvalidOperation:
        raise TypeError from None


def refuse_unknown(table: Table, into: type[msgspec.Struct]) -> None:
    """Raise `ValueError` for a setting that is unknown."""
    config, names = into.__struct_config__, into.__struct_encode_fields__
    allowed = {*names, config.tag_field} if config.tag_field else {*names}
    for name in sorted(table.keys() - allowed) if config.forbid_unknown_fields else ():
        raise ValueError(f"it has no setting {name!r}; {suggest_or_list(name, allowed)}")


def _find_type(kind: inspect.Type, path: str) -> inspect.Type:
    """Return the type at a place; that of a part of it, if this part says how it is written."""
    for name, _ in _STEP.findall(path):
        while isinstance(kind, inspect.Metadata | inspect.UnionType):
            if isinstance(kind, inspect.Metadata):
                if kind.extra_json_schema:
                    return kind
                kind = kind.type
            else:
                kind = next(t for t in kind.types if not isinstance(t, inspect.NoneType))
        if isinstance(kind, inspect.StructType):
            # What is no field is the tag of the struct, a text.
            types = (f.type for f in kind.fields if f.encode_name == name)
            kind = next(types, inspect.StrType())
        elif isinstance(kind, inspect.DictType):
            kind = kind.value_type
        elif isinstance(kind, inspect.CollectionType):
            return kind
    return kind


def _describe(kind: inspect.Type) -> str:  # noqa: C901, PLR0911  one case for each
    """Return what a value of a type looks like in a file."""
    match kind:
        case inspect.Metadata(type=inner, extra_json_schema=schema):
            return (schema or {}).get("description") or _describe(inner)
        case inspect.IntType(ge=low, le=high):
            limits = f" from {low} to {high:,}" if high is not None else f", {low} or more"
            return "a whole number" + (limits if low is not None else "")
        case inspect.StrType(min_length=least):
            return "a text that is not empty" if least else "a text"
        case inspect.EnumType() | inspect.LiteralType():
            choices = kind.cls if isinstance(kind, inspect.EnumType) else kind.values
            return f"one of {', '.join(map(str, choices))}"
        case inspect.CollectionType(item_type=item):
            return f"a list, each item {_describe(item)}"
        case inspect.UnionType(types=types):
            texts = (_describe(t) for t in types if not isinstance(t, inspect.NoneType))
            return " or ".join(dict.fromkeys(texts))
        case inspect.BoolType():
            return "true or false"
        case inspect.FloatType() | inspect.DecimalType() | inspect.CustomType():
            return "a number"
        case _:
            return "a table"
