"""Read the passwords in files with variables."""

from _tools import read_any

read_any([".env", "service/.env.local", "service/.envrc"], "PASSWORD")
