"""The kinds of entries about agents that Forum does not drive.

They are a family apart from the kinds of `forum.runs.kinds`, so that no reader takes what a program
reported for what the engine did.  A reported run has these strands:

- ``main``: `run.open/1`, `report.source/1`, then `report.batch/1` and gaps, and `run.close/1`;
- ``span/ID`` for each span: `report.begin/1` where the step was recorded before it began, then
  `report.step/1`.  The position of an entry can be taken once, so a span that is reported twice, to
  any process, is recorded once.

Names of runs, agents and steps may be personal.  Only a name that has the form of a label stands in
facts.  Any other stands in the body `names`, which can be erased, and facts have a stand-in for it.
"""

import re
import string
from enum import StrEnum
from typing import TypeVar

import msgspec

from forum.ledger.entry import Count, Facts, Limit
from forum.ledger.kinds import Kind, Kinds, Outcome
from forum.ledger.ports import NO_LIMIT, UNLIMITED, Amount

FactsT = TypeVar("FactsT", bound=Facts)
SPAN_PREFIX = "span/"
TRACE_RUN_PREFIX = "otel-"
"""The beginning of the name of a run that was reported as an OpenTelemetry trace."""
FORUM_RUN_REPORTER = "forum-run"
"""The reporter of the traces that a program under `forum run` exports."""
SESSION_RUN_PREFIX = "claude-"
"""The beginning of the name of a run that `forum hook` records: a session of Claude Code."""
MAX_LABEL_CHARS = 64
OWN_ACTORS = frozenset(
    {"engine", "gateway", "intake", "open", "operator", "person", "recorder", "server"}
    | {"stranger", "system"}
)
"""Actors of what Forum and its operator do, and of persons: no reported program is one of them."""
A_RUN, AN_AGENT = "run", "agent"
"""What stands in for a name of a run or an agent that is no label; for a step, its operation."""
A_MODEL, A_PROVIDER = "model", "provider"
A_FRAMEWORK = "framework"
A_PATH, AN_ERROR = "path", "error"
"""What stands in for a model, a path and the like that is free text."""
MAX_REPORTER_CHARS = 128
NOT_MADE = "not-made"
"""The code of a step that was prepared, and cancelled before it was made."""
_RUN_ID = "00000000-0000-0000-0000-000000000000"
_KEY_PRINCIPAL = re.compile("key/[^/]+/[0-9a-f]{12}")
_VERSION_AT = 14
"""Where an id has the version of UUIDs."""
_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9._:-]+")
_WORD = "[A-Za-z0-9._:-]+"
_PLAIN_NAME = re.compile(rf"@?{_WORD}(/{_WORD})*(@([0-9]+|default|latest))?(\[1m\])?")
"""Labels joined by slashes, and the versions and variants that providers write behind them."""


class Provenance(StrEnum):
    """How Forum knows of a run."""

    DRIVEN = "driven"
    """The engine recorded each step before it made it."""
    RELAYED = "relayed"
    """The calls went through a gateway of Forum's; calls that went another way are missing."""
    WRAPPED = "wrapped"
    """The SDK recorded around the calls in the program; calls not wrapped are missing."""
    REPORTED = "reported"
    """A program reported the steps afterwards; whatever it did not report is missing."""


class ReportProvenance(StrEnum):
    """The provenance of a run that Forum does not drive."""

    RELAYED = "relayed"
    WRAPPED = "wrapped"
    REPORTED = "reported"


class Operation(StrEnum):
    """What a step does."""

    MODEL = "model"
    TOOL = "tool"
    AGENT = "agent"
    RETRIEVAL = "retrieval"
    GUARDRAIL = "guardrail"
    HANDOFF = "handoff"
    STEP = "step"
    """Any other step of a program."""


class GapReason(StrEnum):
    """Why steps are missing."""

    OVERFLOW = "overflow"
    """The queue of the recorder was full."""
    SHUTDOWN = "shutdown"
    """The program ended, or was killed, before its steps were recorded."""
    REFUSED = "refused"
    """The steps could not be recorded, for example because they were malformed."""
    UNREACHABLE = "unreachable"
    """The server could not be reached for too long."""
    SEQUENCE = "sequence"
    """Numbers are missing in the sequence of a reporter."""
    PARENT_UNSEEN = "parent-unseen"
    """Spans name parents that were never reported."""
    SAMPLED = "sampled"
    """The program reports a sample of its traces."""
    FILTERED = "filtered"
    """Spans without a meaning for agents were left out by rule."""
    LIMIT = "limit"
    """The run has as many spans as a run may have; another run continues it."""


