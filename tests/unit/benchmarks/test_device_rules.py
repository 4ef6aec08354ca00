"""Device rules of a bare container: what the program for version 2 decides, and what the kernel does with the rules."""

from __future__ import annotations

import json
import os
import struct
import sys
from pathlib import Path

import pytest

from benchmarks.gpu_proof.container import run_inside
from benchmarks.gpu_proof.device_rules import ANY, COMMON, device_program, group_with_rules, rule_lines
from benchmarks.gpu_proof.inside import LIBRARIES
from gpuprov.shapes.node import CharDevice

RULES = ((195, 0), (195, 255), (136, ANY))
MKNOD, READ, WRITE = 1, 2, 4
CHARACTER = 2

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and device rules need root")


def decide(code: bytes, *, access: int, major: int, minor: int) -> int:
    """Run the program as the kernel would: the few instructions it has."""
    steps = [struct.unpack("<BBhi", code[at : at + 8]) for at in range(0, len(code), 8)]
    context = {0: access << 16 | CHARACTER, 4: major, 8: minor}
    registers = {1: 0}
    at = 0
    while True:
        operation, places, offset, number = steps[at]
        target, source = places & 15, places >> 4
        at += 1
        if operation == 0x61:
            assert source == 1
            registers[target] = context[offset]
        elif operation == 0x77:
            registers[target] >>= number
        elif operation == 0x55:
            at += offset if registers[target] != number else 0
        elif operation == 0xB7:
            registers[target] = number
        else:
            assert operation == 0x95
            return registers[0]


@pytest.mark.parametrize(
    ("access", "major", "minor", "allowed"),
    [
        (READ | WRITE, 195, 0, True),
        (READ, 195, 255, True),
        (READ | WRITE | MKNOD, 195, 0, True),
        (READ | WRITE, 195, 1, False),
        (WRITE, 196, 0, False),
        (READ, 136, 7, True),
        (READ, 0, 0, False),
        (MKNOD, 195, 1, True),
        (MKNOD, 8, 0, True),
        (MKNOD | READ, 195, 1, False),
    ],
)
def test_the_program_opens_what_is_leased_and_nothing_else(access: int, major: int, minor: int, allowed: bool) -> None:
    assert decide(device_program(RULES), access=access, major=major, minor=minor) == int(allowed)


def test_the_lines_of_version_1_say_the_same() -> None:
    assert rule_lines(RULES) == ("c *:* m", "b *:* m", "c 195:0 rwm", "c 195:255 rwm", "c 136:* rwm")


PROGRAM = """
import json, os, stat
found = {}
for name, major, minor in (("nvidia0", 195, 0), ("nvidia1", 195, 1), ("null", 1, 3), ("kmsg", 1, 11)):
    path = f"/dev/{name}"
    if not os.path.exists(path):
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(major, minor))
    try:
        os.close(os.open(path, os.O_RDWR))
        found[name] = "ok"
    except OSError as error:
        found[name] = error.errno
print(json.dumps({"found": found, "pid": os.getpid(), "dev": sorted(os.listdir("/dev"))}))
"""


@needs_root
def test_a_container_opens_what_it_was_given_and_nothing_else() -> None:
    done = run_inside([sys.executable, "-c", PROGRAM], [CharDevice(path="/dev/nvidia0", major=195, minor=0)])
    assert done.exit_code == 0, done.stderr
    seen = json.loads(done.stdout)
    no_device, denied = (6, "ok"), 1  # ENXIO without a driver, EPERM
    assert seen["found"].pop("nvidia0") in no_device
    assert seen["found"] == {"nvidia1": denied, "null": "ok", "kmsg": denied}
    assert seen["pid"] == 1
    assert "nvidia0" in seen["dev"]
    assert not {name for name in seen["dev"] if name.startswith(("loop", "sd", "vd"))}


@needs_root
def test_a_container_has_the_drivers_libraries_in_a_folder_of_its_own(tmp_path: Path) -> None:
    library = tmp_path / "libcuda.so.550.90.07"
    library.write_text("the driver's")
    program = """
import os, pathlib
first, *_ = os.environ["LD_LIBRARY_PATH"].split(":")
print(first, [(file.name, file.read_text()) for file in pathlib.Path(first).iterdir()])
"""
    done = run_inside([sys.executable, "-c", program], (), [("libcuda.so.1", str(library))])
    assert done.stdout.strip() == f"{LIBRARIES} [('libcuda.so.1', \"the driver's\")]", done.stderr
    assert not Path(LIBRARIES).exists()


@needs_root
def test_a_group_is_removed_whatever_happens() -> None:
    group = None
    with pytest.raises(RuntimeError), group_with_rules(COMMON) as procs:
        group = procs.parent
        assert group.is_dir()
        raise RuntimeError
    assert group is not None
    assert not group.exists()
