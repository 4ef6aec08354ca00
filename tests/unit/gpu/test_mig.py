"""MIG by files of mig-parted: what is read, what is placed, and what the simulated library does as NVML would."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpuprov.core.errors import HostNotReady, UsageError
from gpuprov.gpu.mig import HostMig, _ask_child
from gpuprov.gpu.mig_config import MigWish, choose_config, place_parts, read_mig_file, wishes
from gpuprov.gpu.nvml import read_nvml
from gpuprov.gpu.nvml_reader import NvmlFailed, find_profile
from gpuprov.gpu.observe import observe
from gpuprov.gpu.simulate import SimulatedNvml
from gpuprov.gpu.simulated_mig import STATE
from gpuprov.spec.spec_error import SpecError

if TYPE_CHECKING:
    from pathlib import Path

# mig-parted's own example, with a filter
FILE = b"""\
version: v1
mig-configs:
  all-disabled:
    - devices: all
      mig-enabled: false
  all-1g.10gb:
    - device-filter: ["0x233010DE", "0x20B210DE"]
      devices: all
      mig-enabled: true
      mig-devices:
        "1g.10gb": 7
    - device-filter: "0x20B010DE"
      devices: [2]
      mig-enabled: true
      mig-devices: {}
"""


def mig_of(root: Path, profile: str = "mixed") -> HostMig:
    return HostMig(observe(root=root, mode="simulated", profile=profile), root)


def test_a_file_of_mig_parted_is_read_as_it_is(tmp_path: Path) -> None:
    file = read_mig_file(FILE, name="config.yaml")
    assert [*file.mig_configs] == ["all-disabled", "all-1g.10gb"]
    label, entries = choose_config(file, "all-1g.10gb", name="config.yaml", again="")
    found = wishes(entries, mig_of(tmp_path).read(), config=label)
    assert {index: str(wish) for index, wish in found.items()} == {
        0: "MIG on, 7 x 1g.10gb",
        1: "MIG on, 7 x 1g.10gb",
        2: "MIG on, no devices",
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "is empty"),
        (b"version: v1\nmig-configs: {a: [{devices: all, mig-enabled: [}", "is not YAML"),
        (b"version: v2\nmig-configs: {a: [{devices: all, mig-enabled: false}]}", "version: line 1: is 'v2'"),
        (b"version: v1\nmig-configs: {a: [{devices: some, mig-enabled: false}]}", "mig-configs.a[0].devices"),
        (b"version: v1\nmig-configs: {a: [{devices: [-1], mig-enabled: false}]}", "mig-configs.a[0].devices"),
        (b"version: v1\nmig-configs: {a: [{devices: all, mig-enabled: yes please}]}", "mig-enabled"),
        (b"version: v1\nmig-configs: {a: [{devices: all, mig-enabled: true}]}", "mig-devices: is missing"),
        (b"version: v1\nmig-configs: {a: [{devices: all, mig-enabled: true, mig-device: {}}]}", "mig-device"),
        (b"version: v1\nmig-configs: {a: [{devices: all, mig-enabled: false, mig-devices: {1g.5gb: 1}}]}", "not empty"),
        (b"version: v1\nmig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {1c.2g.10gb: 1}}]}", "1c.2g"),
        (b"version: v1\nmig-configs: {a: []}", "at least one entry"),
        (b"version: v1\nmig-configs: {}", "at least one configuration"),
        (b"version: v1\nhooks: {}\nmig-configs: {a: [{devices: all, mig-enabled: false}]}", "hooks"),
        (b"- 1", "list"),
        (b"a: \xc3\x28", "YAML"),
        pytest.param(b"x" * (2**20 + 1), "longer than", id="long"),
    ],
)
def test_a_wrong_file_is_refused_in_three_parts(text: bytes, words: str) -> None:
    with pytest.raises(SpecError) as refused:
        read_mig_file(text, name="config.yaml")
    assert words in str(refused.value)
    assert "gpuprov host mig export" in refused.value.fix


def test_a_configuration_is_named_or_the_only_one() -> None:
    file = read_mig_file(FILE, name="config.yaml")
    again = "gpuprov host mig apply config.yaml"
    with pytest.raises(UsageError, match="2 configurations"):
        choose_config(file, "", name="config.yaml", again=again)
    with pytest.raises(UsageError, match=r"did you mean|all-disabled") as meant:
        choose_config(file, "all-disable", name="config.yaml", again=again)
    assert meant.value.fix == f"{again} -c all-disabled"
    with pytest.raises(UsageError) as refused:
        choose_config(file, "off", name="config.yaml", again=again)
    assert refused.value.fix == f"{again} -c {next(iter(file.mig_configs))}"


def test_parts_are_cut_and_are_whole_again_after_a_reboot(tmp_path: Path) -> None:
    mig = mig_of(tmp_path, "h100x8")
    assert mig.set_mode(1, enabled=True)
    gpu = mig.read()[1]
    parts = place_parts(gpu, MigWish(enabled=True, devices={"1g.10gb": 1, "2g.20gb": 1, "3g.40gb": 1, "1g.10gb+me": 1}))
    assert parts is not None
    mig.create(1, parts)
    again = observe(root=tmp_path, mode="simulated", profile="h100x8")
    assert [unit.label for unit in again.units][:6] == ["0", "1:0", "1:1", "1:2", "1:3", "2"]
    assert len({unit.uuid for unit in again.units}) == 11
    assert mig_of(tmp_path, "h100x8").read()[1].devices == {"1g.10gb": 1, "1g.10gb+me": 1, "2g.20gb": 1, "3g.40gb": 1}
    assert not any(gpu.mig_enabled for gpu in observe(root=tmp_path, mode="simulated", profile="t4x2").gpus)
    (tmp_path / STATE).unlink()  # as everything in /run
    assert len(observe(root=tmp_path, mode="simulated", profile="h100x8").units) == 8


def test_the_library_refuses_as_nvml_does(tmp_path: Path) -> None:
    mig = mig_of(tmp_path, "a100x4")
    with pytest.raises(HostNotReady, match="NVML code 3"):
        mig.create(0, [(19, 0, 1)])
    assert mig.set_mode(0, enabled=True)
    mig.create(0, [(9, 0, 4)])
    with pytest.raises(HostNotReady, match="NVML code 23"):
        mig.create(0, [(19, 0, 1)])
    with pytest.raises(HostNotReady, match="NVML code 2"):
        mig.create(0, [(9, 1, 4)])
    with pytest.raises(HostNotReady, match="NVML code 19"):
        mig.set_mode(0, enabled=False)
    mig.clear(0)
    assert mig.set_mode(0, enabled=False)
    assert mig.read()[0].enabled is False


def test_a_gpu_without_mig_says_so(tmp_path: Path) -> None:
    assert [gpu.enabled for gpu in mig_of(tmp_path).read()] == [False, False, False, None]


def test_what_root_alone_may_do_and_a_library_that_there_is_not(tmp_path: Path) -> None:
    host = observe(root=tmp_path, mode="simulated")

    def deny(_request: dict[str, Any]) -> Any:
        raise NvmlFailed(code=4, call="set the MIG mode of GPU 0", text="Insufficient Permissions")

    with pytest.raises(HostNotReady, match="for root alone"):
        HostMig(host, tmp_path, ask=deny).set_mode(0, enabled=True)
    with pytest.raises(NvmlFailed, match=r"nvmlInit: .*NVML code (12|9)"):
        _ask_child({"do": "read"})


def test_whom_is_not_root_sees_a_gpu_that_is_whole(tmp_path: Path) -> None:
    host = observe(root=tmp_path, mode="simulated", profile="a100x4")
    denied = {"nvmlDeviceGetGpuInstancePossiblePlacements_v2": 4, "nvmlDeviceGetGpuInstances": 4}
    denying = replace(host, document={**(host.document or {}), "errors": denied})
    assert not any(gpu.enabled for gpu in HostMig(denying, tmp_path).read())
    mig_of(tmp_path, "a100x4").set_mode(0, enabled=True)
    host = observe(root=tmp_path, mode="simulated", profile="a100x4")
    with pytest.raises(HostNotReady, match="for root alone"):
        HostMig(replace(host, document={**(host.document or {}), "errors": denied}), tmp_path).read()


@pytest.mark.parametrize("text", ["", "[]", '{"GPU-1": {}}', '{"GPU-1": {"model": "x", "mig": [{"start": "a"}]}}'])
def test_a_broken_state_is_refused_in_words(tmp_path: Path, text: str) -> None:
    (tmp_path / STATE).parent.mkdir(parents=True)
    (tmp_path / STATE).write_text(text)
    with pytest.raises(HostNotReady, match="SIMULATED") as refused:
        observe(root=tmp_path, mode="simulated")
    assert f"sudo rm /{STATE}" in refused.value.fix


PROFILES = ("1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")


def test_what_is_placed_can_be_made(tmp_path: Path) -> None:
    chance, mig, made = random.Random(41), mig_of(tmp_path, "h100x8"), 0
    mig.set_mode(0, enabled=True)
    for _ in range(120):
        names = sorted(chance.sample(PROFILES, chance.randint(1, 4)))
        wish = MigWish(enabled=True, devices={name: chance.randint(1, 3) for name in names})
        mig.clear(0)
        try:
            parts = place_parts(mig.read()[0], wish)
        except UsageError:
            continue
        mig.create(0, parts or [])
        assert wish.is_met(mig.read()[0])
        made += 1
    assert made > 20


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "1g.5gb"),
        ("SIMULATED NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", "1g.10gb+me"),
        ("NVIDIA H200 MIG 1c.2g.35gb", "1c.2g.35gb"),
        ("NVIDIA H100 80GB HBM3", ""),
        ("SIMULATED NVIDIA A100-SXM4-40GB MIG", ""),
        ("NVIDIA A100 MIG 1g.5gb:1 Name=x", ""),
    ],
)
def test_the_profile_of_a_part_is_in_its_name(name: str, profile: str) -> None:
    assert find_profile(name) == profile


def test_nvml_is_asked_for_the_profile_of_each_part(tmp_path: Path) -> None:
    mig = mig_of(tmp_path)
    mig.set_mode(0, enabled=True)
    mig.create(0, [(9, 0, 4), (20, 4, 1)])
    host = observe(root=tmp_path, mode="simulated", profile="mixed")
    told = [part.profile for part in read_nvml(SimulatedNvml(dict(host.document or {}))).gpus[0].mig]
    assert told == [part.profile for part in host.gpus[0].mig] == ["3g.40gb", "1g.10gb+me"]