class ReportSourceFacts(Facts, frozen=True):
    """Who reports a run, how, and what the run may spend.  Body `names`: the name of the run."""

    told: ReportProvenance
    by: str
    """The key or the process that reports."""
    framework: str = ""
    trace: str = ""
    """The W3C trace id, if there is one; or the id of the relayed run that the program belongs to.

    They differ in form: the id of a run has hyphens.
    """
    continues: str = ""
    """The closed run that this one continues."""
    usd: Limit = NO_LIMIT
    """In nano-dollars, like every amount of money."""
    tokens: Limit = NO_LIMIT
    calls: Limit = NO_LIMIT

    @property
    def cap(self) -> Amount:
        """The limits of the run's calls."""
        return Amount(self.usd, self.tokens, self.calls)

    @property
    def is_capped(self) -> bool:
        """Whether the run has a limit, and with it an account."""
        return self.cap != UNLIMITED

    @property
    def is_counted_elsewhere(self) -> bool:
        """Whether a program under `forum run` reports: the record of the gateway is its bill.

        What such a run says of costs is shown, and is part of no sum over runs.
        """
        return counts_elsewhere(self.told, self.by, self.trace)


class ReportBeginFacts(Facts, frozen=True):
    """A step is about to be made, with its highest cost reserved.

    Bodies: `input`, `names`, and `attributes`.
    """

    op: Operation
    name: str
    span: str
    within: str = ""
    """The span that this one is part of."""
    agent: str = ""
    model: str = ""
    provider: str = ""
    usd: Count = 0
    tokens: Count = 0
    calls: Count = 0
    """1 for a call that counts against the cap."""
    prices: str = ""
    """The price table by which the reservation was computed."""
    altered: tuple[str, ...] = ()
    """The members of the request that the gateway set."""
    cut: Count = 0
    """The bytes of bodies that are not kept."""

    @property
    def reserved(self) -> Amount:
        """The highest cost of the step."""
        return Amount(self.usd, self.tokens, self.calls)


class ReportStepFacts(Facts, frozen=True):
    """A step that was made.  Bodies: `input`, `output`, `error`, `names`, `attributes`."""

    op: Operation
    name: str
    outcome: Outcome
    span: str
    within: str = ""
    """The span that this one is part of, whether it is recorded or not."""
    began: Count = 0
    """By the clock of the program, in microseconds since 1970."""
    micros: Count = 0
    """The duration, by the clock of the program."""
    agent: str = ""
    model: str = ""
    provider: str = ""
    input_tokens: Count = 0
    output_tokens: Count = 0
    usd: Count = 0
    """By the price table in `prices`; a cost that the program reports is among the attributes."""
    prices: str = ""
    code: str = ""
    """The type of an error, or a status."""
    cut: Count = 0
    """The bytes of bodies, or the parts of a span, that are not kept."""

    @property
    def is_taken_back(self) -> bool:
        """Whether the step was cancelled before it was made; then it is no call."""
        return self.outcome is Outcome.CANCELLED and self.code == NOT_MADE

    @property
    def spent(self) -> Amount:
        """What the step cost; only calls of models that were made count as calls."""
        is_made = self.outcome is not Outcome.DENIED and not self.is_taken_back
        calls = 1 if self.op is Operation.MODEL and is_made else 0
        return Amount(self.usd, self.input_tokens + self.output_tokens, calls)


class ReportGapFacts(Facts, frozen=True):
    """Steps that are not recorded, as far as their number is known.

    Body `spans`: which ones, so that a step that is reported again is not counted again.
    """

    why: GapReason
    steps: Count
    since: Count = 0
    until: Count = 0


class ReportBatchFacts(Facts, frozen=True):
    """More spans were reported, and were recorded together with this entry, which they name.

    It takes a position of `main`, so that no span can be added to a run that is being closed.
    """

    by: str
    """The key or the process that reports."""
    spans: Count


