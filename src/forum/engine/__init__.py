"""Drives a run through its ports, recording each step before the next begins."""

from forum.engine.accepting import Order, RouteTaken, Ticket, accept, accept_async, cancel
from forum.engine.aloud import MOST_A_SECOND, Veiled
from forum.engine.budgets import SharedBudgets
from forum.engine.case import ENGINE, Case, read_body, read_case, read_run
from forum.engine.effects import DIGEST
from forum.engine.engine import MAX_CLAIMED, Engine
from forum.engine.gates import decide, edit, find_gate
from forum.engine.interrupting import interrupt, resume
from forum.engine.local import LocalRunner
from forum.engine.past import check_fork, order_of, steps_of
from forum.engine.ports import (
    FREE,
    MOST_USES,
    NOTHING,
    Call,
    Deed,
    Halt,
    Hear,
    Known,
    Model,
    Models,
    Offer,
    Prior,
    Reply,
    Runner,
    ToolPort,
    Tools,
    Whispers,
    nobody,
)
from forum.engine.replaying import replay

__all__ = [
    "DIGEST",
    "ENGINE",
    "FREE",
    "MAX_CLAIMED",
    "MOST_A_SECOND",
    "MOST_USES",
    "NOTHING",
    "Call",
    "Case",
    "Deed",
    "Engine",
    "Halt",
    "Hear",
    "Known",
    "LocalRunner",
    "Model",
    "Models",
    "Offer",
    "Order",
    "Prior",
    "Reply",
    "RouteTaken",
    "Runner",
    "SharedBudgets",
    "Ticket",
    "ToolPort",
    "Tools",
    "Veiled",
    "Whispers",
    "accept",
    "accept_async",
    "cancel",
    "check_fork",
    "decide",
    "edit",
    "find_gate",
    "interrupt",
    "nobody",
    "order_of",
    "read_body",
    "read_case",
    "read_run",
    "replay",
    "resume",
    "steps_of",
]
