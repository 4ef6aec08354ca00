"""MIG on a real GPU: read only, for whoever runs these tests may need the GPU as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuprov.gpu.mig import HostMig
from gpuprov.gpu.mig_config import MigWish, export, place_parts
from gpuprov.gpu.observe import observe

pytestmark = pytest.mark.gpu


def test_each_part_that_is_there_has_one_of_the_profiles() -> None:
    root = Path("/")
    host = observe(root=root, mode="real")
    profiles = {gpu.index: {profile.name for profile in gpu.profiles} for gpu in HostMig(host, root).read()}
    for gpu in host.gpus:
        assert {part.profile.rpartition("c.")[2] for part in gpu.mig} <= profiles[gpu.index]


def test_what_nvml_says_of_mig_is_read_and_would_be_placed() -> None:
    root = Path("/")
    gpus = HostMig(observe(root=root, mode="real"), root).read()
    assert export(gpus).mig_configs["current"]
    for gpu in gpus:
        if gpu.enabled is None:
            continue
        assert gpu.profiles
        for profile in gpu.profiles:
            assert profile.slices >= 1
            wish = MigWish(enabled=True, devices={profile.name: 1})
            placed = place_parts(gpu, wish)
            assert placed is None or len(placed) == 1, "places are known only while MIG is on"