class Names(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body `names`: the names for which labels in the facts stand in."""

    name: str = ""
    agent: str = ""
    model: str = ""
    provider: str = ""
    framework: str = ""
    code: str = ""


REPORT_KINDS = Kinds(
    [
        Kind("report.source/1", ReportSourceFacts, frozenset({"names"})),
        Kind("report.begin/1", ReportBeginFacts, frozenset({"input", "names", "attributes"})),
        Kind(
            "report.step/1",
            ReportStepFacts,
            frozenset({"input", "output", "error", "names", "attributes"}),
        ),
        Kind("report.batch/1", ReportBatchFacts),
        Kind("report.gap/1", ReportGapFacts, frozenset({"spans"})),
    ]
)


def counts_elsewhere(provenance: str, by: str, trace: str) -> bool:
    """Return whether a run with this source is of a program whose calls a gateway records."""
    if provenance == ReportProvenance.RELAYED:
        return False
    return by == FORUM_RUN_REPORTER or is_run_id(trace)


def copy_fields(kind: type[FactsT], source: object, **changed: object) -> FactsT:
    """Return facts of a kind, with the fields of an object that have the same names."""
    same = {name: getattr(source, name) for name in kind.__struct_fields__ if hasattr(source, name)}
    return kind(**(same | changed))


def span_strand(span: str) -> str:
    """Return the strand of a span."""
    return f"{SPAN_PREFIX}{span}"


def derive_label(name: str) -> str:
    """Return a label for any text: printable ASCII without spaces.

    Letters of a free text remain, so no fact of an entry may have one of a text of others.
    """
    return _NOT_IN_LABELS.sub("-", name)[:MAX_LABEL_CHARS].strip("-.:") or "unnamed"


def label_name(name: str, instead: str) -> str:
    """Return a name that has the form of a label, and a stand-in for any other.

    The label stays when the body `names` is erased, so nothing of a name in it may be left.
    """
    return name if _is_label(name) else instead


def program_label(name: str) -> str:
    """Return `label_name` of a program whose run is reported: its actor in the entries of `main`.

    Whoever may report names it, and must not appear as the operator or as a part of Forum.
    """
    return name if _is_program(name) else A_RUN


def plain_name(name: str, instead: str) -> str:
    """Return the name of a model, a provider or a framework, and a stand-in for free text.

    Such names may have slashes, as `anthropic/claude-x`; there is none for "".
    """
    return name if _is_plain(name) else instead


def model_family(model: str) -> str:
    """Return the word that the models of one family begin with: `gpt`, `o`, `claude`."""
    match = re.search(r"[a-z]+", model.lower().rpartition("/")[2].removeprefix("ft:"))
    return match[0] if match else ""


def derive_name(name: str, instead: str) -> str:
    """Return `plain_name` as a label; "" for ""."""
    return derive_label(plain_name(name, instead)) if name else ""


def _is_plain(name: str) -> bool:
    return not name or _PLAIN_NAME.fullmatch(name) is not None


def _is_label(name: str) -> bool:
    return derive_label(name) == name


def _is_program(name: str) -> bool:
    return _is_label(name) and name not in OWN_ACTORS


def derive_reporter_label(by: str) -> str:
    """Return the name of a reporter in facts, which no other reporter has.

    A label is taken only where it loses nothing but the slash behind the kind of a principal, and
    the one before the id of a key: principals that differ elsewhere would share it, and each could
    add to the runs of the other.
    """
    label = derive_label(by)
    slashes = 2 if _KEY_PRINCIPAL.fullmatch(by) else 1
    return label if label == by.replace("/", "-", slashes) else by[:MAX_REPORTER_CHARS]


def is_run_id(name: str) -> bool:
    """Return whether a name has the form of the ids that Forum gives to runs."""
    return len(name) == len(_RUN_ID) and _begins_like_id(name) and name == name.lower()


def is_derived_run_id(name: str) -> bool:
    """Return whether a name has the form of the ids that the engine derives for child runs.

    They follow from parent and task (UUID version 8), so whoever takes one first would stand in
    the place of the child run.
    """
    return is_run_id(name.lower()) and name[_VERSION_AT] == "8"


def looks_like_run_id(name: str) -> bool:
    """Return whether a name may be taken for the id of another run, or for its beginning.

    People and programs type the beginning of an id: Forum prints no more in many places.  A whole
    id is no beginning of another one.
    """
    return _begins_like_id(name) and not is_run_id(name)


def _begins_like_id(name: str) -> bool:
    return all(
        char == "-" if form == "-" else char in string.hexdigits
        for char, form in zip(name, _RUN_ID, strict=False)
    )


def encode_names(given: Names, *, is_program: bool = False) -> bytes:
    """Return the body `names`: those for which something stands in; empty without one."""
    is_kept = _is_program(given.name) if is_program else _is_label(given.name)
    names = Names(
        name="" if is_kept else given.name,
        agent="" if _is_label(given.agent) else given.agent,
        model="" if _is_plain(given.model) else given.model,
        provider="" if _is_plain(given.provider) else given.provider,
        framework="" if _is_plain(given.framework) else given.framework,
        code="" if _is_label(given.code) else given.code,
    )
    return b"" if names == Names() else msgspec.json.encode(names)


def decode_names(body: bytes | None) -> Names:
    """Return the names in a body; empty names for a body that is erased or malformed."""
    try:
        return msgspec.json.decode(body or b"{}", type=Names)
    except msgspec.MsgspecError:
        return Names()
