"""What each Xid asks for, and which ones still stand."""

from __future__ import annotations

import pytest

from gpuprov.gpu.xids import OFTEN, Xid, action_of, list_beyond_reset, load_actions, standing_xids

GPU, OTHER = "0000:65:00", "0000:66:00"


def xid(number: int, seconds: float | None = 10.0, *, pci: str = GPU, text: str = "something") -> Xid:
    return Xid(number=number, pci=pci, text=f"NVRM: Xid (PCI:{pci}): {number}, {text}", seconds=seconds)


def recovery(to: str, seconds: float, *, pci: str = GPU) -> Xid:
    text = f"pid=1, name=x, GPU recovery action changed from 0x0 (None) to {to}"
    return xid(154, seconds, pci=pci, text=text)


def asked(*xids: Xid, loaded_s: float | None = None, recovered: tuple[str, ...] = ()) -> dict[int, str]:
    return {one.xid.number: one.action for one in standing_xids(xids, loaded_s=loaded_s, recovered=recovered)}


@pytest.mark.parametrize("number", [43, 63, 66, 92, 152])
def test_some_ask_for_nothing(number: int) -> None:
    assert asked(xid(number)) == {}


@pytest.mark.parametrize("number", [13, 31, 45, 68, 69, 70, 71, 72, 94])
def test_some_ask_for_the_program_to_be_started_again(number: int) -> None:
    assert asked(xid(number)) == {number: "restart-program"}


@pytest.mark.parametrize(
    ("number", "action"),
    [
        *((number, "reset-gpu") for number in (48, 64, 74, 95, 119)),
        *((number, "restart-host") for number in (79, 151)),
        *((number, "inspect") for number in (54, 142, 9999)),
    ],
)
def test_the_others_ask_for_the_gpu_the_host_or_a_person(number: int, action: str) -> None:
    assert asked(xid(number)) == {number: action}


def test_each_number_has_one_action_and_the_table_says_whence_and_when() -> None:
    table = load_actions()
    numbers = [number for listed in table["actions"].values() for number in listed]
    assert len(numbers) == len(set(numbers))
    assert table["says-itself"]["number"] not in numbers
    assert table["source"]
    assert table["date"]


@pytest.mark.parametrize(
    ("to", "action"),
    [
        ("0x1 (GPU Reset Required)", "reset-gpu"),
        ("0x1 (PF FLR)", "reset-gpu"),
        ("0x2 (Node Reboot Required)", "restart-host"),
        ("0x2 (OS Reboot)", "restart-host"),
        ("0x3 (Drain P2P)", "reset-gpu"),
        ("0x4 (Drain and Reset)", "reset-gpu"),
        ("0x6 (Bus Reset)", "restart-host"),
        ("0x7 (System Reboot)", "restart-host"),
        ("0xff (GPU Reset Required)", "reset-gpu"),
        ("0xff (Something New)", "inspect"),
        ("(Node Reboot Required)", "restart-host"),
        ("Drain and Reset", "reset-gpu"),
        ("Something New", "inspect"),
    ],
)
def test_154_says_itself_what_it_asks_for(to: str, action: str) -> None:
    assert asked(recovery(to, 11.0)) == {154: action}


def test_154_without_its_text_is_left_to_what_it_goes_with() -> None:
    assert action_of(154) == "ignore"
    assert action_of(154, "no such words") == "inspect"


def test_a_gpu_that_needs_no_recovery_any_more_is_cured_and_the_other_one_is_not() -> None:
    before = (xid(95, 10.0), recovery("0x1 (GPU Reset Required)", 10.0), xid(119, 12.0, pci=OTHER))
    assert asked(*before) == {95: "reset-gpu", 154: "reset-gpu", 119: "reset-gpu"}
    assert asked(*before, recovery("0x0 (None)", 20.0)) == {119: "reset-gpu"}
    assert asked(*before, recovery("0x0 (None)", 20.0), xid(95, 30.0)) == {119: "reset-gpu", 95: "reset-gpu"}
    assert asked(*before, recovered=(GPU,)) == {119: "reset-gpu"}


def test_what_came_before_the_drivers_start_is_over() -> None:
    assert asked(xid(79, 10.0), xid(13, 11.0), loaded_s=20.0) == {}
    assert asked(xid(79, 30.0), loaded_s=20.0) == {79: "restart-host"}
    assert asked(xid(79, None), loaded_s=20.0) == {79: "restart-host"}


def test_nvml_is_believed_about_resets_alone() -> None:
    assert asked(xid(79), xid(13), xid(48), recovered=(GPU,)) == {79: "restart-host", 13: "restart-program"}


@pytest.mark.parametrize(
    ("model", "mig", "numbers"),
    [
        ("NVIDIA A100-SXM4-80GB", False, (64, 95)),
        ("NVIDIA A100-SXM4-80GB", True, (64,)),
        ("A100-PCIE-40GB", False, (64, 95)),
        ("NVIDIA H100 80GB HBM3", False, ()),
        ("NVIDIA RTX A1000", False, ()),
    ],
)
def test_a_model_may_ask_for_a_reboot_where_others_ask_for_a_reset(
    model: str, *, mig: bool, numbers: tuple[int, ...]
) -> None:
    assert list_beyond_reset(model, mig=mig) == numbers


def test_an_error_beyond_a_reset_asks_for_a_reboot_on_that_gpu_alone() -> None:
    xids = (xid(95), xid(95, pci=OTHER), xid(48))
    found = standing_xids(xids, loaded_s=None, beyond_reset={(95, GPU)})
    assert {(one.xid.number, one.xid.pci): one.action for one in found} == {
        (95, GPU): "restart-host",
        (95, OTHER): "reset-gpu",
        (48, GPU): "reset-gpu",
    }


