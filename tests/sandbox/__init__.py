"""Attacks on the sandbox, and what must work in it."""
