"""Which devices a control group may open: rules of version 1, or a program of the kernel's for version 2."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Rule = tuple[int, int | None]

NAME: Final = "gpuprov-proof"
ANY: Final = None
# null, zero, full, random, urandom, tty, ptmx, pts
COMMON: Final[tuple[Rule, ...]] = ((1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2), (136, ANY))

_REMOVE_TRIES, _REMOVE_PAUSE_S = 40, 0.05
_SYSCALL: Final = {"x86_64": 321, "aarch64": 280}
_LOAD, _ATTACH = 5, 8
_PROGRAM_KIND, _ATTACH_KIND = 15, 6  # BPF_PROG_TYPE_CGROUP_DEVICE, BPF_CGROUP_DEVICE
_ALLOW_MULTI: Final = 2
_MKNOD_ALONE: Final = 1
_LOAD_WORD, _SHIFT_RIGHT, _IF_EQUAL, _IF_OTHER, _SET, _EXIT = 0x61, 0x77, 0x15, 0x55, 0xB7, 0x95


def device_program(rules: Sequence[Rule]) -> bytes:
    """Return the program: mknod alone is allowed, open() of the devices by major and minor, nothing else."""
    allow = _step(_SET, target=0, number=1) + _step(_EXIT)
    code = _step(_LOAD_WORD, target=2, source=1) + _step(_SHIFT_RIGHT, target=2, number=16)
    code += _step(_LOAD_WORD, target=3, source=1, offset=4) + _step(_LOAD_WORD, target=4, source=1, offset=8)
    code += _step(_IF_OTHER, target=2, number=_MKNOD_ALONE, offset=2) + allow
    for major, minor in rules:
        if minor is ANY:
            code += _step(_IF_OTHER, target=3, number=major, offset=2) + allow
        else:
            code += _step(_IF_OTHER, target=3, number=major, offset=3)
            code += _step(_IF_OTHER, target=4, number=minor, offset=2) + allow
    return code + _step(_SET, target=0, number=0) + _step(_EXIT)


def _step(operation: int, *, target: int = 0, source: int = 0, offset: int = 0, number: int = 0) -> bytes:
    return struct.pack("<BBhi", operation, target | source << 4, offset, number)


def rule_lines(rules: Sequence[Rule]) -> tuple[str, ...]:
    """Return the lines of devices.allow in a group of version 1, after everything was denied."""
    opened = [f"c {major}:{'*' if minor is ANY else minor} rwm" for major, minor in rules]
    return ("c *:* m", "b *:* m", *opened)


@contextmanager
def group_with_rules(rules: Sequence[Rule], *, root: Path = Path("/sys/fs/cgroup")) -> Iterator[Path]:
    """Make a control group whose processes may open these devices only; gives its file cgroup.procs.

    Raises:
        OSError: The kernel does not let this process make one.
    """
    first = root / "devices"
    group = (
        first if (first / "devices.allow").exists() or first.is_dir() else _unified(root)
    ) / f"{NAME}-{os.getpid()}"
    group.mkdir()
    try:
        if group.parent == first:
            (group / "devices.deny").write_text("a")
            for line in rule_lines(rules):
                (group / "devices.allow").write_text(line)
        else:
            _attach(group, device_program(rules))
        yield group / "cgroup.procs"
    finally:
        _remove(group)


def _remove(group: Path) -> None:
    """Processes that were killed leave the group a moment later."""
    for _ in range(_REMOVE_TRIES):
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(_REMOVE_PAUSE_S)


def _unified(root: Path) -> Path:
    return root / "unified" if (root / "unified" / "cgroup.procs").exists() else root


def _attach(group: Path, code: bytes) -> None:
    program = ctypes.create_string_buffer(code)
    name = ctypes.create_string_buffer(b"GPL")
    load = struct.pack(
        "<IIQQIIQII", _PROGRAM_KIND, len(code) // 8, ctypes.addressof(program), ctypes.addressof(name), 0, 0, 0, 0, 0
    )
    loaded = _bpf(_LOAD, load)
    folder = os.open(group, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _bpf(_ATTACH, struct.pack("<IIII", folder, loaded, _ATTACH_KIND, _ALLOW_MULTI))
    finally:
        os.close(folder)
        os.close(loaded)


def _bpf(command: int, attributes: bytes) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"))
    result = int(library.syscall(_SYSCALL[platform.machine()], command, buffer, len(buffer) - 1))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"bpf({command}): {os.strerror(ctypes.get_errno())}")
    return result
