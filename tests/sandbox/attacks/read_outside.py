"""Read a file outside of the project."""

from _tools import read_any, target

read_any([target()["outside"], "link-to-outside"], "OUTSIDE")
