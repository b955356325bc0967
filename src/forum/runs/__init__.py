"""The domain types and rules of a run, from the request to the answer, with recorded forms.

The package is pure: no I/O and no clock. `run_fold.fold` is the only way from entries to a run.
Import its modules (`from forum.runs import plan`); the package itself exports nothing.
"""
