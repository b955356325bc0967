"""Drives a run through its ports, recording each step before the next begins."""

from forum.engine.accepting import Order, accept, cancel
from forum.engine.case import ENGINE, Case, entries_of, read_body, read_case, read_run
from forum.engine.engine import Engine
from forum.engine.gates import decide, edit, find_gate
from forum.engine.local import LocalRunner
from forum.engine.past import is_before, order_of, steps_of
from forum.engine.ports import (
    FREE,
    NOTHING,
    Call,
    Deed,
    Halt,
    Known,
    Model,
    Models,
    Prior,
    Reply,
    Runner,
    ToolPort,
    Tools,
)
from forum.engine.replaying import replay

__all__ = [
    "ENGINE",
    "FREE",
    "NOTHING",
    "Call",
    "Case",
    "Deed",
    "Engine",
    "Halt",
    "Known",
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
    "is_before",
    "order_of",
    "read_body",
    "read_case",
    "read_run",
    "replay",
    "steps_of",
]
