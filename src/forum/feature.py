"""A feature: a capability that the kernel does not know, as one value.

Modules are named by strings, `module:attribute` below `forum.features`, and are loaded when they
are used, so that a command loads no feature but its own.  The kernel reads the list of features in
`forum.features`; no module of the kernel imports a module of a feature.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypeVar


class FeatureCommand(NamedTuple):
    """A command of a feature."""

    name: str
    function: str
    """The command of click: `module:attribute`."""
    group: str
    """The heading on the page of `forum --help`."""
    after: str
    """The command that it follows under this heading; empty if it is the first."""
    summary: str
    """At most 23 characters."""


class Feature(NamedTuple):
    """What a feature adds to the kernel; an empty string where it adds nothing."""

    name: str
    kinds: str = ""
    """The kinds of its entries, a `Kinds`."""
    protocol: str = ""
    """How a panel deliberates, a `PanelProtocol`; the panel names the feature."""
    panel_view: str = ""
    """What reads the sessions of its protocol from views of runs, a `PanelView`."""
    panel_outcome: str = ""
    """How a panel of its protocol ended: of a view of a run, returns a `CouncilOutcome` or None."""
    panel_lines: str = ""
    """What renders the results of its protocol for a terminal, a `PanelLines`."""
    session_files: str = ""
    """What reads and writes the files of its sessions, a `SessionFiles`."""
    words: str = ""
    """How its entries are told on one line: a function for each type of facts."""
    commands: tuple[FeatureCommand, ...] = ()
    endpoints: str = ""
    """Its operations over HTTP, a sequence of `Endpoint`."""
    verify_pack: str = ""
    """What `forum verify` does with an evidence pack; returns whether all of it holds."""
    write_verify_page: str = ""
    """What writes the page on which people verify in a browser."""
    run_page: str = ""
    """What writes the record of a run as a page of HTML."""
    witnesses: str = ""
    """What reaches witnesses that cosign the log: a function of a project, returns `Witnesses`."""
    archiver: str = ""
    """What moves ended runs to an archive and erases there, a `RunArchiver`."""
    find_claims: str = ""
    """What finds the claims in the replies of agents, a `ClaimFinder`."""
    report_patience: str = ""
    """How long reported runs stay open: a function of the sections, returns `ReportPatience`."""
    record_configuration: str = ""
    """What records with which team and roster a process of a project begins to serve."""
    run_extension: str = ""
    """What it adds for a program under a cap: of a project, returns a `RunExtension` or None."""
    sections: tuple[tuple[str, str], ...] = ()
    """The sections of the project file that it declares: the name, and the struct."""
    server: str = ""
    """What it adds to a server: of its configuration, a `ServerExtension` or None."""
    serves_alone: bool = False
    """Whether a server may have what it adds and nothing else: `forum serve --only NAME`."""
    verifier: str = ""
    """What verifies the tokens of clients: of settings with its section, a `TokenVerifier`."""
    worker: str = ""
    """What it does beside a worker: of the ledger, a context manager."""
    subcommands: tuple[tuple[str, str], ...] = ()
    """Its commands of click in groups of others: the group, and the command."""
    tools: str = ""
    """Its tools of MCP, a sequence of `ToolDeclaration`."""
    doctor: str = ""
    """Its checks in `forum doctor`, a sequence of `DoctorCheck`."""


class FeatureItem(Protocol):
    """What features add to a list of the kernel."""

    @property
    def name(self) -> str:
        """Its name in the list."""
        ...

    @property
    def after(self) -> str:
        """The name of what it follows; empty if it is the first."""
        ...


ItemT = TypeVar("ItemT", bound=FeatureItem)
PartT = TypeVar("PartT")


def load_part(name: str) -> Any:  # noqa: ANN401  its type follows from the member that names it
    """Load a part of a feature by its name, `module:attribute`."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"forum.features.{module}"), attribute)


def load_parts(features: tuple[Feature, ...], member: str) -> Iterator[Any]:
    """Load a part of each feature that has it, in the order of the list."""
    for feature in features:
        if name := getattr(feature, member):
            yield load_part(name)


def load_only_part(features: tuple[Feature, ...], member: str, default: PartT) -> PartT:
    """Load the part that at most one feature has; without that feature, return the default."""
    part: PartT = next(load_parts(features, member), default)
    return part


def place_parts(own: Iterable[ItemT], features: tuple[Feature, ...], member: str) -> list[ItemT]:
    """Return what the kernel has, with what features add, each behind what it follows."""
    added = (part for parts in load_parts(features, member) for part in parts)
    return place_items(own, added)


def place_items(own: Iterable[ItemT], added: Iterable[ItemT]) -> list[ItemT]:
    """Return items with others among them, each behind the item that it follows.

    What follows nothing comes first, and what follows an item that is not there comes last.
    """
    followers: dict[str, list[ItemT]] = {}
    for item in added:
        followers.setdefault(item.after, []).append(item)

    def with_followers(items: Iterable[ItemT]) -> Iterator[ItemT]:
        for item in items:
            yield item
            yield from with_followers(followers.pop(item.name, ()))

    placed = [*with_followers(followers.pop("", ())), *with_followers(own)]
    return [*placed, *(item for items in followers.values() for item in items)]


def load_kinds(features: Iterable[Feature]) -> Iterator[Any]:
    """Load the kinds of each feature that has some; protocols are loaded when they are used."""
    for feature in features:
        if feature.kinds and feature.protocol:
            protocol = partial(load_part, feature.protocol)
            yield load_part(feature.kinds).of_sessions(feature.name, protocol)
        elif feature.kinds:
            yield load_part(feature.kinds)
