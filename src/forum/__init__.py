"""Forum: work done by agents, and a ledger of it that a stranger can verify.

A request is routed to a specialist lane, turned into a plan, run across agents, judged result
by result, and answered once.  Every step is an entry in a transparency log before the next one
begins, so that whoever reads the answer can check how it came about without trusting whoever
ran it.

Programs record their own agents with `forum.run`, `forum.step` and the other names below, which are
loaded when they are first used.  ARCHITECTURE.md describes the packages and the direction of their
imports.
"""

# As type checkers know it: to import `typing` takes longer than all else here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from forum import errors
    from forum.app.extensions import Reply
    from forum.client import AsyncClient, Client
    from forum.features.gateway.wrapped_client import wrap
    from forum.features.recorder import events
    from forum.features.recorder.api import (
        budget,
        close,
        context,
        effect,
        flush,
        gate,
        open,  # noqa: A004  the word of the interface, like `gzip.open`
        run,
        span,
        step,
        traceparent,
    )
    from forum.features.recorder.engine_api import asubmit, deliberate, engine_of, route, submit
    from forum.features.recorder.ledger_api import (
        Cause,
        FigureDifference,
        Figures,
        LaneInfo,
        LedgerReader,
        LedgerSummary,
        LogCheckpoint,
        ModelCalls,
        ReplayedRun,
        RunComparison,
        RunFigures,
        RunListing,
        ledger,
    )
    from forum.features.recorder.named_parts import agent, model, tool
    from forum.features.recorder.public import google_adk, instrument, langchain, pydantic_ai
    from forum.features.recorder.recorder import Recorder
    from forum.features.recorder.run_results import RunResult, TaskOutcome, TaskVerdict
    from forum.features.symposium import sdk as symposium
    from forum.runs.panel_outcome import CouncilOutcome, Dissent
    from forum.runs.plan import Plan, Task
    from forum.verify import Report

__all__ = [
    "AsyncClient",
    "Cause",
    "Client",
    "CouncilOutcome",
    "Dissent",
    "FigureDifference",
    "Figures",
    "LaneInfo",
    "LedgerReader",
    "LedgerSummary",
    "LogCheckpoint",
    "ModelCalls",
    "Plan",
    "Recorder",
    "ReplayedRun",
    "Reply",
    "Report",
    "RunComparison",
    "RunFigures",
    "RunListing",
    "RunResult",
    "Task",
    "TaskOutcome",
    "TaskVerdict",
    "__version__",
    "agent",
    "asubmit",
    "budget",
    "close",
    "context",
    "deliberate",
    "effect",
    "engine_of",
    "errors",
    "events",
    "flush",
    "gate",
    "google_adk",
    "instrument",
    "langchain",
    "ledger",
    "model",
    "open",
    "pydantic_ai",
    "route",
    "run",
    "span",
    "step",
    "submit",
    "symposium",
    "tool",
    "traceparent",
    "wrap",
]

# The one place that states the version: the build reads it from this line.
__version__ = "0.2.0"

_ELSEWHERE = {
    "AsyncClient": "client",
    "Client": "client",
    "Report": "verify",
    "wrap": "features.gateway.wrapped_client",
}
"""The packages of the names that are not in `forum.features.recorder`."""
_PACKAGES = {"errors": "errors", "ledger": "ledger", "symposium": "features.symposium.sdk"}
"""Names that are modules.  The package `forum.ledger` can be called, see there."""

if not TYPE_CHECKING:  # so that type checkers refuse names that do not exist

    def __getattr__(name: str) -> object:
        # Every command imports this package, and most need none of these: load them on first use.
        if name not in __all__:
            raise AttributeError(f"module 'forum' has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415

        if name in _PACKAGES:
            return import_module(f"forum.{_PACKAGES[name]}")
        module = import_module(f"forum.{_ELSEWHERE.get(name, 'features.recorder.public')}")
        value = getattr(module, name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        # What is loaded on first use is in no namespace yet, and completion shows it all the same.
        return sorted({*__all__, "__doc__", "__file__", "__name__", "__path__"})
