"""A system without the calls of Linux, for tests on Linux."""
