"""Read the keys of the ledger, the settings and the operator's token where they are."""

from _tools import read_any, target

read_any(target()["live secrets"], "")