def test_an_error_beyond_a_reset_is_over_or_returns_like_any_other() -> None:
    def ask(*xids: Xid, recovered: tuple[str, ...] = (), returned: tuple[tuple[int, str], ...] = ()) -> list[str]:
        beyond = {(95, GPU)}
        found = standing_xids(xids, loaded_s=None, recovered=recovered, returned=returned, beyond_reset=beyond)
        return [one.action for one in found]

    assert ask(xid(95), recovered=(GPU,)) == []
    assert ask(xid(95), recovery("0x0 (None)", 12.0)) == []
    assert ask(xid(95), returned=((95, GPU),)) == ["inspect"]
    assert ask(*[xid(95)] * OFTEN) == ["inspect"]


def test_one_kind_on_one_gpu_is_told_once_with_its_count() -> None:
    found = standing_xids([xid(13), xid(31), xid(13, 12.0), xid(13, pci=OTHER)], loaded_s=None)
    assert [(one.xid.number, one.xid.pci, one.count) for one in found] == [(31, GPU, 1), (13, GPU, 2), (13, OTHER, 1)]


def test_a_gpu_that_is_reset_again_and_again_within_a_day_needs_a_person() -> None:
    assert OFTEN == 5
    hour_s = 3600.0
    often = [xid(95, number * hour_s) for number in range(OFTEN)]
    assert asked(*often) == {95: "inspect"}
    assert asked(*often[1:]) == {95: "reset-gpu"}
    assert asked(*(xid(95, number * 24 * hour_s) for number in range(OFTEN))) == {95: "reset-gpu"}
    assert asked(*often, xid(48, 9 * hour_s, pci=OTHER)) == {95: "inspect", 48: "reset-gpu"}
    cured = [one for number in range(OFTEN) for one in (xid(95, number), recovery("0x0 (None)", number + 0.5))]
    assert asked(*cured) == {}
    assert asked(*cured, xid(119, 10.0)) == {119: "inspect"}


def fault(seconds: float | None, name: str = "train", pid: int = 7, *, pci: str = GPU, number: int = 31) -> Xid:
    line = f"NVRM: Xid (PCI:{pci}): {number}, pid={pid}, name={name}, Ch 00000008, intr 00000000. MMU Fault"
    return Xid(number=number, pci=pci, text=line, seconds=seconds)


DAY_S = 86_400.0
UNTOLD = Xid(number=31, pci=GPU, text=f"NVRM: Xid (PCI:{GPU}): 31, Ch 0000007b, engmask 00000101", seconds=20.0)
NOBODY = Xid(number=31, pci=GPU, text=f"NVRM: Xid (PCI:{GPU}): 31, pid='<unknown>', name=<unknown>, Ch 8", seconds=20.0)


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (fault(10.0), fault(20.0, "infer", 8)),
        (fault(10.0), fault(200.0, pid=8)),  # of another job: its own processes would have failed by then
        (fault(10.0, pid=8), fault(DAY_S, "infer", 9)),
    ],
)
def test_different_jobs_that_fail_alike_on_one_gpu_ask_for_a_test_of_it(first: Xid, later: Xid) -> None:
    assert asked(first, later) == {31: "test-gpu"}
    by_gpu = {
        one.xid.pci: one.action for one in standing_xids([first, later, fault(9.0, "x", pci=OTHER)], loaded_s=None)
    }
    assert by_gpu == {GPU: "test-gpu", OTHER: "restart-program"}


@pytest.mark.parametrize(
    "faults",
    [
        (fault(10.0),),
        (fault(10.0), fault(500.0)),  # one process
        (fault(10.0, pid=7), fault(12.0, pid=8), fault(14.0, pid=9)),  # one job
        (fault(10.0), fault(20.0, "infer", 8, pci=OTHER)),  # each on a GPU of its own
        (fault(10.0), fault(200.0, pid=8), fault(300.0, pid=9, pci=OTHER)),  # the program is wrong, wherever it runs
        (fault(10.0), fault(10.0 + DAY_S, "infer", 8)),
        (fault(10.0, number=13), fault(20.0, "infer", 8, number=13)),
        (fault(None), fault(None, "infer", 8)),
        (fault(10.0), UNTOLD, NOBODY),
    ],
)
def test_other_faults_are_those_of_programs(faults: tuple[Xid, ...]) -> None:
    assert set(asked(*faults).values()) == {"restart-program"}


def test_faults_before_the_driver_was_loaded_or_the_gpu_recovered_tell_nothing_of_it() -> None:
    before, after = fault(10.0), fault(200.0, "infer", 8)
    assert asked(before, after, loaded_s=100.0) == {31: "restart-program"}
    assert asked(before, recovery("0x0 (None)", 100.0), after) == {31: "restart-program"}


def test_a_flood_of_faults_is_judged_by_its_end() -> None:
    flood = [fault(10.0 + number, f"p{number}", number) for number in range(5000)]
    assert asked(*flood) == {31: "test-gpu"}


@pytest.mark.parametrize("number", range(144, 151))
@pytest.mark.parametrize(
    ("words", "action"),
    [
        ("SAW_MVB Nonfatal XC0 i0 Link -1 (0x00000004 0x00000000)", "ignore"),
        ("NETIR_LINK_EVT Non-fatal XC0 i0 Link 08 (0x004505c6)", "ignore"),
        ("NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000)", "reset-gpu"),
        ("RLW_CTRL", "reset-gpu"),
    ],
)
def test_an_error_of_a_link_asks_for_what_its_severity_asks(number: int, words: str, action: str) -> None:
    assert action_of(number, f"NVRM: Xid (PCI:0000:41:00): {number}, {words}") == action
