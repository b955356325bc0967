"""Whole commands, real processes, both databases."""
