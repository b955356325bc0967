"""Drives a run through its ports, recording each step before the next begins."""

from forum.engine.accept import Order, accept, cancel
from forum.engine.case import Case, entries_of, read_body, read_case, read_run
from forum.engine.engine import Engine
from forum.engine.gates import ENGINE, decide, edit, find_gate
from forum.engine.local import LocalRunner
from forum.engine.ports import (
    FREE,
    NOTHING,
    Answer,
    Call,
    Deed,
    Halt,
    Model,
    Models,
    Prior,
    Reply,
    Runner,
    ToolPort,
    Tools,
)

__all__ = [
    "ENGINE",
    "FREE",
    "NOTHING",
    "Answer",
    "Call",
    "Case",
    "Deed",
    "Engine",
    "Halt",
    "LocalRunner",
    "Model",
    "Models",
    "Order",
    "Prior",
    "Reply",
    "Runner",
    "ToolPort",
    "Tools",
    "accept",
    "cancel",
    "decide",
    "edit",
    "entries_of",
    "find_gate",
    "read_body",
    "read_case",
    "read_run",
]
