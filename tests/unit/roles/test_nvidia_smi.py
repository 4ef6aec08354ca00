"""nvidia-smi of nodes with simulated GPUs: the script that images have, and the file that it reads."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.fakes.world import World

SCRIPT = Path(__file__).parents[3] / "roles/base/files/nvidia-smi"
LEASE = "/etc/simulated-gpus"


@pytest.fixture
def lease(tmp_path: Path) -> Path:
    for device in ("nvidia1", "nvidia3"):
        (tmp_path / device).touch()
    file = tmp_path / "lease"
    file.write_text("".join(f"{tmp_path}/{device} GPU-{device}\n" for device in ("nvidia1", "nvidia2", "nvidia3")))
    return file


def nvidia_smi(lease: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    text = SCRIPT.read_text()
    assert text.count(LEASE) == 1
    shell = ["sh", "-s", "--", *argv]
    return subprocess.run(shell, input=text.replace(LEASE, str(lease)), capture_output=True, text=True, check=False)


@pytest.mark.parametrize("argv", [(), ("-L",), ("--list-gpus",)])
def test_it_lists_what_the_node_has_and_says_simulated(lease: Path, argv: Sequence[str]) -> None:
    done = nvidia_smi(lease, *argv)
    lines = done.stdout.splitlines()
    assert lines[-2:] == ["GPU 0: SIMULATED (UUID: GPU-nvidia1)", "GPU 1: SIMULATED (UUID: GPU-nvidia3)"]
    assert (done.returncode, done.stderr, len(lines)) == (0, "", 2 if argv else 3)


def test_it_says_what_it_cannot_do(lease: Path) -> None:
    done = nvidia_smi(lease, "--query-gpu=temperature.gpu", "--format=csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert "SIMULATED" in done.stderr
    assert "nvidia-smi -L" in done.stderr


def test_a_node_without_gpus_has_none(tmp_path: Path) -> None:
    done = nvidia_smi(tmp_path / "lease", "-L")
    assert (done.returncode, done.stdout) == (9, "")
    assert "no GPU" in done.stderr
    assert "gpuprov gpus" in done.stderr


def test_a_node_is_made_with_its_lease(world: World) -> None:
    world.begin_with(2)
    node = world.engine.nodes["c001"]
    uuid = node.labels["gpuprov.gpus"]
    assert world.file("c001", LEASE) == f"/dev/nvidia1 {uuid}\n"
    world.create("web", role="plain", gpus="none")
    assert LEASE not in world.engine.nodes["web"].files
