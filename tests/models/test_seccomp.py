"""The system call filter, run by an interpreter of its own: what is denied, and that no more is.

`tests/sandbox` runs it in the kernel.
"""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum.models.seccomp import (
    ARCHITECTURES,
    FAMILIES,
    NUMBERS,
    TIOCLINUX,
    TIOCSTI,
    assemble_filter,
)

ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS = 0x50001, 0x50026
EAFNOSUPPORT = 0x50061
MACHINES = sorted(ARCHITECTURES)
WORDS = st.integers(0, 2**64 - 1)


def decide(code: bytes, architecture: int, number: int, *arguments: int) -> int:
    """Run a filter for one system call, as the kernel does, and return what it decides."""
    padded = (*arguments, *([0] * (6 - len(arguments))))
    call = struct.pack("<IIQ6Q", number & 0xFFFFFFFF, architecture, 0, *padded)
    operations = list(struct.iter_unpack("<HBBI", code))
    position, loaded = 0, 0
    for _ in operations:  # jumps lead forward only, so that each operation runs once at most
        opcode, then, otherwise, value = operations[position]
        position += 1
        match opcode:
            case 0x20:
                (loaded,) = struct.unpack_from("<I", call, value)
            case 0x15:
                position += then if loaded == value else otherwise
            case 0x35:
                position += then if loaded >= value else otherwise
            case 0x06:
                return int(value)
            case _:
                raise AssertionError(f"operation {opcode:#x}")
    raise AssertionError("the filter does not decide")


@pytest.mark.parametrize("machine", MACHINES)
def test_every_call_of_the_table_is_denied(machine: str) -> None:
    """Those that have a rule about an argument, with such an argument."""
    code, architecture = assemble_filter(machine), ARCHITECTURES[machine]
    numbers = dict(NUMBERS[machine])
    ioctl, socket = numbers.pop("ioctl"), numbers.pop("socket")

    assert {decide(code, architecture, number) for number in numbers.values()} == {EPERM}
    assert decide(code, architecture, ioctl, 0, TIOCSTI) == EPERM
    assert decide(code, architecture, ioctl, 0, TIOCLINUX) == EPERM
    assert decide(code, architecture, socket, 40) == EAFNOSUPPORT


@pytest.mark.parametrize("machine", MACHINES)
@given(number=st.integers(0, 600), arguments=st.tuples(WORDS, WORDS))
def test_no_other_call_is_denied(machine: str, number: int, arguments: tuple[int, int]) -> None:
    """Programs need the rest, and namespaces bound it."""
    code, architecture = assemble_filter(machine), ARCHITECTURES[machine]
    numbers = NUMBERS[machine]
    family, request = (word & 0xFFFFFFFF for word in arguments)
    is_denied = number in numbers.values()
    if number == numbers["ioctl"]:
        is_denied = request in (TIOCSTI, TIOCLINUX)
    if number == numbers["socket"]:
        is_denied = family not in FAMILIES

    assert (decide(code, architecture, number, *arguments) != ALLOW) == is_denied


@pytest.mark.parametrize("machine", MACHINES)
@given(upper=st.integers(0, 2**32 - 1))
def test_the_upper_half_of_an_argument_changes_nothing(machine: str, upper: int) -> None:
    """The kernel takes an int, and so a program may put anything there."""
    code, architecture = assemble_filter(machine), ARCHITECTURES[machine]
    numbers = NUMBERS[machine]
    above = upper << 32

    assert decide(code, architecture, numbers["ioctl"], above, above | TIOCSTI) == EPERM
    assert decide(code, architecture, numbers["ioctl"], above, above | 0x5413) == ALLOW
    assert decide(code, architecture, numbers["socket"], above | 40) == EAFNOSUPPORT
    assert decide(code, architecture, numbers["socket"], above | 2) == ALLOW


@pytest.mark.parametrize("machine", MACHINES)
@given(architecture=st.integers(0, 2**32 - 1), number=st.integers(0, 2**32 - 1))
def test_numbers_of_another_architecture_are_denied(
    machine: str, architecture: int, number: int
) -> None:
    """There the same numbers mean other calls."""
    code, own = assemble_filter(machine), ARCHITECTURES[machine]
    i386, arm = 0x40000003, 0x40000028
    for other in {architecture, i386, arm, *ARCHITECTURES.values()} - {own}:
        assert decide(code, other, number) == KILL
    if machine == "x86_64":
        assert decide(code, own, number | 0x40000000) == ENOSYS
        assert decide(code, own, -1) == ENOSYS
