from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuprov.core.errors import UsageError
from gpuprov.gpu.models import MigInstance
from gpuprov.gpu.observe import observe
from gpuprov.gpu.visible_devices import parse_selection, parse_visible

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprov.gpu.models import HostGpus

UUID_1 = "GPU-51515151-5151-4151-8151-000000000001"


@pytest.fixture
def host(tmp_path: Path) -> HostGpus:
    two = observe(root=tmp_path, mode="simulated", simulated_count=2)
    other = replace(two.gpus[0], uuid="GPU-9a1f0c2e-aaaa-4bbb-8ccc-0123456789ab")
    return replace(two, gpus=(other, two.gpus[1]))


@pytest.mark.parametrize(
    ("text", "indexes"),
    [
        ("gpu0", [0]),
        ("1,0", [1, 0]),
        (" 1 , 0 ", [1, 0]),
        (UUID_1, [1]),
        (UUID_1.upper(), [1]),
        ("GPU-9a", [0]),
        ("9a1f", [0]),
        ("0000:52:00.0", [1]),
        ("00000000:52:00.0", [1]),
        ("52:00.0", [1]),
        ("all", [0, 1]),
        ("none", []),
    ],
)
def test_people_may_say(host: HostGpus, text: str, indexes: list[int]) -> None:
    selection = parse_selection(text, host)
    assert [gpu.index for gpu in selection.gpus] == indexes
    assert selection.count == len(indexes)


def test_a_count_names_no_gpu(host: HostGpus) -> None:
    assert parse_selection("2", host).count == 2
    assert parse_selection("2", host).gpus == ()
    assert parse_selection("0", host).count == 0


@pytest.mark.parametrize(
    "text", ["", " ", ",", "0,", "-1", "0x", "0,0", f"1,{UUID_1}", "7", "GPU", "9a1", "GPU-", "3", "gpu2",
             "all,0", "53:00.0", "0:0", "MIG-1", "\u0660", "1.0"],
)  # fmt: skip
def test_nonsense_lists_what_there_is(host: HostGpus, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_selection(text, host)
    assert f"1 = {UUID_1} at 0000:52:00.0" in caught.value.evidence
    assert caught.value.fix


def test_a_start_that_fits_several_says_so(host: HostGpus) -> None:
    with pytest.raises(UsageError, match="matches 2 GPUs"):
        parse_selection("GPU-", replace(host, gpus=host.gpus))


@pytest.mark.parametrize(
    ("text", "driver", "indexes"),
    [
        (None, False, []),
        ("", False, []),
        ("void", False, []),
        ("none", True, []),
        ("all", True, [0, 1]),
        ("1", True, [1]),
        (f"0,{UUID_1}", True, [0, 1]),
    ],
)
def test_nvidia_visible_devices(host: HostGpus, text: str | None, driver: bool, indexes: list[int]) -> None:
    visible = parse_visible(text, host)
    assert visible.driver is driver
    assert [gpu.index for gpu in visible.gpus] == indexes


@pytest.mark.parametrize("text", ["GPU-9a", "52:00.0", "2", "all,1", "count=1"])
def test_nvidia_visible_devices_takes_no_short_forms(host: HostGpus, text: str) -> None:
    with pytest.raises(UsageError):
        parse_visible(text, host)


def test_a_split_gpu_is_named_by_its_instances_only(host: HostGpus) -> None:
    parts = tuple(MigInstance(index=n, uuid=f"MIG-{n}", gpu_instance=n, compute_instance=0) for n in range(2))
    split = replace(host, gpus=(replace(host.gpus[0], mig_enabled=True, mig=parts), host.gpus[1]))
    assert [gpu.uuid for gpu in parse_selection("0:1,1", split).gpus] == ["MIG-1", UUID_1]
    assert [gpu.uuid for gpu in parse_visible("MIG-0,0:1", split).gpus] == ["MIG-0", "MIG-1"]
    for whole in ("gpu0", "GPU-9a1f", "51:00.0"):
        with pytest.raises(UsageError):
            parse_selection(whole, split)
