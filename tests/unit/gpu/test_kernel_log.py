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


SPREAD = (
    "NVRM: The NVIDIA GPU 0000:41:00.0",
    "NVRM: (PCI ID: 10de:2330) installed in this system has",
    "NVRM: fallen off the bus and is not responding to commands.",
)
WHOLE = " ".join([SPREAD[0], *(line.removeprefix("NVRM: ") for line in SPREAD[1:])])
OTHER_SPREAD = (
    "NVRM: The NVIDIA GPU 0000:42:00.0 (PCI ID: 10de:2330)",
    "NVRM: installed in this system has fallen off the bus and is not",
    "NVRM: responding to commands.",
)
NOISE = "nvidia: probe of 0000:41:00.0 failed with error -1"
FAILED_PROBE = "NVRM: The NVIDIA probe routine failed for 1 device(s)."


def kmsg(*lines: str) -> str:
    return "\n".join(f"4,{number},{number}000000,-;{line}" for number, line in enumerate(lines, 1))


@pytest.mark.parametrize(
    "text",
    [
        kmsg(*SPREAD),
        kmsg(SPREAD[0], "usb 1-1: new device", *SPREAD[1:]),
        "4,1,1000000,-;" + "\\x0a".join(SPREAD),
        "\n".join(f"[   12.{number}00000] host kernel: {line}" for number, line in enumerate(SPREAD)),
        f"[   12.100000] host kernel: {SPREAD[0]}\n             {SPREAD[1]}\n             {SPREAD[2]}",
    ],
)
def test_a_gpu_that_does_not_answer_at_the_load_is_told_over_several_lines(text: str) -> None:
    (line,) = parse_log(text).lost
    assert line.endswith(WHOLE.removeprefix("NVRM: "))


def test_two_messages_over_several_lines_are_two() -> None:
    lost = parse_log(kmsg(*SPREAD, *OTHER_SPREAD)).lost
    assert ["0000:41:00.0" in lost[0], "0000:42:00.0" in lost[1], len(lost)] == [True, True, 2]


def test_the_load_that_failed_for_a_gpu_is_no_recovery_of_it() -> None:
    failed = [*SPREAD, NOISE, FAILED_PROBE, LOADED]
    assert parse_log(kmsg(*failed)).lost == (WHOLE,)
    assert parse_log(kmsg(*failed, *failed)).lost == (WHOLE,)
    assert parse_log(kmsg(*failed, LOADED)).lost == ()
    assert parse_log(kmsg(OFF, *failed)).lost == (WHOLE,)


@pytest.mark.parametrize(("address", "lost"), [("0000:41:00.0", 0), ("0000:42:00.0", 1)])
def test_a_gpu_that_is_started_later_has_come_back(address: str, lost: int) -> None:
    started = f"[drm] Initialized nvidia-drm 0.0.0 20160202 for {address} on minor 1"
    assert len(parse_log(kmsg(*SPREAD, FAILED_PROBE, LOADED, started)).lost) == lost


def test_a_message_about_a_gpu_that_is_not_supported_is_none() -> None:
    lines = [SPREAD[0], "NVRM: (PCI ID: 10de:0fc6) installed in this system is", "NVRM: not supported by the driver."]
    assert parse_log(kmsg(*lines, LOADED)).lost == ()
