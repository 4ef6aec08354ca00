"""Xids and other errors of GPUs in the lines of a kernel's log."""

from __future__ import annotations

import pytest

from gpuprov.gpu.kernel_log import parse_log

LOST = "NVRM: Xid (PCI:0000:65:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("line", "number", "pci"),
    [
        (LOST, 79, "0000:65:00"),
        ("[12.5] NVRM: Xid (0000:03:00): 13, Graphics Exception", 13, "0000:03:00"),
        ("Nov 21 host kernel: NVRM: Xid (PCI:0001:C1:00): 63, pid=77, Row Remapper", 63, "0001:c1:00"),
        ("NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, name=python3, Ch 00000008", 94, "0000:01:00"),
        ("NVRM: Xid (PCI:0000:01:00 GPU-I:01 GPU-CI:02): 13, pid=1, name=a.out, Graphics", 13, "0000:01:00"),
    ],
)
def test_an_xid_is_found_in_the_forms_it_has_had(line: str, number: int, pci: str) -> None:
    (found,) = parse_log(line).xids
    assert (found.number, found.pci) == (number, pci)
    assert found.text.startswith("NVRM: Xid")


@pytest.mark.parametrize("text", ["", "NVRM: loading NVIDIA UNIX Kernel Module", "Xid 79", "NVRM: Xid (PCI:0): x"])
def test_other_lines_are_none(text: str) -> None:
    assert parse_log(text).xids == ()


SWITCH = "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
NO_START = "NVRM: GPU 0000:65:00.0: RmInitAdapter failed! (0x26:0x65:1477)"
OFF = "NVRM: GPU 0000:65:00.0: GPU has fallen off the bus."
LOADED = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build"


def test_an_error_that_a_switch_has_handled_itself_is_none() -> None:
    assert parse_log(f"4,1,1000000,-;{SWITCH.replace('Fatal', 'Non-fatal')}").switches == ()


def test_other_errors_and_the_drivers_start() -> None:
    lines = [f"4,1,1000000,-;{SWITCH}", f"4,2,2000000,-;{OFF}", f"4,3,3000000,-;{NO_START}"]
    log = parse_log("\n".join(lines))
    assert (log.switches, log.lost, log.loaded_s) == ((SWITCH,), (OFF, NO_START), None)
    again = parse_log("\n".join([*lines, f"4,4,4000000,-;{LOADED}"]))
    assert (again.switches, again.lost, again.loaded_s) == ((), (), 4.0)
